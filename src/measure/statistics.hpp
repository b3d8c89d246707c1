// Robust statistics of timing samples. Only order statistics are used, since timings have a hard lower bound, a long
// tail, and occasional interrupts.
#pragma once

#include <span>
#include <vector>

namespace smelt::measure {

/// The q-quantile (0 <= q <= 1) of ascending values, linear between order statistics; 0 if empty.
double quantile_of_sorted(std::span<const double> sorted, double q);

/// Median of values in any order; 0 if empty.
double median(std::vector<double> values);

/// No time of threads that wait for each other, each on a PU of its own, is as long as this. What another program takes
/// of a PU is longer.
inline constexpr double least_absence_ns = 50'000.0;

/// The times of such threads while all of them ran: those below least_absence_ns; all, if there is none below it.
std::vector<double> while_all_ran(std::vector<double> times_ns);

/// How much longer something took together than alone; if some thread did not run, the longer of the two times, which
/// is least_absence_ns or more.
double delay_while_all_ran(double alone_ns, double together_ns);

/// The median over the samples of how far the furthest of several series is above its own usual value. series[i][k]:
/// sample k of series i; all are as long as the first. Of times in ns: of while_all_ran().
double median_excess(std::span<const std::vector<double>> series, std::span<const double> usual);

/// The values in ascending order, without those further from the median than `limit` robust standard deviations
/// (1.4826 x the median absolute deviation). A deviation is taken to be at least 1 % of the median, so that many
/// samples that are equal within the clock's resolution do not turn all others into outliers.
std::vector<double> without_outliers(std::vector<double> values, double limit = 5.0);

/// The median of values in any order without those outliers; 0 if empty.
double settled_median(std::vector<double> values);

/// Interquartile range / median of ascending values; 0 if the median is 0.
double relative_spread(std::span<const double> sorted);

struct Interval {
  double low = 0.0;
  double high = 0.0;
};

/// Distribution-free confidence interval (at least 95 %) of the median of the distribution that
/// the ascending values were drawn from: two order statistics, whose ranks follow from the
/// binomial distribution. Fewer than 6 values cannot give 95 %; their full range is returned.
Interval median_interval(std::span<const double> sorted);

/// The estimate of one cost from a series of rounds.
struct Estimate {
  double value = 0.0;   ///< median over rounds of the median within a round
  double spread = 0.0;  ///< interquartile range / median over all samples
  double error = 0.0;   ///< half the confidence interval of `value`, relative to it
};

/// Samples of one cost, grouped in rounds. Rounds are independent. Samples of a round are not, because they share a
/// channel and a moment, so the estimate is computed from the rounds' medians.
class Series {
 public:
  /// Adds a round; an empty one is ignored. Outliers within the round are dropped.
  void add_round(std::vector<double> samples);

  std::size_t rounds() const noexcept { return medians_.size(); }
  Estimate estimate() const;

 private:
  std::vector<double> medians_;  ///< of each round
  std::vector<double> spreads_;  ///< of each round
};

}  // namespace smelt::measure
