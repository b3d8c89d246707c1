// What the tests of this room share: random machines and an evaluator that shares no code with it.
#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "smelt/machine.hpp"
#include "smelt/plan.hpp"
#include "smelt/schedule.hpp"

namespace smelt::test {

inline constexpr Access all_access[] = {Access::channels, Access::staged, Access::direct};

/// Ranks on the PUs in their order, several on each where there are not enough.
inline Group group_of(const Machine& machine, int ranks) {
  Group group;
  for (int rank = 0; rank < ranks; ++rank) group.pus.push_back(rank % static_cast<int>(machine.size()));
  return group;
}

/// Fully asymmetric costs; PUs in `nodes` NUMA nodes one after the other, remote ones dearer.
inline Machine random_machine(int n, std::uint32_t seed, int nodes = 2) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> cost(5.0, 50.0);
  Machine machine;
  machine.name = "random";
  machine.send_ns = Matrix(static_cast<std::size_t>(n));
  machine.recv_ns = machine.send_ns;
  for (int i = 0; i < n; ++i) {
    Pu pu;
    pu.os_index = 10 + i;
    pu.core = i;
    pu.numa_node = pu.package = pu.l3 = i * nodes / n;
    machine.pus.push_back(pu);
  }
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) {
      if (i == j) continue;
      const double factor = machine.pus[i].numa_node == machine.pus[j].numa_node ? 1.0 : 3.0;
      machine.send_ns(i, j) = cost(random) * factor * 0.3;
      machine.recv_ns(i, j) = cost(random) * factor;
    }
  }
  return machine;
}

/// Every message costs the same.
inline Machine uniform_machine(int n, double send, double recv, int nodes = 1) {
  Machine machine = random_machine(n, 1, nodes);
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) {
      machine.send_ns(i, j) = i == j ? 0.0 : send;
      machine.recv_ns(i, j) = i == j ? 0.0 : recv;
    }
  }
  return machine;
}

/// What a lone message takes.
inline double message_ns(const Machine& m, int from, int to) {
  return m.send_ns(from, to) + (m.propagation_ns ? (*m.propagation_ns)(from, to) : 0.0) + m.recv_ns(from, to);
}

/// The machine with gaps: between sends up to the whole message, between receives a part of the receive.
inline Machine with_gaps(Machine m, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> share(0.05, 1.0);
  m.send_gap_ns = m.recv_gap_ns = Matrix(m.size());
  for (int i = 0; i < static_cast<int>(m.size()); ++i) {
    for (int j = 0; j < static_cast<int>(m.size()); ++j) {
      if (i == j) continue;
      (*m.send_gap_ns)(i, j) = m.send_ns(i, j) + share(random) * (message_ns(m, i, j) - m.send_ns(i, j));
      (*m.recv_gap_ns)(i, j) = share(random) * m.recv_ns(i, j);
    }
  }
  return m;
}

/// Arrival times by the recursive formula of the model, written down once more.
inline std::vector<double> arrivals(const Machine& m, const Tree& tree) {
  std::vector<double> at(tree.children.size(), 0.0);
  std::function<void(int)> visit = [&](int p) {
    double sent = at[p];
    for (const int c : tree.children[p]) {
      at[c] = sent + message_ns(m, p, c);
      sent += m.send_gap_ns ? (*m.send_gap_ns)(p, c) : m.send_ns(p, c);
      visit(c);
    }
  };
  visit(tree.root);
  return at;
}

inline double time_of(const Machine& m, const Tree& tree) {
  const auto at = arrivals(m, tree);
  return *std::max_element(at.begin(), at.end());
}

/// The machine on which a broadcast is the original's reduction.
inline Machine transposed(const Machine& m) {
  Machine t = m;
  for (std::size_t i = 0; i < m.size(); ++i) {
    for (std::size_t j = 0; j < m.size(); ++j) {
      t.send_ns(i, j) = m.recv_ns(j, i);
      t.recv_ns(i, j) = m.send_ns(j, i);
      if (m.propagation_ns) (*t.propagation_ns)(i, j) = (*m.propagation_ns)(j, i);
    }
  }
  t.send_gap_ns = m.recv_gap_ns ? std::optional(m.recv_gap_ns->transposed()) : std::nullopt;
  t.recv_gap_ns = m.send_gap_ns ? std::optional(m.send_gap_ns->transposed()) : std::nullopt;
  return t;
}

/// Calls f with every tree over n ranks and every send order.
inline void all_ordered_trees(int n, int root, const std::function<void(const Tree&)>& f) {
  // Grow in every possible way, but count a set of edges in one canonical sequence only: ranks join
  // in the order in which a fixed traversal meets them, so duplicates merely cost time.
  Tree tree;
  tree.root = root;
  tree.children.resize(static_cast<std::size_t>(n));
  std::vector<bool> inside(static_cast<std::size_t>(n), false);
  inside[root] = true;
  std::function<void(int)> grow = [&](int count) {
    if (count == n) return f(tree);
    for (int p = 0; p < n; ++p) {
      if (!inside[p]) continue;
      for (int c = 0; c < n; ++c) {
        if (inside[c]) continue;
        inside[c] = true;
        tree.children[p].push_back(c);
        grow(count + 1);
        tree.children[p].pop_back();
        inside[c] = false;
      }
    }
  };
  grow(1);
}

/// The least time over all trees, orders and, if root < 0, roots.
inline double brute_force(const Machine& m, int root) {
  double best = std::numeric_limits<double>::infinity();
  for (int r = 0; r < static_cast<int>(m.size()); ++r) {
    if (root >= 0 && r != root) continue;
    all_ordered_trees(static_cast<int>(m.size()), r,
                      [&](const Tree& tree) { best = std::min(best, time_of(m, tree)); });
  }
  return best;
}

inline void check_spanning(const Tree& tree, int n, bool& ok) {
  std::vector<int> parents(static_cast<std::size_t>(n), 0), seen;
  ok = tree.size() == n && tree.root >= 0 && tree.root < n;
  for (const auto& children : tree.children) {
    for (const int child : children) {
      ok = ok && child >= 0 && child < n;
      if (ok) ++parents[child];
    }
  }
  for (int rank = 0; rank < n && ok; ++rank) ok = parents[rank] == (rank == tree.root ? 0 : 1);
  if (!ok) return;
  seen.push_back(tree.root);
  for (std::size_t i = 0; i < seen.size(); ++i) {
    seen.insert(seen.end(), tree.children[seen[i]].begin(), tree.children[seen[i]].end());
  }
  ok = static_cast<int>(seen.size()) == n;
}

}  // namespace smelt::test
