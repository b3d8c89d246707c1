// Simulated annealing over one or more trees with a common root.
#pragma once

#include <functional>
#include <vector>

#include "plan/trees/treestate.hpp"

namespace smelt::plan {

/// One tree of the problem. The objective is the sum of weight * time.
struct AnnealedTree {
  TreeState state;
  float weight = 1.0F;
};

struct AnnealOptions {
  bool free_root = true;
  std::uint64_t seed = 1;
  /// Start and end temperature as parts of the objective.
  float hot = 0.02F, cold = 0.0005F;
  /// How much of the budget is used, 0..1; asked every few moves with the number of moves so far.
  std::function<float(long)> progress;
};

/// Improves the trees; leaves the best found in them and returns its objective.
float anneal(std::vector<AnnealedTree>& trees, const AnnealOptions& options);

}  // namespace smelt::plan
