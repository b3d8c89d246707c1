// The exact planner for small groups: dynamic programming over subsets.
#pragma once

#include <functional>
#include <vector>

#include "plan/trees/costs.hpp"

namespace smelt::plan {

/// Shortest trees from every root. Memory: 24 n 2^n bytes; time: about n 3^(n-1) steps.
class ExactTrees {
 public:
  /// Largest group that is worth trying.
  static constexpr int max_ranks = 20;

  /// Steps that a group of n ranks takes, for choosing when it pays.
  static double steps(int ranks);

  explicit ExactTrees(const DirectedCosts& costs);

  /// False if `expired` said so before the end.
  bool solve(const std::function<bool()>& expired);

  double time(int root) const { return at(need_, root, (std::size_t{1} << n_) - 1); }
  Tree tree(int root) const;

 private:
  double at(const std::vector<double>& table, int rank, std::size_t set) const {
    return table[static_cast<std::size_t>(rank) * (std::size_t{1} << n_) + set];
  }
  double& at(std::vector<double>& table, int rank, std::size_t set) const {
    return table[static_cast<std::size_t>(rank) * (std::size_t{1} << n_) + set];
  }
  double time_of(int rank, std::size_t set) const;
  void summarize(int rank, std::size_t set);
  void build(int rank, std::size_t set, Tree& tree) const;

  int n_;
  std::vector<double> send_, latency_;
  std::vector<double> need_;                     // [rank][set containing it]
  std::vector<double> least_send_, least_path_;  // [rank][set not containing it]
};

}  // namespace smelt::plan
