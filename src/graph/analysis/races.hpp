// Binding: the loop at whose end a reduction or deferred assignment takes effect. Races: places that two instances of a
// parallel loop access.
#pragma once

#include "graph/language/source.hpp"
#include "graph/language/tree.hpp"

namespace smelt::graph::language {

/// Sets `bound_loop` of all assignments. Reports errors and warnings by the table in docs/reference/graph-language.md.
/// Requires a program in which the checker found no errors.
void check_races(Program& program, Diagnostics& diagnostics);

}  // namespace smelt::graph::language
