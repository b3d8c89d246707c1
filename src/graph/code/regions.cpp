// Parallel regions: how instances access shared data. Data of one instance is accessed plainly. Variables are reduced
// per chunk. Elements are added to sets without locks. Only places that two instances can access are atomic.
#include <fmt/format.h>

#include <algorithm>

#include "graph/analysis/values.hpp"
#include "graph/code/writer.hpp"

namespace smelt::graph::language {
namespace {

/// Whether two instances may access the same value, and one of them writes it.
bool is_contended(const std::vector<Access>& accesses) {
  for (std::size_t i = 0; i < accesses.size(); ++i) {
    for (std::size_t j = i; j < accesses.size(); ++j) {
      const Access &a = accesses[i], &b = accesses[j];
      // Deferred values are stored elsewhere until the loop ends.
      if (a.kind == AccessKind::defer || b.kind == AccessKind::defer) continue;
      if (a.kind == AccessKind::read && b.kind == AccessKind::read) continue;
      if (can_meet(a, b)) return true;
    }
  }
  return false;
}

bool all_are(const std::vector<Access>& accesses, AccessKind kind) {
  return std::all_of(accesses.begin(), accesses.end(), [&](const Access& each) { return each.kind == kind; });
}

}  // namespace

void Writer::prepare_region(Region& region, const Statement& statement, Part part) {
  region.statement = &statement;
  std::map<const Symbol*, std::vector<Access>> by_symbol;
  for (const auto& access : accesses_of(statement, part)) by_symbol[access.symbol].push_back(access);
  for (const auto& [symbol, accesses] : by_symbol) prepare_symbol(region, *symbol, accesses);
}

void Writer::prepare_symbol(Region& region, const Symbol& symbol, const std::vector<Access>& accesses) {
  auto& mode = region.modes[&symbol];
  if (all_are(accesses, AccessKind::read)) return;
  if (is_any_collection(symbol.type) || symbol.type.is(TypeKind::map)) {
    const bool adds = symbol.type.is(TypeKind::set) && all_are(accesses, AccessKind::add);
    mode = adds && symbol.kind != SymbolKind::iterator ? Mode::adding : Mode::locked;
    return;
  }
  if (is_property(symbol.type)) {
    const Type& element = *symbol.type.element;
    if (!is_contended(accesses)) return;
    mode = is_any_collection(element) || element.is(TypeKind::string) ? Mode::locked : Mode::relaxed;
    return;
  }
  // A variable.
  if (std::all_of(accesses.begin(), accesses.end(),
                  [](const Access& each) { return each.kind == AccessKind::read || each.kind == AccessKind::defer; }))
    return;
  const Statement* first = accesses.front().statement;
  const bool one_reduction = std::all_of(accesses.begin(), accesses.end(), [&](const Access& each) {
    const bool reduces =
        each.kind == AccessKind::reduce && each.statement != nullptr && each.reduction == accesses.front().reduction;
    if (!reduces || !is_within(region.statement, each.statement->bound_loop)) return false;
    return each.statement->kind == StatementKind::arg_assign ? each.statement == first
                                                             : first->kind == StatementKind::assign;
  });
  if (one_reduction && !accesses.front().along) {
    const bool scalars_along = std::all_of(first->more_targets.begin(), first->more_targets.end(),
                                           [](const auto& each) { return each->kind == ExpressionKind::name; });
    if (scalars_along && first->target->kind == ExpressionKind::name) {
      mode = Mode::partial;
      region.partials[&symbol] = fresh(name_of(symbol) + "_part");
      region.partial_statements[&symbol] = first;
      return;
    }
  }
  const bool assigned_along =
      std::all_of(accesses.begin(), accesses.end(), [](const Access& each) { return each.along; });
  if (assigned_along && first->target->kind == ExpressionKind::name)
    return;  // assigned together with the variable that it accompanies
  mode = symbol.type.is(TypeKind::string) ? Mode::locked : Mode::relaxed;
}

std::string Writer::run_name() {
  if (region_ == nullptr) return "run";
  region_->uses_nested_run = true;
  return "nested";
}

/// The start of a chunk: pointers to the arrays that it uses.
void Writer::region_prelude(const Region& region, CodeLines& lines) {
  for (const auto& [member, local] : region.arrays) {
    const bool of_graph = !member.ends_with(')');  // else of a search
    lines.add(of_graph ? fmt::format("const auto* const {} = run.local({}, chunk);", local, member)
                       : fmt::format("const auto* const {} = {};", local, member));
  }
  std::map<std::string, std::string> pointers;  // ordered by name, so that the text does not depend on addresses
  for (const auto& [symbol, pointer] : region.pointers) pointers[name_of(*symbol)] = pointer;
  for (const auto& [name, pointer] : pointers)
    lines.add(fmt::format("auto* const {} = {}.local(chunk);", pointer, name));
  for (const auto& line : region.prelude) lines.add(line);
  if (region.uses_random) lines.add("gm::Random random = run.random(chunk);");
  if (region.uses_nested_run) lines.add("gm::Run nested(run, chunk);");
}

namespace {

/// Ordered by name, so that the text does not depend on addresses.
std::map<std::string, const Symbol*> sorted_symbols(const std::map<const Symbol*, std::string>& symbols) {
  std::map<std::string, const Symbol*> sorted;
  for (const auto& [symbol, name] : symbols) sorted[name] = symbol;
  return sorted;
}

}  // namespace

/// Before the loop.
void Writer::begin_shared(Region& region, const std::vector<const Statement*>& loops, const std::string& chunks) {
  std::map<std::string, const Symbol*> adding;
  for (const auto& [symbol, mode] : region.modes) {
    if (mode == Mode::adding) adding[name_of(*symbol)] = symbol;
  }
  for (const auto& [name, symbol] : adding) {
    const char* elements = symbol->type.of_edges ? "edges" : "nodes";
    out_->add(fmt::format("{}.begin_adding(run.threads(), {}.{});", name, name_of(*graph_of(symbol->type)), elements));
  }
  for (const auto& [part, symbol] : sorted_symbols(region.partials)) {
    const Statement& statement = *region.partial_statements.at(symbol);
    const std::string type = cpp_type(symbol->type);
    const bool infinite = may_be_infinite(*statement.target) || may_be_infinite(*statement.value);
    const std::string op = reduction_op(statement.reduction, symbol->type, infinite);
    if (statement.kind == StatementKind::arg_assign) {
      std::string types = fmt::format("{}, {}", op, type);
      for (const auto& along : statement.more_targets) types += ", " + cpp_type(along->type);
      out_->add(fmt::format("std::vector<gm::Best<{}>> {}s({}.size());", types, part, chunks));
      region.prelude.push_back(fmt::format("auto& {} = {}s[chunk.index];", part, part));
    } else {
      out_->add(fmt::format("gm::Partials<{}, {}> {}s({}.size());", op, type, part, chunks));
      region.prelude.push_back(fmt::format("{} {} = {}::template neutral<{}>();", type, part, op, type));
    }
  }
  begin_shared_ties(region, loops);
}

/// At the end of a chunk.
void Writer::put_partials(const Region& region, CodeLines& lines) {
  for (const auto& [part, symbol] : sorted_symbols(region.partials)) {
    if (region.partial_statements.at(symbol)->kind == StatementKind::arg_assign) continue;
    lines.add(fmt::format("{}s.put(chunk, {});", part, part));
  }
}

/// After the loop.
void Writer::end_shared(const Region& region) {
  std::set<std::string> adding;
  for (const auto& [symbol, mode] : region.modes) {
    if (mode == Mode::adding) adding.insert(name_of(*symbol));
  }
  for (const auto& name : adding) out_->add(fmt::format("{}.finish_adding();", name));
  for (const auto& [part, symbol] : sorted_symbols(region.partials)) {
    const Statement& statement = *region.partial_statements.at(symbol);
    const std::string& name = name_of(*symbol);
    if (statement.kind != StatementKind::arg_assign) {
      out_->add(fmt::format("{} = {}s.joined({});", name, part, name));
      continue;
    }
    end_ties(statement, part);
  }
}

// --- deferred assignments

namespace {

/// The procedures that the statements call, and those that these call.
void add_callees(const Statement& statements, std::set<const Procedure*>& callees) {
  walk_statements(statements, [&](const Statement& statement) {
    for_each_expression(statement, [&](const Expression& expression) {
      walk(expression, [&](const Expression& each) {
        if (each.kind == ExpressionKind::call && each.procedure != nullptr && callees.insert(each.procedure).second)
          add_callees(*each.procedure->body, callees);
      });
    });
  });
}

/// Whether the loop assigns to every element of the property, once, by this one statement.
bool covers_all(const Statement& loop, const std::vector<const Statement*>& statements) {
  if (loop.kind == StatementKind::group_assign) return loop.source->type.is(TypeKind::graph);
  if (loop.kind != StatementKind::loop || statements.size() != 1 || loop.iteration->filter) return false;
  const Statement& statement = *statements.front();
  const bool whole = loop.iteration->range == Range::nodes || loop.iteration->range == Range::edges;
  const Expression& target = *statement.target;
  if (!whole || target.kind != ExpressionKind::field || target.operands[0]->kind != ExpressionKind::name) return false;
  if (target.operands[0]->reference.symbol != loop.iteration->iterator) return false;
  const Statement& body = *loop.body[0];
  if (&body == &statement) return true;
  return body.kind == StatementKind::block &&
         std::any_of(body.body.begin(), body.body.end(), [&](const auto& each) { return each.get() == &statement; });
}

}  // namespace

/// Whether nodes of a level may call the procedure at the same time.
bool Writer::runs_within_levels() const {
  std::set<const Procedure*> callees;
  for (const auto& procedure : program_.procedures) {
    walk_statements(*procedure->body, [&](const Statement& statement) {
      if (statement.kind == StatementKind::bfs) add_callees(statement, callees);
    });
  }
  return callees.contains(procedure_);
}

/// The temporary target of the loop's deferred assignments. `chunks`: of a parallel loop, otherwise empty.
std::vector<DeferredStore> Writer::open_deferred(const Statement& loop, const std::string& chunks) {
  std::map<std::string, std::vector<const Statement*>> by_name;
  walk_statements(loop, [&](const Statement& statement) {
    if (statement.assign_kind != AssignKind::defer || statement.bound_loop != &loop || !statement.target) return;
    by_name[name_of(assigned_symbol(*statement.target))].push_back(&statement);
  });
  std::vector<DeferredStore> stores;
  for (const auto& [name, statements] : by_name) {
    DeferredStore store;
    store.symbol = &assigned_symbol(*statements.front()->target);
    const Type& type = is_property(store.symbol->type) ? *store.symbol->type.element : store.symbol->type;
    store.swapped = !chunks.empty() && is_property(store.symbol->type) && !type.is(TypeKind::string) &&
                    covers_all(loop, statements) && !runs_within_levels();
    store.per_chunk = region_ == nullptr;
    store.name = fresh(name + (store.swapped ? "_nxt" : "_deferred"));
    if (store.swapped) {
      const char* elements = store.symbol->type.is(TypeKind::node_property) ? "nodes" : "edges";
      out_->add(fmt::format("gm::Property<{}> {}(run, {}.{}, {});", cpp_type(type), store.name,
                            name_of(*graph_of(store.symbol->type)), elements,
                            hints(*store.symbol, store.symbol->name + "_nxt")));
      decide(statements.front()->span,
             fmt::format("'{}' is assigned for every element: a second array takes its place at the end of the loop, "
                         "nothing is copied",
                         name));
    } else {
      const std::string parts = !store.per_chunk ? ""
                                : chunks.empty() ? "(gm::most_chunks)"
                                                 : "(" + chunks + ".size())";
      out_->add(fmt::format("gm::Deferred<{}> {}{};", cpp_type(type), store.name, parts));
    }
    deferred_[store.symbol] = store;
    stores.push_back(store);
  }
  return stores;
}

void Writer::close_deferred(const std::vector<DeferredStore>& stores) {
  for (const auto& store : stores) {
    deferred_.erase(store.symbol);
    if (store.swapped) {
      out_->add(fmt::format("{}.swap({});", name_of(*store.symbol), store.name));
      continue;
    }
    const bool property = is_property(store.symbol->type);
    const std::string type = cpp_type(property ? *store.symbol->type.element : store.symbol->type);
    const std::string place = property ? element(*store.symbol, "index") : name_of(*store.symbol);
    out_->add(fmt::format("{}.apply([&]([[maybe_unused]] std::uint64_t index) -> {}& {{ return {}; }});", store.name,
                          type, place));
  }
}

}  // namespace smelt::graph::language
