#include "plan/tree.hpp"

namespace smelt {

std::vector<int> Tree::parents() const {
  std::vector<int> parent(children.size(), -1);
  for (int rank = 0; rank < size(); ++rank) {
    for (const int child : children[rank]) parent[child] = rank;
  }
  return parent;
}

Tree reroot(const Machine& machine, const Group& group, const Tree& tree, int root) {
  if (!plan::is_spanning(tree) || tree.size() != group.size() || root < 0 || root >= tree.size()) return tree;
  Tree turned = plan::hang_up(tree, root);
  const plan::RankCosts ranks(machine, group);
  plan::order_sends(plan::DirectedCosts(ranks, plan::Direction::broadcast), turned);
  return turned;
}

namespace plan {

std::vector<int> top_down(const Tree& tree) {
  const int n = tree.size();
  std::vector<int> order;
  if (tree.root < 0 || tree.root >= n) return order;
  std::vector<bool> seen(static_cast<std::size_t>(n), false);
  order.reserve(static_cast<std::size_t>(n));
  order.push_back(tree.root);
  seen[tree.root] = true;
  for (std::size_t next = 0; next < order.size(); ++next) {
    for (const int child : tree.children[order[next]]) {
      if (child < 0 || child >= n || seen[child]) return {};
      seen[child] = true;
      order.push_back(child);
    }
  }
  return order;
}

bool is_spanning(const Tree& tree) {
  return tree.size() > 0 && top_down(tree).size() == static_cast<std::size_t>(tree.size());
}

Tree from_parents(const std::vector<int>& parents) {
  Tree tree;
  tree.children.resize(parents.size());
  for (int rank = 0; rank < tree.size(); ++rank) {
    if (parents[rank] < 0) {
      tree.root = rank;
    } else {
      tree.children[parents[rank]].push_back(rank);
    }
  }
  return tree;
}

Tree hang_up(const Tree& tree, int root) {
  std::vector<int> parents = tree.parents();
  int above = -1;
  for (int rank = root; rank >= 0;) {
    const int next = parents[rank];
    parents[rank] = above;
    above = rank;
    rank = next;
  }
  return from_parents(parents);
}

}  // namespace plan
}  // namespace smelt
