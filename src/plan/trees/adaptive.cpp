// The adaptive tree of [Smelt16] 3.3, algorithm 1, and its optimization, 3.3.2.
//
// An event-based run of a broadcast: whenever a rank that holds the message is idle it looks at
// all ranks without it, save those on other NUMA nodes that a message is on its way to. It picks
// the most expensive (send + receive). If that one is local, it gets the message; if not, the
// cheapest to send to on that NUMA node does, and the node counts as active from then on.
//
// Reorder: serve the most expensive subtree first. Shuffle: let the rank that is idle first send
// to the rank that ends last, in place of its former parent, as long as that shortens the tree.
#include <limits>
#include <map>
#include <queue>

#include "plan/trees/builders.hpp"
#include "plan/trees/rule.hpp"

namespace smelt::plan {

namespace {

class Adaptive {
 public:
  Adaptive(const RankCosts& ranks, const CostTable& costs, int root)
      : costs_(costs), node_(static_cast<std::size_t>(costs.size())) {
    std::map<int, int> dense;
    for (int rank = 0; rank < costs.size(); ++rank) {
      const auto id = dense.try_emplace(ranks.pu(rank).numa_node, static_cast<int>(dense.size())).first->second;
      node_[rank] = id;
      if (id == static_cast<int>(waiting_.size())) waiting_.emplace_back();
      if (rank != root) waiting_[id].push_back(rank);
    }
    active_.assign(waiting_.size(), false);
    active_[node_[root]] = true;
    tree_.root = root;
    tree_.children.resize(static_cast<std::size_t>(costs.size()));
  }

  Tree run() {
    using Event = std::pair<double, int>;  // when a rank is idle
    std::priority_queue<Event, std::vector<Event>, std::greater<>> idle;
    idle.emplace(0.0, tree_.root);
    while (!idle.empty()) {
      const auto [now, rank] = idle.top();
      idle.pop();
      const int target = pick(rank);
      if (target < 0) continue;
      tree_.children[rank].push_back(target);
      idle.emplace(now + costs_.send(rank, target), rank);
      idle.emplace(now + costs_.send(rank, target) + costs_.latency(rank, target), target);
    }
    return std::move(tree_);
  }

 private:
  // Takes the target off the list of ranks that wait; -1 if there is nothing left for this rank.
  int pick(int rank) {
    int node = -1;
    std::size_t position = 0;
    float dearest = -1.0F;
    for (int candidate = 0; candidate < static_cast<int>(waiting_.size()); ++candidate) {
      if (active_[candidate] && candidate != node_[rank]) continue;
      for (std::size_t i = 0; i < waiting_[candidate].size(); ++i) {
        const float edge = costs_.edge(rank, waiting_[candidate][i]);
        if (edge > dearest) {
          dearest = edge;
          node = candidate;
          position = i;
        }
      }
    }
    if (node < 0) return -1;
    if (node != node_[rank]) position = cheapest_on(node, rank);
    active_[node] = true;
    const int target = waiting_[node][position];
    waiting_[node].erase(waiting_[node].begin() + static_cast<std::ptrdiff_t>(position));
    return target;
  }

  std::size_t cheapest_on(int node, int rank) const {
    std::size_t best = 0;
    for (std::size_t i = 1; i < waiting_[node].size(); ++i) {
      if (costs_.send(rank, waiting_[node][i]) < costs_.send(rank, waiting_[node][best])) best = i;
    }
    return best;
  }

  const CostTable& costs_;
  std::vector<int> node_;                  // dense NUMA node of each rank
  std::vector<std::vector<int>> waiting_;  // per node, ranks that no message is on its way to
  std::vector<bool> active_;               // per node
  Tree tree_;
};

}  // namespace

int cheapest_sender(const CostTable& costs) {
  int best = 0;
  double lowest = std::numeric_limits<double>::infinity();
  std::vector<float> sends;
  for (int rank = 0; rank < costs.size(); ++rank) {
    const float* row = costs.send_row(rank, sends);
    double sums[4] = {};  // independent, so that additions overlap
    for (int to = 0; to < costs.size(); ++to) sums[to % 4] += row[to];
    const double sum = sums[0] + sums[1] + sums[2] + sums[3];
    if (sum < lowest) {
      lowest = sum;
      best = rank;
    }
  }
  return best;
}

Tree adaptive_tree(const RankCosts& ranks, const CostTable& costs, int root) {
  return Adaptive(ranks, costs, root).run();
}

Tree optimize_adaptive(const CostTable& costs, Tree tree) {
  double time = order_sends(costs, tree);
  if (tree.size() < 3) return tree;
  for (;;) {
    const TreeTimes times = schedule(costs, tree);
    const int first = static_cast<int>(std::min_element(times.idle.begin(), times.idle.end()) - times.idle.begin());
    const int last =
        static_cast<int>(std::max_element(times.arrival.begin(), times.arrival.end()) - times.arrival.begin());
    if (first == last || costs.edge(first, last) >= times.arrival[last] - times.idle[first]) return tree;
    Tree shuffled = tree;
    std::erase(shuffled.children[shuffled.parents()[last]], last);
    shuffled.children[first].push_back(last);
    const double shuffled_time = order_sends(costs, shuffled);
    if (shuffled_time >= time) return tree;
    tree = std::move(shuffled);
    time = shuffled_time;
  }
}

const TreeRule rules::adaptive = {
    "adaptive", "the adaptive tree as published, sends in its own order", true,
    [](Problem& p, Direction, int, int root) { return adaptive_tree(p.ranks(), p.published_table(), root); }, true};

const TreeRule rules::adaptive_optimized = {
    "adaptive-optimized", "an adaptive tree per direction, after reorder and shuffle", true,
    [](Problem& p, Direction d, int, int root) {
      return optimize_adaptive(p.table(d), adaptive_tree(p.ranks(), p.table(d), root));
    }};

}  // namespace smelt::plan
