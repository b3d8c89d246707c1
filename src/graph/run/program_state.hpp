// The state of checked and compiled programs.
#pragma once

#include <memory>
#include <string>

#include "graph/code/generate.hpp"
#include "graph/language/source.hpp"
#include "graph/language/tree.hpp"
#include "graph/programs/builtin.hpp"
#include "graph/run/compiler.hpp"
#include "smelt/green_marl.hpp"

namespace smelt::graph {

struct GreenMarl::State {
  State(std::string name, std::string text)
      : program(language::Source(std::move(name), std::move(text))), diagnostics(program.source) {}

  language::Program program;
  language::Diagnostics diagnostics;
};

/// As GreenMarl::arrays().
std::vector<ArrayUse> array_uses(const language::Program& program, const std::string& procedure_name);

struct CompiledProgram::State {
  std::shared_ptr<const GreenMarl::State> program;
  std::shared_ptr<Library> library;  ///< null: `builtin` has the procedures
  const BuiltinProgram* builtin = nullptr;
  language::Needs needs;
  int node_bytes = 4;
  int edge_bytes = 4;
  bool from_cache = false;
  double compile_seconds = 0;

  /// Null if there is no such procedure.
  ProgramEntry find(const language::Procedure& procedure) const;
};

}  // namespace smelt::graph
