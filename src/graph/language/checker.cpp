#include "graph/language/checker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "graph/language/builtins.hpp"
#include "graph/language/lexer.hpp"

namespace smelt::graph::language {
namespace {

/// Type names as written, without the types of items.
struct TypeWord {
  std::string_view word;
  TypeKind kind;
  bool of_edges = false;
};
constexpr std::array type_words = {
    TypeWord{"int", TypeKind::integer},
    TypeWord{"long", TypeKind::long_integer},
    TypeWord{"float", TypeKind::single},
    TypeWord{"double", TypeKind::real},
    TypeWord{"bool", TypeKind::boolean},
    TypeWord{"boolean", TypeKind::boolean},
    TypeWord{"string", TypeKind::string},
    TypeWord{"graph", TypeKind::graph},
    TypeWord{"dgraph", TypeKind::graph},
    TypeWord{"ugraph", TypeKind::graph},
    TypeWord{"node", TypeKind::node},
    TypeWord{"edge", TypeKind::edge},
    TypeWord{"node_property", TypeKind::node_property},
    TypeWord{"node_prop", TypeKind::node_property},
    TypeWord{"n_p", TypeKind::node_property},
    TypeWord{"edge_property", TypeKind::edge_property},
    TypeWord{"edge_prop", TypeKind::edge_property},
    TypeWord{"e_p", TypeKind::edge_property},
    TypeWord{"node_set", TypeKind::set},
    TypeWord{"n_s", TypeKind::set},
    TypeWord{"edge_set", TypeKind::set, true},
    TypeWord{"e_s", TypeKind::set, true},
    TypeWord{"node_order", TypeKind::order},
    TypeWord{"n_o", TypeKind::order},
    TypeWord{"edge_order", TypeKind::order, true},
    TypeWord{"e_o", TypeKind::order, true},
    TypeWord{"node_seq", TypeKind::sequence},
    TypeWord{"node_sequence", TypeKind::sequence},
    TypeWord{"n_q", TypeKind::sequence},
    TypeWord{"edge_seq", TypeKind::sequence, true},
    TypeWord{"edge_sequence", TypeKind::sequence, true},
    TypeWord{"e_q", TypeKind::sequence, true},
    TypeWord{"collection", TypeKind::collection},
    TypeWord{"map", TypeKind::map},
};

struct RangeWord {
  std::string_view word;
  Range range;
};
constexpr std::array graph_ranges = {RangeWord{"Nodes", Range::nodes}, RangeWord{"Edges", Range::edges}};
constexpr std::array node_ranges = {
    RangeWord{"Nbrs", Range::neighbours},          RangeWord{"OutNbrs", Range::neighbours},
    RangeWord{"InNbrs", Range::in_neighbours},     RangeWord{"UpNbrs", Range::up_neighbours},
    RangeWord{"DownNbrs", Range::down_neighbours}, RangeWord{"CommonNbrs", Range::common_neighbours},
    RangeWord{"Edges", Range::out_edges},          RangeWord{"OutEdges", Range::out_edges},
    RangeWord{"InEdges", Range::in_edges},         RangeWord{"UpEdges", Range::up_edges},
    RangeWord{"DownEdges", Range::down_edges}};
constexpr std::array collection_ranges = {RangeWord{"Items", Range::items}};

std::shared_ptr<const Type> shared(Type type) { return std::make_shared<const Type>(std::move(type)); }

int rank(const Type& type) { return static_cast<int>(type.kind); }

std::string a(const Type& type) { return fmt::format("{}", to_string(type)); }

bool is_error(const Type& type) { return type.kind == TypeKind::nothing; }

class Checker {
 public:
  Checker(Program& program, Diagnostics& diagnostics) : program_(program), diagnostics_(diagnostics) {}

  void run() {
    declare_procedures();
    for (auto& procedure : program_.procedures) check_procedure(*procedure);
    check_recursion();
    find_changed_arguments();
    find_effects();
    for (const auto& [call, message] : nested_calls_) {
      if (call->procedure->has_effects) error(call->span, message);
    }
  }

 private:
  // --- messages

  void error(Span span, std::string message) { diagnostics_.error(span, std::move(message)); }
  void warning(Span span, std::string message) { diagnostics_.warning(span, std::move(message)); }
  void note(Span span, std::string message) { diagnostics_.note(span, std::move(message)); }

  // --- procedures

  void declare_procedures() {
    for (auto& procedure : program_.procedures) {
      const auto [place, added] = procedures_.emplace(procedure->name, procedure.get());
      if (!added) {
        error(procedure->span, fmt::format("a second procedure '{}'", procedure->name));
        note(place->second->span, "the first one");
      }
      procedure_ = procedure.get();
      scopes_.assign(1, {});
      declare_parameters(*procedure);
      if (procedure->return_type_expression) {
        procedure->return_type = resolve(*procedure->return_type_expression);
        if (!is_error(procedure->return_type) && !is_primitive(procedure->return_type) &&
            !is_item(procedure->return_type)) {
          error(
              procedure->return_type_expression->span,
              fmt::format("a procedure cannot return {}; an output behind ';' can be one", a(procedure->return_type)));
          procedure->return_type = {};
        }
      }
      parameter_scopes_[procedure.get()] = scopes_.front();
    }
  }

  /// Graphs come first, regardless of the order of arguments, because other arguments belong to them.
  void declare_parameters(Procedure& procedure) {
    const auto each = [&](auto&& f) {
      for (auto& parameter : procedure.inputs) f(parameter, SymbolKind::input);
      for (auto& parameter : procedure.outputs) f(parameter, SymbolKind::output);
    };
    const auto is_graph = [](const TypeExpression& type) {
      return is_word(type.name, "graph") || is_word(type.name, "dgraph") || is_word(type.name, "ugraph");
    };
    each([&](Procedure::Parameter& parameter, SymbolKind kind) {
      if (!is_graph(*parameter.type_expression)) return;
      if (kind == SymbolKind::output) error(parameter.name.span, "a graph cannot be an output: graphs do not change");
      parameter.symbol = declare(parameter.name, kind, resolve(*parameter.type_expression));
    });
    each([&](Procedure::Parameter& parameter, SymbolKind kind) {
      if (!is_graph(*parameter.type_expression)) {
        parameter.symbol = declare(parameter.name, kind, resolve(*parameter.type_expression));
      }
    });
  }

  void check_procedure(Procedure& procedure) {
    procedure_ = &procedure;
    scopes_.assign(1, parameter_scopes_[&procedure]);
    loops_.clear();
    check_statement(*procedure.body);
    if (!is_error(procedure.return_type) && !returns(*procedure.body)) {
      error(procedure.span, fmt::format("'{}' may end without the {} that it returns; a Return is missing",
                                        procedure.name, a(procedure.return_type)));
    }
  }

  /// Whether control never passes beyond the statement.
  static bool returns(const Statement& statement) {
    switch (statement.kind) {
      case StatementKind::return_value:
      case StatementKind::error: return true;
      case StatementKind::block:
        return std::any_of(statement.body.begin(), statement.body.end(),
                           [](const auto& each) { return returns(*each); });
      case StatementKind::if_else:
        return statement.body[1] != nullptr && returns(*statement.body[0]) && returns(*statement.body[1]);
      case StatementKind::do_while: return returns(*statement.body[0]);
      case StatementKind::while_loop:
        return statement.value->kind == ExpressionKind::boolean && statement.value->integer == 1;
      default: return false;
    }
  }

  void check_recursion() {
    std::map<const Procedure*, int> state;  // 1: in progress, 2: done
    const auto visit = [&](auto&& self, const Procedure* procedure) -> void {
      state[procedure] = 1;
      for (const auto* callee : procedure->calls) {
        if (state[callee] == 1) {
          error(callee->span,
                fmt::format("'{}' calls itself, maybe by others; the language has no recursion", callee->name));
        } else if (state[callee] == 0) {
          self(self, callee);
        }
      }
      state[procedure] = 2;
    };
    for (const auto& procedure : program_.procedures) {
      if (state[procedure.get()] == 0) visit(visit, procedure.get());
    }
  }

