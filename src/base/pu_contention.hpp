// PuContention: what a waiter has learned of who else wants its PU, from how long its yields take.
//
//   at once         nobody
//   longer          somebody who soon gives the PU back, such as another rank that waits
//   a time slice    a program that computes, to which every further yield would give a slice
//
// One long yield may be anything, such as a hypervisor's doing. The second one of a waiter that follows soon means that
// yields have a price, and all waiters of the process leave them out for a while, as other threads would pay it, too.
// Then one of them tries again, as the other program may be gone; each time that it is not, the pause is twice as long.
// A pause is at least so many times as long as the yield, that trying takes a bounded part of the time.
//
// Values that ask no clock: whoever waits says what it did, and when, in nanoseconds of any clock.
#pragma once

#include <atomic>
#include <cstdint>

namespace smelt {

/// When yields are left out, known to all waiters of a process. Any thread may call anything at any time: who reads two
/// numbers of different pauses yields once too often or sleeps once too often.
class YieldSuppression {
 public:
  static constexpr std::uint64_t factor =
      32;  ///< the shortest pause, and for how long a suspicion lasts, in lengths of a yield
  static constexpr std::uint64_t longest_ns = 5'000'000'000;

  bool holds(std::uint64_t now_ns) const noexcept { return now_ns < until_ns_.load(std::memory_order_relaxed); }

  /// Whether the last pause was not long ago: nobody has shown since that it is over.
  bool recent(std::uint64_t now_ns) const noexcept;

  /// A yield that ended at `now_ns` has given `slice_ns` away.
  void begin(std::uint64_t now_ns, std::uint64_t slice_ns) noexcept;

 private:
  std::atomic<std::uint64_t> until_ns_{0};
  std::atomic<std::uint64_t> pause_ns_{0};  ///< the last one
};

class PuContention {
 public:
  /// From here on it is a time slice: longer than those who wait for each other take to go round on one PU.
  static constexpr std::uint64_t slice_ns = 200'000;
  /// Where more of them share a PU than it can run, some of which work; the kernel's slices are longer.
  static constexpr std::uint64_t shared_slice_ns = 600'000;
  static constexpr std::uint64_t never = UINT64_MAX;

  /// `slice`: what counts as a time slice given to another program.
  explicit PuContention(YieldSuppression& yield_suppression, std::uint64_t slice = slice_ns) noexcept
      : yield_suppression_(&yield_suppression), slice_ns_(slice) {}

  /// A yield is over at `now_ns` that took `took_ns`; where watches() was true not if nobody ran, though it took long.
  /// `late_ns`: for how much of it there was something else to do.
  void yielded(std::uint64_t now_ns, std::uint64_t took_ns, std::uint64_t late_ns) noexcept;
  void yielded(std::uint64_t now_ns, std::uint64_t took_ns) noexcept { yielded(now_ns, took_ns, took_ns); }

  /// Whether another long yield would settle it, so that it is worth finding out if anybody ran meanwhile.
  bool watches(std::uint64_t now_ns) const noexcept {
    return now_ns < suspects_until_ns_ || yield_suppression_->recent(now_ns);
  }

  /// Whether a yield is known to cost a time slice.
  bool take_slices(std::uint64_t now_ns) const noexcept { return yield_suppression_->holds(now_ns); }

  /// Whether spinning keeps somebody from running.
  bool crowd() const noexcept { return crowding_ >= crowded; }

  /// Spinning has brought the end of a wait.
  void spun() noexcept {
    if (crowding_ > 0) --crowding_;
    if (rest_ > 1) rest_ /= 2;
  }

  /// A wait has come to sleep where yields cost slices: some of the next ones, twice as many each time, half as many
  /// for each that spinning ends meanwhile, sleep without looking around before. So spinning in vain happens as often
  /// as spinning that helps, and a few times more. What yields have shown of a crowd is of another time.
  void settle() noexcept {
    settled_ = rest_;
    if (rest_ < longest_rest) rest_ *= 2;
    crowding_ = 0;
  }
  bool settled() const noexcept { return settled_ != 0; }
  /// Whether this wait is one of those; counts it.
  bool sleeps_at_once() noexcept {
    if (settled_ == 0) return false;
    --settled_;
    return true;
  }

  /// True once after many yields to others who soon gave the PU back, few of which were at once.
  bool keep_displacing() noexcept;

 private:
  static constexpr std::uint32_t crowded = 4;         ///< from so much crowding on
  static constexpr std::uint32_t most_crowding = 16;  ///< and so soon do yields show that it is over
  static constexpr std::uint32_t longest_rest = 128;
  static constexpr std::uint32_t long_displaced = 128;

  void gave_slice(std::uint64_t now_ns, std::uint64_t took_ns) noexcept;

  YieldSuppression* yield_suppression_;
  std::uint64_t slice_ns_;
  std::uint32_t crowding_ = 0;           ///< how often of late somebody else needed the PU
  std::uint32_t settled_ = 0;            ///< waits that will sleep at once
  std::uint32_t rest_ = 1;               ///< how many the next time
  std::uint32_t displaced_ = 0;          ///< yields of late in which somebody else ran
  std::uint64_t lone_yield_ns_ = 500;    ///< one when nobody else wants the PU; lowered by the first ones
  std::uint64_t suspects_until_ns_ = 0;  ///< a second slice until then is no accident
};

}  // namespace smelt
