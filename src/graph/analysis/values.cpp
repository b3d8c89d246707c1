#include "graph/analysis/values.hpp"

#include <utility>

#include "graph/analysis/accesses.hpp"

namespace smelt::graph::language {
namespace {

/// Repeats until nothing changes: a symbol may have any value that may be assigned to it.
class Values {
 public:
  explicit Values(Program& program) : program_(program) {}

  void run() {
    for (auto& procedure : program_.procedures) initialize(*procedure);
    do {
      changed_ = false;
      for (auto& procedure : program_.procedures) {
        walk_statements(*procedure->body, [this](const Statement& each) { statement(each); });
      }
    } while (changed_);
  }

 private:
  static bool holds_items(const Type& type) {
    return is_item(type) || (is_property(type) && is_item(*type.element)) ||
           (type.is(TypeKind::map) && is_item(*type.element));
  }

  void initialize(Procedure& procedure) {
    for (auto& symbol : procedure.symbols) {
      if (symbol->kind == SymbolKind::iterator) continue;
      // Variables are undefined until assigned. Arguments may have any value.
      const bool assigned_at_once = symbol->kind == SymbolKind::variable && symbol->initial != nullptr;
      if (holds_items(symbol->type) && !assigned_at_once) symbol->may_be_nil = true;
      if (symbol->kind == SymbolKind::input && is_item(symbol->type)) symbol->may_be_nil = true;
      // Those of a local procedure are its callers'.
      const Type& held = is_property(symbol->type) ? *symbol->type.element : symbol->type;
      if (symbol->kind == SymbolKind::input && !procedure.local && is_whole(held)) symbol->may_be_infinite = true;
    }
  }

  void may_hold(Symbol* symbol, const Expression& value) {
    if (symbol == nullptr) return;
    if (!symbol->may_be_infinite && may_be_infinite(value)) symbol->may_be_infinite = changed_ = true;
    if (!symbol->may_be_nil && is_item(value.type) && may_be_nil(value)) symbol->may_be_nil = changed_ = true;
  }

  static Symbol* symbol_of(const Expression& target) {
    return target.kind == ExpressionKind::index ? target.operands[0]->reference.symbol : target.reference.symbol;
  }

  void statement(const Statement& statement) {
    if (statement.target) may_hold(symbol_of(*statement.target), *statement.value);
    for (std::size_t i = 0; i < statement.more_targets.size(); ++i)
      may_hold(symbol_of(*statement.more_targets[i]), *statement.more_values[i]);
    for (std::size_t i = 0; i < statement.symbols.size(); ++i) {
      if (statement.values[i]) may_hold(statement.symbols[i], *statement.values[i]);
    }
    for (const auto& name : statement.modified) {
      if (holds_items(name.symbol->type)) name.symbol->may_be_nil = true;
    }
    for_each_expression(statement, [this](const Expression& expression) {
      walk(expression, [this](const Expression& each) {
        if (each.kind == ExpressionKind::call && each.procedure != nullptr) call(each);
      });
    });
  }

  /// Values pass from arguments to the callee, and back for references and outputs.
  void call(const Expression& call) {
    for (std::size_t i = 0; i < call.operands.size(); ++i) {
      Symbol* parameter = call.procedure->inputs[i].symbol;
      may_hold(parameter, *call.operands[i]);
      if (is_large(parameter->type)) share(call.operands[i]->reference.symbol, parameter);
    }
    for (std::size_t i = 0; i < call.outputs.size(); ++i) {
      if (call.outputs[i]) share(symbol_of(*call.outputs[i]), call.procedure->outputs[i].symbol);
    }
  }

  void share(Symbol* a, Symbol* b) {
    if (a == nullptr || b == nullptr) return;
    for (auto flag : {&Symbol::may_be_infinite, &Symbol::may_be_nil}) {
      if (a->*flag == b->*flag) continue;
      a->*flag = b->*flag = changed_ = true;
    }
  }

