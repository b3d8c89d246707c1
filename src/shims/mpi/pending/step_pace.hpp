// StepPace: how often the library is progressed where a step takes long, as in Intel MPI, whose test of a request polls
// its network, too: 600 ns instead of 20.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace smelt::shims::mpi {

/// Thread-safe. Times are those of one clock, in any unit.
class StepPace {
 public:
  /// Measures steps, and whether they take long beside looking at the clock. Until then all steps are due.
  template <class Step, class Clock>
  void measure(Step step, Clock clock) {
    std::uint64_t steps_took = UINT64_MAX, looks_took = UINT64_MAX;
    for (int i = 0; i < tries; ++i) {
      const std::uint64_t begin = clock();
      for (int n = 0; n < at_once; ++n) step();
      const std::uint64_t middle = clock();
      for (int n = 1; n < at_once; ++n) (void)clock();
      steps_took = std::min(steps_took, middle - begin);
      looks_took = std::min(looks_took, clock() - middle);
    }
    cost_.store(steps_took > long_beside_look * looks_took ? steps_took / at_once : 0, std::memory_order_relaxed);
  }

  /// Whether to take a step now, so that steps take `part`-th of the time at most. Cost: a load, or a look at the clock
  /// where steps take long.
  template <class Clock>
  bool is_due(std::uint64_t part, Clock clock) const noexcept {
    const std::uint64_t cost = cost_.load(std::memory_order_relaxed);
    if (cost == 0) return true;
    const std::uint64_t now = clock();
    // Negative if another thread's step has ended since.
    const auto since = static_cast<std::int64_t>(now - last_.load(std::memory_order_relaxed));
    return since >= static_cast<std::int64_t>(part * cost);
  }

  /// After a step.
  template <class Clock>
  void took_step(Clock clock) noexcept {
    if (cost_.load(std::memory_order_relaxed) != 0) last_.store(clock(), std::memory_order_relaxed);
  }

 private:
  static constexpr int tries = 4, at_once = 8;
  static constexpr std::uint64_t long_beside_look = 8;
  std::atomic<std::uint64_t> cost_{0};  ///< of a step that takes long, else 0
  std::atomic<std::uint64_t> last_{0};  ///< when the last step ended
};

}  // namespace smelt::shims::mpi