  /// Arguments that a callee changes count as changed by the caller.
  void find_changed_arguments() {
    for (bool more = true; more;) {
      more = false;
      for (const auto& passed : passed_) {
        if (!passed.parameter->assigned || passed.argument->assigned) continue;
        passed.argument->assigned = more = true;
      }
    }
    // Aliases are forbidden: a call must not pass the same object twice if the callee changes it.
    for (std::size_t i = 0; i < passed_.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        const ReferenceArgument &first = passed_[j], &second = passed_[i];
        if (first.call != second.call || first.argument != second.argument) continue;
        if (!first.changes() && !second.changes()) continue;
        error(second.span, fmt::format("'{}' is passed twice, and '{}' changes it", first.argument->name,
                                       first.call->reference.name));
      }
    }
  }

  /// A procedure has effects if it has outputs, changes an argument, prints, ends with an error, or calls one that
  /// does.
  void find_effects() {
    for (auto& procedure : program_.procedures) {
      bool effects = !procedure->outputs.empty();
      for (const auto& input : procedure->inputs)
        effects |= input.symbol != nullptr && is_large(input.symbol->type) && input.symbol->assigned;
      walk_statements(*procedure->body, [&](const Statement& statement) {
        effects |= statement.kind == StatementKind::print || statement.kind == StatementKind::error ||
                   statement.kind == StatementKind::foreign;
      });
      procedure->has_effects = effects;
    }
    for (bool more = true; more;) {
      more = false;
      for (auto& procedure : program_.procedures) {
        for (const auto* callee : procedure->calls) {
          if (!callee->has_effects || procedure->has_effects) continue;
          // Conservative: a callee may change only local data of the caller, which is rare.
          procedure->has_effects = more = true;
        }
      }
    }
  }

  // --- names

  Symbol* declare(Reference& reference, SymbolKind kind, Type type) {
    auto owner = std::make_unique<Symbol>();
    Symbol* symbol = owner.get();
    symbol->name = reference.name;
    symbol->kind = kind;
    symbol->type = std::move(type);
    symbol->span = reference.span;
    symbol->procedure = procedure_;
    symbol->number = static_cast<std::uint32_t>(procedure_->symbols.size());
    procedure_->symbols.push_back(std::move(owner));
    reference.symbol = symbol;
    if (const Symbol* other = find(reference.name)) {
      error(reference.span,
            fmt::format("'{}' has a meaning here already; a name cannot hide another one", reference.name));
      note(other->span, "declared here");
    }
    scopes_.back()[reference.name] = symbol;
    return symbol;
  }

  Symbol* find(const std::string& name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      const auto found = scope->find(name);
      if (found != scope->end()) return found->second;
    }
    return nullptr;
  }

  std::vector<std::string> visible_names(bool (*wanted)(const Symbol&)) const {
    std::vector<std::string> names;
    for (const auto& scope : scopes_) {
      for (const auto& [name, symbol] : scope) {
        if (wanted(*symbol)) names.push_back(name);
      }
    }
    return names;
  }

  static std::string meant(const std::string& name) {
    return name.empty() ? "" : fmt::format("; did you mean '{}'?", name);
  }

  Symbol* resolve(Reference& reference) {
    if (reference.symbol != nullptr) return reference.symbol;
    reference.symbol = find(reference.name);
    if (reference.symbol == nullptr) {
      const auto candidates = visible_names([](const Symbol&) { return true; });
      error(reference.span,
            fmt::format("'{}' is not declared{}", reference.name, meant(nearest(reference.name, candidates))));
      // Report it only once. From now on, the name may have any type.
      declare_unknown(reference);
    }
    reference.symbol->used = true;
    return reference.symbol;
  }

  void declare_unknown(Reference& reference) {
    auto owner = std::make_unique<Symbol>();
    owner->name = reference.name;
    owner->span = reference.span;
    owner->procedure = procedure_;
    reference.symbol = owner.get();
    scopes_.front()[reference.name] = owner.get();
    procedure_->symbols.push_back(std::move(owner));
  }

  // --- types

  Type resolve(TypeExpression& expression) {
    expression.type = resolve_kind(expression);
    return expression.type;
  }

  Type resolve_kind(TypeExpression& expression) {
    if (expression.name.starts_with('$')) {
      Type type = make_type(TypeKind::foreign);
      type.name = expression.name;
      return type;
    }
    const auto* word = std::find_if(type_words.begin(), type_words.end(),
                                    [&](const TypeWord& each) { return is_word(expression.name, each.word); });
    if (word == type_words.end()) {
      std::vector<std::string> names = {
          "Int",      "Long", "Float",      "Double",        "Bool",          "String",   "Graph",    "Node",
          "Edge",     "N_P",  "E_P",        "Node_Set",      "Node_Order",    "Node_Seq", "Edge_Set", "Edge_Order",
          "Edge_Seq", "Map",  "Collection", "Node_Property", "Edge_Property", "UGraph"};
      error(expression.span, fmt::format("'{}' is no type{}", expression.name, meant(nearest(expression.name, names))));
      return {};
    }
    Type type = make_type(word->kind);
    type.of_edges = word->of_edges;
    type.undirected = is_word(expression.name, "ugraph");
    if (!resolve_arguments(expression, type)) return {};
    const bool bound = is_item(type) || is_property(type) || is_any_collection(type);
    if (bound) {
      type.graph = graph_of(expression, type);
    } else if (expression.graph) {
      error(expression.graph->span, fmt::format("{} belongs to no graph", expression.name));
    }
    return type;
  }

  bool resolve_arguments(TypeExpression& expression, Type& type) {
    const std::size_t wanted = is_property(type) || type.is(TypeKind::collection) ? 1 : type.is(TypeKind::map) ? 2 : 0;
    if (expression.arguments.size() != wanted) {
      const char* usage = type.is(TypeKind::map)          ? "Map<KEY, VALUE>"
                          : type.is(TypeKind::collection) ? "Collection<Node_Set>"
                                                          : "N_P<TYPE> or E_P<TYPE>";
      error(expression.span, wanted == 0 ? fmt::format("{} has no types within < >", expression.name)
                                         : fmt::format("expected {}", usage));
      return false;
    }
    std::vector<Type> arguments;
    for (auto& argument : expression.arguments) {
      arguments.push_back(resolve(*argument));
      if (is_error(arguments.back())) return false;
    }
    if (wanted == 0) return true;
    const Type& element = arguments.back();
    const Span span = expression.arguments.back()->span;
    const bool good = type.is(TypeKind::collection) ? is_simple_collection(element)
                      : type.is(TypeKind::map)
                          ? is_primitive(element) || is_item(element)
                          : is_primitive(element) || is_item(element) || is_simple_collection(element);
    if (!good) {
      error(span, fmt::format("{} cannot have values of type {}", expression.name, a(element)));
      return false;
    }
    type.element = shared(element);
    if (!type.is(TypeKind::map)) return true;
    if (!is_primitive(arguments.front()) && !is_item(arguments.front())) {
      error(expression.arguments.front()->span, fmt::format("a Map cannot have keys of type {}", a(arguments.front())));
      return false;
    }
    type.key = shared(arguments.front());
    return true;
  }

  /// The graph that is named, or the only one.
  const Symbol* graph_of(TypeExpression& expression, const Type& type) {
    if (expression.graph) {
      Symbol* graph = resolve(*expression.graph);
      if (is_error(graph->type)) return nullptr;
      if (graph->type.is(TypeKind::graph)) return graph;
      // Node_Set(S): of the graph of another collection.
      if (is_any_collection(graph->type)) return graph->type.graph;
      error(expression.graph->span, fmt::format("'{}' is no graph", graph->name));
      return nullptr;
    }
    const Symbol* only = nullptr;
    for (const auto& scope : scopes_) {
      for (const auto& [name, symbol] : scope) {
        if (!symbol->type.is(TypeKind::graph)) continue;
        if (only != nullptr) {
          error(expression.span, fmt::format("of which graph? write {}(G): there are several", expression.name));
          return nullptr;
        }
        only = symbol;
      }
    }
    if (only == nullptr)
      error(expression.span, fmt::format("{} needs a graph, and no argument is one", to_string(type)));
    return only;
  }

