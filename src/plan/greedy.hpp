// Greedy construction: where the searches start.
#pragma once

#include "plan/costs.hpp"
#include "plan/tree.hpp"

namespace smelt::plan {

/// Grows a broadcast from the root by one send at a time, the one with the least
/// idle time of the sender + weight * (send + latency). Weight 1: earliest completion; below:
/// senders that are idle first matter more. Deterministic; ties go to the lower rank.
Tree greedy_tree(const CostTable& costs, int root, float weight);

}  // namespace smelt::plan
