// Lower bounds on the time of any tree.
#pragma once

#include <optional>

#include "plan/costs.hpp"

namespace smelt::plan {

/// No tree of this group (from `root`, or from any root) is faster in this direction.
double lower_bound(const CostTable& costs, const RankCosts& ranks, std::optional<int> root);

}  // namespace smelt::plan
