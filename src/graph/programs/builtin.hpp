// The built-in programs: their text, and their compiled code.
#pragma once

#include <span>
#include <string_view>

#include "graph/code/generate.hpp"
#include "smelt/graph_program.hpp"

namespace smelt::graph {

using ProgramEntry = int (*)(const program::Host*, const program::Argument*, program::Failure*);

/// A procedure for graphs with numbers of 32 bits.
struct BuiltinProcedure {
  std::string_view name;
  ProgramEntry entry;
};

struct BuiltinProgram {
  std::string_view name;
  std::string_view text;
  bool needs_in_edges;
  bool needs_in_edge_numbers;
  std::span<const BuiltinProcedure> procedures;
};

// Made by the build, in two files.
extern const std::span<const BuiltinProgram> builtin_programs_1;
extern const std::span<const BuiltinProgram> builtin_programs_2;

/// The program with this text; null if there is none.
const BuiltinProgram* find_builtin_text(std::string_view text);

}  // namespace smelt::graph
