// ThreadTeam: the threads that run the parallel loops of one call.
//
//   thread 0 (the caller)   run(work) ── work ── waits for the others ── run(next) ── ...
//   the others              wait ─────── work ── count themselves off ── wait ─────── ...
//
// Invariant: `work_` and `context_` change only while `running_` is 0 and no thread but the caller's uses them.
//   begin  store of `epoch_` (release) pairs with its load by the others (acquire): publishes work_, context_ and all that
//          the caller wrote before.
//   end    decrement of `running_` (acq_rel) pairs with its load by the caller (acquire): publishes what a thread wrote.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

#include "base/cacheline.hpp"
#include "base/wait.hpp"
#include "smelt/error.hpp"

namespace smelt::graph {

/// How many threads can run at a time: the PUs that this process may use, by its affinity.
int usable_threads() noexcept;

class ThreadTeam {
 public:
  static constexpr int max_size = 1024;

  /// `threads` threads, the caller's included; 0: usable_threads(). Errors: invalid_argument, io_error.
  static Result<std::unique_ptr<ThreadTeam>> create(int threads);

  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int size() const noexcept { return static_cast<int>(workers_.size()) + 1; }

  /// Calls work(context, thread) once on every thread, thread = 0 .. size-1, and returns when all have finished. Called
  /// by one thread at a time, not from within `work`, which must not throw.
  void run(void (*work)(void* context, int thread), void* context) noexcept;

  /// The same for anything callable with a thread's number.
  template <class F>
  void run(F&& work) noexcept {
    run([](void* f, int thread) { (*static_cast<std::remove_reference_t<F>*>(f))(thread); }, &work);
  }

  /// Calls f(index, thread) once for every index below `count`; threads take the next free index when they are done
  /// with one, in ascending order.
  template <class F>
  void for_each(std::size_t count, F&& f) noexcept {
    std::atomic<std::size_t> next{0};
    run([&](int thread) {
      for (;;) {
        const auto index = next.fetch_add(1, std::memory_order_relaxed);  // indices only: no data is published by it
        if (index >= count) return;
        f(index, thread);
      }
    });
  }

 private:
  explicit ThreadTeam(int threads);
  void serve(int thread) noexcept;

  alignas(separation_bytes) std::atomic<std::uint32_t> epoch_{0};
  void (*work_)(void*, int) = nullptr;  ///< null: the threads end
  void* context_ = nullptr;
  Parking begin_;
  alignas(separation_bytes) std::atomic<std::uint32_t> running_{0};
  Parking end_;
  WaitConfig wait_;
  Waiter caller_;
  std::vector<std::thread> workers_;
};

}  // namespace smelt::graph
