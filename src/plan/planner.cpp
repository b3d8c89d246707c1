// The public face of the room: checks arguments, dispatches by name, explains the choice.
#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.hpp"
#include "plan/best.hpp"
#include "plan/simulator/simulate.hpp"
#include "plan/trees/tree.hpp"

namespace smelt {

namespace {

constexpr int compared_exactly = 12;  // ranks up to which a comparison includes `optimal`

constexpr std::array<const char*, operation_count> operation_names = {
    "broadcast", "reduce",         "barrier", "allreduce", "two-phase-commit", "scatter", "gather", "allgather",
    "alltoall",  "reduce-scatter", "scan",    "exscan"};

Result<void> check(const Machine& machine, const Group& group) {
  const std::size_t n = machine.size();
  const auto fits = [n](const std::optional<Matrix>& matrix) { return !matrix || matrix->size() == n; };
  if (!machine.has_costs() || machine.recv_ns.size() != n || !fits(machine.propagation_ns) ||
      !fits(machine.exchange_ns) || !fits(machine.send_gap_ns) || !fits(machine.recv_gap_ns)) {
    return make_error(Status::invalid_argument, "machine '{}' has no costs for its {} PUs: measure or import it first",
                      machine.name, n);
  }
  if (group.size() == 0) return make_error(Status::invalid_argument, "group is empty: name at least one PU");
  for (const int pu : group.pus) {
    if (pu < 0 || static_cast<std::size_t>(pu) >= n) {
      return make_error(Status::invalid_argument, "group names PU {}: machine '{}' has {}", pu, machine.name, n);
    }
  }
  return {};
}

Result<void> check(const Group& group, const PlanOptions& options) {
  if (options.root && (*options.root < 0 || *options.root >= group.size())) {
    return make_error(Status::invalid_argument, "root is {}: the group has ranks 0 to {}", *options.root,
                      group.size() - 1);
  }
  if (!std::isfinite(options.search_ms) || options.search_ms < 0.0) {
    return make_error(Status::invalid_argument, "search_ms is {}: must be 0 or more", options.search_ms);
  }
  return {};
}

std::string reason_of(const plan::SearchResult& found, const std::string& topology, double call_ns) {
  if (found.solution.time_ns <= 0.0) return "one rank: nothing to communicate";
  const double own = found.solution.time_ns + call_ns, bound_ns = found.lower_bound_ns + call_ns;
  const double runner_up_ns = found.runner_up_ns + call_ns;
  std::string bound = found.optimal ? "; proved optimal"
                      : found.lower_bound_ns > 0.0 && own > bound_ns
                          ? fmt::format("; at most {:.0f} % above the lower bound of {:.0f} ns",
                                        (own / bound_ns - 1.0) * 100.0, bound_ns)
                          : "";
  if (found.runner_up.empty() || found.solution.topology == found.runner_up) {
    return fmt::format("{} is as fast as anything found ({:.0f} ns){}", found.runner_up, own, bound);
  }
  return fmt::format("{} takes {:.0f} ns, {:.1f} % less than {} ({:.0f} ns), the best of the trees built by a rule{}",
                     topology, own, (1.0 - own / runner_up_ns) * 100.0, found.runner_up, runner_up_ns, bound);
}

// `best` keeps its name whatever tree it settles on; only dissemination has no tree and says so.
Result<Plan> searched_plan(plan::Problem& problem, const Group& group, const PlanOptions& options, bool exact) {
  plan::SearchResult found = plan::search(problem, options, exact);
  const bool has_tree = found.solution.broadcast_tree || found.solution.reduce_tree;
  const std::string topology = !has_tree ? "dissemination" : exact ? "optimal" : "best";
  const double call_ns = problem.ranks().call(problem.operation());
  const std::string reason = reason_of(found, topology, call_ns);
  found.solution.topology = topology;
  auto plan = plan::make_plan_of(problem, group, std::move(found.solution), options.completion);
  if (!plan) return plan;
  plan->lower_bound_ns = std::min(found.lower_bound_ns + call_ns, plan->predicted_ns);
  plan->optimal = found.optimal;
  plan->search_ms = found.search_ms;
  plan->reason = reason;
  return plan;
}

}  // namespace

const char* to_string(Operation operation) noexcept { return operation_names[static_cast<std::size_t>(operation)]; }

Result<Operation> parse_operation(std::string_view name) {
  for (std::size_t i = 0; i < operation_names.size(); ++i) {
    if (name == operation_names[i]) return static_cast<Operation>(i);
  }
  return make_error(
      Status::invalid_argument,
      "unknown operation '{}': use broadcast, reduce, barrier, allreduce, two-phase-commit, scatter, gather, "
      "allgather, alltoall, reduce-scatter, scan or exscan",
      shown(name));
}

const std::vector<TopologyInfo>& topologies() {
  static const std::vector<TopologyInfo> all = [] {
    auto list = plan::tree_topologies();
    list.push_back({"dissemination",
                    "barrier in ceil(log2 n) rounds of pairwise signals; allreduce by recursive doubling", false});
    list.push_back({"best", "our planner: construction, then search within the budget", true});
    list.push_back({"optimal", "exact, with proof, for small groups", true});
    return list;
  }();
  return all;
}

Result<Plan> make_plan(const Machine& machine, const Group& group, Operation operation, const PlanOptions& options) {
  if (!has_tree_plan(operation)) {
    return make_error(Status::invalid_argument,
                      "{} is not planned as a tree: use broadcast, reduce, barrier, allreduce or two-phase-commit here",
                      to_string(operation));
  }
  if (auto ok = check(machine, group); !ok) return ok.error();
  if (auto ok = check(group, options); !ok) return ok.error();
  auto topology = plan::parse_topology(options.topology);
  if (!topology) return topology.error();
  if (topology->name == "dissemination" && !plan::has_dissemination(operation)) {
    return make_error(Status::invalid_argument, "dissemination does barrier and allreduce, not {}",
                      to_string(operation));
  }
  plan::Problem problem(machine, group, operation);
  const bool exact = topology->name == "optimal";
  if (exact || topology->name == "best") return searched_plan(problem, group, options, exact);
  plan::Solution solution = plan::build_by_rule(problem, *topology, options.root, options.completion);
  return plan::make_plan_of(problem, group, std::move(solution), options.completion);
}

Result<Plan> plan_from_tree(const Machine& machine, const Group& group, Operation operation, const Tree& tree) {
  if (auto ok = check(machine, group); !ok) return ok.error();
  if (tree.size() != group.size() || !plan::is_spanning(tree)) {
    return make_error(Status::invalid_argument, "tree does not span the {} ranks of the group", group.size());
  }
  plan::Problem problem(machine, group, operation);
  plan::Solution solution;
  solution.topology = "custom";
  if (plan::reduces(operation)) solution.reduce_tree = tree;
  if (plan::broadcasts(operation)) solution.broadcast_tree = tree;
  return plan::make_plan_of(problem, group, std::move(solution), false);
}

Result<Simulation> simulate(const Machine& machine, const Plan& plan) {
  if (auto ok = check(machine, plan.group); !ok) return ok.error();
  for (const auto* tree : {&plan.reduce_tree, &plan.broadcast_tree}) {
    if (*tree && ((*tree)->size() != plan.group.size() || !plan::is_spanning(**tree))) {
      return make_error(Status::invalid_argument, "plan's tree does not span the {} ranks of its group",
                        plan.group.size());
    }
  }
  const plan::RankCosts ranks(machine, plan.group);
  auto simulation = plan::simulate_steps(ranks, {plan.operation, &plan.steps, plan::completion_tree(plan), true});
  if (!simulation) return simulation;
  const double call_ns = ranks.call(plan.operation);
  plan::add_call(call_ns, simulation->arrival_ns);
  simulation->total_ns += call_ns;
  simulation->completion_ns += call_ns;
  for (auto& event : simulation->timeline) {
    event.start_ns += call_ns;
    event.end_ns += call_ns;
  }
  return simulation;
}

Result<std::vector<Comparison>> compare_topologies(const Machine& machine, const Group& group, Operation operation,
                                                   const PlanOptions& options) {
  std::vector<Comparison> all;
  for (const TopologyInfo& info : topologies()) {
    if (info.name == "dissemination" && !plan::has_dissemination(operation)) continue;
    if (info.name == "optimal" && group.size() > compared_exactly) continue;
    PlanOptions one = options;
    one.topology = info.name;
    auto plan = make_plan(machine, group, operation, one);
    if (!plan) return plan.error();
    if (info.name == "optimal" && !plan->optimal) continue;
    all.push_back({info.name, plan->predicted_ns});
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Comparison& a, const Comparison& b) { return a.predicted_ns < b.predicted_ns; });
  return all;
}

}  // namespace smelt
