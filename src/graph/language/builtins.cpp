#include "graph/language/builtins.hpp"

#include <algorithm>
#include <array>

#include "graph/language/lexer.hpp"

namespace smelt::graph::language {
namespace {

constexpr bool changes = true;

using enum Receiver;
constexpr std::array functions = {
    BuiltinFunction{"NumNodes", Builtin::num_nodes, graph, Parameter::none, Given::count},
    BuiltinFunction{"NumEdges", Builtin::num_edges, graph, Parameter::none, Given::count},
    BuiltinFunction{"PickRandom", Builtin::pick_random, graph, Parameter::none, Given::node},
    BuiltinFunction{"PickRandomNode", Builtin::pick_random, graph, Parameter::none, Given::node},

    BuiltinFunction{"Degree", Builtin::degree, node, Parameter::none, Given::count},
    BuiltinFunction{"OutDegree", Builtin::degree, node, Parameter::none, Given::count},
    BuiltinFunction{"NumNbrs", Builtin::degree, node, Parameter::none, Given::count},
    BuiltinFunction{"NumOutNbrs", Builtin::degree, node, Parameter::none, Given::count},
    BuiltinFunction{"InDegree", Builtin::in_degree, node, Parameter::none, Given::count},
    BuiltinFunction{"NumInNbrs", Builtin::in_degree, node, Parameter::none, Given::count},
    BuiltinFunction{"HasEdgeTo", Builtin::has_edge_to, node, Parameter::item, Given::boolean},
    BuiltinFunction{"HasEdgeFrom", Builtin::has_edge_from, node, Parameter::item, Given::boolean},
    BuiltinFunction{"IsNbrFrom", Builtin::is_neighbour_from, node, Parameter::item, Given::boolean},
    BuiltinFunction{"PickRandomNbr", Builtin::pick_random_neighbour, node, Parameter::none, Given::node},
    BuiltinFunction{"ToEdge", Builtin::to_edge, iterator, Parameter::none, Given::edge},
    BuiltinFunction{"FromNode", Builtin::from_node, edge, Parameter::none, Given::node},
    BuiltinFunction{"ToNode", Builtin::to_node, edge, Parameter::none, Given::node},

    BuiltinFunction{"Has", Builtin::has, set, Parameter::item, Given::boolean},
    BuiltinFunction{"Size", Builtin::size, set, Parameter::none, Given::count},
    BuiltinFunction{"Add", Builtin::add, set, Parameter::item_or_whole, Given::nothing, changes},
    BuiltinFunction{"Remove", Builtin::remove, set, Parameter::item_or_whole, Given::nothing, changes},
    BuiltinFunction{"Clear", Builtin::clear, set, Parameter::none, Given::nothing, changes},
    BuiltinFunction{"Union", Builtin::unite, set, Parameter::whole, Given::whole},
    BuiltinFunction{"Intersect", Builtin::intersect, set, Parameter::whole, Given::whole},
    BuiltinFunction{"Complement", Builtin::complement, set, Parameter::whole_or_none, Given::whole},
    BuiltinFunction{"IsSubsetOf", Builtin::is_subset_of, set, Parameter::whole, Given::boolean},

    BuiltinFunction{"Has", Builtin::has, sequence, Parameter::item, Given::boolean},
    BuiltinFunction{"Size", Builtin::size, sequence, Parameter::none, Given::count},
    BuiltinFunction{"Clear", Builtin::clear, sequence, Parameter::none, Given::nothing, changes},
    BuiltinFunction{"Front", Builtin::front, sequence, Parameter::none, Given::item},
    BuiltinFunction{"Back", Builtin::back, sequence, Parameter::none, Given::item},
    BuiltinFunction{"Push", Builtin::push_back, sequence, Parameter::item_or_whole, Given::nothing, changes},
    BuiltinFunction{"PushBack", Builtin::push_back, sequence, Parameter::item_or_whole, Given::nothing, changes},
    BuiltinFunction{"PushFront", Builtin::push_front, sequence, Parameter::item_or_whole, Given::nothing, changes},
    BuiltinFunction{"Pop", Builtin::pop_front, sequence, Parameter::none, Given::item, changes},
    BuiltinFunction{"PopFront", Builtin::pop_front, sequence, Parameter::none, Given::item, changes},
    BuiltinFunction{"PopBack", Builtin::pop_back, sequence, Parameter::none, Given::item, changes},

    BuiltinFunction{"Size", Builtin::size, collection, Parameter::none, Given::count},
    BuiltinFunction{"Clear", Builtin::clear, collection, Parameter::none, Given::nothing, changes},
    BuiltinFunction{"Front", Builtin::front, collection, Parameter::none, Given::inner},
    BuiltinFunction{"Back", Builtin::back, collection, Parameter::none, Given::inner},
    BuiltinFunction{"Push", Builtin::push_back, collection, Parameter::inner, Given::nothing, changes},
    BuiltinFunction{"PushBack", Builtin::push_back, collection, Parameter::inner, Given::nothing, changes},
    BuiltinFunction{"PushFront", Builtin::push_front, collection, Parameter::inner, Given::nothing, changes},
    BuiltinFunction{"Pop", Builtin::pop_front, collection, Parameter::none, Given::inner, changes},
    BuiltinFunction{"PopFront", Builtin::pop_front, collection, Parameter::none, Given::inner, changes},
    BuiltinFunction{"PopBack", Builtin::pop_back, collection, Parameter::none, Given::inner, changes},

    BuiltinFunction{"Size", Builtin::size, map, Parameter::none, Given::count},
    BuiltinFunction{"Clear", Builtin::clear, map, Parameter::none, Given::nothing, changes},
    BuiltinFunction{"HasKey", Builtin::has_key, map, Parameter::key, Given::boolean},
    BuiltinFunction{"GetValue", Builtin::get_value, map, Parameter::key, Given::value},
    BuiltinFunction{"Remove", Builtin::remove_key, map, Parameter::key, Given::nothing, changes},
    BuiltinFunction{"RemoveKey", Builtin::remove_key, map, Parameter::key, Given::nothing, changes},
    BuiltinFunction{"RemoveMinKey", Builtin::remove_min_key, map, Parameter::none, Given::key, changes},
    BuiltinFunction{"RemoveMaxKey", Builtin::remove_max_key, map, Parameter::none, Given::key, changes},
    BuiltinFunction{"HasMaxValue", Builtin::has_max_value, map, Parameter::key, Given::boolean},
    BuiltinFunction{"HasMinValue", Builtin::has_min_value, map, Parameter::key, Given::boolean},
    BuiltinFunction{"GetMaxKey", Builtin::get_max_key, map, Parameter::none, Given::key},
    BuiltinFunction{"GetMinKey", Builtin::get_min_key, map, Parameter::none, Given::key},
    BuiltinFunction{"GetMaxValue", Builtin::get_max_value, map, Parameter::none, Given::value},
    BuiltinFunction{"GetMinValue", Builtin::get_min_value, map, Parameter::none, Given::value},

    BuiltinFunction{"Length", Builtin::length, string, Parameter::none, Given::count},
    BuiltinFunction{"Contains", Builtin::contains, string, Parameter::string, Given::boolean},
    BuiltinFunction{"BeginsWith", Builtin::begins_with, string, Parameter::string, Given::boolean},
    BuiltinFunction{"EndsWith", Builtin::ends_with, string, Parameter::string, Given::boolean},
    BuiltinFunction{"Equals", Builtin::equals, string, Parameter::string, Given::boolean},

    BuiltinFunction{"Rand", Builtin::rand, none, Parameter::whole_number, Given::argument},
    BuiltinFunction{"Uniform", Builtin::uniform, none, Parameter::none, Given::real},
    BuiltinFunction{"Log", Builtin::log, none, Parameter::number, Given::real},
    BuiltinFunction{"Exp", Builtin::exp, none, Parameter::number, Given::real},
    BuiltinFunction{"Pow", Builtin::pow, none, Parameter::two_numbers, Given::real},
    BuiltinFunction{"Sqrt", Builtin::sqrt, none, Parameter::number, Given::real},
};

const BuiltinFunction* find(std::string_view name, Receiver receiver) {
  const auto* found = std::find_if(functions.begin(), functions.end(), [&](const BuiltinFunction& each) {
    return each.receiver == receiver && is_word(name, each.name);
  });
  return found == functions.end() ? nullptr : found;
}

}  // namespace

std::span<const BuiltinFunction> builtin_functions() noexcept { return functions; }

std::vector<Receiver> receivers_of(const Type& type) {
  switch (type.kind) {
    case TypeKind::graph: return {graph};
    case TypeKind::node: return {node, iterator};
    case TypeKind::edge: return {edge};
    case TypeKind::set: return {set};
    case TypeKind::order:
    case TypeKind::sequence: return {sequence};
    case TypeKind::collection: return {collection};
    case TypeKind::map: return {map};
    case TypeKind::string: return {string};
    default: return {};
  }
}

const BuiltinFunction* find_builtin(std::string_view name, const Type& type) {
  for (const auto receiver : receivers_of(type)) {
    if (const auto* found = find(name, receiver)) return found;
  }
  return nullptr;
}

const BuiltinFunction* find_builtin_function(std::string_view name) { return find(name, none); }

const BuiltinFunction& builtin_function(Builtin builtin, Receiver receiver) {
  return *std::find_if(functions.begin(), functions.end(), [&](const BuiltinFunction& each) {
    return each.builtin == builtin && each.receiver == receiver;
  });
}

std::vector<std::string> builtin_names(const Type& type) {
  std::vector<std::string> names;
  for (const auto receiver : receivers_of(type)) {
    for (const auto& each : functions) {
      if (each.receiver == receiver) names.emplace_back(each.name);
    }
  }
  return names;
}

}  // namespace smelt::graph::language
