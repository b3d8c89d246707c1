// BaselineTime: what the same small thing takes when nothing is in its way, and whether it takes about that now.
//
// A host moves the PUs of a virtual machine every few seconds: at one moment they are two threads of a core, at another
// they lie on two sides of a package, where a line of memory takes ten times as long. What is timed then is timed on
// another machine. The small thing, a barrier for instance, tells which one it is.
#pragma once

#include <array>
#include <cstddef>

namespace smelt::comm {

class BaselineTime {
 public:
  static constexpr double most_factor = 1.5;  ///< that a usual time is off

  /// At `at_s` it took `ns` (0: not known). In the order of time. It stands for the time since the one before, of which
  /// only `most_gap_s` counts.
  void add(double at_s, double ns) noexcept;
  /// The lower quartile over the time, to 2 %; 0: nothing was added. What is faster is rarer than that.
  double ns() const noexcept;
  /// Whether `ns` is within most_factor of it; not known: yes.
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
