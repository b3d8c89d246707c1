// Minimum spanning tree by Prim's algorithm, grown from the root by the cheapest edge (send + receive) out of the tree.
// `bad` uses the most expensive edge instead, which maximizes redundant links between NUMA nodes. Source: [Kaestle16]
// 5.2.
#include <limits>

#include "plan/trees/builders.hpp"
#include "plan/trees/rule.hpp"

namespace smelt::plan {

Tree prim_tree(const CostTable& costs, int root, bool inverted) {
  const int n = costs.size();
  const float sign = inverted ? -1.0F : 1.0F;
  std::vector<int> parent(static_cast<std::size_t>(n), -1), from(static_cast<std::size_t>(n), root);
  std::vector<float> reach(static_cast<std::size_t>(n), std::numeric_limits<float>::infinity());
  std::vector<int> outside;
  for (int rank = 0; rank < n; ++rank) {
    if (rank != root) outside.push_back(rank);
  }
  std::vector<float> row;
  for (int added = root; !outside.empty();) {
    const float* edges = costs.edge_row(added, row);
    std::size_t nearest = 0;
    for (std::size_t i = 0; i < outside.size(); ++i) {
      const int rank = outside[i];
      const float edge = sign * edges[rank];
      if (edge < reach[rank]) {
        reach[rank] = edge;
        from[rank] = added;
      }
      if (reach[rank] < reach[outside[nearest]]) nearest = i;
    }
    added = outside[nearest];
    parent[added] = from[added];
    outside.erase(outside.begin() + static_cast<std::ptrdiff_t>(nearest));
  }
  return from_parents(parent);
}

const TreeRule rules::mst = {
    "mst", "minimum spanning tree (Prim)", true,
    [](Problem& p, Direction, int, int root) { return prim_tree(p.published_table(), root, false); }, true};

const TreeRule rules::bad = {
    "bad", "spanning tree on inverted costs: how much a tree matters", true,
    [](Problem& p, Direction, int, int root) { return prim_tree(p.published_table(), root, true); }, true};

}  // namespace smelt::plan
