// The tree builders, one family per file. Unless stated otherwise, a builder does not sort sends; planner.cpp does that
// afterwards for every name but `adaptive`.
#pragma once

#include "plan/trees/costs.hpp"
#include "plan/trees/tree.hpp"

namespace smelt::plan {

Tree sequential_tree(int n, int root);
Tree chain_tree(int n, int root);
Tree binary_tree(int n, int root);
Tree fibonacci_tree(int n, int root);
Tree k_nomial_tree(int n, int root, int radix);  ///< radix >= 2

Tree prim_tree(const CostTable& costs, int root, bool inverted);
Tree stream_tree(const CostTable& costs, int root);
Tree cluster_tree(const RankCosts& ranks, int root, bool binary_within);

/// [Smelt16] algorithm 1, sends in the order in which the algorithm issues them.
Tree adaptive_tree(const RankCosts& ranks, const CostTable& costs, int root);

/// Reorder and shuffle ([Smelt16] 3.3.2) applied to a tree; sends are in best order afterwards.
Tree optimize_adaptive(const CostTable& costs, Tree tree);

/// The rank with the lowest average send cost to all others ([Smelt16] 3.3.1).
int cheapest_sender(const CostTable& costs);

}  // namespace smelt::plan
