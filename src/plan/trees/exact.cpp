// Optimal trees by dynamic programming over subsets.
//
// need(v, X) is the least time in which rank v, holding the message, informs the set X that it
// belongs to. Its first send goes to some c, which takes a part Y of X with it; after that v is
// again a rank that holds the message and has X \ Y to inform:
//
//   need(v, X) = min over Y in X \ {v}, c in Y of  send(v,c) + max( latency(v,c) + need(c, Y),
//                                                                   need(v, X \ Y) )
//   need(v, {v}) = 0
//
// Every tree with every send order is such a sequence of choices, so the minimum is the optimum:
// all roots, trees and orders in n 3^(n-1) steps where enumeration needs n (2n-2)! / (n-1)!.
// A part Y is skipped without looking at its ranks where even the cheapest send and the shortest
// path into it, taken from different ranks, cannot beat what was found: the bound of the search.
//
// Source: the problem, [Smelt16] 3.4; the recurrence is ours.
#include "plan/trees/exact.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace smelt::plan {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr std::size_t sets_between_checks = 64;

std::size_t bit(int rank) { return std::size_t{1} << rank; }

}  // namespace

double ExactTrees::steps(int ranks) { return ranks * std::pow(3.0, ranks - 1); }

ExactTrees::ExactTrees(const DirectedCosts& costs)
    : n_(costs.size()), send_(static_cast<std::size_t>(n_) * n_), latency_(send_) {
  for (int p = 0; p < n_; ++p) {
    for (int c = 0; c < n_; ++c) {
      if (p == c) continue;
      send_[p * n_ + c] = costs.send(p, c);
      latency_[p * n_ + c] = costs.latency(p, c);
    }
  }
}

bool ExactTrees::solve(const std::function<bool()>& expired) {
  const std::size_t cells = static_cast<std::size_t>(n_) << n_;
  need_.assign(cells, infinity);
  least_send_.assign(cells, infinity);
  least_path_.assign(cells, infinity);
  for (std::size_t set = 1; set < bit(n_); ++set) {
    if (set % sets_between_checks == 0 && expired()) return false;
    for (int rank = 0; rank < n_; ++rank) {
      if (set & bit(rank)) at(need_, rank, set) = set == bit(rank) ? 0.0 : time_of(rank, set);
    }
    for (int rank = 0; rank < n_; ++rank) {
      if (!(set & bit(rank))) summarize(rank, set);
    }
  }
  return true;
}

void ExactTrees::summarize(int rank, std::size_t set) {
  double send = infinity, path = infinity;
  for (std::size_t left = set; left; left &= left - 1) {
    const int child = std::countr_zero(left);
    send = std::min(send, send_[rank * n_ + child]);
    path = std::min(path, latency_[rank * n_ + child] + at(need_, child, set));
  }
  at(least_send_, rank, set) = send;
  at(least_path_, rank, set) = path;
}

double ExactTrees::time_of(int rank, std::size_t set) const {
  const std::size_t others = set ^ bit(rank);
  const double* rest = &need_[static_cast<std::size_t>(rank) << n_];
  const double* least_send = &least_send_[static_cast<std::size_t>(rank) << n_];
  const double* least_path = &least_path_[static_cast<std::size_t>(rank) << n_];
  double best = infinity;
  for (std::size_t part = others; part; part = (part - 1) & others) {
    const double after = rest[set ^ part];
    if (least_send[part] + std::max(least_path[part], after) >= best) continue;
    for (std::size_t left = part; left; left &= left - 1) {
      const int child = std::countr_zero(left);
      const double path = latency_[rank * n_ + child] + at(need_, child, part);
      best = std::min(best, send_[rank * n_ + child] + std::max(path, after));
    }
  }
  return best;
}

Tree ExactTrees::tree(int root) const {
  Tree tree;
  tree.root = root;
  tree.children.resize(static_cast<std::size_t>(n_));
  build(root, bit(n_) - 1, tree);
  return tree;
}

// Finds the choice that gave need(rank, set) again, follows it into both halves.
void ExactTrees::build(int rank, std::size_t set, Tree& tree) const {
  while (set != bit(rank)) {
    const std::size_t others = set ^ bit(rank);
    double best = infinity;
    int best_child = -1;
    std::size_t best_part = 0;
    for (std::size_t part = others; part; part = (part - 1) & others) {
      const double after = at(need_, rank, set ^ part);
      for (std::size_t left = part; left; left &= left - 1) {
        const int child = std::countr_zero(left);
        const double path = latency_[rank * n_ + child] + at(need_, child, part);
        const double time = send_[rank * n_ + child] + std::max(path, after);
        if (time >= best) continue;
        best = time;
        best_child = child;
        best_part = part;
      }
    }
    tree.children[rank].push_back(best_child);
    build(best_child, best_part, tree);
    set ^= best_part;
  }
}

}  // namespace smelt::plan
