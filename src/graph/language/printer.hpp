// Trees as text: the program in one spelling, with every conversion shown as a cast.
#pragma once

#include <string>

#include "graph/language/tree.hpp"

namespace smelt::graph::language {

std::string to_text(const Expression& expression);
/// One line, of a loop or block its head only.
std::string to_text(const Statement& statement);
/// The whole program, indented.
std::string to_text(const Program& program);

}  // namespace smelt::graph::language
