#include "graph/code/shortcuts.hpp"

#include <algorithm>
#include <set>

#include "graph/analysis/accesses.hpp"

namespace smelt::graph::language {
namespace {

const Symbol* named(const Expression& expression) {
  return expression.kind == ExpressionKind::name ? expression.reference.symbol : nullptr;
}

/// Whether this is the iterator of another loop, which is constant during this one.
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

/// Whether it may give something else each time.
bool is_random(const Expression& expression) {
  switch (expression.kind) {
    case ExpressionKind::function: return expression.builtin == Builtin::rand || expression.builtin == Builtin::uniform;
    case ExpressionKind::method:
      return expression.builtin == Builtin::pick_random || expression.builtin == Builtin::pick_random_neighbour;
    default: return false;
  }
}

/// T += constant
bool counts(const Statement& statement) {
  return statement.kind == StatementKind::assign && statement.assign_kind == AssignKind::reduce &&
         statement.reduction == Reduction::sum && statement.target->kind == ExpressionKind::name &&
         is_constant(*statement.value);
}

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

const Statement* counting_of(const Statement& loop, const NeighbourBounds& bounds) {
  auto terms = terms_of(loop.iteration->filter.get());
  auto list = sentences(*loop.body[0]);
  if (list.size() == 1 && list.front()->kind == StatementKind::if_else && list.front()->body[1] == nullptr) {
    for (const auto* term : terms_of(list.front()->value.get())) terms.push_back(term);
    list = sentences(*list.front()->body[0]);
  }
  const auto is_implied = [&](const Expression* term) {
    return std::find(bounds.implied.begin(), bounds.implied.end(), term) != bounds.implied.end();
  };
  const bool alone = list.size() == 1 && std::all_of(terms.begin(), terms.end(), is_implied);
  return alone && counts(*list.front()) ? list.front() : nullptr;
}

const Statement& innermost_loop(const Statement& nest) {
  const Statement* innermost = &nest;
  walk_statements(nest, [&](const Statement& each) {
    if (each.kind == StatementKind::loop) innermost = &each;
  });
  return *innermost;
}

namespace {

/// How a loop accesses a variable.
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
  // Only the nest's own nodes: another node has its number in the graph itself, these have that of the ordered one.
  const auto node_of_nest = [&](const Expression& expression) {
    const Symbol* symbol = named(expression);
    return std::find(nodes.begin(), nodes.end(), symbol) == nodes.end() ? nullptr : symbol;
  };
  bool understood = true;
  const auto take_terms = [&](const Expression* condition) {
    for (const auto* term : terms_of(condition)) {
      const Symbol* left = term->operands.size() == 2 ? node_of_nest(*term->operands[0]) : nullptr;
      const Symbol* right = term->operands.size() == 2 ? node_of_nest(*term->operands[1]) : nullptr;
      if (left == nullptr || right == nullptr) {
        understood = false;
      } else if (term->kind == ExpressionKind::binary &&
                 (term->op == Operator::less || term->op == Operator::greater)) {
        continue;  // any order is right: all assignments of a clique's nodes are checked
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
      const Symbol* source = node_of_nest(*at->iteration->source);
      if (source == nullptr) return false;
      add(source, at->iteration->iterator);
      if (at->iteration->argument) {
        const Symbol* other = node_of_nest(*at->iteration->argument);
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
  if (!counts(*at) || nodes.size() < 3) return false;
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
  // From its other end, an edge has the number of the other direction.
  walk_statements(loop, [&](const Statement& statement) {
    for_each_expression(statement, [&](const Expression& expression) {
      walk(expression, [&](const Expression& each) {
        suitable &= !(each.kind == ExpressionKind::method && each.builtin == Builtin::to_edge);
        suitable &= each.kind != ExpressionKind::foreign && each.kind != ExpressionKind::call &&
                    each.kind != ExpressionKind::reduction;
        suitable &= !is_random(each);
      });
    });
  });
  return suitable && !scatter.reductions.empty() ? std::optional(scatter) : std::nullopt;
}

namespace {

/// Whether a value is the same wherever its node is found: it needs no edge, no random numbers, no other code, and no
/// levels, which are incomplete meanwhile.
bool is_known_on_discovery(const Expression& value) {
  bool known = true;
  walk(value, [&](const Expression& each) {
    switch (each.kind) {
      case ExpressionKind::call:
      case ExpressionKind::foreign: known = false; break;
      case ExpressionKind::method: known &= each.builtin != Builtin::to_edge && !is_random(each); break;
      case ExpressionKind::function: known &= !is_random(each); break;
      case ExpressionKind::reduction: known &= !is_by_level(each.iteration->range); break;
      default: break;
    }
  });
  return known;
}

}  // namespace

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
    if (!assigns || is_any_collection(sentence->target->type) || sentence->target->type.is(TypeKind::string) ||
        !is_known_on_discovery(*sentence->value))
      return nullptr;
    written.insert(sentence->target->reference.symbol);
  }
  for (const auto& access : accesses_of(traversal)) {
    if (access.kind == AccessKind::read && written.contains(access.symbol)) {
      // A node that discovers another one belongs to the level before.
      if (access.driver == nullptr || named(*access.driver) != traversal.iteration->iterator) return nullptr;
    } else if (access.kind != AccessKind::read && access.kind != AccessKind::write) {
      return nullptr;
    }
  }
  return written.empty() ? nullptr : &inner;
}

namespace {

/// Expressions over variables that a label correction declares. A variable stands for its initial value.
class LabelExpressions {
 public:
  explicit LabelExpressions(const LabelCorrection& form) : form_(form) {}

  /// Adds a declaration's variables. False if one of them is not constant.
  bool declare(const Statement& declaration) {
    for (const auto* symbol : declaration.symbols) {
      if (symbol->reassigned || symbol->initial == nullptr || !(is_number(symbol->type) || is_item(symbol->type)))
        return false;
      local_.insert(symbol);
    }
    return true;
  }

  /// Whether it is the node's label plus a loop-invariant value.
  bool rises(const Expression& given) const {
    const Expression& expression = unconverted(given);
    if (const Symbol* symbol = named(expression); symbol != nullptr)
      return local_.contains(symbol) && rises(*symbol->initial);
    if (expression.kind == ExpressionKind::field)
      return expression.reference.symbol == form_.property && named(*expression.operands[0]) == form_.node;
    if (expression.kind != ExpressionKind::binary) return false;
    const Expression &left = *expression.operands[0], &right = *expression.operands[1];
    if (expression.op == Operator::subtract) return rises(left) && is_fixed(right);
    return expression.op == Operator::add && ((rises(left) && is_fixed(right)) || (is_fixed(left) && rises(right)));
  }

  /// Whether its value is loop-invariant.
  bool is_fixed(const Expression& expression) const {
    return all_of(expression, [&](const Expression& each) {
      if (const Symbol* symbol = named(each); symbol != nullptr && local_.contains(symbol))
        return is_fixed(*symbol->initial);
      return !(each.kind == ExpressionKind::field && each.reference.symbol == form_.property);
    });
  }

  /// Whether several threads may evaluate it concurrently.
  bool is_plain(const Expression& expression) const {
    return all_of(expression, [](const Expression&) { return true; });
  }

 private:
  template <class Holds>
  bool all_of(const Expression& expression, Holds&& holds) const {
    bool all = true;
    walk(expression, [&](const Expression& each) {
      switch (each.kind) {
        case ExpressionKind::index:
        case ExpressionKind::reduction:
        case ExpressionKind::call:
        case ExpressionKind::foreign: all = false; break;
        case ExpressionKind::function: all &= each.builtin != Builtin::rand && each.builtin != Builtin::uniform; break;
        case ExpressionKind::method:
          all &= is_item(each.operands[0]->type) && each.builtin != Builtin::pick_random_neighbour;
          break;
        default: all &= holds(each);
      }
    });
    return all;
  }

  const LabelCorrection& form_;
  std::set<const Symbol*> local_;
};

/// The map of While (m.Size() > 0).
const Symbol* map_that_empties(const Statement& loop) {
  if (loop.kind != StatementKind::while_loop || loop.value->kind != ExpressionKind::binary ||
      (loop.value->op != Operator::greater && loop.value->op != Operator::not_equal))
    return nullptr;
  const Expression &size = unconverted(*loop.value->operands[0]), &zero = unconverted(*loop.value->operands[1]);
  const bool compares = size.kind == ExpressionKind::method && size.builtin == Builtin::size &&
                        zero.kind == ExpressionKind::integer && zero.integer == 0;
  const Symbol* map = compares ? named(*size.operands[0]) : nullptr;
  return map != nullptr && map->kind == SymbolKind::variable && map->type.is(TypeKind::map) &&
                 map->type.key->is(TypeKind::node) && is_whole(*map->type.element)
             ? map
             : nullptr;
}

/// Node v = m.RemoveMinKey();
const Symbol* node_taken_from(const Symbol& map, const Statement& first) {
  if (first.kind != StatementKind::declare || first.symbols.size() != 1 || first.symbols[0]->reassigned) return nullptr;
  const Expression* value = first.symbols[0]->initial;
  return value != nullptr && value->kind == ExpressionKind::method && value->builtin == Builtin::remove_min_key &&
                 named(*value->operands[0]) == &map
             ? first.symbols[0]
             : nullptr;
}

/// If (d < w.P) { w.P = d; m[w] = f; }
bool take_comparison(const Statement& sentence, LabelCorrection& form) {
  if (sentence.kind != StatementKind::if_else || sentence.body[1] != nullptr ||
      sentence.value->kind != ExpressionKind::binary)
    return false;
  const bool greater = sentence.value->op == Operator::greater;
  if (!greater && sentence.value->op != Operator::less) return false;
  const Symbol* label = named(*sentence.value->operands[greater ? 1 : 0]);
  const Expression& place = *sentence.value->operands[greater ? 0 : 1];
  const Symbol* neighbour = form.loop->iteration->iterator;
  if (label == nullptr || place.kind != ExpressionKind::field || named(*place.operands[0]) != neighbour) return false;
  form.property = place.reference.symbol;
  form.comparison = &sentence;
  for (const auto* each : sentences(*sentence.body[0])) {
    if (each->kind != StatementKind::assign || each->assign_kind != AssignKind::set) return false;
    const Expression& target = *each->target;
    if (target.kind == ExpressionKind::field) {
      if (form.lowering != nullptr || target.reference.symbol != form.property ||
          named(*target.operands[0]) != neighbour || named(*each->value) != label)
        return false;
      form.lowering = each;
    } else {
      if (form.queueing != nullptr || target.kind != ExpressionKind::index || named(*target.operands[0]) != form.map ||
          named(*target.operands[1]) != neighbour)
        return false;
      form.queueing = each;
    }
  }
  return form.lowering != nullptr && form.queueing != nullptr &&
         form.property->type.element->kind == label->type.kind && is_number(label->type) &&
         form.property->type.is(TypeKind::node_property);
}

}  // namespace

std::optional<LabelCorrection> label_correction_of(const Statement& loop) {
  LabelCorrection form;
  form.map = map_that_empties(loop);
  if (form.map == nullptr) return std::nullopt;
  const auto list = sentences(*loop.body[0]);
  if (list.size() < 2 || list.back()->kind != StatementKind::loop) return std::nullopt;
  form.node = node_taken_from(*form.map, *list.front());
  form.before.assign(list.begin() + 1, list.end() - 1);
  form.loop = list.back();
  const Iteration& iteration = *form.loop->iteration;
  const bool direct = iteration.range == Range::neighbours || iteration.range == Range::in_neighbours;
  if (form.node == nullptr || !direct || iteration.filter || named(*iteration.source) != form.node) return std::nullopt;
  const auto inner = sentences(*form.loop->body[0]);
  if (inner.size() < 2 || !take_comparison(*inner.back(), form)) return std::nullopt;
  form.declarations.assign(inner.begin(), inner.end() - 1);
  LabelExpressions expressions(form);
  for (const auto* part : {&form.before, &form.declarations}) {
    for (const auto* each : *part) {
      if (each->kind != StatementKind::declare || !expressions.declare(*each)) return std::nullopt;
      for (const auto& value : each->values) {
        if (!expressions.is_plain(*value)) return std::nullopt;
      }
    }
  }
  return expressions.rises(*form.lowering->value) && expressions.is_plain(*form.queueing->value) ? std::optional(form)
                                                                                                 : std::nullopt;
}

}  // namespace smelt::graph::language
