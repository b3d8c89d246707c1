// From text to a tree: recursive descent, one function per construct.
#pragma once

#include <memory>

#include "graph/language/source.hpp"
#include "graph/language/tree.hpp"

namespace smelt::graph::language {

/// What could be read of `source`, which must be the program's own; says in `diagnostics` what could not. After an
/// error it goes on with the next sentence.
void parse(Program& program, Diagnostics& diagnostics);

}  // namespace smelt::graph::language
