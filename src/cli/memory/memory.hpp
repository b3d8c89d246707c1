// Memory in the output of explain and show.
#pragma once

#include <string>

#include "smelt/machine.hpp"

namespace smelt::cli {

/// `smelt explain memory`.
struct ExplainMemory {
  std::string file;   ///< arrays and hints, JSON; "-": standard input
  std::string model;  ///< empty: this machine
  bool json = false;
};
void explain_memory(const ExplainMemory& arguments);

/// Latency and bandwidth by node, page sizes, copies. Empty if memory was not measured.
std::string draw_memory(const Machine& machine);

}  // namespace smelt::cli
