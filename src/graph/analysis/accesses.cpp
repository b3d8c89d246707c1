#include "graph/analysis/accesses.hpp"

namespace smelt::graph::language {
namespace {

class Collector {
 public:
  Collector(const Statement& region, Part part) : region_(region), part_(part) {}

  std::vector<Access> run() {
    if (region_.kind == StatementKind::group_assign) {
      statement(region_);
      return std::move(accesses_);
    }
    if (part_ == Part::forward) {
      if (region_.iteration->filter) read(*region_.iteration->filter);
      if (region_.navigator) read(*region_.navigator);
      statement(*region_.body[0]);
    } else {
      if (region_.reverse_filter) read(*region_.reverse_filter);
      if (region_.body[1]) statement(*region_.body[1]);
    }
    return std::move(accesses_);
  }

 private:
  void add(AccessKind kind, Symbol* symbol, const Expression* driver, Span span, bool along = false) {
    if (symbol == nullptr || symbol->type.is(TypeKind::graph) || is_private(*symbol, region_)) return;
    Access access;
    access.kind = kind;
    access.symbol = symbol;
    access.driver = driver;
    access.place = driver == nullptr ? Place::shared : place_of(*driver, region_);
    access.statement = statement_;
    access.span = span;
    access.along = along;
    if (statement_ != nullptr && kind == AccessKind::reduce) access.reduction = statement_->reduction;
    if (kind == AccessKind::write && statement_ != nullptr && statement_->kind == StatementKind::assign) {
      const Expression* value = statement_->value.get();
      while (value->kind == ExpressionKind::convert) value = value->operands[0].get();
      access.constant = value->kind == ExpressionKind::boolean || value->kind == ExpressionKind::integer;
      access.literal = value->integer;
    }
    accesses_.push_back(access);
  }

  /// The kind of access that an assignment makes to its target.
  void change(const Expression& target, AccessKind kind, bool along = false) {
    switch (target.kind) {
      case ExpressionKind::name: return add(kind, target.reference.symbol, nullptr, target.span, along);
      case ExpressionKind::field:
        read(*target.operands[0]);
        return add(kind, target.reference.symbol, target.operands[0].get(), target.span, along);
      case ExpressionKind::index:
        read(*target.operands[1]);
        return add(kind == AccessKind::write ? AccessKind::change : kind, target.operands[0]->reference.symbol, nullptr,
                   target.span, along);
      default: return;
    }
  }

  void assignment(const Statement& statement) {
    const AccessKind kind = statement.assign_kind == AssignKind::set     ? AccessKind::write
                            : statement.assign_kind == AssignKind::defer ? AccessKind::defer
                                                                         : AccessKind::reduce;
    if (statement.target) change(*statement.target, kind);
    for (const auto& target : statement.more_targets) change(*target, AccessKind::reduce, true);
    read(*statement.value);
    for (const auto& value : statement.more_values) read(*value);
  }

  void statement(const Statement& statement) {
    const auto* before = statement_;
    statement_ = &statement;
    switch (statement.kind) {
      case StatementKind::assign:
      case StatementKind::arg_assign:
      case StatementKind::group_assign:
        if (statement.source && statement.source->type.kind != TypeKind::graph) read(*statement.source);
        assignment(statement);
        break;
      case StatementKind::foreign:
        read(*statement.value);
        for (const auto& name : statement.modified) add(AccessKind::change, name.symbol, nullptr, name.span);
        break;
      default: for_each_expression(statement, [this](const Expression& expression) { read(expression); });
    }
    for (const auto& each : statement.body) {
      if (each) this->statement(*each);
    }
    statement_ = before;
  }

  void read(const Expression& expression) {
    switch (expression.kind) {
      case ExpressionKind::name: return add(AccessKind::read, expression.reference.symbol, nullptr, expression.span);
      case ExpressionKind::field:
        add(AccessKind::read, expression.reference.symbol, expression.operands[0].get(), expression.span);
        return read(*expression.operands[0]);
      case ExpressionKind::method: return method(expression);
      case ExpressionKind::call: return call(expression);
      default: for_each_child(expression, [this](const Expression& child) { read(child); });
    }
  }