  Program& program_;
  bool changed_ = false;
};

}  // namespace

bool may_be_infinite(const Expression& expression) {
  if (!is_whole(expression.type) && !is_property(expression.type)) return false;
  const auto operand = [&](std::size_t i) { return may_be_infinite(*expression.operands[i]); };
  switch (expression.kind) {
    case ExpressionKind::infinity: return true;
    case ExpressionKind::name:
    case ExpressionKind::field: return expression.reference.symbol->may_be_infinite;
    case ExpressionKind::index: return expression.operands[0]->reference.symbol->may_be_infinite;
    case ExpressionKind::unary:
    case ExpressionKind::cast:
    case ExpressionKind::convert: return operand(0);
    case ExpressionKind::binary:
      return (expression.op == Operator::add || expression.op == Operator::subtract) && (operand(0) || operand(1));
    case ExpressionKind::conditional: return operand(1) || operand(2);
    case ExpressionKind::reduction:
      return expression.reduction == Reduction::minimum || expression.reduction == Reduction::maximum ||
             (!expression.operands.empty() && operand(0));
    case ExpressionKind::call: {
      bool infinite = false;
      walk_statements(*expression.procedure->body, [&](const Statement& each) {
        infinite |= each.kind == StatementKind::return_value && each.value && may_be_infinite(*each.value);
      });
      return infinite;
    }
    case ExpressionKind::method: {
      const Expression& owner = *expression.operands[0];
      return owner.type.is(TypeKind::map) && owner.reference.symbol != nullptr &&
             owner.reference.symbol->may_be_infinite;
    }
    default: return false;
  }
}

bool may_be_nil(const Expression& expression) {
  switch (expression.kind) {
    case ExpressionKind::name:
      return expression.reference.symbol->kind != SymbolKind::iterator && expression.reference.symbol->may_be_nil;
    case ExpressionKind::current: return false;
    case ExpressionKind::field: return expression.reference.symbol->may_be_nil;
    case ExpressionKind::convert: return may_be_nil(*expression.operands[0]);
    case ExpressionKind::conditional: return may_be_nil(*expression.operands[1]) || may_be_nil(*expression.operands[2]);
    case ExpressionKind::method:
      return expression.builtin != Builtin::to_edge && expression.builtin != Builtin::from_node &&
             expression.builtin != Builtin::to_node;
    default: return true;
  }
}

void find_values(Program& program) { Values(program).run(); }

namespace {

bool mentions(const Expression& expression, const Symbol& symbol) {
  bool found = false;
  walk(expression, [&](const Expression& each) { found |= each.reference.symbol == &symbol; });
  return found;
}

bool mentions(const Statement& statement, const Symbol& symbol) {
  bool found = false;
  walk_statements(statement, [&](const Statement& each) {
    for_each_expression(each, [&](const Expression& expression) { found |= mentions(expression, symbol); });
    for (const auto& name : each.modified) found |= name.symbol == &symbol;
  });
  return found;
}

bool sets(const Statement& statement, const Symbol& property) {
  return statement.target && statement.assign_kind == AssignKind::set &&
         statement.target->reference.symbol == &property && !mentions(*statement.value, property);
}

/// The statement that uses the symbol first; null if none does.
const Statement* first_use(const Statement& body, const Symbol& symbol) {
  if (body.kind != StatementKind::block) return mentions(body, symbol) ? &body : nullptr;
  for (const auto& each : body.body) {
    if (const auto* use = first_use(*each, symbol)) return use;
  }
  return nullptr;
}

/// Foreach (v: G.Nodes) { ... v.P = ...; }, where the value is the first use of P, and each instance uses its own only.
bool sets_each(const Statement& loop, const Symbol& property) {
  if (loop.kind != StatementKind::loop || loop.iteration->filter) return false;
  const Range whole = property.type.is(TypeKind::node_property) ? Range::nodes : Range::edges;
  const Statement* first = first_use(*loop.body[0], property);
  if (loop.iteration->range != whole || first == nullptr || first->kind != StatementKind::assign ||
      !sets(*first, property))
    return false;
  bool own = true;
  for (const auto& access : accesses_of(loop)) own &= access.symbol != &property || access.place == Place::own;
  return own;
}

}  // namespace

bool is_assigned_first(const Symbol& property) {
  const Statement* first = first_use(*property.scope, property);
  if (first == nullptr) return true;
  const bool group = first->kind == StatementKind::group_assign && first->source->type.is(TypeKind::graph);
  return group ? sets(*first, property) : sets_each(*first, property);
}

}  // namespace smelt::graph::language
