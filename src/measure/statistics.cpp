#include "measure/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/comparison.hpp"

namespace smelt::measure {

double quantile_of_sorted(std::span<const double> sorted, double q) {
  if (sorted.empty()) return 0.0;
  const double position = std::clamp(q, 0.0, 1.0) * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const auto above = std::min(below + 1, sorted.size() - 1);
  const double part = position - static_cast<double>(below);
  return sorted[below] + part * (sorted[above] - sorted[below]);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return quantile_of_sorted(values, 0.5);
}

std::vector<double> while_all_ran(std::vector<double> times_ns) {
  const auto ran = [](double time_ns) { return time_ns < least_absence_ns; };
  if (std::ranges::any_of(times_ns, ran)) std::erase_if(times_ns, std::not_fn(ran));
  return times_ns;
}

double delay_while_all_ran(double alone_ns, double together_ns) {
  const double longer_ns = std::max(alone_ns, together_ns);
  return longer_ns < least_absence_ns ? together_ns - alone_ns : longer_ns;
}

double median_excess(std::span<const std::vector<double>> series, std::span<const double> usual) {
  std::vector<double> excess(series.front().size());
  for (std::size_t k = 0; k < excess.size(); ++k) {
    excess[k] = series.front()[k] - usual.front();
    for (std::size_t i = 1; i < series.size(); ++i) excess[k] = std::max(excess[k], series[i][k] - usual[i]);
  }
  return median(while_all_ran(std::move(excess)));
}

std::vector<double> without_outliers(std::vector<double> values, double limit) {
  if (values.empty()) return values;
  std::sort(values.begin(), values.end());
  const double center = quantile_of_sorted(values, 0.5);
  std::vector<double> deviations;
  deviations.reserve(values.size());
  for (double value : values) deviations.push_back(std::abs(value - center));
  const double deviation = std::max(1.4826 * median(std::move(deviations)), 0.01 * std::abs(center));
  std::erase_if(values, [&](double value) { return std::abs(value - center) > limit * deviation; });
  return values;
}

double settled_median(std::vector<double> values) {
  return quantile_of_sorted(without_outliers(std::move(values)), 0.5);
}

double relative_spread(std::span<const double> sorted) {
  const double center = quantile_of_sorted(sorted, 0.5);
  if (!(center > 0.0)) return 0.0;
  return (quantile_of_sorted(sorted, 0.75) - quantile_of_sorted(sorted, 0.25)) / center;
}

Interval median_interval(std::span<const double> sorted) {
  const auto found = smelt::median_interval({sorted.begin(), sorted.end()}, 0.05);
  return {found.low, found.high};
}

void Series::add_round(std::vector<double> samples) {
  const auto kept = without_outliers(std::move(samples));
  if (kept.empty()) return;
  medians_.push_back(quantile_of_sorted(kept, 0.5));
  spreads_.push_back(relative_spread(kept));
}

Estimate Series::estimate() const {
  // Rounds that another process interrupted are outliers among the rounds.
  const auto kept = without_outliers(medians_);
  Estimate result;
  result.value = quantile_of_sorted(kept, 0.5);
  result.spread = std::max(median(spreads_), relative_spread(kept));
  if (result.value > 0.0) {
    const auto interval = median_interval(kept);
    result.error = (interval.high - interval.low) / 2.0 / result.value;
  }
  return result;
}

}  // namespace smelt::measure
