// The syntax tree of a program. The parser builds it. The checker adds types, symbols of names, and conversions.
// Analyses add their results to fields of the nodes. Code is generated from it.
//
// A node has the fields that its kind needs; those of other kinds stay empty.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/language/source.hpp"
#include "graph/language/types.hpp"

namespace smelt::graph::language {

struct Procedure;
struct Statement;
struct Expression;
struct Iteration;
using ExpressionPtr = std::unique_ptr<Expression>;
using StatementPtr = std::unique_ptr<Statement>;

enum class SymbolKind : std::uint8_t {
  input,     ///< argument before the ';'
  output,    ///< argument after it
  variable,  ///< declared in a block
  iterator,  ///< of a loop, a traversal or a reduction; read-only
};

/// The entity that a name refers to.
struct Symbol {
  std::string name;
  SymbolKind kind = SymbolKind::variable;
  Type type;
  Span span;  ///< where it is declared
  Procedure* procedure = nullptr;
  const Iteration* iteration = nullptr;  ///< iterator: what it runs over
  Statement* loop = nullptr;             ///< iterator: of this loop or traversal; null: of a reduction
  const Statement* scope = nullptr;      ///< variable: the block that declares it
  std::uint32_t number = 0;              ///< within its procedure, by the order of the text
  // Found by the checker:
  bool used = false;
  bool assigned = false;                ///< also by its declaration
  bool reassigned = false;              ///< other than by its declaration
  const Expression* initial = nullptr;  ///< in its declaration
  bool may_be_infinite = false;         ///< some value may be INF
  bool may_be_nil = false;              ///< node or edge: some value may be NIL
};

/// A name in the text, and its symbol once that is known.
struct Reference {
  std::string name;
  Span span;
  Symbol* symbol = nullptr;
};

/// A type as it is written.
struct TypeExpression {
  Span span;
  std::string name;
  std::vector<std::unique_ptr<TypeExpression>> arguments;  ///< within < >
  std::optional<Reference> graph;                          ///< within ( )
  Type type;                                               ///< found by the checker
};
using TypeExpressionPtr = std::unique_ptr<TypeExpression>;

// clang-format off
enum class Operator : std::uint8_t {
  add, subtract, multiply, divide, modulo,
  less, less_equal, greater, greater_equal, equal, not_equal,
  logical_and, logical_or,
  negate, logical_not, absolute,
};
// clang-format on
const char* to_string(Operator op) noexcept;
inline bool is_arithmetic(Operator op) { return op <= Operator::modulo; }
inline bool is_order(Operator op) { return op >= Operator::less && op <= Operator::greater_equal; }
/// Precedence of a binary operator, from 1: || && equality order sums products.
int precedence_of(Operator op) noexcept;
inline bool is_comparison(Operator op) { return op >= Operator::less && op <= Operator::not_equal; }

/// Reductions, as expressions and as assignments.
enum class Reduction : std::uint8_t { sum, product, minimum, maximum, logical_and, logical_or, count, average };
const char* to_string(Reduction reduction) noexcept;

// clang-format off
enum class Range : std::uint8_t {
  nodes, edges,                                  // of a graph
  neighbours, in_neighbours, up_neighbours, down_neighbours, common_neighbours,  // of a node
  out_edges, in_edges, up_edges, down_edges,     // of a node
  items,                                         // of a collection
};
// clang-format on
const char* to_string(Range range) noexcept;
inline bool is_neighbours(Range range) { return range >= Range::neighbours && range <= Range::common_neighbours; }
inline bool is_edges_of_node(Range range) { return range >= Range::out_edges && range <= Range::down_edges; }
/// Whether it depends on the levels of an InBFS.
inline bool is_by_level(Range range) {
  return range == Range::up_neighbours || range == Range::up_edges || range == Range::down_neighbours ||
         range == Range::down_edges;
}
inline bool is_of_node(Range range) { return is_neighbours(range) || is_edges_of_node(range); }
/// Whether every element is visited once, so that its properties are accessed by one instance only.
inline bool has_distinct_elements(Range range, const Type& source) {
  return range == Range::nodes || range == Range::edges ||
         (range == Range::items && source.kind != TypeKind::sequence && source.kind != TypeKind::collection);
}

/// (it: source.Range)(filter)
struct Iteration {
  Symbol* iterator = nullptr;
  Reference name;
  ExpressionPtr source;
  bool reverse = false;  ///< source^
  Range range = Range::nodes;
  std::string range_name;
  Span range_span;
  ExpressionPtr argument;  ///< CommonNbrs(argument)
  ExpressionPtr filter;
};

/// Built-in functions.
// clang-format off
enum class Builtin : std::uint8_t {
  // of graphs
  num_nodes, num_edges, pick_random,
  // of nodes
  degree, in_degree, has_edge_to, has_edge_from, is_neighbour_from, pick_random_neighbour,
  // of iterators over neighbours
  to_edge,
  // of edges
  from_node, to_node,
  // of collections
  has, size, add, remove, clear, unite, intersect, complement, is_subset_of,
  front, back, push_back, push_front, pop_front, pop_back,
  // of maps
  has_key, get_value, remove_key, remove_min_key, remove_max_key,
  has_max_value, has_min_value, get_max_key, get_min_key, get_max_value, get_min_value,
  // of strings
  length, contains, begins_with, ends_with, equals,
  // of nothing
  rand, uniform, log, exp, pow, sqrt,
};
// clang-format on

enum class ExpressionKind : std::uint8_t {
  integer,  ///< `integer`
  real,     ///< `number`
  boolean,  ///< `integer` is 0 or 1
  string,   ///< `text`
  nil,
  infinity,     ///< `negative`
  name,         ///< `reference`
  current,      ///< in a group assignment, the graph's or collection's name: the current element
  field,        ///< operands[0].`reference`: a property's value
  index,        ///< operands[0][operands[1]]: a map's value
  unary,        ///< `op` operands[0]
  binary,       ///< operands[0] `op` operands[1]
  conditional,  ///< operands[0] ? operands[1] : operands[2]
  cast,         ///< (`type_expression`) operands[0]
  convert,      ///< operands[0] as `type`: added by the checker
  reduction,    ///< `reduction`(`iteration`){operands[0]}
  method,       ///< operands[0].`reference`(operands[1...])
  function,     ///< `reference`(operands...): a built-in one
  call,         ///< `reference`(operands...; `outputs`): a procedure of the file
  foreign,      ///< [ `pieces` ]
};

/// A part of foreign text: literal, or a name or property in the place of which its translation stands.
struct ForeignPiece {
  std::string text;
  ExpressionPtr expression;  ///< null: literal text
};

struct Expression {
  ExpressionKind kind;
  Span span;
  int height = 1;  ///< expressions on the longest way down, this one included; as written
  Type type;
  std::vector<ExpressionPtr> operands;
  Reference reference;
  Operator op = Operator::add;
  Reduction reduction = Reduction::sum;
  Builtin builtin = Builtin::num_nodes;
  bool negative = false;
  bool constant = false;  ///< made of literals only: may become a narrower type
  std::int64_t integer = 0;
  double number = 0.0;
  std::string text;
  TypeExpressionPtr type_expression;
  std::unique_ptr<Iteration> iteration;
  Procedure* procedure = nullptr;
  std::vector<ExpressionPtr> outputs;  ///< of a call: null for '#'
  std::vector<ForeignPiece> pieces;
  bool any_as_filter = false;  ///< reduction Any, All: written with a filter only
};

/// Whether this is a literal, perhaps converted.
inline bool is_literal(const Expression& expression) {
  const Expression* inner = &expression;
  while (inner->kind == ExpressionKind::convert) inner = inner->operands[0].get();
  return inner->kind == ExpressionKind::boolean || inner->kind == ExpressionKind::integer ||
         inner->kind == ExpressionKind::real || inner->kind == ExpressionKind::nil ||
         inner->kind == ExpressionKind::infinity;
}

/// What an assignment changes: a variable, property or map.
inline const Symbol& assigned_symbol(const Expression& target) {
  return target.kind == ExpressionKind::index ? *target.operands[0]->reference.symbol : *target.reference.symbol;
}

enum class AssignKind : std::uint8_t { set, defer, reduce };

enum class StatementKind : std::uint8_t {
  block,         ///< `body`
  declare,       ///< `symbols` of `type_expression`, each with its one of `values` or null
  assign,        ///< `target` `assign_kind` `value` @ `bound`
  arg_assign,    ///< <`target`; `more_targets`> min= or max= <`value`; `more_values`> @ `bound`
  group_assign,  ///< `source`.`property` = `value` for each element
  loop,          ///< For, Foreach: `iteration`, `body`[0]; `parallel`
  bfs,           ///< InBFS: `iteration` with filter, `root`, `navigator`, body[0]; `reverse_filter`, body[1] or null
  dfs,           ///< InDFS, InPost: the same
  if_else,       ///< `value`, body[0], body[1] or null
  while_loop,    ///< `value`, body[0]
  do_while,      ///< body[0], `value`
  return_value,  ///< `value` or null
  call,          ///< `value`: a call or method for its effects
  print,         ///< `values`
  error,         ///< `value`
  foreign,       ///< `value`: foreign text; `modified`
};

struct Statement {
  StatementKind kind;
  Span span;
  std::vector<StatementPtr> body;
  ExpressionPtr value;

