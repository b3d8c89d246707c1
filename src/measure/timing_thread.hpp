// Threads of timed rounds: pinned, with a deadline that ends every wait.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/wait.hpp"
#include "machine/topology/affinity.hpp"
#include "measure/statistics.hpp"

namespace smelt::measure {

inline double monotonic_s() { return static_cast<double>(monotonic_ns()) * 1e-9; }
inline double to_ns(std::uint64_t duration_ticks) { return static_cast<double>(duration_ticks) / ticks_per_ns(); }

/// The interval between two readings of the clock. Some counters advance in steps of 10 ns, so that the median of many
/// readings is a whole number of steps. A deterministic dither of up to half a step makes it the median of the
/// intervals.
inline double elapsed_ns(std::uint64_t start, std::uint64_t end) {
  constexpr double golden_ratio = 0.6180339887498949;
  thread_local double dither = 0.0;
  dither += golden_ratio;
  if (dither >= 1.0) dither -= 1.0;
  return (static_cast<double>(static_cast<std::int64_t>(end - start)) + (dither - 0.5) * clock_step()) / ticks_per_ns();
}

/// The time that two readings of the clock add to the interval between them.
inline double clock_overhead_ns() {
  std::vector<double> samples;
  samples.reserve(101);
  for (std::size_t i = 0; i < samples.capacity(); ++i) {
    const auto start = ticks();
    const auto end = ticks();
    samples.push_back(elapsed_ns(start, end));
  }
  return std::max(0.0, median(std::move(samples)));
}

/// Whether a round should stop: at its deadline, or because another of its threads has stopped.
class StopFlag {
 public:
  explicit StopFlag(double deadline_s) : deadline_s_(deadline_s) {}

  // Relaxed: the flag publishes nothing; results are read after the threads have been joined.
  void set() noexcept { stopped_.store(true, std::memory_order_relaxed); }
  bool stopped() const noexcept { return stopped_.load(std::memory_order_relaxed); }

  /// Reads the clock. True: stop.
  bool check() noexcept {
    if (!stopped() && monotonic_s() > deadline_s_) set();
    return stopped();
  }

  /// A waiter of the kind that communicators use, which stops with this flag.
  Waiter make_waiter(double ranks_per_pu = 1.0) noexcept {
    return stopping(Waiter(WaitConfig{.ranks_per_pu = ranks_per_pu}));
  }

  /// One of ranks that share a PU which always yields: what other programs did to this process before does not matter.
  Waiter make_yielding_waiter() noexcept {
    return stopping(
        Waiter(WaitConfig{.mode = WaitMode::yield, .ranks_per_pu = 2.0, .yield_suppression = &suppression_}));
  }

 private:
  Waiter stopping(Waiter waiter) noexcept {
    waiter.set_interrupt([](void* self) { return static_cast<StopFlag*>(self)->check(); }, this);
    return waiter;
  }

  const double deadline_s_;
  std::atomic<bool> stopped_{false};
  YieldSuppression suppression_;  ///< of the yielding waiters, in place of the process's
};

/// The largest number of these threads that are pinned to the same PU.
inline double threads_per_pu(std::span<const int> pus) {
  std::ptrdiff_t most = 1;
  for (const int pu : pus) most = std::max(most, std::count(pus.begin(), pus.end(), pu));
  return static_cast<double>(most);
}

/// For polling loops: yields the PU and checks the stop flag from time to time.
class PollBackoff {
 public:
  explicit PollBackoff(StopFlag& stop) : stop_(stop) {}

  /// Must be called after an unsuccessful poll. False: stop.
  bool again() noexcept {
    if (++count_ % 1024 != 0) return true;
    if (count_ > 16 * 1024) std::this_thread::yield();
    return !stop_.check();
  }

 private:
  StopFlag& stop_;
  std::uint32_t count_ = 0;
};

/// A thread pinned to a PU that runs body(), which returns false if the round stopped early. Destruction before join()
/// stops the round.
class PinnedThread {
 public:
  template <class Body>
  PinnedThread(int os_index, StopFlag& stop, Body body)
      : stop_(stop), thread_([this, os_index, body = std::move(body)]() mutable {
          pinned_ = set_this_thread_affinity({os_index});
          if (!pinned_ || !body()) stop_.set();
        }) {}
  PinnedThread(const PinnedThread&) = delete;
  PinnedThread& operator=(const PinnedThread&) = delete;
  ~PinnedThread() {
    if (!thread_.joinable()) return;
    stop_.set();
    thread_.join();
  }

  /// Waits for the end of the body. Error: the thread could not be pinned.
  Result<void> join() {
    thread_.join();
    return pinned_;
  }

 private:
  StopFlag& stop_;
  Result<void> pinned_;
  std::thread thread_;  // last member, since the thread uses the others
};

}  // namespace smelt::measure
