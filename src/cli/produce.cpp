#include "cli/produce.hpp"

#include "cli/command.hpp"
#include "cli/document.hpp"
#include "cli/interrupt.hpp"
#include "cli/machine/draw_machine.hpp"
#include "cli/terminal.hpp"

namespace smelt::cli {

void add_produce_options(Command& command, ProduceArguments& arguments) {
  command.text("-o,--output", arguments.output, "FILE", "machine file to write; default: JSON to a pipe");
  command.flag("--json", arguments.json, "print the machine as JSON");
}

void produce(const Machine& machine, const ProduceArguments& arguments) {
  if (arguments.output.empty() && !arguments.json && screen().terminal) {
    fail_usage("where to? Name a file with -o FILE, or ask for the text with --json");
  }
  if (!arguments.output.empty()) {
    const HoldSignals until_saved(arguments.output);
    take(save_machine(machine, arguments.output));
  }
  if (arguments.json || arguments.output.empty()) return print(format_machine(machine) + "\n");
  print(fmt::format("{}  {} PUs\n\n", styled(Style::title, one_line(machine.name)), machine.size()));
  print(draw_hardware(machine, false));
  if (machine.size() > 1) print("\nCost of a message, ns\n" + draw_cost_classes(machine));
  print(fmt::format("\nModel in {}\n", arguments.output));
}

}  // namespace smelt::cli
