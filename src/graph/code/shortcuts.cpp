#include "graph/code/shortcuts.hpp"

#include <algorithm>
#include <set>

#include "graph/analysis/accesses.hpp"

namespace smelt::graph::language {
namespace {

const Symbol* named(const Expression& expression) {
  return expression.kind == ExpressionKind::name ? expression.reference.symbol : nullptr;
}

/// An iterator of another loop, which does not change while this one runs.
const Expression* fixed_node(const Expression& expression, const Symbol& iterator) {
  const Symbol* symbol = named(expression);
  return symbol != nullptr && symbol != &iterator && symbol->kind == SymbolKind::iterator &&
                 symbol->type.is(TypeKind::node)
             ? &expression
             : nullptr;
}

/// The statements of a body, without the braces.
std::vector<const Statement*> sentences(const Statement& body) {
  if (body.kind != StatementKind::block) return {&body};
  std::vector<const Statement*> list;
  for (const auto& each : body.body) list.push_back(each.get());
  return list;
}

const Expression& unconverted(const Expression& expression) {
  const Expression* inner = &expression;
  while (inner->kind == ExpressionKind::convert) inner = inner->operands[0].get();
  return *inner;
}

bool is_constant(const Expression& expression) { return unconverted(expression).kind == ExpressionKind::integer; }

}  // namespace

std::vector<const Expression*> terms_of(const Expression* condition) {
  if (condition == nullptr) return {};
  if (condition->kind != ExpressionKind::binary || condition->op != Operator::logical_and) return {condition};
  auto terms = terms_of(condition->operands[0].get());
  for (const auto* term : terms_of(condition->operands[1].get())) terms.push_back(term);
  return terms;
}

NeighbourBounds neighbour_bounds(const Symbol& iterator, const std::vector<const Expression*>& terms, bool merge) {
  NeighbourBounds bounds;
  for (const auto* term : terms) {
    if (term->kind == ExpressionKind::binary && (term->op == Operator::less || term->op == Operator::greater)) {
      const bool left = named(*term->operands[0]) == &iterator, right = named(*term->operands[1]) == &iterator;
      if (left == right) continue;
      const Expression* other = fixed_node(*term->operands[left ? 1 : 0], iterator);
      if (other == nullptr) continue;
      const bool above = left == (term->op == Operator::greater);
      auto& bound = above ? bounds.above : bounds.below;
      if (bound != nullptr) continue;
      bound = other;
      bounds.implied.push_back(term);
    } else if (merge && term->kind == ExpressionKind::method && bounds.adjacent_to == nullptr &&
               (term->builtin == Builtin::has_edge_to || term->builtin == Builtin::has_edge_from ||
                term->builtin == Builtin::is_neighbour_from)) {
      const bool owner = named(*term->operands[0]) == &iterator, argument = named(*term->operands[1]) == &iterator;
      if (owner == argument) continue;
      const Expression* other = fixed_node(*term->operands[owner ? 1 : 0], iterator);
      if (other == nullptr) continue;
      bounds.adjacent_to = other;
      bounds.adjacent_from_neighbour = owner == (term->builtin == Builtin::has_edge_to);
      bounds.implied.push_back(term);
    }
  }
  return bounds;
}

namespace {

/// What a loop does to a variable.
enum class Change { none, counts_up, other };

Change change_of(const Symbol& variable, const Statement& loop) {
  Change change = Change::none;
  const auto is_it = [&](const ExpressionPtr& target) { return target && named(*target) == &variable; };
  walk_statements(loop, [&](const Statement& statement) {
    if (statement.kind == StatementKind::foreign) change = Change::other;
    if (is_it(statement.target)) {
      const bool counts = statement.kind == StatementKind::assign && statement.assign_kind == AssignKind::reduce &&
                          statement.reduction == Reduction::sum && is_constant(*statement.value) &&
                          unconverted(*statement.value).integer >= 0;
      change = counts && change != Change::other ? Change::counts_up : Change::other;
    }
    for (const auto& target : statement.more_targets) {
      if (is_it(target)) change = Change::other;
    }
    for_each_expression(statement, [&](const Expression& expression) {
      walk(expression, [&](const Expression& each) {
        for (const auto& output : each.outputs) {
          if (is_it(output)) change = Change::other;
        }
      });
    });
  });
  return change;
}

}  // namespace

const Expression* lasting_bound(const Statement& loop) {
  if (loop.kind != StatementKind::loop || loop.parallel) return nullptr;
  for (const auto* term : terms_of(loop.iteration->filter.get())) {
    if (term->kind != ExpressionKind::binary || (term->op != Operator::less && term->op != Operator::less_equal))
      continue;
    const Symbol *counter = named(*term->operands[0]), *bound = named(*term->operands[1]);
    if (counter == nullptr || counter->kind != SymbolKind::variable || !is_whole(counter->type)) continue;
    const bool fixed = is_constant(*term->operands[1]) || (bound != nullptr && bound->kind != SymbolKind::iterator &&
                                                           change_of(*bound, loop) == Change::none);
    if (fixed && change_of(*counter, loop) == Change::counts_up) return term;
  }
  return nullptr;
}

bool counts_cliques(const Statement& loop) {
  if (loop.kind != StatementKind::loop || loop.iteration->range != Range::nodes || loop.iteration->filter) return false;
  std::vector<const Symbol*> nodes = {loop.iteration->iterator};
  std::set<std::pair<const Symbol*, const Symbol*>> adjacent;
  const auto add = [&](const Symbol* a, const Symbol* b) {
    adjacent.insert(a < b ? std::pair(a, b) : std::pair(b, a));
  };
  bool understood = true;
  const auto take_terms = [&](const Expression* condition) {
    for (const auto* term : terms_of(condition)) {
      const Symbol* left = term->operands.size() == 2 ? named(*term->operands[0]) : nullptr;
      const Symbol* right = term->operands.size() == 2 ? named(*term->operands[1]) : nullptr;
      if (left == nullptr || right == nullptr) {
        understood = false;
      } else if (term->kind == ExpressionKind::binary &&
                 (term->op == Operator::less || term->op == Operator::greater)) {
        continue;  // any order: all assignments of a clique's nodes are looked at
      } else if (term->kind == ExpressionKind::method &&
                 (term->builtin == Builtin::has_edge_to || term->builtin == Builtin::has_edge_from ||
                  term->builtin == Builtin::is_neighbour_from)) {
        add(left, right);
      } else {
        understood = false;
      }
    }
  };
  const Statement* at = loop.body[0].get();
  for (;;) {
    const auto list = sentences(*at);
    if (list.size() != 1) return false;
    at = list.front();
    if (at->kind == StatementKind::loop &&
        (at->iteration->range == Range::neighbours || at->iteration->range == Range::common_neighbours)) {
      const Symbol* source = named(*at->iteration->source);
      if (source == nullptr) return false;
      add(source, at->iteration->iterator);
      if (at->iteration->argument) {
        const Symbol* other = named(*at->iteration->argument);
        if (other == nullptr) return false;
        add(other, at->iteration->iterator);
      }
      nodes.push_back(at->iteration->iterator);
      take_terms(at->iteration->filter.get());
      at = at->body[0].get();
    } else if (at->kind == StatementKind::if_else && at->body[1] == nullptr) {
      take_terms(at->value.get());
      at = at->body[0].get();
    } else {
      break;
    }
    if (!understood) return false;
  }
  const bool counts = at->kind == StatementKind::assign && at->assign_kind == AssignKind::reduce &&
                      at->reduction == Reduction::sum && at->target->kind == ExpressionKind::name &&
                      is_constant(*at->value);
  if (!counts || nodes.size() < 3) return false;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (std::size_t j = i + 1; j < nodes.size(); ++j) {
      if (!adjacent.contains(nodes[i] < nodes[j] ? std::pair(nodes[i], nodes[j]) : std::pair(nodes[j], nodes[i])))
        return false;
    }
  }
  return true;
}

