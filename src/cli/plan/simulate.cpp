// smelt simulate: runs a plan against a model and shows the timeline of every rank.
#include <memory>

#include "cli/arguments.hpp"
#include "cli/command.hpp"
#include "cli/document.hpp"
#include "cli/parser.hpp"
#include "cli/plan/draw_plan.hpp"
#include "cli/state/simulate_log.hpp"
#include "cli/terminal.hpp"

namespace smelt::cli {
namespace {

struct SimulateFlags {
  PlanArguments plan;
  std::string file;
  std::string replicas;
  bool has_planning = false;  // an option that describes the plan, which a plan file already contains
};

Plan obtain_plan(const SimulateFlags& arguments, const Machine& machine) {
  const auto& common = arguments.plan;
  if (!arguments.file.empty()) {
    return parse_plan_document(machine, read_file(arguments.file),
                               arguments.file == "-" ? "standard input" : arguments.file);
  }
  const Group group = select_group(machine, common.ranks);
  return take(make_plan(machine, group, common.one_operation(), common.options(group)));
}

void print_document(const Machine& machine, const Plan& plan, const Simulation& simulation) {
  print(format_json({{"operation", to_string(plan.operation)},
                     {"topology", plan.topology},
                     {"pus", os_indices(machine, plan.group)},
                     {"root", plan.root},
                     {"arrival_ns", simulation.arrival_ns},
                     {"total_ns", simulation.total_ns},
                     {"completion_ns", simulation.completion_ns},
                     {"machine", machine_identity(machine)},
                     {"timeline", timeline_document(simulation)}}));
}

void run(const SimulateFlags& arguments) {
  const auto& common = arguments.plan;
  if (!arguments.file.empty() && arguments.has_planning) {
    fail_usage("--plan: the file says what to run; leave out {}, --topology, --ranks, --root and --search-ms",
               common.operation.word.value_or("--op"));
  }
  if (arguments.file == "-" && common.model == "-") fail_usage("--plan -: standard input is the machine already");
  common.one_operation();  // an error of the call comes before those of the model
  check_topology_name("--topology", common.topology);
  const Machine machine = load_model(common.model);
  const Plan plan = obtain_plan(arguments, machine);
  const Simulation simulation = take(simulate(machine, plan));
  if (common.json) return print_document(machine, plan, simulation);
  print(fmt::format("{}  {} tree, {} ranks on {}, root rank {}\n", styled(Style::title, to_string(plan.operation)),
                    styled(Style::strong, plan.topology), plan.group.size(), one_line(machine.name), plan.root));
  print(fmt::format("Predicted {}", styled(Style::strong, format_time(simulation.total_ns))));
  if (common.completion) print(fmt::format(", {} with the completion message", format_time(simulation.completion_ns)));
  print("\n\n" + draw_timeline(machine, plan, simulation, screen().columns,
                               common.all || plan.group.size() <= most_ranks_shown));
}

}  // namespace

void add_simulate(Parser& parser) {
  auto arguments = std::make_shared<SimulateFlags>();
  Command command = parser.add("simulate", "Run a plan against a model and show its timeline");
  add_plan_options(command, arguments->plan, true, ",\nor log: agreement of replicas");
  command.text("--replicas", arguments->replicas, "LIST", "log: numbers of replicas (default 8 to all PUs but 4)");
  command.text("--plan", arguments->file, "FILE",
               "plan written by `smelt plan --json`, for any machine; - for standard input");
  command.footer(
      "Examples:\n"
      "  smelt simulate barrier                               the best barrier of this machine\n"
      "  smelt plan -m a.json --json > a.plan\n"
      "  smelt simulate -m b.json --plan a.plan               what a plan made for a costs on b\n"
      "  smelt simulate log -m b.json --replicas 8,28         agreement: a tree against one message after the other\n");
  command.action([arguments, command] {
    for (const char* option : {"--op", "--topology", "--ranks", "--root", "--search-ms"}) {
      arguments->has_planning |= command.given(option);
    }
    const auto& word = arguments->plan.operation.word;
    const bool log = word == "log";
    arguments->has_planning |= word && !log;
    if (!log && command.given("--replicas")) fail_usage("--replicas: only of log");
    if (log && (arguments->has_planning || command.given("--plan"))) {
      fail_usage("log: takes --model, --replicas and --json");
    }
    if (log) return simulate_log({arguments->plan.model, arguments->replicas, arguments->plan.json});
    run(*arguments);
  });
}

}  // namespace smelt::cli
