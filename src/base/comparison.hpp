// Comparison: what timings taken on a machine that others use, too, allow to say. The one rule of `smelt bench`,
// `smelt tune` and python/bars.py (whose python/noise.py says the same; both are held to tests/noise/cases.json).
//
// Two contestants run by turns. One pair of their times, of the same moment, is a ratio: 1.1 means that the rival took
// 1.1 times as long. What is said rests on the median of the ratios, and on an interval that holds the median of what
// they were drawn from with a confidence of 98 % or more. The interval consists of two order statistics of the ratios,
// whose places follow from the binomial distribution: the sign test turned round (Conover, Practical Nonparametric
// Statistics, 3rd edition, 3.1 and 3.2). It assumes nothing about how times are distributed but that the pairs are
// independent.
//
//   faster      the interval lies above 1, and the median above 1 + margin
//   slower      the same the other way: the interval below 1, and the median below 1 - margin
//   equal       the interval lies within 1 -+ margin
//   not decided otherwise: more pairs are needed, up to the next look
//
// Seven pairs are the fewest that give 98 %. With three to six the verdict is faster or slower only where all ratios
// are on one side of 1 by a factor of `clear`, which is what no noise does that leaves the floor where it was.
//
// The floor: what a fixed small thing costs, such as a cache line to the other PU and back. What was measured while the
// floor moved was measured on two machines; it is taken again.
#pragma once

#include <cstddef>
#include <vector>

#include "smelt/floor.hpp"

namespace smelt {

/// 0: of none.
double median_of(std::vector<double> values);

struct MedianInterval {
  double low = 0.0, median = 0.0, high = 0.0;
  double confidence = 0.0;  ///< 0..1, that the interval holds the median
  std::size_t count = 0;    ///< samples
};

/// Of the median of what the samples were drawn from: the narrowest pair of order statistics, as far from the lowest as
/// from the highest, with a confidence of at least 1 - doubt; of too few samples their range, with what confidence
/// that has. All 0 without samples. Cost: sorts a copy.
MedianInterval median_interval(std::vector<double> samples, double doubt);

enum class Verdict { faster, equal, slower, undecided };

/// "faster", "equal", "slower", "not decided".
const char* to_string(Verdict verdict) noexcept;

struct VerdictRules {
  double margin = 0.05;      ///< a difference that does not matter
  double clear = 1.4;        ///< decides between three and six ratios
  double doubt = 0.02;       ///< of the interval
  std::size_t fewest = 3;    ///< ratios, below which nothing is decided
};

struct Finding {
  MedianInterval ratio;
  Verdict verdict = Verdict::undecided;  ///< on the one that the rival's times are divided by
};

/// By the rule above. `ratios`: of times, rival / reference, of pairs of the same moment.
Finding judge(std::vector<double> ratios, const VerdictRules& rules = {});

/// After how many ratios to look next, if `count` of them have not decided: 3, 7, 10, 14, 20, 28, 40, 56, 80, and so
/// on. Looking after each pair until it fits would decide by chance; seven looks of 98 % leave 86 % at the least.
std::size_t next_look(std::size_t count) noexcept;

/// What is taken again because the floor moved, of one cell, and how often that was.
class Remeasurements {
 public:
  static constexpr int most = 3;  ///< of the same thing

  /// It has been taken, between floors that moved or did not. Whether to take it again now.
  bool again(bool moved) noexcept;
  /// How often something was taken again.
  int taken_again() const noexcept { return taken_again_; }
  /// How many things were kept although the floor moved each time.
  int unsteady() const noexcept { return unsteady_; }

 private:
  int in_a_row_ = 0, taken_again_ = 0, unsteady_ = 0;
};

}  // namespace smelt
