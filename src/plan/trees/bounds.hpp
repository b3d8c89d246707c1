// Lower bounds on the time of any tree.
#pragma once

#include <optional>

#include "plan/trees/costs.hpp"

namespace smelt::plan {

/// No tree of this group (from `root`, or from any root) is faster in this direction. `thorough`
/// takes some ten times as long and is tighter on machines of many clusters.
double lower_bound(const CostTable& costs, const RankCosts& ranks, std::optional<int> root, bool thorough);

}  // namespace smelt::plan