  // --- statements

  void check_statement(Statement& statement) {
    if (diagnostics_.enough()) return;
    statement.outer = loops_.empty() ? nullptr : loops_.back();
    switch (statement.kind) {
      case StatementKind::block: return check_block(statement);
      case StatementKind::declare: return check_declaration(statement);
      case StatementKind::assign: return check_assignment(statement);
      case StatementKind::arg_assign: return check_arg_assignment(statement);
      case StatementKind::group_assign: return;
      case StatementKind::loop: return check_loop(statement);
      case StatementKind::bfs:
      case StatementKind::dfs: return check_traversal(statement);
      case StatementKind::if_else:
        check_condition(statement.value, "a condition");
        check_branch(*statement.body[0]);
        if (statement.body[1]) check_branch(*statement.body[1]);
        return;
      case StatementKind::while_loop:
        check_condition(statement.value, "a condition");
        return check_branch(*statement.body[0]);
      case StatementKind::do_while:
        check_branch(*statement.body[0]);
        return check_condition(statement.value, "a condition");
      case StatementKind::return_value: return check_return(statement);
      case StatementKind::call: return check_call_statement(statement);
      case StatementKind::print: return check_print(statement);
      case StatementKind::error: {
        check_expression(*statement.value);
        const Type& type = statement.value->type;
        if (!is_error(type) && !type.is(TypeKind::string)) error(statement.value->span, "an error's text is a String");
        return;
      }
      case StatementKind::foreign: return check_foreign_statement(statement);
    }
  }

  void check_block(Statement& statement) {
    scopes_.emplace_back();
    blocks_.push_back(&statement);
    for (auto& each : statement.body) check_statement(*each);
    blocks_.pop_back();
    scopes_.pop_back();
  }

  /// A body without braces is a scope, too.
  void check_branch(Statement& statement) {
    scopes_.emplace_back();
    check_statement(statement);
    scopes_.pop_back();
  }

  void check_declaration(Statement& statement) {
    const Type type = resolve(*statement.type_expression);
    if (type.is(TypeKind::graph)) {
      error(statement.type_expression->span, "a graph can be an argument only");
    }
    for (std::size_t i = 0; i < statement.names.size(); ++i) {
      auto& value = statement.values[i];
      if (value) {
        check_effective(*value);
        if (is_property(type)) {
          error(value->span,
                fmt::format("a property gets its values by a group assignment: G.{} = ...;", statement.names[i].name));
        } else if (!is_error(type)) {
          convert(value, type);
        }
      }
      Symbol* symbol = declare(statement.names[i], SymbolKind::variable, type);
      symbol->scope = blocks_.empty() ? nullptr : blocks_.back();
      symbol->loop = loops_.empty() ? nullptr : loops_.back();
      symbol->assigned = value != nullptr;
      symbol->initial = value.get();
      statement.symbols.push_back(symbol);
    }
  }

  /// A graph or collection in front of a property: a group assignment.
  bool is_group(const Expression& target) {
    if (target.kind != ExpressionKind::field || target.operands[0]->kind != ExpressionKind::name) return false;
    const Symbol* symbol = find(target.operands[0]->reference.name);
    return symbol != nullptr && (symbol->type.is(TypeKind::graph) || is_simple_collection(symbol->type));
  }

  void check_assignment(Statement& statement) {
    if (is_group(*statement.target)) return check_group_assignment(statement);
    Type type = check_target(*statement.target);
    check_effective(*statement.value);
    check_operator(statement, type, *statement.target);
    if (!is_error(type)) convert(statement.value, type);
    resolve_bound(statement);
  }

  void check_operator(const Statement& statement, const Type& type, const Expression& target) {
    if (is_error(type) || statement.assign_kind == AssignKind::set) return;
    if (statement.assign_kind == AssignKind::defer) {
      if (is_primitive(type) || is_item(type)) return;
      return error(target.span, fmt::format("'<=' cannot assign to {}", a(type)));
    }
    const bool minmax = statement.reduction == Reduction::minimum || statement.reduction == Reduction::maximum;
    const bool logical = statement.reduction == Reduction::logical_and || statement.reduction == Reduction::logical_or;
    const bool good = logical ? type.is(TypeKind::boolean) : is_number(type) || (minmax && is_item(type));
    if (!good) error(target.span, fmt::format("'{}' cannot assign to {}", to_string(statement.reduction), a(type)));
  }

  void check_group_assignment(Statement& statement) {
    auto& target = *statement.target;
    Symbol* group = resolve(target.operands[0]->reference);
    statement.kind = StatementKind::group_assign;
    statement.property = target.reference;
    statement.source = std::move(target.operands[0]);
    statement.source->type = group->type;
    Symbol* property = find(statement.property.name);
    if (property == nullptr || !is_property(property->type)) {
      const auto names = visible_names([](const Symbol& each) { return is_property(each.type); });
      if (property == nullptr || !is_error(property->type)) {
        error(statement.property.span, fmt::format("'{}' is no property{}", statement.property.name,
                                                   meant(nearest(statement.property.name, names))));
      }
      statement.property.symbol = nullptr;
      declare_unknown(statement.property);
      statement.target = nullptr;
      check_expression(*statement.value);
      return;
    }
    statement.property.symbol = property;
    property->used = property->assigned = true;
    const bool of_edges = property->type.is(TypeKind::edge_property);
    const Symbol* graph = group->type.is(TypeKind::graph) ? group : group->type.graph;
    if (property->type.graph != nullptr && graph != nullptr && property->type.graph != graph) {
      error(statement.property.span, fmt::format("'{}' is a property of {}, not of {}", property->name,
                                                 property->type.graph->name, graph->name));
    }
    if (!group->type.is(TypeKind::graph) && group->type.of_edges != of_edges) {
      error(statement.property.span,
            fmt::format("'{}' is a property of {}, '{}' has {}", property->name, of_edges ? "edges" : "nodes",
                        group->name, of_edges ? "nodes" : "edges"));
    }
    Reference element_name{group->name, statement.source->span, nullptr};
    auto owner = std::make_unique<Symbol>();
    owner->name = group->name;
    owner->kind = SymbolKind::iterator;
    owner->type = make_type(of_edges ? TypeKind::edge : TypeKind::node, graph);
    owner->span = statement.source->span;
    owner->procedure = procedure_;
    owner->loop = &statement;
    owner->number = static_cast<std::uint32_t>(procedure_->symbols.size());
    statement.element = owner.get();
    procedure_->symbols.push_back(std::move(owner));
    const auto before = std::exchange(group_, Group{group, statement.element});
    check_expression(*statement.value);
    group_ = before;
    const Type element = *property->type.element;
    target.kind = ExpressionKind::field;
    target.reference.symbol = property;
    target.type = element;
    target.operands.clear();
    target.operands.push_back(current_element(statement.source->span, statement.element));
    check_operator(statement, element, target);
    convert(statement.value, element);
    resolve_bound(statement);
  }

  static ExpressionPtr current_element(Span span, Symbol* element) {
    auto current = std::make_unique<Expression>();
    current->kind = ExpressionKind::current;
    current->span = span;
    current->type = element->type;
    current->reference = {element->name, span, element};
    return current;
  }

