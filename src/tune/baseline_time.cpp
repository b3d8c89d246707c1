#include "tune/baseline_time.hpp"

#include <algorithm>
#include <cmath>

namespace smelt::comm {

void BaselineTime::add(double at_s, double ns) noexcept {
  if (!(ns > 0.0)) return;
  constexpr double first_gap_s = 1e-6;  // a little, so that there is something to go by
  const double gap_s = all_s_ == 0.0 ? first_gap_s : std::clamp(at_s - last_s_, first_gap_s, most_gap_s);
  const double bin = std::clamp(std::log2(ns) * bins_per_octave, 0.0, static_cast<double>(bins - 1));
  seconds_[static_cast<std::size_t>(bin)] += gap_s;
  all_s_ += gap_s;
  last_s_ = at_s;
}

double BaselineTime::ns() const noexcept {
  const double quarter_s = 0.25 * all_s_;
  double below = 0.0;
  for (std::size_t i = 0; i < bins; ++i) {
    below += seconds_[i];
    if (below > 0.0 && below >= quarter_s) return std::exp2((static_cast<double>(i) + 0.5) / bins_per_octave);
  }
  return 0.0;
}

}  // namespace smelt::comm
