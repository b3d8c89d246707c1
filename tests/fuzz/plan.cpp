// Plans as `smelt plan --json` prints them and people edit them.
#include "cli/command.hpp"
#include "cli/document.hpp"
#include "fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace smelt;
  using fuzz::require;
  static const Machine machine = *synthesize_machine({.packages = 2, .cores = 4});
  try {
    const auto plan = cli::parse_plan_document(machine, std::string(fuzz::text_of(data, size)), "fuzz");
    const auto again =
        cli::parse_plan_document(machine, cli::format_json(cli::plan_document(machine, plan, true)), "again");
    require(again.operation == plan.operation && again.root == plan.root, "another operation or root");
    require(again.group.pus == plan.group.pus, "another group");
    require(again.steps == plan.steps, "other steps");
  } catch (const cli::Failure& failure) {
    fuzz::check_message(failure.message);
  }
  return 0;
}
