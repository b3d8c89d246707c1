// BaselineTime: the undisturbed time of a small operation, such as a barrier, and whether it takes about that now.
//
// A host moves the PUs of a virtual machine every few seconds. They may be two threads of a core at one moment, and on
// two sides of a package at the next, where a cache line takes ten times as long. Measurements of different moments are
// then measurements of different machines. The time of the small operation distinguishes them.
#pragma once

#include <array>
#include <cstddef>

namespace smelt::comm {

class BaselineTime {
 public:
  static constexpr double most_factor = 1.5;  ///< largest ratio of a usual time to the baseline

  /// Adds a measurement at time `at_s`: `ns`, 0 if unknown. Requirement: in chronological order. It is weighted by the
  /// time since the previous one, at most `most_gap_s`.
  void add(double at_s, double ns) noexcept;
  /// The baseline: the time-weighted lower quartile, to 2 %; 0 if nothing was added.
  double ns() const noexcept;
  /// Whether `ns` is within most_factor of the baseline; true if unknown.
  bool is_usual(double ns) const noexcept { return !(ns > 0.0) || all_s_ == 0.0 || is_near(ns, this->ns()); }
  /// Whether two times are within most_factor of each other.
  static bool is_near(double a, double b) noexcept { return a < b * most_factor && a * most_factor > b; }

 private:
  static constexpr double most_gap_s = 0.1;
  static constexpr double bins_per_octave = 32.0;
  static constexpr std::size_t bins = 32 * 40;  ///< up to 1100 s

  std::array<double, bins> seconds_{};  ///< by logarithm of the time
  double all_s_ = 0.0, last_s_ = 0.0;
};

}  // namespace smelt::comm