  /// The type that a value for this target must have.
  Type check_target(Expression& target) {
    switch (target.kind) {
      case ExpressionKind::name: {
        Symbol* symbol = resolve(target.reference);
        target.type = symbol->type;
        if (is_error(symbol->type)) return {};
        if (symbol->kind == SymbolKind::iterator) {
          error(target.span, fmt::format("'{}' is an iterator, which only its loop changes", symbol->name));
          return {};
        }
        if (symbol->type.is(TypeKind::graph) || is_property(symbol->type)) {
          error(target.span, symbol->type.is(TypeKind::graph)
                                 ? fmt::format("'{}' is a graph, which does not change", symbol->name)
                                 : fmt::format("'{}' is a property: assign to n.{} or G.{}", symbol->name, symbol->name,
                                               symbol->name));
          return {};
        }
        symbol->assigned = symbol->reassigned = true;
        return symbol->type;
      }
      case ExpressionKind::field: {
        const Type type = check_expression(target);
        if (target.reference.symbol != nullptr) target.reference.symbol->assigned = true;
        return type;
      }
      case ExpressionKind::index: {
        const Type type = check_expression(target);
        if (target.operands[0]->reference.symbol != nullptr) target.operands[0]->reference.symbol->assigned = true;
        return type;
      }
      default:
        check_expression(target);
        if (!is_error(target.type))
          error(target.span, "this cannot be assigned to; a variable, n.property or m[key] can");
        return {};
    }
  }

  void check_arg_assignment(Statement& statement) {
    const Type type = check_target(*statement.target);
    check_expression(*statement.value);
    check_operator(statement, type, *statement.target);
    if (!is_error(type)) convert(statement.value, type);
    if (statement.more_targets.size() != statement.more_values.size()) {
      error(statement.span, fmt::format("{} targets are assigned along, but {} values", statement.more_targets.size(),
                                        statement.more_values.size()));
    }
    for (std::size_t i = 0; i < statement.more_targets.size(); ++i) {
      const Type along = check_target(*statement.more_targets[i]);
      if (i >= statement.more_values.size()) continue;
      check_expression(*statement.more_values[i]);
      if (is_error(along)) continue;
      if (!is_primitive(along) && !is_item(along)) {
        error(statement.more_targets[i]->span, fmt::format("{} cannot be assigned along", a(along)));
      } else {
        convert(statement.more_values[i], along);
      }
    }
    for (auto i = statement.more_targets.size(); i < statement.more_values.size(); ++i) {
      check_expression(*statement.more_values[i]);
    }
    resolve_bound(statement);
  }

  /// @ it: must name an enclosing loop.
  void resolve_bound(Statement& statement) {
    if (!statement.bound) return;
    Symbol* symbol = resolve(*statement.bound);
    if (is_error(symbol->type)) return;
    if (symbol->kind == SymbolKind::iterator && symbol->loop != nullptr) {
      for (Statement* loop : loops_) {
        if (loop == symbol->loop) statement.bound_loop = loop;
      }
    }
    if (statement.bound_loop == nullptr) {
      error(statement.bound->span, fmt::format("'{}' is no iterator of a loop around this sentence", symbol->name));
    }
  }

  void check_iteration(Iteration& iteration, Statement* loop) {
    check_expression(*iteration.source);
    const Type source = iteration.source->type;
    if (!is_error(source)) find_range(iteration, source);
    if (iteration.argument) {
      check_expression(*iteration.argument);
      if (iteration.range != Range::common_neighbours) {
        error(iteration.argument->span, fmt::format("{} has no argument", iteration.range_name));
      } else {
        convert(iteration.argument, make_type(TypeKind::node, source.graph));
      }
    } else if (iteration.range == Range::common_neighbours) {
      error(iteration.range_span, "expected CommonNbrs(m) with the other node m");
    }
    iteration.iterator = declare(iteration.name, SymbolKind::iterator, element_type(iteration, source));
    iteration.iterator->iteration = &iteration;
    iteration.iterator->loop = loop;
    if (iteration.reverse && is_of_node(iteration.range)) {
      error(iteration.source->span, "'^' reverses G.Nodes, G.Edges and the Items of an Order or Seq");
    }
    if (iteration.reverse && source.is(TypeKind::set))
      error(iteration.source->span, "a Set has no order to be reversed");
  }

  void find_range(Iteration& iteration, const Type& source) {
    const auto look = [&](const auto& ranges, const char* of) {
      for (const auto& each : ranges) {
        if (!is_word(iteration.range_name, each.word)) continue;
        iteration.range = each.range;
        return;
      }
      std::string all;
      std::vector<std::string> names;
      for (const auto& each : ranges) {
        names.emplace_back(each.word);
        all += fmt::format("{}{}", all.empty() ? "" : ", ", each.word);
      }
      error(iteration.range_span, fmt::format("'{}' is no range of a {}{} (it has {})", iteration.range_name, of,
                                              meant(nearest(iteration.range_name, names)), all));
      iteration.range = ranges.front().range;
    };
    if (source.is(TypeKind::graph)) {
      look(graph_ranges, "graph");
    } else if (source.is(TypeKind::node)) {
      look(node_ranges, "node");
    } else if (is_any_collection(source)) {
      look(collection_ranges, "collection");
    } else {
      error(iteration.source->span,
            fmt::format("{} has nothing to iterate over; a graph, node or collection has", a(source)));
    }
    const Range range = iteration.range;
    const bool by_level = range == Range::up_neighbours || range == Range::down_neighbours ||
                          range == Range::up_edges || range == Range::down_edges;
    if (by_level && !within_bfs(source.graph)) {
      error(iteration.range_span,
            fmt::format("{} has a meaning only within InBFS, which gives nodes their levels", iteration.range_name));
    }
  }

  bool within_bfs(const Symbol* graph) const {
    return std::any_of(loops_.begin(), loops_.end(), [&](const Statement* loop) {
      return loop->kind == StatementKind::bfs && (graph == nullptr || loop->iteration->source->type.graph == nullptr ||
                                                  loop->iteration->source->reference.symbol == graph);
    });
  }

  static Type element_type(const Iteration& iteration, const Type& source) {
    if (is_error(source)) return {};
    const Symbol* graph = source.is(TypeKind::graph) ? iteration.source->reference.symbol : source.graph;
    if (iteration.range == Range::items) {
      if (source.is(TypeKind::collection)) return *source.element;
      return make_type(source.of_edges ? TypeKind::edge : TypeKind::node, graph);
    }
    const bool edges = iteration.range == Range::edges || is_edges_of_node(iteration.range);
    return make_type(edges ? TypeKind::edge : TypeKind::node, graph);
  }

  void check_loop(Statement& statement) {
    scopes_.emplace_back();
    check_iteration(*statement.iteration, &statement);
    loops_.push_back(&statement);
    if (statement.iteration->filter) check_condition(statement.iteration->filter, "a filter");
    check_statement(*statement.body[0]);
    loops_.pop_back();
    scopes_.pop_back();
  }

  void check_traversal(Statement& statement) {
    scopes_.emplace_back();
    auto& iteration = *statement.iteration;
    check_iteration(iteration, &statement);
    const Type& source = iteration.source->type;
    const bool good = source.is(TypeKind::graph) && iteration.range == Range::nodes;
    if (!good && !is_error(source)) error(iteration.source->span, "a traversal runs over the Nodes of a graph");
    check_expression(*statement.root);
    if (good) convert(statement.root, make_type(TypeKind::node, iteration.source->reference.symbol));
    loops_.push_back(&statement);
    if (iteration.filter) check_condition(iteration.filter, "a filter");
    if (statement.navigator) check_condition(statement.navigator, "a navigator");
    check_branch(*statement.body[0]);
    if (statement.reverse_filter) check_condition(statement.reverse_filter, "a filter");
    if (statement.body[1]) check_branch(*statement.body[1]);
    loops_.pop_back();
    scopes_.pop_back();
  }

  void check_condition(ExpressionPtr& condition, const char* what) {
    check_expression(*condition);
    const Type& type = condition->type;
    if (is_error(type) || type.is(TypeKind::boolean)) return;
    if (type.is(TypeKind::foreign)) return convert(condition, make_type(TypeKind::boolean));
    error(condition->span, fmt::format("{} must be a Bool, not {}", what, a(type)));
  }

  void check_return(Statement& statement) {
    for (const Statement* loop : loops_) {
      if (loop->parallel) {
        error(statement.span, "Return within a parallel loop; several instances could return");
        note(loop->span, "the loop");
        break;
      }
    }
    const Type& type = procedure_->return_type;
    if (statement.value) {
      check_effective(*statement.value);
      if (is_error(type)) {
        if (!procedure_->return_type_expression) {
          error(statement.value->span,
                fmt::format("'{}' returns nothing; write its type behind the arguments, as in ') : Int'",
                            procedure_->name));
        }
      } else {
        convert(statement.value, type);
      }
    } else if (!is_error(type)) {
      error(statement.span, fmt::format("'{}' returns {}; the value is missing", procedure_->name, a(type)));
    }
  }

