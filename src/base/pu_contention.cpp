#include "base/pu_contention.hpp"

#include <algorithm>

namespace smelt {

bool YieldSuppression::recent(std::uint64_t now_ns) const noexcept {
  const auto pause = pause_ns_.load(std::memory_order_relaxed);
  return pause != 0 && now_ns < until_ns_.load(std::memory_order_relaxed) + 2 * pause;
}

void YieldSuppression::begin(std::uint64_t now_ns, std::uint64_t slice_ns) noexcept {
  if (holds(now_ns)) return;  // another waiter has found out, too
  const auto last = recent(now_ns) ? pause_ns_.load(std::memory_order_relaxed) : 0;
  const auto pause = std::min(std::max(factor * slice_ns, 2 * last), longest_ns);
  pause_ns_.store(pause, std::memory_order_relaxed);
  until_ns_.store(now_ns + pause, std::memory_order_relaxed);
}

void PuContention::yielded(std::uint64_t now_ns, std::uint64_t took_ns, std::uint64_t late_ns) noexcept {
  lone_yield_ns_ = std::min(lone_yield_ns_, took_ns);
  if (late_ns > slice_ns_) return gave_slice(now_ns, took_ns);
  if (took_ns > 4 * lone_yield_ns_) {
    if (crowding_ < most_crowding) crowding_ = std::min(crowding_ + 2, most_crowding);
    ++displaced_;
  } else {
    if (crowding_ > 0) --crowding_;
    displaced_ -= std::min(displaced_, 4u);
  }
}

void PuContention::gave_slice(std::uint64_t now_ns, std::uint64_t took_ns) noexcept {
  const bool again = now_ns - took_ns < suspects_until_ns_;
  if (again || yield_suppression_->recent(now_ns)) yield_suppression_->begin(now_ns, took_ns);
  suspects_until_ns_ = now_ns + YieldSuppression::factor * took_ns;
}

bool PuContention::keep_displacing() noexcept {
  if (displaced_ < long_displaced) return false;
  displaced_ = 0;
  return true;
}

}  // namespace smelt