  // declare
  TypeExpressionPtr type_expression;
  std::vector<Reference> names;
  std::vector<Symbol*> symbols;

  // assign, arg_assign
  ExpressionPtr target;
  AssignKind assign_kind = AssignKind::set;
  Reduction reduction = Reduction::sum;
  std::optional<Reference> bound;
  Statement* bound_loop = nullptr;  ///< found by the checker; null: takes effect immediately
  std::vector<ExpressionPtr> more_targets;
  std::vector<ExpressionPtr> more_values;

  // group_assign
  ExpressionPtr source;
  Reference property;
  Symbol* element = nullptr;  ///< the current element

  // loop, bfs, dfs
  std::unique_ptr<Iteration> iteration;
  bool parallel = false;
  ExpressionPtr root;
  bool transposed = false;  ///< along in edges: G^, InRBFS
  ExpressionPtr navigator;
  ExpressionPtr reverse_filter;
  Statement* outer = nullptr;  ///< the loop or traversal around this statement

  std::vector<ExpressionPtr> values;  ///< declare, print

  // foreign
  std::vector<Reference> modified;
};

struct Procedure {
  std::string name;
  Span span;  ///< of the name
  bool local = false;
  struct Parameter {
    Reference name;
    TypeExpression* type_expression;
    Symbol* symbol = nullptr;
  };
  std::vector<TypeExpressionPtr> types;
  std::vector<Parameter> inputs, outputs;
  TypeExpressionPtr return_type_expression;
  Type return_type;
  StatementPtr body;
  std::vector<std::unique_ptr<Symbol>> symbols;  ///< all that the procedure declares

