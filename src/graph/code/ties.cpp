// <x; n> min= <e; n>: of equal values, the smallest arguments win. They compete only with those that the same loop has
// assigned, so it is kept in which places the loop has changed the value.
#include <fmt/format.h>

#include <algorithm>

#include "graph/code/writer.hpp"

namespace smelt::graph::language {

/// Whether equal values may bring different arguments.
bool Writer::has_ties(const Statement& statement) const {
  return statement.kind == StatementKind::arg_assign &&
         !std::all_of(statement.more_values.begin(), statement.more_values.end(),
                      [](const auto& each) { return is_literal(*each); });
}

/// Whether a single thread comes to ascending arguments: the first one wins then.
bool Writer::comes_in_order(const Statement& statement) const {
  if (statement.bound_loop == nullptr) return false;
  const Statement& loop = *statement.bound_loop;
  if (loop.kind != StatementKind::loop || loop.iteration->reverse || statement.more_values.size() != 1) return false;
  const Range range = loop.iteration->range;
  const bool ascends = range == Range::nodes || range == Range::edges || range == Range::neighbours ||
                       range == Range::in_neighbours || range == Range::out_edges;
  const Expression& value = *statement.more_values.front();
  return ascends && value.kind == ExpressionKind::name && value.reference.symbol == loop.iteration->iterator;
}

/// Whether the statement changes one place during a loop.
bool Writer::has_fixed_place(const Statement& statement, const Statement& loop) const {
  const Expression& target = *statement.target;
  if (target.kind == ExpressionKind::name) return true;
  if (target.kind != ExpressionKind::field || target.operands[0]->kind != ExpressionKind::name) return false;
  const Symbol& driver = *target.operands[0]->reference.symbol;
  return !is_private(driver, loop) && (driver.kind == SymbolKind::iterator || !driver.reassigned);
}

/// Before a loop within an instance, to whose end assignments are bound, or before one that does not share its
/// instances among threads.
void Writer::begin_ties(const Statement& loop) {
  walk_statements(loop, [&](const Statement& statement) {
    if (!has_ties(statement) || statement.bound_loop != &loop) return;
    if (region_ == nullptr) return begin_ties_of(statement);
    if (mode_of(assigned_symbol(*statement.target)) == Mode::plain && !comes_in_order(statement) &&
        has_fixed_place(statement, loop))
      begin_tie(statement);
  });
}

/// A flag for the one place that the statement changes.
void Writer::begin_tie(const Statement& statement) {
  ties_[&statement] = fresh("changed");
  fixed_ties_.insert(&statement);
  out_->add(fmt::format("bool {} = false;", ties_[&statement]));
}

/// Before loops whose instances all threads share.
void Writer::begin_shared_ties(const Region& region, const std::vector<const Statement*>& loops) {
  const auto is_marked = [&](const Statement& statement, const Statement& loop) {
    const auto found = region.modes.find(&assigned_symbol(*statement.target));
    const Mode mode = found == region.modes.end() ? Mode::plain : found->second;
    const Statement* bound = statement.bound_loop;
    if (mode == Mode::partial || (bound != nullptr && !is_within(bound, &loop))) return false;
    if (mode == Mode::relaxed) return true;  // for the elements' locks as well
    if (bound == nullptr) return false;
    const bool has_flag = bound != &loop && has_fixed_place(statement, *bound);
    return mode != Mode::plain || !(comes_in_order(statement) || has_flag);
  };
  for (const auto* loop : loops) {
    walk_statements(*loop, [&](const Statement& statement) {
      if (has_ties(statement) && is_marked(statement, *loop)) begin_ties_of(statement);
    });
  }
}

/// A mark for each element, or for each key of a map.
void Writer::begin_ties_of(const Statement& statement) {
  const Expression& target = *statement.target;
  const Symbol& symbol = assigned_symbol(target);
  const bool of_map = target.kind == ExpressionKind::index;
  auto& name = ties_[&statement];
  if (name.empty() || fixed_ties_.erase(&statement) > 0) {
    name = fresh(name_of(symbol) + "_changes");
    prolog_.push_back(of_map ? fmt::format("gm::Map<{}, bool> {};", cpp_type(*symbol.type.key), name)
                             : fmt::format("gm::Changes {};", name));
  }
  if (of_map) return out_->add(name + ".clear();");
  const std::string size = target.kind == ExpressionKind::name
                               ? "1"
                               : fmt::format("{}.{}", name_of(*graph_of(symbol.type)),
                                             symbol.type.is(TypeKind::node_property) ? "nodes" : "edges");
  out_->add(fmt::format("{}.start({});", name, size));
}

/// Whether the loop has changed the value in this place; or, as a statement, that it has.
std::string Writer::changed_in_loop(const Statement& statement, bool now) {
  const Expression& target = *statement.target;
  const std::string& name = ties_.at(&statement);
  if (fixed_ties_.contains(&statement)) return now ? name + " = true" : name;
  if (target.kind == ExpressionKind::index)
    return fmt::format("{}.{}({}{})", name, now ? "set" : "get", code(*target.operands[1]), now ? ", true" : "");
  const std::string index = target.kind == ExpressionKind::field ? index_of(*target.operands[0]) : "0";
  return fmt::format("{}.{}({})", name, now ? "change" : "changed", index);
}

/// Whether the arguments replace those of an equal value.
std::string Writer::wins_tie(const Statement& statement) {
  std::string now, then;
  for (std::size_t i = 0; i < statement.more_values.size(); ++i) {
    const char* comma = i == 0 ? "" : ", ";
    now += fmt::format("{}{}({})", comma, cpp_type(statement.more_targets[i]->type), code(*statement.more_values[i]));
    then += comma + code(*statement.more_targets[i]);
  }
  return fmt::format("{} && std::tuple({}) < std::tuple({})", changed_in_loop(statement, false), now, then);
}

/// After a loop with private values per chunk: the best of them is assigned.
void Writer::end_ties(const Statement& statement, const std::string& part) {
  std::string along;
  for (const auto& each : statement.more_targets)
    along += (along.empty() ? "" : ", ") + name_of(*each->reference.symbol);
  const std::string& name = name_of(*statement.target->reference.symbol);
  // A loop around this one, to whose end the assignment is bound, may have assigned before.
  const bool competes = ties_.contains(&statement);
  std::string improves = fmt::format("best.improves({})", name);
  if (competes)
    improves += fmt::format(" || ({} && best.equals({}) && best.along() < std::tie({}))",
                            changed_in_loop(statement, false), name, along);
  out_->open(fmt::format("if (const auto best = gm::best_of({}s); {})", part, improves));
  out_->add(fmt::format("{} = best.value();", name));
  out_->add(fmt::format("std::tie({}) = best.along();", along));
  if (competes) out_->add(changed_in_loop(statement, true) + ";");
  out_->close();
}

}  // namespace smelt::graph::language