  void check_call_statement(Statement& statement) {
    check_effective(*statement.value, true);
    const Expression& call = *statement.value;
    if (call.kind != ExpressionKind::method) return;
    const bool in_place =
        call.builtin == Builtin::unite || call.builtin == Builtin::intersect || call.builtin == Builtin::complement;
    if (in_place) {  // S.Union(T); as a statement changes S
      if (Symbol* symbol = changed_symbol(*call.operands[0])) symbol->assigned = true;
    } else if (!is_error(call.operands[0]->type)) {
      const auto* function = find_builtin(call.reference.name, call.operands[0]->type);
      if (function != nullptr && !function->changes) {
        warning(call.span, fmt::format("what {} gives is not used", call.reference.name));
      }
    }
  }

  void check_print(Statement& statement) {
    for (auto& value : statement.values) {
      check_expression(*value);
      const Type& type = value->type;
      if (type.is(TypeKind::infinity)) {
        convert(value, make_type(TypeKind::real));
      } else if (!is_error(type) && !is_primitive(type) && !is_item(type) && !type.is(TypeKind::nil) &&
                 !type.is(TypeKind::foreign)) {
        error(value->span, fmt::format("{} cannot be printed", a(type)));
      }
    }
  }

  void check_foreign_statement(Statement& statement) {
    check_expression(*statement.value);
    for (auto& name : statement.modified) {
      Symbol* symbol = resolve(name);
      symbol->assigned = symbol->reassigned = true;
    }
  }

  // --- expressions

  /// An expression that may change something, as it stands alone.
  Type check_effective(Expression& expression, bool statement = false) {
    const bool may_change = expression.kind == ExpressionKind::call || expression.kind == ExpressionKind::method;
    effects_allowed_ = may_change;
    value_unused_ = statement;
    const Type type = check_expression(expression);
    effects_allowed_ = value_unused_ = false;
    return type;
  }

  Type check_expression(Expression& expression) {
    const bool effects_allowed = std::exchange(effects_allowed_, false);
    const bool value_unused = std::exchange(value_unused_, false);
    expression.type = typed(expression, effects_allowed, value_unused);
    return expression.type;
  }

  Type typed(Expression& expression, bool effects_allowed, bool value_unused) {
    switch (expression.kind) {
      case ExpressionKind::integer: {
        expression.constant = true;
        const bool small = expression.integer >= INT32_MIN && expression.integer <= INT32_MAX;
        return make_type(small ? TypeKind::integer : TypeKind::long_integer);
      }
      case ExpressionKind::real: expression.constant = true; return make_type(TypeKind::real);
      case ExpressionKind::boolean: return make_type(TypeKind::boolean);
      case ExpressionKind::string: return make_type(TypeKind::string);
      case ExpressionKind::nil: return make_type(TypeKind::nil);
      case ExpressionKind::infinity: return make_type(TypeKind::infinity);
      case ExpressionKind::name: return check_name(expression);
      case ExpressionKind::current: return expression.type;
      case ExpressionKind::field: return check_field(expression);
      case ExpressionKind::index: return check_index(expression);
      case ExpressionKind::unary: return check_unary(expression);
      case ExpressionKind::binary: return check_binary(expression);
      case ExpressionKind::conditional: return check_conditional(expression);
      case ExpressionKind::cast: return check_cast(expression);
      case ExpressionKind::convert: return expression.type;
      case ExpressionKind::reduction: return check_reduction(expression);
      case ExpressionKind::method: return check_method(expression, effects_allowed);
      case ExpressionKind::function: return expression.type;
      case ExpressionKind::call: return check_call(expression, effects_allowed, value_unused);
      case ExpressionKind::foreign:
        for (auto& piece : expression.pieces) {
          if (piece.expression) check_foreign_piece(*piece.expression);
        }
        return make_type(TypeKind::foreign);
    }
    return {};
  }

  void check_foreign_piece(Expression& expression) {
    if (expression.kind == ExpressionKind::name) {
      expression.type = resolve(expression.reference)->type;
      return;
    }
    // $n.A: a property; else a member of what $n stands for.
    const Symbol* property = find(expression.reference.name);
    if (property == nullptr || !is_property(property->type)) {
      auto& owner = *expression.operands[0];
      owner.type = resolve(owner.reference)->type;
      expression.type = make_type(TypeKind::foreign);
      expression.reference.symbol = nullptr;
      return;
    }
    check_expression(expression);
  }

  Type check_name(Expression& expression) {
    Symbol* symbol = resolve(expression.reference);
    if (group_.group != nullptr && symbol == group_.group) {
      expression.kind = ExpressionKind::current;
      expression.reference.symbol = group_.element;
      return group_.element->type;
    }
    return symbol->type;
  }

  Type check_field(Expression& expression) {
    auto& owner = *expression.operands[0];
    const Type type = check_expression(owner);
    Symbol* property = find(expression.reference.name);
    if (property == nullptr || !is_property(property->type)) {
      if (property != nullptr && is_error(property->type)) return {};
      if (!is_error(type)) no_such_property(expression, type);
      return {};
    }
    property->used = true;
    expression.reference.symbol = property;
    if (is_error(type)) return {};
    if (type.is(TypeKind::graph)) {
      error(owner.span, fmt::format("'{}' as a whole has no value; a node's has, or a reduction over {}.Nodes",
                                    expression.reference.name, owner.reference.name));
      return {};
    }
    const bool of_edges = property->type.is(TypeKind::edge_property);
    if (!type.is(of_edges ? TypeKind::edge : TypeKind::node)) {
      error(expression.span,
            fmt::format("'{}' is a property of {}, not of {}", property->name, of_edges ? "edges" : "nodes", a(type)));
      return {};
    }
    check_same_graph(expression.span, type, property->type);
    return *property->type.element;
  }

  void no_such_property(const Expression& expression, const Type& owner) {
    const auto& name = expression.reference.name;
    if (const auto* function = find_builtin(name, owner)) {
      return error(expression.reference.span, fmt::format("{} is a function; write {}()", name, function->name));
    }
    const auto properties = visible_names([](const Symbol& each) { return is_property(each.type); });
    error(expression.reference.span,
          fmt::format("{} has no '{}': it is no property{}", a(owner), name, meant(nearest(name, properties))));
  }

  void check_same_graph(Span span, const Type& left, const Type& right) {
    if (same_graph(left, right)) return;
    error(span, fmt::format("nodes and edges of different graphs, {} and {}, do not mix", left.graph->name,
                            right.graph->name));
  }

  Type check_index(Expression& expression) {
    const Type map = check_expression(*expression.operands[0]);
    check_expression(*expression.operands[1]);
    if (is_error(map)) return {};
    if (!map.is(TypeKind::map)) {
      error(expression.operands[0]->span, fmt::format("only a Map has values by key, not {}", a(map)));
      return {};
    }
    convert(expression.operands[1], *map.key);
    return *map.element;
  }

  Type check_unary(Expression& expression) {
    const Type type = check_expression(*expression.operands[0]);
    expression.constant = expression.operands[0]->constant;
    if (is_error(type)) return {};
    if (type.is(TypeKind::foreign)) {
      if (expression.op != Operator::logical_not) return type;
      convert(expression.operands[0], make_type(TypeKind::boolean));
      return make_type(TypeKind::boolean);
    }
    if (expression.op == Operator::logical_not) {
      if (type.is(TypeKind::boolean)) return type;
      error(expression.span, fmt::format("'!' needs a Bool, not {}", a(type)));
      return {};
    }
    if (is_number_or_infinity(type)) return type;
    error(expression.span, fmt::format("'{}' needs a number, not {}", to_string(expression.op), a(type)));
    return {};
  }

