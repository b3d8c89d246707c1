#include "plan/trees/tree.hpp"

#include <algorithm>

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

Tree with_late_leaves(const Tree& tree, const std::vector<double>& late_ns) {
  const auto in_time = std::find(late_ns.begin(), late_ns.end(), 0.0);
  if (in_time == late_ns.end()) return tree;
  const auto is_late = [&](int rank) { return late_ns[static_cast<std::size_t>(rank)] > 0.0; };
  const int root = is_late(tree.root) ? static_cast<int>(in_time - late_ns.begin()) : tree.root;
  std::vector<int> parents = hang_up(tree, root).parents();
  for (int& parent : parents) {
    if (parent >= 0 && is_late(parent)) parent = root;
  }
  std::vector<int> late;
  for (int rank = 0; rank < tree.size(); ++rank) {
    if (is_late(rank)) late.push_back(rank);
  }
  std::stable_sort(late.begin(), late.end(), [&](int a, int b) {
    return late_ns[static_cast<std::size_t>(a)] < late_ns[static_cast<std::size_t>(b)];
  });
  Tree result = from_parents(parents);
  for (auto& children : result.children) std::erase_if(children, is_late);
  auto& last = result.children[static_cast<std::size_t>(root)];
  last.insert(last.end(), late.begin(), late.end());
  return result;
}

}  // namespace plan
}  // namespace smelt
