// PuContention: a waiter's estimate of who else uses its PU, from the duration of its yields.
//
//   immediate       nobody
//   longer          a thread that soon gives the PU back, such as another waiting rank
//   a time slice    a program that computes; every further yield would give it a time slice
//
// One long yield may have other causes, such as the hypervisor. If a waiter has a second one soon after, yields are
// expensive, and all waiters of the process suppress them for a while, as other threads would be affected, too. After
// that pause one waiter tries again, since the other program may be gone. Each time that it is not, the pause doubles.
// A pause is a multiple of the length of the yield, so the tries take a bounded share of the time.
//
// These classes read no clock. Waiters report what they did and when, in nanoseconds of any clock.
#pragma once

#include <atomic>
#include <cstdint>

namespace smelt {

/// The times at which yields are suppressed, shared by all waiters of a process. Thread-safe. A thread that reads
/// numbers of two different pauses does one yield or one sleep too many.
class YieldSuppression {
 public:
  static constexpr std::uint64_t factor =
      32;  ///< the shortest pause, and how long a suspicion lasts, in lengths of the yield
  static constexpr std::uint64_t longest_ns = 5'000'000'000;

  bool holds(std::uint64_t now_ns) const noexcept { return now_ns < until_ns_.load(std::memory_order_relaxed); }

  /// Whether the last pause ended so recently that no waiter has shown that the contention is over.
  bool recent(std::uint64_t now_ns) const noexcept;

  /// Begins a pause, after a yield that ended at `now_ns` and took `slice_ns`.
  void begin(std::uint64_t now_ns, std::uint64_t slice_ns) noexcept;

 private:
  std::atomic<std::uint64_t> until_ns_{0};
  std::atomic<std::uint64_t> pause_ns_{0};  ///< the last one
};

class PuContention {
 public:
  /// A yield of this length or more has given away a time slice. Waiting threads that share a PU take less.
  static constexpr std::uint64_t slice_ns = 200'000;
  /// The same if ranks that work share a PU. The kernel's time slices are longer.
  static constexpr std::uint64_t shared_slice_ns = 600'000;
  static constexpr std::uint64_t never = UINT64_MAX;

  /// `slice`: length from which a yield counts as a time slice.
  explicit PuContention(YieldSuppression& yield_suppression, std::uint64_t slice = slice_ns) noexcept
      : yield_suppression_(&yield_suppression), slice_ns_(slice) {}

  /// Reports a yield that ended at `now_ns` and took `took_ns`. If watches() was true, yields in which no other thread
  /// ran are not reported. `late_ns`: for how much of that time the waiter had work to do.
  void yielded(std::uint64_t now_ns, std::uint64_t took_ns, std::uint64_t late_ns) noexcept;
  void yielded(std::uint64_t now_ns, std::uint64_t took_ns) noexcept { yielded(now_ns, took_ns, took_ns); }

  /// Whether another long yield would begin a pause, so that the waiter should check whether another thread ran.
  bool watches(std::uint64_t now_ns) const noexcept {
    return now_ns < suspects_until_ns_ || yield_suppression_->recent(now_ns);
  }

  /// Whether yields are known to cost a time slice.
  bool take_slices(std::uint64_t now_ns) const noexcept { return yield_suppression_->holds(now_ns); }

  /// Whether spinning keeps another thread from running.
  bool crowd() const noexcept { return crowding_ >= crowded; }

  /// Reports a wait that ended while spinning.
  void spun() noexcept {
    if (crowding_ > 0) --crowding_;
    if (rest_ > 1) rest_ /= 2;
  }

  /// Reports a wait that had to sleep while yields are suppressed. Some of the next waits then sleep without spinning
  /// first: twice as many each time, and half as many for each wait that ends while spinning. So futile spinning is at
  /// most slightly more frequent than useful spinning. Resets crowd(), which earlier yields have shown.
  void settle() noexcept {
    settled_ = rest_;
    if (rest_ < longest_rest) rest_ *= 2;
    crowding_ = 0;
  }
  bool settled() const noexcept { return settled_ != 0; }
  /// Whether this wait is one of those; counts it if so.
  bool sleeps_at_once() noexcept {
    if (settled_ == 0) return false;
    --settled_;
    return true;
  }

  /// True once after many yields to threads that soon gave the PU back.
  bool keep_displacing() noexcept;

 private:
  static constexpr std::uint32_t crowded = 4;         ///< crowding from which crowd() is true
  static constexpr std::uint32_t most_crowding = 16;  ///< bounds the number of yields until crowd() is false again
  static constexpr std::uint32_t longest_rest = 128;
  static constexpr std::uint32_t long_displaced = 128;

  void gave_slice(std::uint64_t now_ns, std::uint64_t took_ns) noexcept;

  YieldSuppression* yield_suppression_;
  std::uint64_t slice_ns_;
  std::uint32_t crowding_ = 0;           ///< how often another thread needed the PU recently
  std::uint32_t settled_ = 0;            ///< waits that will sleep without spinning
  std::uint32_t rest_ = 1;               ///< their number the next time
  std::uint32_t displaced_ = 0;          ///< recent yields in which another thread ran
  std::uint64_t lone_yield_ns_ = 500;    ///< one when nobody else wants the PU; lowered by the first ones
  std::uint64_t suspects_until_ns_ = 0;  ///< a second time slice until then begins a pause
};

}  // namespace smelt