  /// The type in which two numbers meet.
  static Type wider(const Type& left, const Type& right) {
    if (left.is(TypeKind::infinity)) return right;
    if (right.is(TypeKind::infinity)) return left;
    return rank(left) >= rank(right) ? left : right;
  }

  Type check_binary(Expression& expression) {
    const Type left = check_expression(*expression.operands[0]), right = check_expression(*expression.operands[1]);
    expression.constant = expression.operands[0]->constant && expression.operands[1]->constant;
    if (is_error(left) || is_error(right)) return is_comparison(expression.op) ? make_type(TypeKind::boolean) : Type{};
    if (left.is(TypeKind::foreign) || right.is(TypeKind::foreign)) return check_foreign_binary(expression, left, right);
    const auto wrong = [&](const char* what) {
      error(expression.span,
            fmt::format("'{}' needs {}, not {} and {}", to_string(expression.op), what, a(left), a(right)));
      return Type{};
    };
    if (expression.op == Operator::logical_and || expression.op == Operator::logical_or) {
      return left.is(TypeKind::boolean) && right.is(TypeKind::boolean) ? left : wrong("two Bools");
    }
    const bool numbers = is_number_or_infinity(left) && is_number_or_infinity(right);
    if (is_arithmetic(expression.op)) {
      if (!numbers) return wrong("two numbers");
      if (expression.op == Operator::modulo && (!is_whole(left) || !is_whole(right))) return wrong("two whole numbers");
      Type type = wider(left, right);
      if (type.is(TypeKind::infinity)) type = make_type(TypeKind::real);
      meet(expression, type);
      return type;
    }
    if (numbers) {
      Type type = wider(left, right);
      if (type.is(TypeKind::infinity)) type = make_type(TypeKind::real);
      meet(expression, type);
      return make_type(TypeKind::boolean);
    }
    return compare_others(expression, left, right)
               ? make_type(TypeKind::boolean)
               : wrong(is_order(expression.op) ? "two numbers, Strings, nodes or edges" : "two values of one type");
  }

  /// Both operands as `type`; without a warning, as nothing is assigned.
  void meet(Expression& expression, const Type& type) {
    for (auto& operand : expression.operands) coerce(operand, type);
  }

  bool compare_others(Expression& expression, const Type& left, const Type& right) {
    if (left.is(TypeKind::string) && right.is(TypeKind::string)) return true;
    if (left.is(TypeKind::boolean) && right.is(TypeKind::boolean)) return !is_order(expression.op);
    if (is_item(left) && is_item(right) && left.kind == right.kind) {
      check_same_graph(expression.span, left, right);
      return true;
    }
    if (is_order(expression.op)) return false;
    if (left.is(TypeKind::nil) && right.is(TypeKind::nil)) return true;
    if (left.is(TypeKind::nil) && is_item(right)) return coerce(expression.operands[0], right), true;
    if (right.is(TypeKind::nil) && is_item(left)) return coerce(expression.operands[1], left), true;
    return false;
  }

  Type check_foreign_binary(Expression& expression, const Type& left, const Type& right) {
    if (expression.op == Operator::logical_and || expression.op == Operator::logical_or) {
      for (auto& operand : expression.operands) {
        if (operand->type.is(TypeKind::foreign)) convert(operand, make_type(TypeKind::boolean));
      }
      return make_type(TypeKind::boolean);
    }
    const Type& known = left.is(TypeKind::foreign) ? right : left;
    if (is_number(known)) {
      for (auto& operand : expression.operands) {
        if (operand->type.is(TypeKind::foreign)) convert(operand, known);
      }
    }
    return is_comparison(expression.op) ? make_type(TypeKind::boolean) : known;
  }

  Type check_conditional(Expression& expression) {
    check_condition(expression.operands[0], "the condition before '?'");
    const Type left = check_expression(*expression.operands[1]), right = check_expression(*expression.operands[2]);
    expression.constant = expression.operands[1]->constant && expression.operands[2]->constant;
    if (is_error(left) || is_error(right)) return {};
    Type type;
    if (is_number_or_infinity(left) && is_number_or_infinity(right)) {
      type = wider(left, right);
    } else if (left.is(TypeKind::nil) || right.is(TypeKind::nil)) {
      type = left.is(TypeKind::nil) ? right : left;
      if (!is_item(type) && !type.is(TypeKind::nil)) return no_common_type(expression, left, right);
    } else if (left.is(TypeKind::foreign) || right.is(TypeKind::foreign)) {
      type = left.is(TypeKind::foreign) ? right : left;
    } else if (same_shape(left, right) && (is_primitive(left) || is_item(left))) {
      check_same_graph(expression.span, left, right);
      type = left;
    } else {
      return no_common_type(expression, left, right);
    }
    if (!type.is(TypeKind::infinity) && !type.is(TypeKind::nil)) {
      coerce(expression.operands[1], type);
      coerce(expression.operands[2], type);
    }
    return type;
  }

  Type no_common_type(const Expression& expression, const Type& left, const Type& right) {
    error(expression.span, fmt::format("both cases must have one type, not {} and {}", a(left), a(right)));
    return {};
  }

  Type check_cast(Expression& expression) {
    const Type to = resolve(*expression.type_expression);
    const Type from = check_expression(*expression.operands[0]);
    expression.constant = expression.operands[0]->constant;
    if (is_error(to) || is_error(from)) return to;
    if (from.is(TypeKind::infinity) || from.is(TypeKind::foreign)) {
      coerce(expression.operands[0], to);
      return to;
    }
    const bool good =
        (is_number(to) && (is_number(from) || from.is(TypeKind::boolean) || (is_whole(to) && is_item(from)))) ||
        to.kind == from.kind || (to.is(TypeKind::boolean) && is_number(from));
    if (!good) error(expression.span, fmt::format("{} cannot become {}", a(from), a(to)));
    return to;
  }

  Type check_reduction(Expression& expression) {
    scopes_.emplace_back();
    check_iteration(*expression.iteration, nullptr);
    if (expression.iteration->filter) check_condition(expression.iteration->filter, "a filter");
    const Type body = expression.operands.empty() ? Type{} : check_expression(*expression.operands[0]);
    scopes_.pop_back();
    switch (expression.reduction) {
      case Reduction::count: return make_type(TypeKind::count);
      case Reduction::logical_and:
      case Reduction::logical_or:
        if (body.is(TypeKind::foreign)) convert(expression.operands[0], make_type(TypeKind::boolean));
        if (!is_error(body) && !body.is(TypeKind::boolean) && !body.is(TypeKind::foreign)) {
          error(expression.operands[0]->span, fmt::format("the body must be a Bool, not {}", a(body)));
        }
        return make_type(TypeKind::boolean);
      case Reduction::average:
        if (!is_error(body) && !is_number(body)) break;
        if (!is_error(body)) coerce(expression.operands[0], make_type(TypeKind::real));
        return make_type(TypeKind::real);
      case Reduction::sum:
      case Reduction::product:
        if (is_whole(body)) {
          const Type sum = make_type(body.is(TypeKind::long_integer) ? TypeKind::long_integer : TypeKind::count);
          coerce(expression.operands[0], sum);
          return sum;
        }
        [[fallthrough]];
      case Reduction::minimum:
      case Reduction::maximum:
        if (is_error(body) || is_number(body)) return body;
        if (body.is(TypeKind::infinity)) {
          coerce(expression.operands[0], make_type(TypeKind::real));
          return make_type(TypeKind::real);
        }
        break;
    }
    error(expression.operands[0]->span, fmt::format("the body must be a number, not {}", a(body)));
    return {};
  }

