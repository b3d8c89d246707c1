// A short stress of both transports and of the flat barrier for ThreadSanitizer: small rings, so that
// slots are reused all the time. Built once as it is and once for every name in channel/ordering.hpp
// and comm/ordering.hpp with that order weakened; the sanitizer must stay silent on the first and report a data race on
// all others.
#include <chrono>
#include <cstdio>
#include <memory>
#include <new>
#include <thread>

#include "channel/fastforward.hpp"
#include "channel/ump.hpp"
#include "comm/flat_barrier.hpp"

namespace {

using namespace smelt;
using namespace smelt::channel;

constexpr std::uint32_t capacity = 4;
constexpr std::uint64_t messages = 2000;

struct FreeAligned {
  void operator()(std::byte* memory) const { ::operator delete[](memory, std::align_val_t{separation_bytes}); }
};

/// Sends `messages` numbers from one thread to another. Returns how many arrived wrong.
template <class Sender, class Receiver>
std::uint64_t stress(std::size_t bytes) {
  std::unique_ptr<std::byte[], FreeAligned> memory(new (std::align_val_t{separation_bytes}) std::byte[bytes]());
  std::thread producer([&] {
    Sender sender(memory.get(), capacity);
    Waiter waiter;
    for (std::uint64_t i = 0; i < messages; ++i) sender.send(&i, sizeof i, waiter);
  });
  Receiver receiver(memory.get(), capacity);
  Waiter waiter;
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < messages; ++i) {
    std::uint64_t got = 0;
    receiver.recv(&got, sizeof got, waiter);
    wrong += got != i;
  }
  producer.join();
  return wrong;
}

/// Two threads take turns in writing one plain number, a barrier between the turns.
std::uint64_t stress_barrier() {
  comm::FlatBarrier barrier;
  std::uint64_t number = 0;
  const auto play = [&](std::uint64_t me) {
    Waiter waiter;
    for (std::uint64_t turn = 0; turn < messages; ++turn) {
      // Left alone the two fall into step, the writer always first or always last to arrive: each
      // case hides the loss of another order.
      const bool writer = turn % 2 == me;
      const bool dawdle = turn % 8 < 2 ? !writer : turn % 8 < 4 && writer;
      if (dawdle) std::this_thread::sleep_for(std::chrono::microseconds(20));
      if (writer) ++number;
      barrier.enter(2, waiter);
    }
  };
  std::thread other(play, 1);
  play(0);
  other.join();
  return messages - number;
}

}  // namespace

int main() {
  std::uint64_t wrong = stress<UmpSender, UmpReceiver>(ump_bytes(capacity));
  wrong += stress<CellSender, CellReceiver>(ump_bytes<Cell>(capacity));
  wrong += stress<FastForwardSender, FastForwardReceiver>(fastforward_bytes(capacity));
  wrong += stress_barrier();
  std::printf("%s\n", wrong == 0 ? "all right" : "messages or turns were wrong");
  return wrong == 0 ? 0 : 1;
}
