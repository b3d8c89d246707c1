// Binding and races: at the end of which loop a reduction or deferred assignment happens, and where two instances of a
// parallel loop meet.
#pragma once

#include "graph/language/source.hpp"
#include "graph/language/tree.hpp"

namespace smelt::graph::language {

/// Completes `bound_loop` of all assignments; errors and warnings by the table of docs/reference/graph-language.md.
/// Requires a program that the checker found no errors in.
void check_races(Program& program, Diagnostics& diagnostics);

}  // namespace smelt::graph::language
