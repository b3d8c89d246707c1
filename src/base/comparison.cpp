#include "base/comparison.hpp"

#include <algorithm>
#include <cmath>

namespace smelt {
namespace {

/// Probability that exactly k of n samples lie below the median: that of k heads in n fair coins.
double probability_of(std::size_t k, std::size_t n) {
  const auto x = static_cast<double>(k), all = static_cast<double>(n);
  return std::exp(std::lgamma(all + 1.0) - std::lgamma(x + 1.0) - std::lgamma(all - x + 1.0) - all * std::log(2.0));
}

}  // namespace

double median_of(std::vector<double> values) {
  if (values.empty()) return 0.0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2.0;
}

MedianInterval median_interval(std::vector<double> samples, double doubt) {
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end());
  const std::size_t n = samples.size();
  // The interval from the (k+1)-th lowest to the (k+1)-th highest misses the median if at most k coins show heads, or
  // at most k show tails.
  std::size_t k = 0;
  double tail = probability_of(0, n);
  while (k + 1 < n / 2) {
    const double more = tail + probability_of(k + 1, n);
    if (2.0 * more > doubt) break;
    tail = more;
    ++k;
  }
  return {samples[k], median_of(samples), samples[n - 1 - k], std::max(0.0, 1.0 - 2.0 * tail), n};
}

const char* to_string(Verdict verdict) noexcept {
  switch (verdict) {
    case Verdict::faster: return "faster";
    case Verdict::equal: return "equal";
    case Verdict::slower: return "slower";
    case Verdict::undecided: break;
  }
  return "not decided";
}

Finding judge(std::vector<double> ratios, const VerdictRules& rules) {
  Finding result{median_interval(std::move(ratios), rules.doubt)};
  const auto& [low, median, high, confidence, count] = result.ratio;
  if (count < rules.fewest) return result;
  if (confidence < 1.0 - rules.doubt) {
    if (low > rules.clear) result.verdict = Verdict::faster;
    if (high < 1.0 / rules.clear) result.verdict = Verdict::slower;
  } else if (low >= 1.0 - rules.margin && high <= 1.0 + rules.margin) {
    result.verdict = Verdict::equal;
  } else if (low > 1.0 && median > 1.0 + rules.margin) {
    result.verdict = Verdict::faster;
  } else if (high < 1.0 && median < 1.0 - rules.margin) {
    result.verdict = Verdict::slower;
  }
  return result;
}

std::size_t next_look(std::size_t count) noexcept {
  constexpr std::size_t looks[] = {3, 7, 10, 14, 20, 28, 40, 56, 80};
  const auto* const next = std::upper_bound(std::begin(looks), std::end(looks), count);
  return next == std::end(looks) ? count * 2 : *next;
}

bool floor_moved(double before_ns, double after_ns) noexcept {
  if (!(before_ns > 0.0) || !(after_ns > 0.0)) return false;
  return std::max(before_ns, after_ns) > most_floor_change * std::min(before_ns, after_ns);
}

bool floor_moved(const Floor& before, const Floor& after) noexcept {
  return floor_moved(before.line_ns, after.line_ns) || floor_moved(before.work_ns, after.work_ns);
}

bool Remeasurements::again(bool moved) noexcept {
  if (moved && in_a_row_ < most) {
    ++in_a_row_;
    ++taken_again_;
    return true;
  }
  if (moved) ++unsteady_;
  in_a_row_ = 0;
  return false;
}

}  // namespace smelt