std::optional<Scatter> scatter_of(const Statement& loop) {
  if (loop.kind != StatementKind::loop || !loop.parallel || loop.iteration->range != Range::nodes ||
      loop.iteration->reverse)
    return std::nullopt;
  Scatter scatter;
  for (const auto* sentence : sentences(*loop.body[0])) {
    if (scatter.inner != nullptr) return std::nullopt;
    if (sentence->kind == StatementKind::declare) {
      scatter.declarations.push_back(sentence);
    } else if (sentence->kind == StatementKind::loop) {
      scatter.inner = sentence;
    } else {
      return std::nullopt;
    }
  }
  if (scatter.inner == nullptr) return std::nullopt;
  const Iteration& iteration = *scatter.inner->iteration;
  const bool direct = iteration.range == Range::neighbours || iteration.range == Range::in_neighbours;
  if (!direct || named(*iteration.source) != loop.iteration->iterator) return std::nullopt;
  bool suitable = true;
  for (const auto* declaration : scatter.declarations) {
    for (const auto* symbol : declaration->symbols)
      suitable &= !symbol->reassigned && (is_primitive(symbol->type) || is_item(symbol->type));
  }
  for (const auto* sentence : sentences(*scatter.inner->body[0])) {
    const bool reduces = (sentence->kind == StatementKind::assign || sentence->kind == StatementKind::arg_assign) &&
                         sentence->assign_kind == AssignKind::reduce && sentence->bound_loop == &loop;
    const auto to_neighbour = [&](const Expression& target) {
      return target.kind == ExpressionKind::field && named(*target.operands[0]) == iteration.iterator;
    };
    if (!reduces || !to_neighbour(*sentence->target)) return std::nullopt;
    for (const auto& along : sentence->more_targets) suitable &= to_neighbour(*along);
    scatter.reductions.push_back(sentence);
  }
  // An edge's number is that of the other direction when it is come to from its other end.
  walk_statements(loop, [&](const Statement& statement) {
    for_each_expression(statement, [&](const Expression& expression) {
      walk(expression, [&](const Expression& each) {
        suitable &= !(each.kind == ExpressionKind::method && each.builtin == Builtin::to_edge);
        suitable &= each.kind != ExpressionKind::foreign && each.kind != ExpressionKind::call &&
                    each.kind != ExpressionKind::reduction;
        suitable &= !(each.kind == ExpressionKind::function &&
                      (each.builtin == Builtin::rand || each.builtin == Builtin::uniform));
      });
    });
  });
  return suitable && !scatter.reductions.empty() ? std::optional(scatter) : std::nullopt;
}