  void method(const Expression& expression) {
    const Expression& owner = *expression.operands[0];
    for (std::size_t i = 1; i < expression.operands.size(); ++i) read(*expression.operands[i]);
    const bool large = is_any_collection(owner.type) || owner.type.is(TypeKind::map);
    if (!large) return read(owner);
    AccessKind kind = AccessKind::read;
    switch (expression.builtin) {
      case Builtin::add:
      case Builtin::push_back:
      case Builtin::push_front: kind = AccessKind::add; break;
      case Builtin::remove: kind = AccessKind::remove; break;
      case Builtin::unite:
      case Builtin::intersect:
      case Builtin::complement:  // used as statements, they change their collection
        if (statement_ != nullptr && statement_->kind == StatementKind::call && statement_->value.get() == &expression)
          kind = AccessKind::change;
        break;
      case Builtin::clear:
      case Builtin::pop_front:
      case Builtin::pop_back:
      case Builtin::remove_key:
      case Builtin::remove_min_key:
      case Builtin::remove_max_key: kind = AccessKind::change; break;
      default: break;
    }
    if (owner.kind == ExpressionKind::field) {
      add(kind, owner.reference.symbol, owner.operands[0].get(), owner.span);
      read(*owner.operands[0]);
    } else {
      add(kind, owner.reference.symbol, nullptr, owner.span);
    }
  }

  /// A callee that changes an argument passed by reference may access it in any way.
  void call(const Expression& expression) {
    for (std::size_t i = 0; i < expression.operands.size(); ++i) {
      const Expression& argument = *expression.operands[i];
      read(argument);
      if (expression.procedure == nullptr || argument.kind != ExpressionKind::name || !is_large(argument.type))
        continue;
      const Symbol* parameter = expression.procedure->inputs[i].symbol;
      if (parameter->assigned) add(AccessKind::change, argument.reference.symbol, nullptr, argument.span);
    }
    for (const auto& output : expression.outputs) {
      if (output) change(*output, AccessKind::write);
    }
  }

  const Statement& region_;
  Part part_;
  const Statement* statement_ = nullptr;
  std::vector<Access> accesses_;
};

/// Whether the edge of a loop over neighbours, or of a loop over a node's edges, is the node's own.
Place place_of_edge(const Iteration& iteration, const Statement& region) {
  const bool listed_once = iteration.range != Range::common_neighbours && is_of_node(iteration.range);
  return listed_once && place_of(*iteration.source, region) == Place::own ? Place::own : Place::shared;
}

}  // namespace

std::vector<Access> accesses_of(const Statement& region, Part part) { return Collector(region, part).run(); }

Place place_of(const Expression& driver, const Statement& region) {
  if (driver.kind == ExpressionKind::convert) return place_of(*driver.operands[0], region);
  if (driver.kind == ExpressionKind::method && driver.builtin == Builtin::to_edge) {
    const Symbol* iterator = driver.operands[0]->reference.symbol;
    if (iterator == nullptr || iterator->iteration == nullptr) return Place::shared;
    return iterator->loop == &region ? Place::own : place_of_edge(*iterator->iteration, region);
  }
  if (driver.kind != ExpressionKind::name && driver.kind != ExpressionKind::current) return Place::shared;
  const Symbol* symbol = driver.reference.symbol;
  if (symbol->loop == &region && symbol->kind == SymbolKind::iterator) {
    if (region.kind == StatementKind::group_assign || region.kind == StatementKind::bfs) return Place::own;
    return has_distinct_elements(region.iteration->range, region.iteration->source->type) ||
                   is_edges_of_node(region.iteration->range)
               ? Place::own
               : Place::shared;
  }
  if (symbol->iteration != nullptr) {
    const Iteration& iteration = *symbol->iteration;
    if (is_edges_of_node(iteration.range)) return place_of_edge(iteration, region);
    const bool by_level = iteration.range == Range::up_neighbours || iteration.range == Range::down_neighbours;
    if (by_level && region.kind == StatementKind::bfs && place_of(*iteration.source, region) == Place::own)
      return Place::level;
    return Place::shared;
  }
  if (symbol->kind == SymbolKind::variable && symbol->initial != nullptr && !symbol->reassigned &&
      is_private(*symbol, region)) {
    return place_of(*symbol->initial, region);
  }
  return Place::shared;
}

bool can_meet(const Access& a, const Access& b) {
  if (a.place == Place::shared || b.place == Place::shared) return true;
  return a.place == Place::level && b.place == Place::level;
}

bool is_private(const Symbol& symbol, const Statement& region) {
  if (symbol.kind == SymbolKind::iterator && symbol.loop == nullptr) return true;  // of a reduction
  // The iterator over a collection of collections is a part of it.
  if (symbol.kind == SymbolKind::iterator && is_any_collection(symbol.type) && symbol.loop != &region)
    return is_private(*symbol.iteration->source->reference.symbol, region);
  for (const Statement* loop = symbol.loop; loop != nullptr; loop = loop->outer) {
    if (loop == &region) return true;
  }
  return false;
}

}  // namespace smelt::graph::language
