// Greedy construction: where the searches start.
#pragma once

#include "plan/trees/costs.hpp"
#include "plan/trees/tree.hpp"

namespace smelt::plan {

/// Grows a broadcast from the root by one send at a time, the one that is completed first: with the least idle time of
/// the sender + send + latency. Deterministic; ties go to the lower rank.
Tree greedy_tree(const CostTable& costs, int root);

}  // namespace smelt::plan
