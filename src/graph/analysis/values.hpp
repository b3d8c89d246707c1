// Values: the variables and properties of all procedures that may hold INF or NIL. Code for all others needs no tests.
#pragma once

#include "graph/language/tree.hpp"

namespace smelt::graph::language {

/// Sets `may_be_infinite` and `may_be_nil` of all symbols. Only integers are considered, since INF is an ordinary value
/// of Float and Double.
void find_values(Program& program);

/// Whether the expression may be an integer INF.
bool may_be_infinite(const Expression& expression);

/// Whether the expression, which is a node or edge, may be NIL.
bool may_be_nil(const Expression& expression);

/// Whether the block that declares a property assigns all of its values before it uses any.
bool is_assigned_first(const Symbol& property);

}  // namespace smelt::graph::language
