// A channel between two threads over another library's queue of fixed-size messages, polled. The capacity is the
// default of smelt's channels.
#pragma once

#include <sched.h>

#include <array>
#include <cstring>
#include <memory>

#include "base/cacheline.hpp"
#include "peers/peer.hpp"

namespace smelt::bench {

inline constexpr std::size_t queue_capacity = 256;

template <std::size_t size>
struct Message {
  std::array<std::byte, size> payload;
};

/// Queue: Queue(capacity), bool push(const Message&), bool pop(Message&), neither blocking.
template <class Queue, std::size_t size>
struct QueueOps {
  void send(int rank, const void* data, std::size_t bytes) {
    Message<size> message;
    std::memcpy(message.payload.data(), data, bytes);
    while (!queue[rank]->push(message)) pass_time();
  }
  void receive(int rank, void* data, std::size_t bytes) {
    Message<size> message;
    while (!queue[1 - rank]->pop(message)) pass_time();
    std::memcpy(data, message.payload.data(), bytes);
  }
  void pass_time() const {
    if (yields) sched_yield();
  }
  std::array<std::unique_ptr<Queue>, 2> queue;  ///< [r]: what rank r sends
  bool yields;                                  ///< both ranks share a PU
};

template <template <class> class Queue, std::size_t size>
int serve_queue_of(const WorkerSpec& spec) {
  using Fitting = Queue<Message<size>>;
  QueueOps<Fitting, size> ops{{std::make_unique<Fitting>(queue_capacity), std::make_unique<Fitting>(queue_capacity)},
                              spec.oversubscribed()};
  auto control = Control::create(2);
  if (!control) return fail_worker(control.error().message);
  bool good = true;
  run_threads(spec, [&](int rank) {
    const bool served = serve_channel(Member{spec, *control, rank}, ops);
    if (rank == 0) good = served;
  });
  return good ? 0 : 1;
}

/// The smallest message type that holds spec.bytes.
template <template <class> class Queue>
int serve_queue(const WorkerSpec& spec) {
  if (spec.threads != 2) return fail_worker("a channel has two ends");
  if (spec.bytes <= 8) return serve_queue_of<Queue, 8>(spec);
  if (spec.bytes <= 16) return serve_queue_of<Queue, 16>(spec);
  if (spec.bytes <= 32) return serve_queue_of<Queue, 32>(spec);
  if (spec.bytes <= 56) return serve_queue_of<Queue, 56>(spec);
  if (spec.bytes <= 64) return serve_queue_of<Queue, 64>(spec);
  if (spec.bytes <= 128) return serve_queue_of<Queue, 128>(spec);
  if (spec.bytes <= 256) return serve_queue_of<Queue, 256>(spec);
  if (spec.bytes <= 1024) return serve_queue_of<Queue, 1024>(spec);
  if (spec.bytes <= 4096) return serve_queue_of<Queue, 4096>(spec);
  return fail_worker("messages of up to 4096 bytes only");
}

}  // namespace smelt::bench
