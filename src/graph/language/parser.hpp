// From text to a tree: recursive descent, one function per construct.
#pragma once

#include <memory>

#include "graph/language/source.hpp"
#include "graph/language/tree.hpp"

namespace smelt::graph::language {

/// Parses `source`, which must be the program's own, into the program. Reports errors in `diagnostics`. After an error,
/// parsing continues with the next statement.
void parse(Program& program, Diagnostics& diagnostics);

}  // namespace smelt::graph::language
