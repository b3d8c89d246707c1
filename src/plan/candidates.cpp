// From a topology's name to trees for both directions, and from those to a plan.
#include "plan/candidates.hpp"

#include <algorithm>
#include <charconv>

#include "base/error.hpp"
#include "plan/simulator/simulate.hpp"
#include "plan/trees/rule.hpp"

namespace smelt::plan {

namespace {

const TreeRule* const registered[] = {
#define TREE_RULE(name) &rules::name,
#include "plan/trees/registry.def"
#undef TREE_RULE
};

const TreeRule& rule_of(const std::string& name) {
  return **std::find_if(std::begin(registered), std::end(registered),
                        [&](const TreeRule* rule) { return rule->name == name; });
}

// The reduction of a two-phase commit starts at each rank when its part of the broadcast is over.
double two_phase_time(Problem& problem, Solution& solution, bool keep_order) {
  const DirectedCosts down = problem.exact(Direction::broadcast), up = problem.exact(Direction::reduce);
  const double broadcast =
      keep_order ? tree_time(down, *solution.broadcast_tree) : order_sends(down, *solution.broadcast_tree);
  if (keep_order || problem.ranks().has_gaps()) {  // the simulator says, see finish()
    if (!keep_order) order_sends(up, *solution.reduce_tree, schedule(down, *solution.broadcast_tree).idle);
    return 0.0;
  }
  return order_sends(up, *solution.reduce_tree, schedule(down, *solution.broadcast_tree).idle) + broadcast;
}

}  // namespace

std::vector<TopologyInfo> tree_topologies() {
  std::vector<TopologyInfo> list;
  for (const TreeRule* rule : registered) list.push_back({rule->name, rule->description, rule->uses_costs});
  return list;
}

Result<TopologyName> parse_topology(std::string_view text) {
  TopologyName parsed;
  const std::size_t colon = text.find(':');
  parsed.name = text.substr(0, colon);
  const bool known = std::any_of(topologies().begin(), topologies().end(),
                                 [&](const TopologyInfo& info) { return info.name == parsed.name; });
  if (!known) {
    std::string names;
    for (const TopologyInfo& info : topologies()) names += (names.empty() ? "" : ", ") + info.name;
    return make_error(Status::not_found, "unknown topology '{}': use one of {}", shown(text), names);
  }
  if (colon == std::string_view::npos) return parsed;
  const std::string_view digits = text.substr(colon + 1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), parsed.radix);
  if (parsed.name != "k-nomial" || error != std::errc() || end != digits.data() + digits.size() || parsed.radix < 2) {
    return make_error(Status::invalid_argument, "topology '{}': only k-nomial takes a radix, a whole number from 2 up",
                      shown(text));
  }
  return parsed;
}

bool has_dissemination(Operation operation) noexcept {
  return operation == Operation::barrier || operation == Operation::allreduce;
}

std::vector<std::string> rule_names(Operation operation) {
  std::vector<std::string> names;
  for (const TopologyInfo& info : topologies()) {
    if (info.name == "best" || info.name == "optimal") continue;
    if (info.name == "dissemination" && !has_dissemination(operation)) continue;
    names.push_back(info.name);
  }
  return names;
}

/// What a search compares: the same without what the call costs besides, which is the same for every plan.
Result<Plan> plan_messages(Problem& problem, const Group& group, Solution solution, bool completion) {
  Plan plan;
  plan.operation = problem.operation();
  plan.topology = std::move(solution.topology);
  plan.group = group;
  const bool has_trees = solution.broadcast_tree || solution.reduce_tree;
  plan.root = solution.broadcast_tree ? solution.broadcast_tree->root : has_trees ? solution.reduce_tree->root : 0;
  plan.reduce_tree = std::move(solution.reduce_tree);
  plan.broadcast_tree = std::move(solution.broadcast_tree);
  plan.steps = has_trees ? tree_steps(plan.operation, problem.size(), plan.reduce_tree ? &*plan.reduce_tree : nullptr,
                                      plan.broadcast_tree ? &*plan.broadcast_tree : nullptr)
                         : dissemination_steps(plan.operation, problem.size());
  auto simulation = simulate_steps(problem.ranks(), {plan.operation, &plan.steps, completion_tree(plan), false});
  if (!simulation) return simulation.error();
  plan.arrival_ns = std::move(simulation->arrival_ns);
  plan.predicted_ns = completion ? simulation->completion_ns : simulation->total_ns;
  return plan;
}

void finish(Problem& problem, Solution& solution, bool completion, bool keep_order) {
  const bool has_trees = solution.broadcast_tree || solution.reduce_tree;
  const bool exchanged = problem.operation() == Operation::two_phase_commit && !solution.reduce_tree;
  if (exchanged) {
    if (!keep_order) order_sends(problem.exact(Direction::broadcast), *solution.broadcast_tree);
  } else if (has_trees && problem.operation() == Operation::two_phase_commit) {
    solution.time_ns = two_phase_time(problem, solution, keep_order);
  } else if (has_trees) {
    solution.time_ns = 0.0;
    const auto add = [&](Direction direction, std::optional<Tree>& tree) {
      if (!tree) return;
      const DirectedCosts costs = problem.exact(direction);
      solution.time_ns += keep_order ? tree_time(costs, *tree) : order_sends(costs, *tree);
    };
    add(Direction::reduce, solution.reduce_tree);
    add(Direction::broadcast, solution.broadcast_tree);
  }
  const bool unknown =
      !has_trees || exchanged || completion ||
      ((keep_order || problem.ranks().has_gaps()) && problem.operation() == Operation::two_phase_commit);
  if (!unknown) return;
  const auto plan = plan_messages(problem, problem.ranks().group(), solution, completion);
  if (plan) solution.time_ns = plan->predicted_ns;
}

Solution build_by_rule(Problem& problem, const TopologyName& topology, std::optional<int> root, bool completion) {
  Solution solution;
  solution.topology = topology.name;
  if (topology.name == "k-nomial" && topology.radix != 2) solution.topology += fmt::format(":{}", topology.radix);
  if (topology.name != "dissemination") {
    const Operation operation = problem.operation();
    const TreeRule& rule = rule_of(topology.name);
    if (!root && rule.uses_costs) root = rule.published ? problem.published_root() : problem.cheapest_root();
    const int start = root.value_or(0);
    if (reduces(operation)) solution.reduce_tree = rule.build(problem, Direction::reduce, topology.radix, start);
    if (broadcasts(operation))
      solution.broadcast_tree = rule.build(problem, Direction::broadcast, topology.radix, start);
  }
  finish(problem, solution, completion, topology.name == "adaptive");
  return solution;
}

Result<Plan> make_plan_of(Problem& problem, const Group& group, Solution solution, bool completion) {
  auto plan = plan_messages(problem, group, std::move(solution), completion);
  if (!plan) return plan;
  const double call_ns = problem.ranks().call(plan->operation);
  add_call(call_ns, plan->arrival_ns);
  plan->predicted_ns += call_ns;
  return plan;
}

}  // namespace smelt::plan
