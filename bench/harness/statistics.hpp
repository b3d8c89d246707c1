// What a set of timing samples is reduced to.
#pragma once

#include <cstddef>
#include <cstdint>
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

/// Stamps of all ranks at the same points of their loops, by rank; as many of each.
using Stamps = std::vector<std::vector<std::uint64_t>>;

/// What lies between a stamp and the next one on the PU that has most to do, in loops in which the ranks have nothing
/// to do with each other: the sum of its ranks' medians, as each of them has the PU for itself while it loops. `pus`:
/// of each rank; if there are fewer, they are gone through again and again.
double busiest_span(const Stamps& stamps, const std::vector<int>& pus);

/// What lies between the moments at which the last rank has come to each stamp: they add up to the time that has
/// passed. The longest spans would add up to more wherever the ranks come by in another order each time, as those do
/// that take turns on a PU: one that is last now and first the next time has a short span, the others longer ones.
std::vector<std::uint64_t> spans_of_last(const Stamps& stamps);

}  // namespace smelt::bench
