// A worker for the tests: collectives on a mutex and a condition variable, or wrong ones, by name.
#include <condition_variable>
#include <mutex>

#include "peers/queue_peer.hpp"
#include "peers/shared_memory.hpp"

namespace {

using namespace smelt::bench;

class CondvarBarrier {
 public:
  explicit CondvarBarrier(int threads) : threads_(threads) {}
  void wait(int) {
    std::unique_lock lock(mutex_);
    const std::uint64_t mine = round_;
    if (++waiting_ == threads_) {
      waiting_ = 0;
      ++round_;
      all_here_.notify_all();
    }
    all_here_.wait(lock, [&] { return round_ != mine; });
  }

 private:
  const int threads_;
  int waiting_ = 0;
  std::uint64_t round_ = 0;
  std::mutex mutex_;
  std::condition_variable all_here_;
};

struct LeakyBarrier {
  explicit LeakyBarrier(int) {}
  void wait(int) {}
};

/// Right except for one operation, which comes after the verification.
class LateMistake : public SharedMemoryOps<CondvarBarrier> {
 public:
  using SharedMemoryOps<CondvarBarrier>::SharedMemoryOps;
  void allreduce(const double* in, double* out, std::size_t count) {
    SharedMemoryOps<CondvarBarrier>::allreduce(in, out, count);
    if (++calls_ == 200) out[0] += 1;
  }

 private:
  int calls_ = 0;
};

/// Puts the blocks of its neighbour where its own belong.
class Misplaced : public SharedMemoryOps<CondvarBarrier> {
 public:
  Misplaced(SharedMemory<CondvarBarrier>& shared, int rank)
      : SharedMemoryOps<CondvarBarrier>(shared, (rank + 1) % shared.ranks) {}
};

template <class T>
class Queue {
 public:
  explicit Queue(std::size_t) {}
  bool push(const T& message) {
    const std::lock_guard lock(mutex_);
    if (full_) return false;
    slot_ = message;
    return full_ = true;
  }
  bool pop(T& message) {
    const std::lock_guard lock(mutex_);
    if (!full_) return false;
    message = slot_;
    full_ = false;
    return true;
  }

 private:
  std::mutex mutex_;
  bool full_ = false;
  T slot_{};
};

int serve(const WorkerSpec& spec) {
  if (spec.operation == "channel") return serve_queue<Queue>(spec);
  if (spec.name == "leaky") return serve_shared_memory<LeakyBarrier>(spec);
  if (spec.name == "late-mistake") {
    SharedMemory<CondvarBarrier> shared(spec);
    return serve_thread_team(spec, [&](int rank) { return LateMistake(shared, rank); });
  }
  if (spec.name == "misplaced") {
    SharedMemory<CondvarBarrier> shared(spec);
    return serve_thread_team(spec, [&](int rank) { return Misplaced(shared, rank); });
  }
  return serve_shared_memory<CondvarBarrier>(spec);
}

}  // namespace

int main(int argc, char** argv) { return run_peer(argc, argv, serve); }
