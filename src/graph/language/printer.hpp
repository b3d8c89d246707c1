// Prints trees: the program in a canonical spelling, with every conversion as a cast.
#pragma once

#include <string>

#include "graph/language/tree.hpp"

namespace smelt::graph::language {

std::string to_text(const Expression& expression);
/// One line; for a loop or block, only its head.
std::string to_text(const Statement& statement);
/// The whole program, indented.
std::string to_text(const Program& program);

}  // namespace smelt::graph::language
