// Every topology that is built by a rule, by name.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/schedule/steps.hpp"
#include "plan/trees/costs.hpp"

namespace smelt::plan {

/// A topology's name taken apart: "k-nomial:3".
struct TopologyName {
  std::string name;
  int radix = 2;
};

/// Errors: unknown name, radix where there is none or below 2.
Result<TopologyName> parse_topology(std::string_view text);

/// What one planning works on. The tables are made when first used.
class Problem {
 public:
  Problem(const Machine& machine, const Group& group, Operation operation)
      : ranks_(machine, group), published_(machine, group, CostTerms::published), operation_(operation) {}
  Problem(const Problem&) = delete;
  Problem& operator=(const Problem&) = delete;

  int size() const noexcept { return ranks_.size(); }
  Operation operation() const noexcept { return operation_; }
  const RankCosts& ranks() const noexcept { return ranks_; }
  DirectedCosts exact(Direction direction) const { return {ranks_, direction}; }
  const CostTable& table(Direction direction);
  /// Of a broadcast, by send_ns and recv_ns alone: what published rules build trees from.
  const CostTable& published_table();
  /// The root of a topology that chooses one by cost: the cheapest sender of the broadcast, or of the
  /// reduction where there is no broadcast; for trees of published rules, by what these see.
  int cheapest_root();
  int published_root();

 private:
  RankCosts ranks_, published_;
  Operation operation_;
  std::optional<CostTable> tables_[2], published_table_;
  std::optional<int> cheapest_root_, published_root_;
};

/// The trees of an operation and what they take.
struct Solution {
  std::string topology;
  /// Neither: dissemination. A two-phase commit without a reduce_tree: votes by recursive doubling.
  std::optional<Tree> reduce_tree, broadcast_tree;
  double time_ns = 0.0;
  int root() const { return broadcast_tree ? broadcast_tree->root : reduce_tree ? reduce_tree->root : 0; }
};

/// Sends into best order (unless `keep_order`) and time_ns from the model.
void finish(Problem& problem, Solution& solution, bool completion, bool keep_order = false);

/// The solution of a topology that is built by a rule. Root: as given, or the topology's own choice.
Solution build_by_rule(Problem& problem, const TopologyName& topology, std::optional<int> root, bool completion);

/// The topologies that are trees built by a rule.
std::vector<TopologyInfo> tree_topologies();

bool has_dissemination(Operation operation) noexcept;

/// The names that build_by_rule takes for an operation.
std::vector<std::string> rule_names(Operation operation);

/// Steps and the model's answer for a solution.
Result<Plan> make_plan_of(Problem& problem, const Group& group, Solution solution, bool completion);

}  // namespace smelt::plan
