// What a set of timing samples is reduced to.
#pragma once

#include <cstddef>
#include <vector>

namespace smelt::bench {

struct Summary {
  double median = 0.0;
  double p99 = 0.0;
  double spread = 0.0;  ///< interquartile range / median; 0 where the median is 0
  std::size_t count = 0;
};

/// The q-quantile (0 <= q <= 1) of sorted samples, linear between neighbours. Requires at least one.
double quantile(const std::vector<double>& sorted, double q);

/// Median, 99th percentile and spread. All 0 without samples. Cost: sorts a copy.
Summary summarize(std::vector<double> samples);

}  // namespace smelt::bench
