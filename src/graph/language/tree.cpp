#include "graph/language/tree.hpp"

namespace smelt::graph::language {

const char* to_string(Operator op) noexcept {
  switch (op) {
    case Operator::add: return "+";
    case Operator::subtract:
    case Operator::negate: return "-";
    case Operator::multiply: return "*";
    case Operator::divide: return "/";
    case Operator::modulo: return "%";
    case Operator::less: return "<";
    case Operator::less_equal: return "<=";
    case Operator::greater: return ">";
    case Operator::greater_equal: return ">=";
    case Operator::equal: return "==";
    case Operator::not_equal: return "!=";
    case Operator::logical_and: return "&&";
    case Operator::logical_or: return "||";
    case Operator::logical_not: return "!";
    case Operator::absolute: return "|x|";
  }
  return "?";
}

int precedence_of(Operator op) noexcept {
  switch (op) {
    case Operator::logical_or: return 1;
    case Operator::logical_and: return 2;
    case Operator::equal:
    case Operator::not_equal: return 3;
    case Operator::add:
    case Operator::subtract: return 5;
    case Operator::multiply:
    case Operator::divide:
    case Operator::modulo: return 6;
    default: return 4;
  }
}

const char* to_string(Reduction reduction) noexcept {
  switch (reduction) {
    case Reduction::sum: return "+=";
    case Reduction::product: return "*=";
    case Reduction::minimum: return "min=";
    case Reduction::maximum: return "max=";
    case Reduction::logical_and: return "&&=";
    case Reduction::logical_or: return "||=";
    case Reduction::count: return "Count";
    case Reduction::average: return "Avg";
  }
  return "?";
}

const char* to_string(Range range) noexcept {
  switch (range) {
    case Range::nodes: return "Nodes";
    case Range::edges: return "Edges";
    case Range::neighbours: return "Nbrs";
    case Range::in_neighbours: return "InNbrs";
    case Range::up_neighbours: return "UpNbrs";
    case Range::down_neighbours: return "DownNbrs";
    case Range::common_neighbours: return "CommonNbrs";
    case Range::out_edges: return "OutEdges";
    case Range::in_edges: return "InEdges";
    case Range::up_edges: return "UpEdges";
    case Range::down_edges: return "DownEdges";
    case Range::items: return "Items";
  }
  return "?";
}

namespace {

std::string bound(const Type& type) { return type.graph == nullptr ? "" : "(" + type.graph->name + ")"; }

std::string inner(const std::shared_ptr<const Type>& type) { return type == nullptr ? "?" : to_string(*type); }

std::string collection_name(const Type& type, const char* what) {
  return std::string(type.of_edges ? "Edge_" : "Node_") + what + bound(type);
}

}  // namespace

std::string to_string(const Type& type) {
  switch (type.kind) {
    case TypeKind::nothing: return "nothing";
    case TypeKind::boolean: return "Bool";
    case TypeKind::integer: return "Int";
    case TypeKind::count: return "Long";
    case TypeKind::long_integer: return "Long";
    case TypeKind::single: return "Float";
    case TypeKind::real: return "Double";
    case TypeKind::infinity: return "INF";
    case TypeKind::string: return "String";
    case TypeKind::graph: return type.undirected ? "UGraph" : "Graph";
    case TypeKind::node: return "Node" + bound(type);
    case TypeKind::edge: return "Edge" + bound(type);
    case TypeKind::nil: return "NIL";
    case TypeKind::node_property: return "N_P<" + inner(type.element) + ">" + bound(type);
    case TypeKind::edge_property: return "E_P<" + inner(type.element) + ">" + bound(type);
    case TypeKind::set: return collection_name(type, "Set");
    case TypeKind::order: return collection_name(type, "Order");
    case TypeKind::sequence: return collection_name(type, "Seq");
    case TypeKind::collection: return "Collection<" + inner(type.element) + ">" + bound(type);
    case TypeKind::map: return "Map<" + inner(type.key) + ", " + inner(type.element) + ">";
    case TypeKind::foreign: return type.name.empty() ? "foreign text" : type.name;
  }
  return "?";
}

bool same_shape(const Type& a, const Type& b) {
  const auto same = [](const std::shared_ptr<const Type>& x, const std::shared_ptr<const Type>& y) {
    return x == nullptr || y == nullptr ? x == y : same_shape(*x, *y);
  };
  return a.kind == b.kind && a.of_edges == b.of_edges && a.name == b.name && same(a.element, b.element) &&
         same(a.key, b.key);
}

}  // namespace smelt::graph::language
