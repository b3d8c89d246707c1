// What import and synth do with the machine they made.
#pragma once

#include <string>

#include "cli/parser.hpp"
#include "smelt/machine.hpp"

namespace smelt::cli {

struct ProduceArguments {
  std::string output;
  bool json = false;
};

void add_produce_options(Command& command, ProduceArguments& arguments);

/// To the file, or to stdout as JSON under --json or where stdout is no terminal. Failure with
/// exit code 2 where it is not clear where to.
void produce(const Machine& machine, const ProduceArguments& arguments);

}  // namespace smelt::cli
