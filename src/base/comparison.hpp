// Comparison: how two timings on a shared, noisy machine are compared. `smelt bench`, `smelt tune` and python/bars.py
// all use this rule. python/noise.py implements it as well; tests/noise/cases.json checks both.
//
// Two contestants alternate. Two times of the same moment form a ratio: 1.1 means that the rival took 1.1 times as
// long. The verdict depends on the median of the ratios, and on a confidence interval of at least 98 % for the median
// of their distribution. The interval consists of two order statistics of the ratios, whose positions follow from the
// binomial distribution: the inverse of the sign test (Conover, Practical Nonparametric Statistics, 3rd edition, 3.1
// and 3.2). It assumes that the pairs are independent, and nothing about the distribution of times.
//
//   faster      the interval lies above 1, and the median above 1 + margin
//   slower      the interval lies below 1, and the median below 1 - margin
//   equal       the interval lies within 1 -+ margin
//   not decided otherwise: more pairs are needed, until next_look()
//
// Seven pairs are the fewest that give 98 %. With three to six pairs the verdict is faster or slower only if all ratios
// are on one side of 1 by a factor of `clear`. Noise that leaves the floor unchanged does not cause this.
//
// The floor is the cost of a fixed small operation, such as a round trip of a cache line between two PUs. If the floor
// changes during a measurement, the machine has changed, and the measurement is repeated.
#pragma once

#include <cstddef>
#include <vector>

#include "smelt/floor.hpp"

namespace smelt {

/// 0 if there are no values.
double median_of(std::vector<double> values);

struct MedianInterval {
  double low = 0.0, median = 0.0, high = 0.0;
  double confidence = 0.0;  ///< 0..1, that the interval contains the median
  std::size_t count = 0;    ///< samples
};

/// A confidence interval for the median of the distribution that the samples are from: the narrowest symmetric pair of
/// order statistics with a confidence of at least 1 - doubt. With too few samples, their range and its confidence. All
/// 0 without samples. Cost: sorts a copy.
MedianInterval median_interval(std::vector<double> samples, double doubt);

enum class Verdict { faster, equal, slower, undecided };

/// "faster", "equal", "slower", "not decided".
const char* to_string(Verdict verdict) noexcept;

struct VerdictRules {
  double margin = 0.05;    ///< smaller differences do not matter
  double clear = 1.4;      ///< factor that decides with three to six ratios
  double doubt = 0.02;     ///< 1 - confidence of the interval
  std::size_t fewest = 3;  ///< ratios; with fewer, nothing is decided
};

struct Finding {
  MedianInterval ratio;
  Verdict verdict = Verdict::undecided;  ///< on the reference
};

/// Applies the rule above. `ratios`: times of rival / reference, both of the same moment.
Finding judge(std::vector<double> ratios, const VerdictRules& rules = {});

/// The number of ratios at which to judge next, if `count` of them have not decided: 3, 7, 10, 14, 20, 28, 40, 56, 80,
/// and so on. Judging after each pair would decide by chance; seven looks of 98 % leave at least 86 %.
std::size_t next_look(std::size_t count) noexcept;

/// Counts the measurements that are repeated because the floor moved.
class Remeasurements {
 public:
  static constexpr int most = 3;  ///< repetitions of one measurement

  /// After a measurement: whether to repeat it. `moved`: whether the floor moved meanwhile.
  bool again(bool moved) noexcept;
  /// Number of repetitions.
  int taken_again() const noexcept { return taken_again_; }
  /// Number of measurements that were kept although the floor moved each time.
  int unsteady() const noexcept { return unsteady_; }

 private:
  int in_a_row_ = 0, taken_again_ = 0, unsteady_ = 0;
};

}  // namespace smelt
