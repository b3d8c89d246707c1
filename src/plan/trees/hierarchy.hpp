// Construction for machines of nested clusters.
#pragma once

#include <vector>

#include "plan/trees/costs.hpp"
#include "plan/trees/tree.hpp"

namespace smelt::plan {

/// Optimal trees for a simplified machine, and their like on the real one: clusters of one level
/// count as equally large, messages of one level as equally dear. See hierarchy.cpp.
class HierarchyPlanner {
 public:
  HierarchyPlanner(const RankCosts& ranks, const CostTable& costs);

  /// The tree from this root, sends not yet in best order.
  Tree tree(int root) const;

 private:
  using Units = std::vector<std::vector<int>>;  // per level, units still to be informed

  struct SendChoice {
    int level = 0;
    int handed = 0;  // state given to the rank sent to
  };

  void find_levels(const RankCosts& ranks);
  void price_levels();
  void solve();
  void improve_state(int state, const std::vector<int>& left, int level);
  void grow(int rank, Units units, Tree& tree) const;
  int cheapest_entry(int rank, int level, const std::vector<int>& units, std::size_t& unit) const;
  Units inside(int rank, int below_level) const;
  int levels() const { return static_cast<int>(branching_.size()); }

  const CostTable* costs_;
  // Level l joins units of level l - 1 into units of level l; units of level -1 are the ranks.
  std::vector<std::vector<int>> unit_of_;               // [level][rank]
  std::vector<std::vector<std::vector<int>>> parts_;    // [level][unit]: its units of level - 1
  std::vector<std::vector<std::vector<int>>> members_;  // [level][unit]: ranks
  std::vector<int> branching_, stride_;                 // per level: most parts of a unit; weight in a state
  std::vector<double> send_, latency_;                  // per level: mean over samples
  std::vector<double> need_;                            // per state
  std::vector<SendChoice> choice_;
};

}  // namespace smelt::plan
