// Work on trees that every planner shares: traversal, the exact best send order, evaluation.
#pragma once

#include <algorithm>
#include <vector>

#include "plan/trees/costs.hpp"
#include "smelt/plan.hpp"

namespace smelt::plan {

/// Ranks so that every parent comes before its children. Empty if `tree` is not a spanning tree.
std::vector<int> top_down(const Tree& tree);

/// One parent each, all ranks reached from the root.
bool is_spanning(const Tree& tree);

/// Tree from parents (-1 for the root); children in rank order.
Tree from_parents(const std::vector<int>& parents);

/// Time of the whole tree, children as ordered.
template <class Costs>
double tree_time(const Costs& costs, const Tree& tree) {
  std::vector<double> need(static_cast<std::size_t>(tree.size()), 0.0);
  const std::vector<int> order = top_down(tree);
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    double sent = 0.0;
    for (const int child : tree.children[*it]) {
      sent += costs.send(*it, child);
      need[*it] = std::max(need[*it], sent + costs.latency(*it, child) + need[child]);
    }
  }
  return need[tree.root];
}

/// Puts every rank's sends into the exact best order, decreasing latency + subtree time, and
/// returns the time of the whole tree. An exchange of two neighbours in any other order never
/// makes the tree slower, which is the proof. `ready`, if not empty: when each rank can start to
/// serve its children (a reduction whose ranks do not all start at 0). Cost: O(n log n).
template <class Costs>
double order_sends(const Costs& costs, Tree& tree, const std::vector<double>& ready = {}) {
  std::vector<double> need(static_cast<std::size_t>(tree.size()), 0.0), key(need);
  const std::vector<int> order = top_down(tree);
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    auto& children = tree.children[*it];
    for (const int child : children) key[child] = costs.latency(*it, child) + need[child];
    std::stable_sort(children.begin(), children.end(), [&](int a, int b) { return key[a] > key[b]; });
    double sent = 0.0;
    for (const int child : children) {
      sent += costs.send(*it, child);
      need[*it] = std::max(need[*it], sent + key[child]);
    }
    if (!ready.empty()) need[*it] = std::max(need[*it], ready[*it] + sent);
  }
  return need[tree.root];
}

/// When each rank holds the message and when it has sent its last, children as ordered.
struct TreeTimes {
  std::vector<double> arrival, idle;
};

template <class Costs>
TreeTimes schedule(const Costs& costs, const Tree& tree) {
  const auto n = static_cast<std::size_t>(tree.size());
  TreeTimes times{std::vector<double>(n, 0.0), std::vector<double>(n, 0.0)};
  for (const int rank : top_down(tree)) {
    double now = times.arrival[rank];
    for (const int child : tree.children[rank]) {
      now += costs.send(rank, child);
      times.arrival[child] = now + costs.latency(rank, child);
    }
    times.idle[rank] = now;
  }
  return times;
}

/// The same edges hung up at another rank; children in no particular order.
Tree hang_up(const Tree& tree, int root);

/// The same tree, but ranks with late_ns > 0 are leaves of the root, the latest last. At least one rank must not be
/// late, else the tree comes back as it was.
Tree with_late_leaves(const Tree& tree, const std::vector<double>& late_ns);

}  // namespace smelt::plan
