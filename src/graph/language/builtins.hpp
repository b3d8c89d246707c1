// The table of the language's built-in functions.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/language/tree.hpp"

namespace smelt::graph::language {

/// The receiver of a function. Functions of different receivers may have the same name.
enum class Receiver : std::uint8_t { none, graph, node, iterator, edge, set, sequence, collection, map, string };

/// The parameters of a function, relative to its receiver.
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

/// The type of the result.
enum class ResultKind : std::uint8_t {
  nothing,
  boolean,
  count,
  node,
  edge,
  item,
  whole,
  inner,
  key,
  value,
  real,
  argument
};

struct BuiltinFunction {
  std::string_view name;
  Builtin builtin;
  Receiver receiver;
  Parameter parameter;
  ResultKind given;
  bool changes = false;  ///< has a side effect on the receiver or on global state (random numbers)
};

std::span<const BuiltinFunction> builtin_functions() noexcept;

/// Which receivers a type stands for; an iterator over neighbours is a node, too.
std::vector<Receiver> receivers_of(const Type& type);

/// The function of that name, in any usual capitalization; null if there is none.
const BuiltinFunction* find_builtin(std::string_view name, const Type& receiver);
const BuiltinFunction* find_builtin_function(std::string_view name);
const BuiltinFunction& builtin_function(Builtin builtin, Receiver receiver);

/// The functions of a receiver of this type, for suggestions.
std::vector<std::string> builtin_names(const Type& receiver);

}  // namespace smelt::graph::language
