// Two levels: a binary tree between NUMA nodes, in each node its first rank (the root in its
// own) leads; below a leader either sends one after the other or again a binary tree.
//
//      A0 ---- A1 A2 A3        node A, its leader A0 is the root
//     /  \ .
//   B0    C0                   leaders of nodes B and C, with their own ranks below
//
// Source: [Kaestle16] 5.2, after HMPI.
#include <map>

#include "plan/trees/builders.hpp"
#include "plan/trees/rule.hpp"

namespace smelt::plan {

Tree cluster_tree(const RankCosts& ranks, int root, bool binary_within) {
  const int n = ranks.size();
  std::map<int, std::size_t> index_of_node;
  std::vector<std::vector<int>> nodes;  // ranks of each node, leader first
  for (int position = 0; position < n; ++position) {
    const int rank = (root + position) % n;
    const auto [entry, fresh] = index_of_node.try_emplace(ranks.pu(rank).numa_node, nodes.size());
    if (fresh) nodes.emplace_back();
    nodes[entry->second].push_back(rank);
  }
  Tree tree;
  tree.root = root;
  tree.children.resize(static_cast<std::size_t>(n));
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    if (node > 0) tree.children[nodes[(node - 1) / 2][0]].push_back(nodes[node][0]);
    for (std::size_t i = 1; i < nodes[node].size(); ++i) {
      tree.children[nodes[node][binary_within ? (i - 1) / 2 : 0]].push_back(nodes[node][i]);
    }
  }
  return tree;
}

const TreeRule rules::cluster = {
    "cluster", "binary tree between NUMA nodes, sequential within", false,
    [](Problem& p, Direction, int, int root) { return cluster_tree(p.ranks(), root, false); }};

const TreeRule rules::cluster_binary = {
    "cluster-binary", "binary tree between NUMA nodes, binary within", false,
    [](Problem& p, Direction, int, int root) { return cluster_tree(p.ranks(), root, true); }};

}  // namespace smelt::plan
