// Output of the machines that import and synth make.
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

/// Writes to the file, or to stdout as JSON with --json or if stdout is no terminal. Otherwise a Failure with exit code
/// 2.
void produce(const Machine& machine, const ProduceArguments& arguments);

}  // namespace smelt::cli