const Statement* assignments_on_discovery(const Statement& traversal) {
  if (traversal.kind != StatementKind::bfs || traversal.iteration->filter || traversal.navigator) return nullptr;
  const auto list = sentences(*traversal.body[0]);
  if (list.size() != 1 || list.front()->kind != StatementKind::loop) return nullptr;
  const Statement& inner = *list.front();
  if (inner.iteration->range != Range::down_neighbours || inner.iteration->filter) return nullptr;
  if (named(*inner.iteration->source) != traversal.iteration->iterator) return nullptr;
  std::set<const Symbol*> written;
  for (const auto* sentence : sentences(*inner.body[0])) {
    const bool assigns = sentence->kind == StatementKind::assign && sentence->assign_kind == AssignKind::set &&
                         sentence->target->kind == ExpressionKind::field &&
                         named(*sentence->target->operands[0]) == inner.iteration->iterator;
    if (!assigns || is_any_collection(sentence->target->type) || sentence->target->type.is(TypeKind::string))
      return nullptr;
    written.insert(sentence->target->reference.symbol);
  }
  for (const auto& access : accesses_of(traversal)) {
    if (access.kind == AccessKind::read && written.contains(access.symbol)) {
      // The node that finds another one was found itself in the level before.
      if (access.driver == nullptr || named(*access.driver) != traversal.iteration->iterator) return nullptr;
    } else if (access.kind != AccessKind::read && access.kind != AccessKind::write) {
      return nullptr;
    }
  }
  return written.empty() ? nullptr : &inner;
}

}  // namespace smelt::graph::language
