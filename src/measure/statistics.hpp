// Robust statistics of timing samples: order statistics only, since a timing has a hard floor, a
// long tail, and now and then an interrupt in it.
#pragma once

#include <span>
#include <vector>

namespace smelt::measure {

/// The q-quantile (0 <= q <= 1) of ascending values, linear between order statistics; 0 if empty.
double quantile_of_sorted(std::span<const double> sorted, double q);

/// Median of values in any order; 0 if empty.
double median(std::vector<double> values);

/// The values, ascending, without those further from the median than `limit` robust standard
/// deviations (1.4826 x the median absolute deviation). At least 1 % of the median counts as a
/// deviation, so that samples equal up to the clock's resolution do not make outliers of the rest.
std::vector<double> without_outliers(std::vector<double> values, double limit = 5.0);

/// Interquartile range / median of ascending values; 0 where the median is 0.
double relative_spread(std::span<const double> sorted);

struct Interval {
  double low = 0.0;
  double high = 0.0;
};

/// Distribution-free confidence interval (at least 95 %) of the median of the distribution that
/// the ascending values were drawn from: two order statistics, whose ranks follow from the
/// binomial distribution. Fewer than 6 values cannot give 95 %; their full range is returned.
Interval median_interval(std::span<const double> sorted);

/// What a series of rounds says about one cost.
struct Estimate {
  double value = 0.0;   ///< median over rounds of the median within a round
  double spread = 0.0;  ///< interquartile range / median over all samples
  double error = 0.0;   ///< half the confidence interval of `value`, relative to it
};

/// Samples of one cost, grouped in rounds. Samples of a round share a channel and an instant, so
/// they are not independent; rounds are. The estimate therefore is over the rounds' medians.
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
