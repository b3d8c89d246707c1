// Dynamic programming over counts. Levels are what the machine tells: SMT siblings in a core,
// cores at an L3, L3s in a NUMA node, NUMA nodes in a package, packages. A rank that holds the
// message is in state (k_0, k_1, ..): it has to see to k_l further units of level l, none of which
// holds the message. Its next send goes to a unit of some level l; the rank there becomes
// responsible for all of its unit and for a part of what is left of levels l and up:
//
//   need(k) = min over l, part of  send_l + max( latency_l + need(whole below l, part), need(rest) )
//
// There are as many states as ranks on a regular machine, so this takes at most n^2 steps. On the
// real machine each choice is carried out on the unit and rank that are cheapest to reach.
#include "plan/trees/hierarchy.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>

namespace smelt::plan {

namespace {

constexpr int samples_per_rank = 8;
constexpr double max_transitions = 6e7;

}  // namespace

HierarchyPlanner::HierarchyPlanner(const RankCosts& ranks, const CostTable& costs) : costs_(&costs) {
  find_levels(ranks);
  price_levels();
  solve();
}

void HierarchyPlanner::find_levels(const RankCosts& ranks) {
  const int n = ranks.size();
  std::vector<std::array<int, 5>> paths;
  for (int rank = 0; rank < n; ++rank) {
    const Pu& pu = ranks.pu(rank);
    paths.push_back({0, pu.package, pu.numa_node, pu.l3, pu.core});
  }
  std::vector<int> finer(static_cast<std::size_t>(n));
  for (int rank = 0; rank < n; ++rank) finer[rank] = rank;
  std::size_t finer_units = static_cast<std::size_t>(n);
  for (int depth = 5; depth > 0; --depth) {
    std::map<std::vector<int>, int> dense;
    std::vector<int> unit(static_cast<std::size_t>(n));
    for (int rank = 0; rank < n; ++rank) {
      const std::vector<int> prefix(paths[rank].begin(), paths[rank].begin() + depth);
      unit[rank] = dense.try_emplace(prefix, static_cast<int>(dense.size())).first->second;
    }
    if (dense.size() == finer_units) continue;
    auto& parts = parts_.emplace_back(dense.size());
    auto& members = members_.emplace_back(dense.size());
    std::vector<bool> seen(finer_units, false);
    for (int rank = 0; rank < n; ++rank) {
      members[unit[rank]].push_back(rank);
      if (!seen[finer[rank]]) parts[unit[rank]].push_back(finer[rank]);
      seen[finer[rank]] = true;
    }
    unit_of_.push_back(unit);
    finer = std::move(unit);
    finer_units = dense.size();
  }
  int weight = 1;
  for (const auto& parts : parts_) {
    std::size_t most = 1;
    for (const auto& unit : parts) most = std::max(most, unit.size());
    branching_.push_back(static_cast<int>(most));
    stride_.push_back(weight);
    weight *= static_cast<int>(most);
  }
}

// Means over a few partners of every rank at every level.
void HierarchyPlanner::price_levels() {
  for (int level = 0; level < levels(); ++level) {
    double send = 0.0, latency = 0.0;
    long count = 0;
    for (int rank = 0; rank < costs_->size(); ++rank) {
      const auto& around = members_[level][unit_of_[level][rank]];
      const std::size_t step = std::max<std::size_t>(1, around.size() / samples_per_rank);
      for (std::size_t i = static_cast<std::size_t>(rank) % step; i < around.size(); i += step) {
        const int other = around[i];
        if (other == rank || (level > 0 && unit_of_[level - 1][other] == unit_of_[level - 1][rank])) continue;
        send += costs_->send(rank, other);
        latency += costs_->latency(rank, other);
        ++count;
      }
    }
    send_.push_back(count ? send / static_cast<double>(count) : 0.0);
    latency_.push_back(count ? latency / static_cast<double>(count) : 0.0);
  }
}

void HierarchyPlanner::solve() {
  double transitions = levels();
  int states = 1;
  for (const int branching : branching_) {
    transitions *= 0.5 * branching * (branching + 1);
    if (transitions > max_transitions) return;
    states *= branching;
  }
  need_.assign(static_cast<std::size_t>(states), std::numeric_limits<double>::infinity());
  need_[0] = 0.0;
  choice_.resize(static_cast<std::size_t>(states));
  std::vector<int> left(branching_.size());
  for (int state = 1; state < states; ++state) {
    for (int level = 0; level < levels(); ++level) left[level] = state / stride_[level] % branching_[level];
    for (int level = 0; level < levels(); ++level) {
      if (left[level] > 0) improve_state(state, left, level);
    }
  }
}

// All ways to hand on a part of what is left at `level` and above with a send at `level`.
void HierarchyPlanner::improve_state(int state, const std::vector<int>& left, int level) {
  const int whole = stride_[level] - 1;  // every level below full
  std::vector<int> part(left.size(), 0);
  int handed = 0;
  for (;;) {
    const double time =
        send_[level] + std::max(latency_[level] + need_[whole + handed], need_[state - stride_[level] - handed]);
    if (time < need_[state]) {
      need_[state] = time;
      choice_[state] = {level, handed};
    }
    int digit = level;
    for (; digit < levels(); ++digit) {
      if (part[digit] < left[digit] - (digit == level ? 1 : 0)) break;
      handed -= part[digit] * stride_[digit];
      part[digit] = 0;
    }
    if (digit == levels()) return;
    ++part[digit];
    handed += stride_[digit];
  }
}

HierarchyPlanner::Units HierarchyPlanner::inside(int rank, int below_level) const {
  Units units(branching_.size());
  for (int level = 0; level < below_level; ++level) {
    const int own = level > 0 ? unit_of_[level - 1][rank] : rank;
    units[level] = parts_[level][unit_of_[level][rank]];
    std::erase(units[level], own);
  }
  return units;
}

int HierarchyPlanner::cheapest_entry(int rank, int level, const std::vector<int>& units, std::size_t& unit) const {
  int entry = -1;
  for (std::size_t i = 0; i < units.size(); ++i) {
    const std::vector<int> lone{units[i]};
    for (const int member : level > 0 ? members_[level - 1][units[i]] : lone) {
      if (entry >= 0 && costs_->edge(rank, member) >= costs_->edge(rank, entry)) continue;
      entry = member;
      unit = i;
    }
  }
  return entry;
}

void HierarchyPlanner::grow(int rank, Units units, Tree& tree) const {
  for (;;) {
    int state = 0;
    for (int level = 0; level < levels(); ++level) state += stride_[level] * static_cast<int>(units[level].size());
    if (state == 0) return;
    const SendChoice choice = choice_[state];
    std::size_t unit = 0;
    const int entry = cheapest_entry(rank, choice.level, units[choice.level], unit);
    units[choice.level].erase(units[choice.level].begin() + static_cast<std::ptrdiff_t>(unit));
    tree.children[rank].push_back(entry);
    Units handed = inside(entry, choice.level);
    for (int level = choice.level; level < levels(); ++level) {
      for (int count = choice.handed / stride_[level] % branching_[level]; count > 0; --count) {
        handed[level].push_back(units[level].back());
        units[level].pop_back();
      }
    }
    grow(entry, std::move(handed), tree);
  }
}

Tree HierarchyPlanner::tree(int root) const {
  Tree tree;
  tree.root = root;
  if (need_.empty() && costs_->size() > 1) return tree;
  tree.children.resize(static_cast<std::size_t>(costs_->size()));
  grow(root, inside(root, levels()), tree);
  return tree;
}

}  // namespace smelt::plan
