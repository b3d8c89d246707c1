// A rule for trees. registry.def lists all rules; each is defined in the file of its algorithm.
#pragma once

#include "plan/trees/problem.hpp"
#include "plan/trees/tree.hpp"

namespace smelt::plan {

struct TreeRule {
  const char* name;
  const char* description;  ///< for users
  bool uses_costs;          ///< chooses the root by cost if it is free; otherwise rank 0 is the root
  /// The tree of one direction. `radix`: of names such as "k-nomial:3".
  Tree (*build)(Problem& problem, Direction direction, int radix, int root);
  bool published = false;  ///< built from the published costs, one tree for both directions
};

namespace rules {
#define TREE_RULE(name) extern const TreeRule name;
#include "plan/trees/registry.def"
#undef TREE_RULE
}  // namespace rules

}  // namespace smelt::plan