  // Found by the checker:
  std::vector<Procedure*> calls;
  bool has_effects = false;  ///< side effects that the caller can observe
};

struct Program {
  explicit Program(Source text) : source(std::move(text)) {}
  Source source;
  std::vector<std::unique_ptr<Procedure>> procedures;
};

/// Calls f(child) for the direct subexpressions, including those of its iteration.
template <class F>
void for_each_child(const Expression& expression, F&& f) {
  for (const auto& operand : expression.operands) {
    if (operand) f(*operand);
  }
  for (const auto& output : expression.outputs) {
    if (output) f(*output);
  }
  for (const auto& piece : expression.pieces) {
    if (piece.expression) f(*piece.expression);
  }
  if (expression.iteration == nullptr) return;
  for (const auto* part :
       {&expression.iteration->source, &expression.iteration->argument, &expression.iteration->filter}) {
    if (*part) f(**part);
  }
}

/// Calls f(expression) for the expressions directly below a statement, including targets of assignments.
template <class F>
void for_each_expression(const Statement& statement, F&& f) {
  for (const auto* part : {&statement.value, &statement.target, &statement.source, &statement.root,
                           &statement.navigator, &statement.reverse_filter}) {
    if (*part) f(**part);
  }
  for (const auto* list : {&statement.more_targets, &statement.more_values, &statement.values}) {
    for (const auto& each : *list) {
      if (each) f(*each);
    }
  }
  if (statement.iteration == nullptr) return;
  for (const auto* part :
       {&statement.iteration->source, &statement.iteration->argument, &statement.iteration->filter}) {
    if (*part) f(**part);
  }
}

/// Calls f(expression) for an expression and all below it, outer ones first.
template <class F>
void walk(const Expression& expression, F&& f) {
  f(expression);
  for_each_child(expression, [&](const Expression& child) { walk(child, f); });
}

/// Calls f(statement) for a statement and all below it, outer ones first.
template <class F>
void walk_statements(const Statement& statement, F&& f) {
  f(statement);
  for (const auto& each : statement.body) {
    if (each) walk_statements(*each, f);
  }
}

/// Whether `inner` is `outer` or in its body; false for null.
inline bool is_within(const Statement* inner, const Statement* outer) {
  for (; inner != nullptr; inner = inner->outer) {
    if (inner == outer) return true;
  }
  return false;
}

}  // namespace smelt::graph::language
