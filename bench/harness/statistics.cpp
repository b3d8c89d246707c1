#include "harness/statistics.hpp"

#include <algorithm>
#include <cmath>

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

std::vector<std::uint64_t> longest_spans(const Stamps& stamps) {
  std::vector<std::uint64_t> spans(stamps.front().size() - 1, 0);
  for (const auto& row : stamps) {
    for (std::size_t s = 0; s < spans.size(); ++s) spans[s] = std::max(spans[s], row[s + 1] - row[s]);
  }
  return spans;
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
