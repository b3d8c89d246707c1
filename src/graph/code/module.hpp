// Modules: generated procedures wrapped in functions with C linkage, which a host finds by name.
#pragma once

#include <string>

#include "graph/code/generate.hpp"
#include "graph/language/tree.hpp"

namespace smelt::graph::language {

/// A complete C++ file: the procedures, and for each one that is not local a function
///   int smelt_call_NAME(const Host*, const Argument*, Failure*)
/// for numbers of this many bytes. `header`: how it gets graph_program.hpp.
std::string module_text(const Program& program, const GeneratedCode& code, int node_bytes, int edge_bytes,
                        const std::string& header);

std::string entry_name(const Procedure& procedure);

/// The body of such a function, starting with '{'.
std::string entry_body(const Procedure& procedure, int node_bytes, int edge_bytes);

}  // namespace smelt::graph::language
