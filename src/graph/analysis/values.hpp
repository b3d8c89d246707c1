// Values: which variables and properties may hold INF or NIL, over all procedures. Code that cannot meet them needs no
// test.
#pragma once

#include "graph/language/tree.hpp"

namespace smelt::graph::language {

/// Completes `may_be_infinite` and `may_be_nil` of all symbols. Whole numbers only: INF of a Float or Double needs no
/// care.
void find_values(Program& program);

/// Whether the expression may give INF as a whole number.
bool may_be_infinite(const Expression& expression);

/// Whether the expression, of a node or edge, may give NIL.
bool may_be_nil(const Expression& expression);

}  // namespace smelt::graph::language
