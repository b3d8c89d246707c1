// Greedy construction: where the searches start.
#pragma once

#include "plan/trees/costs.hpp"
#include "plan/trees/tree.hpp"

namespace smelt::plan {

/// Grows a broadcast from the root one send at a time. The next send is the one that completes first (least idle time
/// of the sender + send + latency). Deterministic; ties go to the lower rank.
Tree greedy_tree(const CostTable& costs, int root);

}  // namespace smelt::plan
