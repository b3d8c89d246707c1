// What pages cost when they are made resident: whether huge ones are worth asking for now.
//
// A huge page is usually cleared faster than the small pages in its place. But a kernel that has to compact memory
// first takes longer, and so does a virtual machine whose hypervisor has taken free huge pages back while fragments of
// memory stayed: there a huge page may cost many times what small pages cost. Programs that end soon do not win that
// back.
#pragma once

#include <cstddef>
#include <cstdint>

namespace smelt::shims::memory {

/// Used under the watcher's lock.
class PagePrices {
 public:
  /// What a huge page has cost, in processor time of the thread that touched it; as it would have in small pages,
  /// `small_ns`, is asked for where that matters. Cost: a comparison; a millisecond, at most once a second, after a
  /// huge page that took long.
  template <class SmallCost>
  void add(std::int64_t huge_ns, std::int64_t now_ns, const SmallCost& small_cost) noexcept {
    previous_is_dear_ = last_is_dear_;
    last_ns_ = now_ns;
    huge_ns_ = huge_ns;
    last_is_dear_ = false;
    if (huge_ns >= suspicious_ns) {
      if (small_ns_ == 0 || now_ns - small_at_ns_ >= refresh_ns) {
        small_ns_ = small_cost();
        small_at_ns_ = now_ns;
      }
      last_is_dear_ = huge_ns > dear_factor * small_ns_;
    }
    if (!known_) previous_is_dear_ = last_is_dear_;
    known_ = true;
  }

  bool known() const noexcept { return known_; }

  /// The last two huge pages cost more than twice what small ones do; the first alone counts as two.
  bool dear() const noexcept { return last_is_dear_ && previous_is_dear_; }

  /// What the last one cost; 0: unknown.
  std::int64_t huge_ns() const noexcept { return huge_ns_; }

  /// When the last one was added; 0: never.
  std::int64_t last_ns() const noexcept { return last_ns_; }

 private:
  static constexpr std::int64_t suspicious_ns = 400'000, refresh_ns = 1'000'000'000;
  static constexpr int dear_factor = 2;

  std::int64_t huge_ns_ = 0, small_ns_ = 0, small_at_ns_ = 0, last_ns_ = 0;
  bool known_ = false, last_is_dear_ = false, previous_is_dear_ = false;
};

/// How much time may go to collapsing full blocks of small pages. A block wins the same whatever its collapse costs, so
/// dear ones count more than the time that they take: twice the price, a quarter as many. In virtual machines whose
/// hypervisor has taken memory back, they cost many times the usual, on a PU for which the program's other threads
/// wait. Used under the watcher's lock.
class CollapseBudget {
 public:
  static constexpr std::int64_t usual_ns = 1'000'000;  ///< what copying and mapping cost where memory is warm
  static constexpr int processor_share = 32;           ///< of the processor time that the process has used
  static constexpr int busy_share = 128;               ///< of the time that has passed, where no PU is idle

  /// What was spent on a collapse.
  void add(std::int64_t ns) noexcept {
    spent_ns_ += ns;
    charged_ns_ += charge(ns);
  }

  /// Whether there may be one more, whose huge page costs `huge_ns` beside the usual, after so much processor time and
  /// so much time. Programs that end before it is worth that lose that share at most. Where no PU is idle, teams of
  /// threads wait for the one whose PU is taken: then the share is smaller.
  bool allows(std::int64_t huge_ns, std::int64_t processor_ns, std::int64_t passed_ns, bool pu_is_idle) const noexcept {
    const std::int64_t with_this = charged_ns_ + charge(usual_ns + huge_ns);
    return with_this * processor_share < processor_ns && (pu_is_idle || with_this * busy_share < passed_ns);
  }

  std::int64_t spent_ns() const noexcept { return spent_ns_; }

  /// Never less than what was spent.
  std::int64_t charged_ns() const noexcept { return charged_ns_; }

 private:
  static std::int64_t charge(std::int64_t ns) noexcept {
    if (ns <= usual_ns) return ns;
    // Whoever was interrupted in one is not held back for good.
    return ns < most_times * usual_ns ? ns * ns / usual_ns : ns * most_times;
  }

  static constexpr std::int64_t most_times = 10;

  std::int64_t spent_ns_ = 0, charged_ns_ = 0;
};

}  // namespace smelt::shims::memory