  Type check_method(Expression& expression, bool effects_allowed) {
    auto& owner = *expression.operands[0];
    // Within a group assignment, G.NumNodes() is still the graph's.
    const Symbol* named = owner.kind == ExpressionKind::name ? find(owner.reference.name) : nullptr;
    const bool of_group = named != nullptr && named == group_.group &&
                          find_builtin(expression.reference.name, named->type) != nullptr &&
                          find_builtin(expression.reference.name, group_.element->type) == nullptr;
    const auto before = of_group ? std::exchange(group_, Group{}) : group_;
    const Type type = check_expression(owner);
    group_ = before;
    for (std::size_t i = 1; i < expression.operands.size(); ++i) check_expression(*expression.operands[i]);
    if (!expression.outputs.empty()) error(expression.span, "built-in functions have no outputs");
    if (is_error(type)) return {};
    const auto* function = find_builtin(expression.reference.name, type);
    if (function == nullptr) {
      error(expression.reference.span, fmt::format("{} has no function '{}'{}", a(type), expression.reference.name,
                                                   meant(nearest(expression.reference.name, builtin_names(type)))));
      return {};
    }
    expression.builtin = function->builtin;
    if (function->builtin == Builtin::to_edge && !is_neighbour_iterator(owner)) {
      error(owner.span, "ToEdge() is the edge by which a loop over neighbours came; only its iterator has it");
    }
    if (function->changes) {
      if (!effects_allowed) {
        error(
            expression.span,
            fmt::format("{} changes something, so it must stand alone or as all of an assigned value", function->name));
      }
      if (Symbol* symbol = changed_symbol(owner)) symbol->assigned = true;
    }
    check_arguments(expression, *function, type);
    return given(*function, expression, type);
  }

  static bool is_neighbour_iterator(const Expression& owner) {
    const Symbol* symbol = owner.kind == ExpressionKind::name ? owner.reference.symbol : nullptr;
    return symbol != nullptr && symbol->iteration != nullptr && is_neighbours(symbol->iteration->range) &&
           symbol->iteration->range != Range::common_neighbours;
  }

  static Symbol* changed_symbol(const Expression& owner) {
    if (owner.kind == ExpressionKind::name || owner.kind == ExpressionKind::field) return owner.reference.symbol;
    return nullptr;
  }

  void check_arguments(Expression& call, const BuiltinFunction& function, const Type& receiver) {
    const std::size_t first = function.receiver == Receiver::none ? 0 : 1;
    const std::size_t given = call.operands.size() - first;
    const std::size_t least = function.parameter == Parameter::none || function.parameter == Parameter::whole_or_none
                                  ? 0
                              : function.parameter == Parameter::two_numbers ? 2
                                                                             : 1;
    const std::size_t most = function.parameter == Parameter::whole_or_none ? 1 : least;
    if (given < least || given > most) {
      return error(call.span, fmt::format("{} takes {} argument{}, not {}", function.name,
                                          most == 0 ? "no" : fmt::format("{}", most), most == 1 ? "" : "s", given));
    }
    for (std::size_t i = first; i < call.operands.size(); ++i) check_argument(call.operands[i], function, receiver);
  }

  void check_argument(ExpressionPtr& argument, const BuiltinFunction& function, const Type& receiver) {
    const Type type = argument->type;
    if (is_error(type)) return;
    switch (function.parameter) {
      case Parameter::none: return;
      case Parameter::item: return convert(argument, item_of(receiver));
      case Parameter::item_or_whole:
        if (is_simple_collection(type)) {
          if (type.of_edges == receiver.of_edges) return check_same_graph(argument->span, type, receiver);
          return error(argument->span,
                       fmt::format("{} takes {}s, not those of {}", function.name, a(item_of(receiver)), a(type)));
        }
        return convert(argument, item_of(receiver));
      case Parameter::whole:
      case Parameter::whole_or_none:
        if (type.is(TypeKind::set) && type.of_edges == receiver.of_edges)
          return check_same_graph(argument->span, type, receiver);
        return error(argument->span, fmt::format("{} takes a {}, not {}", function.name, a(receiver), a(type)));
      case Parameter::inner:
        if (same_shape(type, *receiver.element)) return check_same_graph(argument->span, type, *receiver.element);
        return error(argument->span,
                     fmt::format("{} takes a {}, not {}", function.name, a(*receiver.element), a(type)));
      case Parameter::key: return convert(argument, *receiver.key);
      case Parameter::string: return convert(argument, make_type(TypeKind::string));
      case Parameter::number:
      case Parameter::two_numbers:
        if (is_number_or_infinity(type)) return coerce(argument, make_type(TypeKind::real));
        return convert(argument, make_type(TypeKind::real));
      case Parameter::whole_number:
        if (is_whole(type)) return;
        return error(argument->span, fmt::format("{} takes a whole number, not {}", function.name, a(type)));
    }
  }

  static Type item_of(const Type& receiver) {
    if (is_item(receiver)) return receiver;
    return make_type(receiver.of_edges ? TypeKind::edge : TypeKind::node, receiver.graph);
  }

  static Type given(const BuiltinFunction& function, const Expression& call, const Type& receiver) {
    switch (function.given) {
      case ResultKind::nothing: return {};
      case ResultKind::boolean: return make_type(TypeKind::boolean);
      case ResultKind::count: return make_type(TypeKind::count);
      case ResultKind::node:
        return make_type(TypeKind::node,
                         receiver.is(TypeKind::graph) ? call.operands[0]->reference.symbol : receiver.graph);
      case ResultKind::edge: return make_type(TypeKind::edge, receiver.graph);
      case ResultKind::item: return item_of(receiver);
      case ResultKind::whole: return receiver;
      case ResultKind::inner:
      case ResultKind::value: return *receiver.element;
      case ResultKind::key: return *receiver.key;
      case ResultKind::real: return make_type(TypeKind::real);
      case ResultKind::argument: return call.operands.empty() ? make_type(TypeKind::integer) : call.operands[0]->type;
    }
    return {};
  }

  /// A procedure of the file or, if there is none of that name, a built-in function.
  Type check_call(Expression& expression, bool effects_allowed, bool value_unused) {
    const auto found = procedures_.find(expression.reference.name);
    if (found == procedures_.end()) {
      for (auto& operand : expression.operands) check_expression(*operand);
      for (auto& output : expression.outputs) {
        if (output) check_expression(*output);
      }
      return check_function(expression);
    }
    Procedure& callee = *found->second;
    expression.procedure = &callee;
    if (std::find(procedure_->calls.begin(), procedure_->calls.end(), &callee) == procedure_->calls.end()) {
      procedure_->calls.push_back(&callee);
    }
    if (!effects_allowed) {
      nested_calls_.emplace_back(
          &expression,
          fmt::format("'{}' changes something, so it must stand alone or as all of an assigned value", callee.name));
    }
    if (expression.operands.size() != callee.inputs.size() || expression.outputs.size() != callee.outputs.size()) {
      const auto outputs =
          callee.outputs.empty() ? "" : fmt::format(" and, behind ';', {} outputs", callee.outputs.size());
      error(expression.span, fmt::format("'{}' takes {} arguments{}", callee.name, callee.inputs.size(), outputs));
      note(callee.span, "declared here");
      for (auto& operand : expression.operands) check_expression(*operand);
      return callee.return_type;
    }
    GraphMap graphs;
    for (std::size_t i = 0; i < callee.inputs.size(); ++i) {
      check_expression(*expression.operands[i]);
      const Symbol* parameter = callee.inputs[i].symbol;
      if (parameter->type.is(TypeKind::graph)) graphs[parameter] = expression.operands[i]->reference.symbol;
    }
    for (std::size_t i = 0; i < callee.inputs.size(); ++i)
      check_input(expression, expression.operands[i], *callee.inputs[i].symbol, graphs);
    for (std::size_t i = 0; i < callee.outputs.size(); ++i) {
      if (expression.outputs[i]) check_output(expression, *expression.outputs[i], *callee.outputs[i].symbol, graphs);
    }
    if (is_error(callee.return_type) && !value_unused) {
      error(expression.span, fmt::format("'{}' returns nothing that could be used here", callee.name));
    }
    return in_caller(callee.return_type, graphs);
  }

  using GraphMap = std::map<const Symbol*, const Symbol*>;

