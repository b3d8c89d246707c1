// Translates statements to C++.
#include <fmt/format.h>

#include <algorithm>

#include "graph/analysis/patterns.hpp"
#include "graph/analysis/values.hpp"
#include "graph/code/writer.hpp"

namespace smelt::graph::language {
namespace {

const Statement* first_sentence(const Statement& body) {
  if (body.kind != StatementKind::block) return &body;
  return body.body.empty() ? nullptr : body.body.front().get();
}

std::string initial_value(const Type& type) {
  if (is_item(type)) return fmt::format("gm::nil<{}>", cpp_type(type));
  return type.is(TypeKind::boolean) ? "false" : is_fraction(type) ? "0.0" : "0";
}

}  // namespace

void Writer::block(const Statement& block) {
  blocks_.push_back(&block);
  for (std::size_t i = 0; i < block.body.size(); ++i) {
    // Consecutive loops over the same nodes are merged.
    std::vector<const Statement*> run;
    for (std::size_t j = i; j < block.body.size(); ++j) {
      const Statement& next = *block.body[j];
      if (region_ != nullptr || !runs_in_parallel(next)) break;
      if (!run.empty() && !(options_.fuse && std::all_of(run.begin(), run.end(),
                                                         [&](const auto* each) { return can_fuse(*each, next); })))
        break;
      run.push_back(&next);
      if (!options_.fuse) break;
    }
    if (!run.empty()) {
      parallel_loops(run);
      i += run.size() - 1;
    } else {
      statement(*block.body[i]);
    }
  }
  blocks_.pop_back();
}

/// The body of a preceding head, without braces.
void Writer::body(const Statement& statement) {
  if (statement.kind == StatementKind::block) return block(statement);
  if (region_ == nullptr && runs_in_parallel(statement)) return parallel_loops({&statement});
  this->statement(statement);
}

void Writer::statement(const Statement& statement) {
  if (statement.kind != StatementKind::block) source_line(statement.span);
  switch (statement.kind) {
    case StatementKind::block:
      out_->open("");
      block(statement);
      return out_->close();
    case StatementKind::declare: return declaration(statement);
    case StatementKind::assign: return assign(statement);
    case StatementKind::arg_assign: return arg_assignment(statement);
    case StatementKind::group_assign: return group_assignment(statement);
    case StatementKind::loop: return loop(statement);
    case StatementKind::bfs: return traversal(statement);
    case StatementKind::dfs: return depth_first(statement);
    case StatementKind::if_else: return if_else(statement);
    case StatementKind::while_loop:
      if (label_correction(statement)) return;
      out_->open(fmt::format("while ({})", code(*statement.value)));
      body(*statement.body[0]);
      return out_->close();
    case StatementKind::do_while:
      out_->open("do");
      body(*statement.body[0]);
      return out_->close(fmt::format(" while ({});", code(*statement.value)));
    case StatementKind::return_value:
      return out_->add(statement.value ? fmt::format("return {};", code(*statement.value)) : "return;");
    case StatementKind::call: {
      const Expression& call = *statement.value;
      const bool in_place =
          call.kind == ExpressionKind::method &&
          (call.builtin == Builtin::unite || call.builtin == Builtin::intersect || call.builtin == Builtin::complement);
      std::string text = code(call);
      if (in_place) {  // S.Union(T); changes S
        const std::string place = collection(*call.operands[0]);
        text = locked(*call.operands[0]->reference.symbol, fmt::format("{} = {}", place, text));
      }
      return out_->add(text + ";");
    }
    case StatementKind::print: return print(statement);
    case StatementKind::error:
      return out_->add(fmt::format("gm::fail({}, {});", line_of(statement.span), code(*statement.value)));
    case StatementKind::foreign: return foreign_statement(statement);
  }
}

/// If (... && x.P == e) { x.P = f; ... } where others change P, too: the comparison and the assignment become one step,
/// so that no other change is lost between them. Empty if the statement is none of this form.
std::string Writer::replacement(const Statement& statement) {
  const Statement* first = first_sentence(*statement.body[0]);
  const auto terms = terms_of(statement.value.get());
  const Expression& last = *terms.back();
  if (region_ == nullptr || first == nullptr || last.kind != ExpressionKind::binary || last.op != Operator::equal)
    return {};
  if (first->kind != StatementKind::assign || first->assign_kind != AssignKind::set ||
      first->target->kind != ExpressionKind::field)
    return {};
  const Expression& target = *first->target;
  const Symbol& property = *target.reference.symbol;
  const bool whole = is_item(target.type) || is_whole(target.type) || target.type.is(TypeKind::boolean);
  if (mode_of(property) != Mode::relaxed || !whole || target.operands[0]->kind != ExpressionKind::name) return {};
  for (const int side : {0, 1}) {
    const Expression &place = *last.operands[side], &expected = *last.operands[1 - side];
    const bool same = place.kind == ExpressionKind::field && place.reference.symbol == &property &&
                      place.operands[0]->kind == ExpressionKind::name &&
                      place.operands[0]->reference.symbol == target.operands[0]->reference.symbol;
    if (!same || cpp_type(expected.type) != cpp_type(place.type)) continue;
    std::string test;
    for (const auto* term : terms) {
      if (term != &last && !implied_.contains(term)) test += within(*term, 3) + " && ";
    }
    decide(statement.span,
           fmt::format("'{}' is compared and assigned to in one step: no change by another instance is lost",
                       property.name));
    return fmt::format("{}gm::replace({}, {}, {})", test, element(property, index_of(*target.operands[0])),
                       code(expected), code(*first->value));
  }
  return {};
}

void Writer::if_else(const Statement& statement) {
  const std::string replaced = replacement(statement);
  const std::string test = replaced.empty() ? condition(*statement.value) : replaced;
  out_->open(test.empty() ? "" : fmt::format("if ({})", test));
  if (replaced.empty()) {
    body(*statement.body[0]);
  } else if (statement.body[0]->kind == StatementKind::block) {
    source_line(statement.body[0]->body[0]->span);
    for (std::size_t i = 1; i < statement.body[0]->body.size(); ++i) this->statement(*statement.body[0]->body[i]);
  }
  if (statement.body[1]) {
    out_->close(" else {");
    out_->set_depth(out_->depth() + 1);
    body(*statement.body[1]);
  }
  out_->close();
}

/// The expected number of accesses per element of an array, for a graph of average degree and some iterations.
std::string Writer::hints(const Symbol& symbol, const std::string& name) {
  constexpr double degree = 16, iterations = 10, size = 1;
  const auto patterns = access_patterns(*procedure_);
  const auto sum = [&](const std::vector<Frequency>& list) {
    double total = 0;
    for (const auto& each : list)
      total += each.value(1, symbol.type.is(TypeKind::node_property) ? degree : 1, iterations, size);
    return total;
  };
  for (const auto& pattern : patterns) {
    if (pattern.symbol != &symbol || pattern.name != name) continue;
    return fmt::format("{{\"{}\", {}, {}, {}, {}, {:g}, {:g}}}", name, pattern.node, pattern.read_only, pattern.dynamic,
                       pattern.indexed, sum(pattern.reads), sum(pattern.writes));
  }
  return fmt::format("{{\"{}\", {}, false, true, false, 1, 1}}", name, symbol.type.is(TypeKind::node_property));
}

void Writer::declaration(const Statement& statement) {
  for (std::size_t i = 0; i < statement.symbols.size(); ++i) {
    const Symbol& symbol = *statement.symbols[i];
    const std::string& name = name_of(symbol);
    const std::string type = cpp_type(symbol.type);
    const auto& value = statement.values[i];
    if (is_property(symbol.type)) {
      const char* elements = symbol.type.is(TypeKind::node_property) ? "nodes" : "edges";
      out_->add(fmt::format("{} {}(run, {}.{}, {});", type, name, name_of(*graph_of(symbol.type)), elements,
                            hints(symbol, symbol.name)));
      const Type& element = *symbol.type.element;
      if (!is_any_collection(element) && !element.is(TypeKind::string) && !is_assigned_first(symbol)) {
        out_->add(fmt::format("{}.for_chunks(gm::ByCount({}.size(), 1u << 14), [&](const gm::Chunk& chunk) {{",
                              run_name(), name));
        out_->add(fmt::format("  std::fill({}.data() + chunk.first, {}.data() + chunk.last, {});", name, name,
                              initial_value(element)));
        out_->add("});");
      }
    } else if (value && !symbol.type.is(TypeKind::foreign)) {
      out_->add(
          fmt::format("{} {} = {};", type, name, is_any_collection(value->type) ? collection(*value) : code(*value)));
    } else if (value) {
      out_->add(fmt::format("{} {} = {};", type, name, code(*value)));
    } else if (symbol.type.is(TypeKind::map)) {
      const bool items = is_item(*symbol.type.element);
      out_->add(fmt::format("{} {}{};", type, name, items ? "(" + initial_value(*symbol.type.element) + ")" : ""));
    } else if (is_any_collection(symbol.type) || symbol.type.is(TypeKind::string) ||
               symbol.type.is(TypeKind::foreign)) {
      out_->add(fmt::format("{} {};", type, name));
    } else {
      out_->add(fmt::format("{} {} = {};", type, name, initial_value(symbol.type)));
    }
  }
}

/// Whether the variable is unused after the statement: its block declares it and does not use it any more.
bool Writer::is_last_use(const Symbol& symbol, const Statement& statement) const {
  if (blocks_.empty() || symbol.kind != SymbolKind::variable || symbol.scope != blocks_.back()) return false;
  bool behind = false, used = false;
  for (const auto& each : blocks_.back()->body) {
    if (behind) {
      walk_statements(*each, [&](const Statement& inner) {
        for_each_expression(inner, [&](const Expression& expression) {
          walk(expression, [&](const Expression& part) { used |= part.reference.symbol == &symbol; });
        });
        for (const auto& name : inner.modified) used |= name.symbol == &symbol;
      });
    }
    behind |= each.get() == &statement;
  }
  return behind && !used;
}

void Writer::assign(const Statement& statement) {
  switch (statement.assign_kind) {
    case AssignKind::set: return assignment(statement);
    case AssignKind::defer: return deferred_assignment(statement);
    case AssignKind::reduce: return reduce_into(statement);
  }
}

void Writer::assignment(const Statement& statement) {
  const Expression& source = *statement.value;
  std::string value = is_any_collection(source.type) ? collection(source) : code(source);
  const bool moves = is_any_collection(source.type) && source.kind == ExpressionKind::name &&
                     is_last_use(*source.reference.symbol, statement);
  if (moves) value = fmt::format("std::move({})", value);
  assign_to(*statement.target, value, statement);
}

void Writer::assign_to(const Expression& target, const std::string& value, const Statement& statement) {
  const bool literal = statement.value && is_literal(*statement.value);
  const auto put = [&](const Symbol& symbol, const std::string& place) {
    switch (mode_of(symbol)) {
      case Mode::relaxed:
        return out_->add(fmt::format("gm::{}({}, {});", literal ? "store_if_other" : "store", place, value));
      case Mode::locked:
        return out_->add(fmt::format("{{ const std::lock_guard lock(run.mutex()); {} = {}; }}", place, value));
      default: return out_->add(fmt::format("{} = {};", place, value));
    }
  };
  switch (target.kind) {
    case ExpressionKind::name: return put(*target.reference.symbol, name_of(*target.reference.symbol));
    case ExpressionKind::field:
      return put(*target.reference.symbol, element(*target.reference.symbol, index_of(*target.operands[0])));
    default: {
      const Symbol& map = *target.operands[0]->reference.symbol;
      const std::string text = fmt::format("{}.set({}, {})", name_of(map), code(*target.operands[1]), value);
      return out_->add(locked(map, text) + ";");
    }
  }
}

void Writer::deferred_assignment(const Statement& statement) {
  const Expression& target = *statement.target;
  const Symbol& symbol = assigned_symbol(target);
  const auto& store = deferred_.at(&symbol);
  const std::string value = code(*statement.value);
  if (store.swapped) return out_->add(fmt::format("{}_[{}] = {};", store.name, index_of(*target.operands[0]), value));
  const std::string index = target.kind == ExpressionKind::field ? index_of(*target.operands[0]) : "0";
  const std::string part = region_ != nullptr && store.per_chunk ? "part(chunk.index)" : "part()";
  out_->add(fmt::format("{}.{}.emplace_back({}, {});", store.name, part, index, value));
}

std::string Writer::reduction_op(Reduction reduction, const Type& type, bool infinite) const {
  switch (reduction) {
    case Reduction::product: return "gm::Product";
    case Reduction::minimum: return "gm::Min";
    case Reduction::maximum: return "gm::Max";
    case Reduction::logical_and: return "gm::And";
    case Reduction::logical_or: return "gm::Or";
    default: return is_whole(type) && infinite ? "gm::SumOrInfinity" : "gm::Sum";
  }
}

void Writer::reduce_into(const Statement& statement) {
  const Expression& target = *statement.target;
  const Symbol& symbol = assigned_symbol(target);
  const bool infinite = may_be_infinite(target) || may_be_infinite(*statement.value);
  const std::string op = reduction_op(statement.reduction, target.type, infinite);
  const std::string value = code(*statement.value);
  if (target.kind == ExpressionKind::index) {
    const std::string text =
        fmt::format("{}.template reduce<{}>({}, {})", name_of(symbol), op, code(*target.operands[1]), value);
    return out_->add(locked(symbol, text) + ";");
  }
  const Mode mode = mode_of(symbol);
  std::string place =
      target.kind == ExpressionKind::field ? element(symbol, index_of(*target.operands[0])) : name_of(symbol);
  if (mode == Mode::partial) place = region_->partials.at(&symbol);
  if (mode == Mode::relaxed) return out_->add(fmt::format("gm::reduce<{}>({}, {});", op, place, value));
  if (mode == Mode::locked) {
    return out_->add(
        fmt::format("{{ const std::lock_guard lock(run.mutex()); gm::reduce_alone<{}>({}, {}); }}", op, place, value));
  }
  switch (statement.reduction) {
    case Reduction::sum:
      if (op == "gm::SumOrInfinity") break;
      if (value == "1") return out_->add(fmt::format("++{};", place));
      return out_->add(fmt::format("{} += {};", place, value));
    case Reduction::product: return out_->add(fmt::format("{} *= {};", place, value));
    default: break;
  }
  out_->add(fmt::format("gm::reduce_alone<{}>({}, {});", op, place, value));
}

/// <x; a, b> min= <v; c, d>. In a chunk's private values, or as a comparison, at whose places no other thread is: it
/// has them for itself, or the lock of the element. If all instances assign the same arguments, the one that lowers the
/// value assigns them.
void Writer::arg_assignment(const Statement& statement) {
  const Expression& target = *statement.target;
  const Symbol& symbol = assigned_symbol(target);
  const Mode mode = mode_of(symbol);
  if (mode == Mode::partial) {
    std::vector<std::string> values;
    for (const auto& value : statement.more_values) values.push_back(code(*value));
    return out_->add(fmt::format("{}.offer({}, {});", region_->partials.at(&symbol), code(*statement.value),
                                 fmt::join(values, ", ")));
  }
  if (mode == Mode::relaxed && !has_ties(statement)) return same_arg_assignment(statement);
  const char* compare = statement.reduction == Reduction::minimum ? "<" : ">";
  const std::string candidate = fresh("candidate");
  const bool ties =
      has_ties(statement) && statement.bound_loop != nullptr && !(mode == Mode::plain && comes_in_order(statement));
  out_->open(fmt::format("if (const auto {} = {}; {} {}{} {})", candidate, code(*statement.value), candidate, compare,
                         ties ? "=" : "", code(target)));
  if (mode == Mode::relaxed) {
    const std::string index = target.kind == ExpressionKind::field ? index_of(*target.operands[0]) : "0";
    out_->open(fmt::format("{}.with({}, [&]", ties_.at(&statement), index));
  } else if (mode == Mode::locked) {
    out_->add("const std::lock_guard lock(run.mutex());");
  }
  if (mode != Mode::plain || ties) {
    std::string better = fmt::format("{} {} {}", candidate, compare, code(target));
    if (ties) better += fmt::format(" || ({} == {} && {})", candidate, code(target), wins_tie(statement));
    out_->open(fmt::format("if ({})", better));
  }
  Statement plain{};
  assign_to(target, candidate, plain);
  for (std::size_t i = 0; i < statement.more_values.size(); ++i)
    assign_to(*statement.more_targets[i], code(*statement.more_values[i]), plain);
  if (ties) out_->add(changed_in_loop(statement, true) + ";");
  if (mode != Mode::plain || ties) out_->close();
  if (mode == Mode::relaxed) out_->close(");");
  out_->close();
}

/// If all instances assign the same along.
void Writer::same_arg_assignment(const Statement& statement) {
  const auto place_of = [&](const Expression& target) {
    const Symbol& symbol = *target.reference.symbol;
    return target.kind == ExpressionKind::field ? element(symbol, index_of(*target.operands[0])) : name_of(symbol);
  };
  out_->open(fmt::format("if (gm::reduce<{}>({}, {}))",
                         statement.reduction == Reduction::minimum ? "gm::Min" : "gm::Max", place_of(*statement.target),
                         code(*statement.value)));
  for (std::size_t i = 0; i < statement.more_values.size(); ++i) {
    const Expression& along = *statement.more_targets[i];
    const std::string value = code(*statement.more_values[i]);
    if (along.kind == ExpressionKind::index) {
      assign_to(along, value, Statement{});
    } else {
      out_->add(fmt::format("gm::store_if_other({}, {});", place_of(along), value));
    }
  }
  out_->close();
}

void Writer::print(const Statement& statement) {
  std::string text;
  for (const auto& value : statement.values) {
    text += fmt::format("{}gm::text_of({})", text.empty() ? "" : " + \" \" + ", code(*value));
  }
  out_->add(fmt::format("run.print({} + \"\\n\");", text));
}

void Writer::foreign_statement(const Statement& statement) { out_->add(foreign(*statement.value) + ";"); }

}  // namespace smelt::graph::language
