#include "harness/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace smelt::bench {

double quantile(const std::vector<double>& sorted, double q) {
  const double position = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(position));
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  const double weight = position - static_cast<double>(below);
  return sorted[below] * (1.0 - weight) + sorted[above] * weight;
}

Summary summarize(std::vector<double> samples) {
  Summary summary;
  if (samples.empty()) return summary;
  std::sort(samples.begin(), samples.end());
  summary.count = samples.size();
  summary.median = quantile(samples, 0.5);
  summary.p99 = quantile(samples, 0.99);
  if (summary.median > 0.0) summary.spread = (quantile(samples, 0.75) - quantile(samples, 0.25)) / summary.median;
  return summary;
}

double busiest_span(const Stamps& stamps, const std::vector<int>& pus) {
  std::map<int, double> of_pu;
  double busiest = 0.0;
  for (std::size_t rank = 0; rank < stamps.size(); ++rank) {
    const auto& row = stamps[rank];
    std::vector<double> spans;
    for (std::size_t s = 0; s + 1 < row.size(); ++s) spans.push_back(static_cast<double>(row[s + 1] - row[s]));
    busiest = std::max(busiest, of_pu[pus[rank % pus.size()]] += summarize(std::move(spans)).median);
  }
  return busiest;
}

std::vector<std::uint64_t> spans_of_last(const Stamps& stamps) {
  std::vector<std::uint64_t> last = stamps.front();
  for (const auto& row : stamps) {
    for (std::size_t s = 0; s < last.size(); ++s) last[s] = std::max(last[s], row[s]);
  }
  std::vector<std::uint64_t> spans;
  for (std::size_t s = 0; s + 1 < last.size(); ++s) spans.push_back(last[s + 1] - last[s]);
  return spans;
}

}  // namespace smelt::bench