  /// A type of the callee in terms of the caller's graphs.
  static Type in_caller(Type type, const GraphMap& graphs) {
    if (type.graph != nullptr) {
      const auto found = graphs.find(type.graph);
      type.graph = found == graphs.end() ? nullptr : found->second;
    }
    if (type.element) type.element = shared(in_caller(*type.element, graphs));
    if (type.key) type.key = shared(in_caller(*type.key, graphs));
    return type;
  }

  void check_input(const Expression& call, ExpressionPtr& argument, const Symbol& parameter, const GraphMap& graphs) {
    const Type& given = argument->type;
    const Type wanted = in_caller(parameter.type, graphs);
    if (is_error(given) || is_error(wanted)) return;
    if (wanted.is(TypeKind::graph)) {
      if (!given.is(TypeKind::graph))
        error(argument->span, fmt::format("'{}' is a graph, not {}", parameter.name, a(given)));
      if (given.is(TypeKind::graph) && wanted.undirected && !given.undirected) {
        error(argument->span, fmt::format("'{}' must be undirected", parameter.name));
      }
      return;
    }
    if (!is_large(wanted)) return convert(argument, wanted);
    if (!same_shape(given, wanted)) {
      return error(argument->span, fmt::format("'{}' is {}, not {}", parameter.name, a(wanted), a(given)));
    }
    check_same_graph(argument->span, given, wanted);
    if (argument->kind != ExpressionKind::name) {
      return error(argument->span, fmt::format("'{}' is passed by reference, so it must be a name", parameter.name));
    }
    passed_.push_back({&call, argument->reference.symbol, &parameter, argument->span});
  }

  void check_output(const Expression& call, Expression& argument, const Symbol& parameter, const GraphMap& graphs) {
    const Type wanted = in_caller(parameter.type, graphs);
    if (argument.kind == ExpressionKind::name && is_large(wanted)) {
      Symbol* symbol = resolve(argument.reference);
      argument.type = symbol->type;
      symbol->assigned = symbol->reassigned = true;
      passed_.push_back({&call, symbol, &parameter, argument.span});
    } else {
      check_target(argument);
    }
    const Type& given = argument.type;
    if (is_error(given) || is_error(wanted)) return;
    const bool widened = is_number(given) && is_number(wanted) && rank(given) >= rank(wanted);
    if (!same_shape(given, wanted) && !widened) {
      return error(argument.span, fmt::format("output '{}' is {}, not {}", parameter.name, a(wanted), a(given)));
    }
    check_same_graph(argument.span, given, wanted);
  }

  Type check_function(Expression& expression) {
    const auto& name = expression.reference.name;
    const auto* function = find_builtin_function(name);
    if (function == nullptr) {
      std::vector<std::string> names;
      for (const auto& [procedure, ignored] : procedures_) names.push_back(procedure);
      for (const auto& each : builtin_functions()) {
        if (each.receiver == Receiver::none) names.emplace_back(each.name);
      }
      error(expression.reference.span,
            fmt::format("no procedure '{}' in this file{}", name, meant(nearest(name, names))));
      return {};
    }
    expression.kind = ExpressionKind::function;
    expression.builtin = function->builtin;
    if (!expression.outputs.empty()) error(expression.span, "built-in functions have no outputs");
    for (const auto& operand : expression.operands) {
      if (is_error(operand->type)) return {};
    }
    check_arguments(expression, *function, {});
    return given(*function, expression, {});
  }

  // --- conversions

  static ExpressionPtr wrapped(ExpressionPtr expression, const Type& type) {
    auto convert = std::make_unique<Expression>();
    convert->kind = ExpressionKind::convert;
    convert->span = expression->span;
    convert->type = type;
    convert->constant = expression->constant;
    convert->operands.push_back(std::move(expression));
    return convert;
  }

  /// Makes the expression one of `type`, which must be possible.
  static void coerce(ExpressionPtr& expression, const Type& type) {
    if (expression->type.kind == type.kind) return;
    if (expression->type.is(TypeKind::infinity) || expression->type.is(TypeKind::nil)) return adopt(*expression, type);
    expression = wrapped(std::move(expression), type);
  }

  /// INF and NIL take the type that is needed, also within conditionals and signs.
  static void adopt(Expression& expression, const Type& type) {
    expression.type = type;
    if (expression.kind == ExpressionKind::conditional) {
      coerce(expression.operands[1], type);
      coerce(expression.operands[2], type);
    } else if (expression.kind == ExpressionKind::unary) {
      coerce(expression.operands[0], type);
    }
  }

  /// As coerce(), if a value of the expression's type may be assigned to one of `type`; else an error.
  void convert(ExpressionPtr& expression, const Type& type) {
    const Type from = expression->type;
    if (is_error(from) || is_error(type)) return;
    const auto wrong = [&](const char* hint) {
      error(expression->span, fmt::format("expected {}, not {}{}", a(type), a(from), hint));
    };
    if (is_number(type) && is_number_or_infinity(from)) return convert_number(expression, type);
    if (from.is(TypeKind::nil) && is_item(type)) return coerce(expression, type);
    if (type.is(TypeKind::foreign) || from.is(TypeKind::foreign)) {
      if (from.kind != type.kind || from.name != type.name) expression = wrapped(std::move(expression), type);
      return;
    }
    if (is_number(from) && type.is(TypeKind::boolean)) return wrong("; compare it with 0");
    if (!same_shape(from, type)) return wrong("");
    if (type.is(TypeKind::graph) || is_property(type)) return wrong("");
    check_same_graph(expression->span, from, type);
  }

  void convert_number(ExpressionPtr& expression, const Type& type) {
    const Type from = expression->type;
    const auto narrowing = [&] {
      error(expression->span,
            fmt::format("{} does not become {} by itself; write ({}) before it", a(from), a(type), a(type)));
    };
    if (is_whole(type) && is_fraction(from)) return narrowing();
    if (type.is(TypeKind::integer) && from.is(TypeKind::long_integer) && !expression->constant) return narrowing();
    if (type.is(TypeKind::integer) && from.is(TypeKind::long_integer) && expression->kind == ExpressionKind::integer) {
      return error(expression->span, fmt::format("{} does not fit into an Int", expression->integer));
    }
    if (is_fraction(type) && is_whole(from) && !expression->constant) {
      const bool lost = from.is(TypeKind::long_integer) || (from.is(TypeKind::integer) && type.is(TypeKind::single));
      if (expression->kind == ExpressionKind::binary && expression->op == Operator::divide) {
        warning(
            expression->span,
            fmt::format("the quotient of whole numbers is whole, then becomes {}; write (Double) before one of them",
                        a(type)));
      } else if (lost) {
        warning(expression->span, fmt::format("{} has more digits than {} holds", a(from), a(type)));
      }
    }
    if (type.is(TypeKind::single) && from.is(TypeKind::real) && !expression->constant) {
      warning(expression->span, "Double has more digits than Float holds; write (Float) before it if that is meant");
    }
    coerce(expression, type);
  }

  struct Group {
    const Symbol* group = nullptr;  ///< the graph or collection of a group assignment
    Symbol* element = nullptr;
  };
  /// An argument that is passed by reference.
  struct ReferenceArgument {
    const Expression* call;
    Symbol* argument;
    const Symbol* parameter;
    Span span;
    bool changes() const { return parameter->assigned || parameter->kind == SymbolKind::output; }
  };

  Program& program_;
  Diagnostics& diagnostics_;
  std::map<std::string, Procedure*> procedures_;
  using Scope = std::map<std::string, Symbol*>;
  std::map<const Procedure*, Scope> parameter_scopes_;
  std::vector<Scope> scopes_;
  std::vector<Statement*> loops_;  ///< around the current statement, outermost first
  std::vector<const Statement*> blocks_;
  Procedure* procedure_ = nullptr;
  Group group_;
  bool effects_allowed_ = false;  ///< of the expression to be checked next
  bool value_unused_ = false;
  std::vector<std::pair<const Expression*, std::string>>
      nested_calls_;  ///< errors if the callee turns out to have effects
  std::vector<ReferenceArgument> passed_;
};

}  // namespace

void check(Program& program, Diagnostics& diagnostics) { Checker(program, diagnostics).run(); }

}  // namespace smelt::graph::language
