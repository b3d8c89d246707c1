// Two bounds, the larger counts.
//
// Reach: every rank but the root is reached over some edge; the dearest of the cheapest.
//
// ReachableSet: how fast the message can spread at most. Ranks are joined into units (a unit counts as
// informed, and all its ranks as able to send, when its first rank is), units into types. A message
// between units of types a and b costs at least send(a,b) and latency(a,b), the least between any
// two of their ranks; a rank may even serve all types at once. So a unit of type a informed at t
// yields arrivals at type b no earlier than t + m send(a,b) + latency(a,b), m = 1, 2, .., as many at
// a time as it has ranks. By induction over arrivals the k-th arrival at a type is never later than
// in any real broadcast; the bound is the time at which all types are complete. It holds for every
// choice of units and types: all pairs of levels of the machine are tried.
#include "plan/trees/bounds.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

namespace smelt::plan {

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr int growth_ranks = 512;  // above, the growth bound would cost more than it tells
constexpr int most_types = 32, few_types = 2;
constexpr int levels = 5;  // package, NUMA node, L3, core, rank

double reach_bound(const CostTable& costs, std::optional<int> root) {
  const int n = costs.size();
  std::vector<float> cheapest(static_cast<std::size_t>(n), infinity);
  std::vector<float> row;
  for (int p = 0; p < n; ++p) {
    const float* edges = costs.edge_row(p, row);
    const auto over = [&](int begin, int end) {
      for (int c = begin; c < end; ++c) {
        cheapest[c] = edges[c] < cheapest[c] ? edges[c] : cheapest[c];
      }
    };
    over(0, p);
    over(p + 1, n);
  }
  if (root) {
    cheapest[*root] = 0.0F;
  } else {
    *std::max_element(cheapest.begin(), cheapest.end()) = 0.0F;
  }
  return *std::max_element(cheapest.begin(), cheapest.end());
}

// Ranks by their place in the machine down to some level; level 0 is the whole group.
struct Partition {
  std::vector<int> of;  // per rank
  int count = 0;
};

Partition partition(const RankCosts& ranks, int level) {
  Partition result;
  std::map<std::array<int, levels>, int> dense;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const Pu& pu = ranks.pu(rank);
    std::array<int, levels> path{pu.package, pu.numa_node, pu.l3, pu.core, rank};
    std::fill(path.begin() + level, path.end(), 0);
    result.of.push_back(dense.try_emplace(path, static_cast<int>(dense.size())).first->second);
  }
  result.count = static_cast<int>(dense.size());
  return result;
}

class ReachableSet {
 public:
  ReachableSet(const CostTable& costs, const Partition& units, const Partition& types)
      : types_(types.count),
        send_(static_cast<std::size_t>(types_) * static_cast<std::size_t>(types_), infinity),
        latency_(send_),
        size_(static_cast<std::size_t>(types_), 0),
        ranks_(static_cast<std::size_t>(types_), 1) {
    std::vector<int> members(static_cast<std::size_t>(units.count), 0);
    for (int p = 0; p < costs.size(); ++p) {
      if (members[units.of[p]]++ == 0) ++size_[types.of[p]];
      ranks_[types.of[p]] = std::max(ranks_[types.of[p]], members[units.of[p]]);
      for (int c = 0; c < costs.size(); ++c) {
        if (units.of[p] == units.of[c]) continue;
        const int pair = types.of[p] * types_ + types.of[c];
        send_[pair] = std::min(send_[pair], costs.send(p, c));
        latency_[pair] = std::min(latency_[pair], costs.latency(p, c));
      }
    }
  }

  // When all types are complete if a unit of type `first` starts.
  double from(int first) const {
    using Arrival = std::tuple<double, int, int>;  // time, sending type, receiving type
    std::priority_queue<Arrival, std::vector<Arrival>, std::greater<>> arrivals;
    std::vector<int> missing = size_;
    double now = 0.0;
    const auto inform = [&](int type) {
      --missing[type];
      for (int to = 0; to < types_; ++to) {
        const int pair = type * types_ + to;
        if (missing[to] > 0 && send_[pair] < infinity) arrivals.emplace(now + send_[pair] + latency_[pair], type, to);
      }
    };
    inform(first);
    while (!arrivals.empty()) {
      const auto [time, type, to] = arrivals.top();
      arrivals.pop();
      if (missing[to] == 0) continue;
      now = time;
      for (int i = 0; i < ranks_[type] && missing[to] > 0; ++i) inform(to);
      arrivals.emplace(time + send_[type * types_ + to], type, to);
    }
    return now;
  }

  int types() const { return types_; }

 private:
  int types_;
  std::vector<float> send_, latency_;
  std::vector<int> size_, ranks_;  // per type: units; ranks of its largest unit
};

double growth_bound(const CostTable& costs, const RankCosts& ranks, std::optional<int> root, int type_limit) {
  std::vector<Partition> parts;  // those that differ, from coarse to fine
  for (int level = 0; level <= levels; ++level) {
    Partition part = partition(ranks, level);
    if (parts.empty() || part.count != parts.back().count) parts.push_back(std::move(part));
  }
  double bound = 0.0;
  for (std::size_t fine = 1; fine < parts.size(); ++fine) {
    for (std::size_t coarse = 0; coarse < fine; ++coarse) {
      if (parts[coarse].count > type_limit) continue;
      const ReachableSet growth(costs, parts[fine], parts[coarse]);
      double least = std::numeric_limits<double>::infinity();
      for (int type = 0; type < growth.types(); ++type) {
        if (!root || parts[coarse].of[*root] == type) least = std::min(least, growth.from(type));
      }
      bound = std::max(bound, least);
    }
  }
  return bound;
}

}  // namespace

double lower_bound(const CostTable& costs, const RankCosts& ranks, std::optional<int> root, bool thorough) {
  if (costs.size() < 2) return 0.0;
  double bound = reach_bound(costs, root);
  if (costs.size() <= growth_ranks)
    bound = std::max(bound, growth_bound(costs, ranks, root, thorough ? most_types : few_types));
  // The table is rounded to float: stay below what the exact costs allow.
  return bound * (1.0 - 1e-6);
}

}  // namespace smelt::plan
