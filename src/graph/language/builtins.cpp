#include "graph/language/builtins.hpp"

#include <algorithm>
#include <array>

#include "graph/language/lexer.hpp"

namespace smelt::graph::language {
namespace {

constexpr bool changes = true;

using enum Receiver;
constexpr std::array functions = {
    BuiltinFunction{"NumNodes", Builtin::num_nodes, graph, Parameter::none, ResultKind::count},
    BuiltinFunction{"NumEdges", Builtin::num_edges, graph, Parameter::none, ResultKind::count},
    BuiltinFunction{"PickRandom", Builtin::pick_random, graph, Parameter::none, ResultKind::node},
    BuiltinFunction{"PickRandomNode", Builtin::pick_random, graph, Parameter::none, ResultKind::node},

    BuiltinFunction{"Degree", Builtin::degree, node, Parameter::none, ResultKind::count},
    BuiltinFunction{"OutDegree", Builtin::degree, node, Parameter::none, ResultKind::count},
    BuiltinFunction{"NumNbrs", Builtin::degree, node, Parameter::none, ResultKind::count},
    BuiltinFunction{"NumOutNbrs", Builtin::degree, node, Parameter::none, ResultKind::count},
    BuiltinFunction{"InDegree", Builtin::in_degree, node, Parameter::none, ResultKind::count},
    BuiltinFunction{"NumInNbrs", Builtin::in_degree, node, Parameter::none, ResultKind::count},
    BuiltinFunction{"HasEdgeTo", Builtin::has_edge_to, node, Parameter::item, ResultKind::boolean},
    BuiltinFunction{"HasEdgeFrom", Builtin::has_edge_from, node, Parameter::item, ResultKind::boolean},
    BuiltinFunction{"IsNbrFrom", Builtin::is_neighbour_from, node, Parameter::item, ResultKind::boolean},
    BuiltinFunction{"PickRandomNbr", Builtin::pick_random_neighbour, node, Parameter::none, ResultKind::node},
    BuiltinFunction{"ToEdge", Builtin::to_edge, iterator, Parameter::none, ResultKind::edge},
    BuiltinFunction{"FromNode", Builtin::from_node, edge, Parameter::none, ResultKind::node},
    BuiltinFunction{"ToNode", Builtin::to_node, edge, Parameter::none, ResultKind::node},

    BuiltinFunction{"Has", Builtin::has, set, Parameter::item, ResultKind::boolean},
    BuiltinFunction{"Size", Builtin::size, set, Parameter::none, ResultKind::count},
    BuiltinFunction{"Add", Builtin::add, set, Parameter::item_or_whole, ResultKind::nothing, changes},
    BuiltinFunction{"Remove", Builtin::remove, set, Parameter::item_or_whole, ResultKind::nothing, changes},
    BuiltinFunction{"Clear", Builtin::clear, set, Parameter::none, ResultKind::nothing, changes},
    BuiltinFunction{"Union", Builtin::unite, set, Parameter::whole, ResultKind::whole},
    BuiltinFunction{"Intersect", Builtin::intersect, set, Parameter::whole, ResultKind::whole},
    BuiltinFunction{"Complement", Builtin::complement, set, Parameter::whole_or_none, ResultKind::whole},
    BuiltinFunction{"IsSubsetOf", Builtin::is_subset_of, set, Parameter::whole, ResultKind::boolean},

    BuiltinFunction{"Has", Builtin::has, sequence, Parameter::item, ResultKind::boolean},
    BuiltinFunction{"Size", Builtin::size, sequence, Parameter::none, ResultKind::count},
    BuiltinFunction{"Clear", Builtin::clear, sequence, Parameter::none, ResultKind::nothing, changes},
    BuiltinFunction{"Front", Builtin::front, sequence, Parameter::none, ResultKind::item},
    BuiltinFunction{"Back", Builtin::back, sequence, Parameter::none, ResultKind::item},
    BuiltinFunction{"Push", Builtin::push_back, sequence, Parameter::item_or_whole, ResultKind::nothing, changes},
    BuiltinFunction{"PushBack", Builtin::push_back, sequence, Parameter::item_or_whole, ResultKind::nothing, changes},
    BuiltinFunction{"PushFront", Builtin::push_front, sequence, Parameter::item_or_whole, ResultKind::nothing, changes},
    BuiltinFunction{"Pop", Builtin::pop_front, sequence, Parameter::none, ResultKind::item, changes},
    BuiltinFunction{"PopFront", Builtin::pop_front, sequence, Parameter::none, ResultKind::item, changes},
    BuiltinFunction{"PopBack", Builtin::pop_back, sequence, Parameter::none, ResultKind::item, changes},

    BuiltinFunction{"Size", Builtin::size, collection, Parameter::none, ResultKind::count},
    BuiltinFunction{"Clear", Builtin::clear, collection, Parameter::none, ResultKind::nothing, changes},
    BuiltinFunction{"Front", Builtin::front, collection, Parameter::none, ResultKind::inner},
    BuiltinFunction{"Back", Builtin::back, collection, Parameter::none, ResultKind::inner},
    BuiltinFunction{"Push", Builtin::push_back, collection, Parameter::inner, ResultKind::nothing, changes},
    BuiltinFunction{"PushBack", Builtin::push_back, collection, Parameter::inner, ResultKind::nothing, changes},
    BuiltinFunction{"PushFront", Builtin::push_front, collection, Parameter::inner, ResultKind::nothing, changes},
    BuiltinFunction{"Pop", Builtin::pop_front, collection, Parameter::none, ResultKind::inner, changes},
    BuiltinFunction{"PopFront", Builtin::pop_front, collection, Parameter::none, ResultKind::inner, changes},
    BuiltinFunction{"PopBack", Builtin::pop_back, collection, Parameter::none, ResultKind::inner, changes},

    BuiltinFunction{"Size", Builtin::size, map, Parameter::none, ResultKind::count},
    BuiltinFunction{"Clear", Builtin::clear, map, Parameter::none, ResultKind::nothing, changes},
    BuiltinFunction{"HasKey", Builtin::has_key, map, Parameter::key, ResultKind::boolean},
    BuiltinFunction{"GetValue", Builtin::get_value, map, Parameter::key, ResultKind::value},
    BuiltinFunction{"Remove", Builtin::remove_key, map, Parameter::key, ResultKind::nothing, changes},
    BuiltinFunction{"RemoveKey", Builtin::remove_key, map, Parameter::key, ResultKind::nothing, changes},
    BuiltinFunction{"RemoveMinKey", Builtin::remove_min_key, map, Parameter::none, ResultKind::key, changes},
    BuiltinFunction{"RemoveMaxKey", Builtin::remove_max_key, map, Parameter::none, ResultKind::key, changes},
    BuiltinFunction{"HasMaxValue", Builtin::has_max_value, map, Parameter::key, ResultKind::boolean},
    BuiltinFunction{"HasMinValue", Builtin::has_min_value, map, Parameter::key, ResultKind::boolean},
    BuiltinFunction{"GetMaxKey", Builtin::get_max_key, map, Parameter::none, ResultKind::key},
    BuiltinFunction{"GetMinKey", Builtin::get_min_key, map, Parameter::none, ResultKind::key},
    BuiltinFunction{"GetMaxValue", Builtin::get_max_value, map, Parameter::none, ResultKind::value},
    BuiltinFunction{"GetMinValue", Builtin::get_min_value, map, Parameter::none, ResultKind::value},

    BuiltinFunction{"Length", Builtin::length, string, Parameter::none, ResultKind::count},
    BuiltinFunction{"Contains", Builtin::contains, string, Parameter::string, ResultKind::boolean},
    BuiltinFunction{"BeginsWith", Builtin::begins_with, string, Parameter::string, ResultKind::boolean},
    BuiltinFunction{"EndsWith", Builtin::ends_with, string, Parameter::string, ResultKind::boolean},
    BuiltinFunction{"Equals", Builtin::equals, string, Parameter::string, ResultKind::boolean},

    BuiltinFunction{"Rand", Builtin::rand, none, Parameter::whole_number, ResultKind::argument},
    BuiltinFunction{"Uniform", Builtin::uniform, none, Parameter::none, ResultKind::real},
    BuiltinFunction{"Log", Builtin::log, none, Parameter::number, ResultKind::real},
    BuiltinFunction{"Exp", Builtin::exp, none, Parameter::number, ResultKind::real},
    BuiltinFunction{"Pow", Builtin::pow, none, Parameter::two_numbers, ResultKind::real},
    BuiltinFunction{"Sqrt", Builtin::sqrt, none, Parameter::number, ResultKind::real},
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
