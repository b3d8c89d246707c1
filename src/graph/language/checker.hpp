// Names and types: what each name stands for, which type each expression has, conversions where types differ.
#pragma once

#include "graph/language/source.hpp"
#include "graph/language/tree.hpp"

namespace smelt::graph::language {

/// Completes the tree, and says what is wrong with it. A program without errors has a type at every expression and a
/// symbol at every name. Requires a tree without syntax errors in its procedures' bodies.
void check(Program& program, Diagnostics& diagnostics);

}  // namespace smelt::graph::language
