// Types of Green-Marl.
//
//   numbers        Int 32 bits, Long 64 bits, Float, Double. Counts (NumNodes, Degree, Size, Count, sums of whole numbers)
//                  have 64 bits and become Int or Long as needed: 'count' below.
//   Node, Edge     of a graph, as everything that belongs to nodes or edges
//   properties     a value per node or edge
//   collections    Set, Order, Seq of nodes or edges; Collection: a Seq of those
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace smelt::graph::language {

struct Symbol;

enum class TypeKind : std::uint8_t {
  nothing,  ///< of calls without a result, and of wrong expressions
  boolean,
  integer,
  count,
  long_integer,
  single,
  real,
  infinity,  ///< of INF, until it is known of which type
  string,
  graph,
  node,
  edge,
  nil,  ///< of NIL, until it is known whether it is a node or an edge
  node_property,
  edge_property,
  set,
  order,
  sequence,
  collection,  ///< a sequence of sets, orders or sequences
  map,
  foreign,
};

struct Type {
  TypeKind kind = TypeKind::nothing;
  bool of_edges = false;                ///< collections: of edges, not nodes
  bool undirected = false;              ///< graphs: UGraph
  const Symbol* graph = nullptr;        ///< whose nodes or edges; null where there is none in sight
  std::shared_ptr<const Type> element;  ///< property: of its values; collection: of its collections; map: of its values
  std::shared_ptr<const Type> key;      ///< map
  std::string name;                     ///< foreign

  bool is(TypeKind other) const noexcept { return kind == other; }
};

inline bool is_whole(const Type& type) {
  return type.kind == TypeKind::integer || type.kind == TypeKind::count || type.kind == TypeKind::long_integer;
}
inline bool is_fraction(const Type& type) { return type.kind == TypeKind::single || type.kind == TypeKind::real; }
inline bool is_number(const Type& type) { return is_whole(type) || is_fraction(type); }
inline bool is_number_or_infinity(const Type& type) { return is_number(type) || type.kind == TypeKind::infinity; }
inline bool is_property(const Type& type) {
  return type.kind == TypeKind::node_property || type.kind == TypeKind::edge_property;
}
/// Set, Order, Seq.
inline bool is_simple_collection(const Type& type) {
  return type.kind == TypeKind::set || type.kind == TypeKind::order || type.kind == TypeKind::sequence;
}
inline bool is_any_collection(const Type& type) {
  return is_simple_collection(type) || type.kind == TypeKind::collection;
}
/// Whether this is the type of a single value, as of a variable, key or property.
inline bool is_primitive(const Type& type) {
  return is_number(type) || type.kind == TypeKind::boolean || type.kind == TypeKind::string;
}
inline bool is_item(const Type& type) { return type.kind == TypeKind::node || type.kind == TypeKind::edge; }
/// Whether arguments are passed by reference: everything larger than a value.
inline bool is_large(const Type& type) {
  return is_property(type) || is_any_collection(type) || type.kind == TypeKind::map;
}

inline Type make_type(TypeKind kind, const Symbol* graph = nullptr) {
  Type type;
  type.kind = kind;
  type.graph = graph;
  return type;
}

/// As the language writes it: "Int", "N_P<Node>(G)", "Map<String, Int>".
std::string to_string(const Type& type);

/// The same but for the graph that nodes and edges belong to.
bool same_shape(const Type& a, const Type& b);

/// Whether both belong to the same graph, or the graph of one is unknown.
inline bool same_graph(const Type& a, const Type& b) {
  return a.graph == nullptr || b.graph == nullptr || a.graph == b.graph;
}

}  // namespace smelt::graph::language
