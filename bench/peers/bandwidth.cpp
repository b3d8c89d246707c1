// References for large messages: what the same threads do without any communication library.
//
//   memcpy (broadcast)        root: "ready" | the others copy out of its buffer  | "done"
//   vector-add (allreduce)    all: "ready"  | each adds up all inputs by itself  | "done"
//
// Both ends of the operation are a spinning barrier, whose time is nothing beside that of the
// messages they are meant for.
#include <atomic>
#include <cstring>
#include <vector>

#include "base/cacheline.hpp"
#include "peers/peer.hpp"

namespace {

using smelt::separation_bytes;
using smelt::bench::WorkerSpec;

/// A counter that every thread of a team advances; each round is over when all have.
class CountingBarrier {
 public:
  explicit CountingBarrier(int threads) : threads_(static_cast<std::uint64_t>(threads)) {}
  void wait(std::uint64_t& round) {
    const std::uint64_t complete = ++round * threads_;
    arrived_.fetch_add(1, std::memory_order_acq_rel);  // pairs with the load: publishes what this thread wrote
    while (arrived_.load(std::memory_order_acquire) < complete) {}
  }

 private:
  const std::uint64_t threads_;
  alignas(separation_bytes) std::atomic<std::uint64_t> arrived_{0};
};

struct alignas(separation_bytes) Place {
  const void* data = nullptr;  ///< what a thread lends to the others during an operation
};

struct Shared {
  explicit Shared(int threads) : barrier(threads), places(static_cast<std::size_t>(threads)) {}
  CountingBarrier barrier;
  std::vector<Place> places;
};

/// Only what the references are asked for; the rest of a rank's operations are left out on purpose.
class BandwidthOps {
 public:
  BandwidthOps(Shared& shared, int rank) : shared_(shared), rank_(static_cast<std::size_t>(rank)) {}

  void barrier() { shared_.barrier.wait(round_); }

  void broadcast(void* data, std::size_t bytes) {
    shared_.places[rank_].data = data;
    barrier();
    if (rank_ != 0) std::memcpy(data, shared_.places[0].data, bytes);
    barrier();
  }

  void allreduce(const double* in, double* out, std::size_t count) {
    shared_.places[rank_].data = in;
    barrier();
    const std::size_t ranks = shared_.places.size();
    add(input(0), input(1), out, count);
    for (std::size_t r = 2; r < ranks; ++r) add(out, input(r), out, count);
    barrier();
  }

 private:
  const double* input(std::size_t rank) const { return static_cast<const double*>(shared_.places[rank].data); }
  static void add(const double* a, const double* b, double* sum, std::size_t count) {
    for (std::size_t e = 0; e < count; ++e) sum[e] = a[e] + b[e];
  }

  Shared& shared_;
  const std::size_t rank_;
  std::uint64_t round_ = 0;
};

int serve(const WorkerSpec& spec) {
  using namespace smelt::bench;
  if (spec.threads < 2 || spec.oversubscribed()) return fail_worker("needs two threads or more, each on its own PU");
  auto control = Control::create(spec.threads);
  if (!control) return fail_worker(control.error().message);
  Shared shared(spec.threads);
  bool good = true;
  run_threads(spec, [&](int rank) {
    BandwidthOps ops(shared, rank);
    const Member member{spec, *control, rank};
    const bool served = spec.operation == "broadcast"
                            ? serve_kernel(member, BroadcastKernel<BandwidthOps>(member, ops))
                            : serve_kernel(member, SumKernel<BandwidthOps, Sum::allreduce>(member, ops));
    if (rank == 0) good = served;
  });
  return good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) { return smelt::bench::run_peer(argc, argv, serve); }
