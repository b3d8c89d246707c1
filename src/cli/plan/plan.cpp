// smelt plan: who sends to whom, in which order, and why.
#include <memory>

#include "cli/arguments.hpp"
#include "cli/command.hpp"
#include "cli/document.hpp"
#include "cli/parser.hpp"
#include "cli/plan/draw_plan.hpp"
#include "cli/terminal.hpp"

namespace smelt::cli {
namespace {

struct PlanFlags {
  PlanArguments plan;
  bool dot = false;
  bool steps = false;
};

std::string describe_quality(const Plan& plan) {
  if (plan.optimal) return styled(Style::good, "optimal: proved, no plan is faster");
  if (!plan.lower_bound_ns) return "no lower bound";
  return fmt::format("lower bound {}", format_time(*plan.lower_bound_ns));
}

constexpr std::size_t lines_of_a_screen = 40;

void print_picture(const Machine& machine, const Plan& plan, bool completion, bool all) {
  const Simulation simulation = take(simulate(machine, plan));
  print(fmt::format("{}  {} tree, {} rank{} on {}, root rank {}\n", styled(Style::title, to_string(plan.operation)),
                    styled(Style::strong, plan.topology), plan.group.size(), plan.group.size() == 1 ? "" : "s",
                    one_line(machine.name), plan.root));
  print(fmt::format("Predicted {}{}, {}\n\n", styled(Style::strong, format_time(plan.predicted_ns)),
                    completion ? " with the completion message" : "", describe_quality(plan)));
  const std::string picture = draw_plan(machine, plan, simulation);
  print(all || plan.group.size() <= most_ranks_shown ? picture : first_lines(picture, lines_of_a_screen));
  if (plan.broadcast_tree || plan.reduce_tree) {
    print(styled(Style::faint, "  ● decides the total    ░ sending  █ receiving") + "\n");
  }
  print("\n");
  if (!plan.reason.empty()) print(styled(Style::strong, "Why  ") + plan.reason + "\n");
  print(styled(Style::faint, fmt::format("Searched for {:.3g} ms.", plan.search_ms)) + "\n");
}

void run(const PlanFlags& arguments) {
  const auto& common = arguments.plan;
  const Operation operation = common.one_operation();
  check_topology_name("--topology", common.topology);
  if (arguments.dot && common.json) fail_usage("--dot: not together with --json");
  const Machine machine = load_model(common.model);
  const Group group = select_group(machine, common.ranks);
  const Plan plan = take(make_plan(machine, group, operation, common.options(group)));
  if (arguments.dot) return print(graphviz(machine, plan));
  if (!common.json) return print_picture(machine, plan, common.completion, common.all);
  Json document = plan_document(machine, plan, arguments.steps);
  document["completion"] = common.completion;
  print(format_json(document));
}

std::string list_trees() {
  std::string text = "Trees:\n";
  for (const auto& topology : topologies()) {
    text += fmt::format("  {:<24}{}\n", topology.name, topology.description);
  }
  return text;
}

}  // namespace

void add_plan(Parser& parser) {
  auto arguments = std::make_shared<PlanFlags>();
  Command command = parser.add("plan", "Plan one operation: which rank sends to which, in which order, and why");
  add_plan_options(command, arguments->plan, true);
  command.flag("--dot", arguments->dot, "print a graph for Graphviz (smelt plan --dot | dot -Tsvg)");
  command.flag("--steps", arguments->steps, "with --json: what every rank does, step by step");
  command.footer(list_trees() +
                 "\nExamples:\n"
                 "  smelt plan                                        the best broadcast tree of this machine\n"
                 "  smelt plan barrier -m big.json --ranks 0-31       for a machine from a file\n"
                 "  smelt plan --topology binary --root 0 --json      a textbook tree, for a program to read\n");
  command.action([arguments] { run(*arguments); });
}

}  // namespace smelt::cli
