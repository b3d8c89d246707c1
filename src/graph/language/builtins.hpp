// The functions that the language brings along: one table.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/language/tree.hpp"

namespace smelt::graph::language {

/// What a function is called on; several may share a name.
enum class Receiver : std::uint8_t { none, graph, node, iterator, edge, set, sequence, collection, map, string };

/// What a function takes, in terms of its receiver.
enum class Parameter : std::uint8_t {
  none,
  item,           ///< a node or edge, as the receiver is or has
  item_or_whole,  ///< or a collection of the same items
  whole,          ///< a set of the same items
  whole_or_none,
  inner,  ///< a collection's collection
  key,
  string,
  number,
  two_numbers,
  whole_number,
};

/// What it gives.
enum class Given : std::uint8_t { nothing, boolean, count, node, edge, item, whole, inner, key, value, real, argument };

struct BuiltinFunction {
  std::string_view name;
  Builtin builtin;
  Receiver receiver;
  Parameter parameter;
  Given given;
  bool changes = false;  ///< the receiver, or what is outside (random numbers)
};

std::span<const BuiltinFunction> builtin_functions() noexcept;

/// Which receivers a type stands for; an iterator over neighbours is a node, too.
std::vector<Receiver> receivers_of(const Type& type);

/// The function of that name, in any usual capitalization; null if there is none.
const BuiltinFunction* find_builtin(std::string_view name, const Type& receiver);
const BuiltinFunction* find_builtin_function(std::string_view name);
const BuiltinFunction& builtin_function(Builtin builtin, Receiver receiver);

/// Names that a receiver of this type has, for suggestions.
std::vector<std::string> builtin_names(const Type& receiver);

}  // namespace smelt::graph::language
