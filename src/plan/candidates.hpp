// Every topology that is built by a rule, by name.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/schedule/steps.hpp"
#include "plan/trees/problem.hpp"

namespace smelt::plan {

/// A topology's name taken apart: "k-nomial:3".
struct TopologyName {
  std::string name;
  int radix = 2;
};

/// Errors: unknown name, radix where there is none or below 2.
Result<TopologyName> parse_topology(std::string_view text);

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
