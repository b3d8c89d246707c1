#include "plan/bounds.hpp"

#include <algorithm>
#include <limits>
#include <queue>
#include <vector>

namespace smelt::plan {

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

// Every rank but the root is reached over some edge: the dearest of the cheapest edges into a
// rank; with a free root one rank may be spared.
double reach_bound(const CostTable& costs, std::optional<int> root) {
  const int n = costs.size();
  std::vector<float> cheapest(static_cast<std::size_t>(n), infinity);
  for (int p = 0; p < n; ++p) {
    const float *send = costs.send_row(p), *latency = costs.latency_row(p);
    const auto over = [&](int begin, int end) {
      for (int c = begin; c < end; ++c) {
        const float edge = send[c] + latency[c];
        cheapest[c] = edge < cheapest[c] ? edge : cheapest[c];
      }
    };
    over(0, p);
    over(p + 1, n);
  }
  if (root) {
    cheapest[*root] = 0.0F;
  } else {
    *std::max_element(cheapest.begin(), cheapest.end()) = 0.0F;
  }
  return *std::max_element(cheapest.begin(), cheapest.end());
}

}  // namespace

double lower_bound(const CostTable& costs, const RankCosts&, std::optional<int> root) {
  if (costs.size() < 2) return 0.0;
  // The table is rounded to float: stay below what the exact costs allow.
  return reach_bound(costs, root) * (1.0 - 1e-6);
}

}  // namespace smelt::plan
