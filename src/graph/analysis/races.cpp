#include "graph/analysis/races.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "graph/analysis/accesses.hpp"

namespace smelt::graph::language {
namespace {

enum class Verdict { fine, warning, error };

/// Whether a loop's instances run concurrently.
bool is_parallel(const Statement& loop) {
  return loop.kind == StatementKind::bfs || (loop.kind == StatementKind::loop && loop.parallel);
}

/// `G.A = e`, whose elements are assigned in parallel, too.
bool assigns_to_graph(const Statement& statement) {
  return statement.kind == StatementKind::group_assign && statement.source->type.is(TypeKind::graph);
}

/// An access as the region sees it. A reduction or deferred assignment that ends within an instance counts as an
/// assignment.
AccessKind seen_kind(const Access& access, const Statement& region) {
  if (access.kind != AccessKind::reduce && access.kind != AccessKind::defer) return access.kind;
  const Statement* bound = access.statement == nullptr ? nullptr : access.statement->bound_loop;
  return bound != nullptr && is_within(&region, bound) ? access.kind : AccessKind::write;
}

const char* to_string(AccessKind kind) {
  switch (kind) {
    case AccessKind::read: return "reads";
    case AccessKind::write: return "writes";
    case AccessKind::reduce: return "reduces";
    case AccessKind::defer: return "assigns with '<='";
    case AccessKind::add: return "adds to";
    case AccessKind::remove: return "removes from";
    case AccessKind::change: return "changes";
  }
  return "?";
}

/// Whether both belong to the same reduction. `x max= f` beside <x; n> max= <e; v> does not: which n is stored would
/// depend on which of the two comes first.
bool reduce_alike(const Access& a, const Access& b) {
  if (a.kind != AccessKind::reduce || b.kind != AccessKind::reduce) return false;
  if (a.statement == b.statement) return true;
  const auto has_arguments = [](const Access& each) { return each.statement->kind == StatementKind::arg_assign; };
  const bool same_form = has_arguments(a) == has_arguments(b);
  return a.reduction == b.reduction && same_form && !a.along && !b.along;
}

/// The language's table of conflicts between two accesses to one place.
Verdict verdict_on(const Access& a, AccessKind first, const Access& b, AccessKind second) {
  if (static_cast<int>(first) > static_cast<int>(second)) return verdict_on(b, second, a, first);
  using enum AccessKind;
  if (reduce_alike(a, b)) return Verdict::fine;
  const bool collection = is_any_collection(a.symbol->type) || a.symbol->type.is(TypeKind::map) ||
                          (is_property(a.symbol->type) && is_any_collection(*a.symbol->type.element));
  if (collection) {
    if (first == read) return second == read ? Verdict::fine : Verdict::warning;
    if (first == second && (first == add || first == remove)) return Verdict::fine;
    if (first == write || second == write) return Verdict::warning;  // whole elements are assigned atomically
    return Verdict::error;
  }
  if (first == read) {
    if (second == read || second == defer) return Verdict::fine;
    return second == reduce ? Verdict::error : Verdict::warning;
  }
  if (first == write) return second == write || second == change ? Verdict::warning : Verdict::error;
  if (first == reduce) return second == change ? Verdict::warning : Verdict::error;
  return Verdict::warning;
}

class RaceChecker {
 public:
  RaceChecker(Program& program, Diagnostics& diagnostics) : program_(program), diagnostics_(diagnostics) {}

  void run() {
    for (auto& procedure : program_.procedures) {
      walk_changing(*procedure->body, [this](Statement& statement) { bind(statement); });
      join_bindings(*procedure->body);
      walk_statements(*procedure->body, [this](const Statement& statement) {
        if (statement.kind == StatementKind::loop) check_iterated_collection(statement);
        if (!is_parallel(statement) && !assigns_to_graph(statement)) return;
        check_region(statement, Part::forward);
        if (statement.kind == StatementKind::bfs && statement.body[1]) check_region(statement, Part::reverse);
      });
      check_double_binding(*procedure->body);
    }
  }

 private:
  template <class F>
  static void walk_changing(Statement& statement, F&& f) {
    f(statement);
    for (auto& each : statement.body) {
      if (each) walk_changing(*each, f);
    }
  }

  // --- binding

  static Symbol* changed_symbol(const Statement& statement) {
    if (!statement.target) return nullptr;
    const Expression& target = *statement.target;
    return target.kind == ExpressionKind::index ? target.operands[0]->reference.symbol : target.reference.symbol;
  }

  void bind(Statement& statement) {
    const bool assigns = statement.kind == StatementKind::assign || statement.kind == StatementKind::arg_assign ||
                         statement.kind == StatementKind::group_assign;
    if (!assigns || statement.assign_kind == AssignKind::set || !statement.target) return;
    const Symbol* symbol = changed_symbol(statement);
    if (symbol == nullptr) return;
    if (statement.bound) {
      if (is_private(*symbol, *statement.bound_loop)) {
        diagnostics_.error(statement.bound->span,
                           fmt::format("'{}' is declared within the loop of '{}', so it is over before that loop ends",
                                       symbol->name, statement.bound->name));
      }
      return;
    }
    const auto candidates = loops_to_bind_to(statement, *symbol);
    for (Statement* loop : candidates) {  // outermost first
      statement.bound_loop = loop;
      if (binding_is_possible(statement, *loop)) return;
    }
    statement.bound_loop = nullptr;
    if (statement.assign_kind != AssignKind::defer) {
      if (!candidates.empty()) statement.bound_loop = candidates.back();  // the message names the innermost loop
      return;
    }
    if (candidates.empty()) {
      diagnostics_.error(statement.span, "'<=' assigns at the end of a loop, and there is none around it");
    } else {
      diagnostics_.error(statement.span,
                         fmt::format("'{}' is also changed in another way in every loop at whose end this could happen",
                                     symbol->name));
    }
  }

  /// The enclosing loops of which several instances change the same place, outermost first.
  static std::vector<Statement*> loops_to_bind_to(const Statement& statement, const Symbol& symbol) {
    std::vector<Statement*> loops;
    const bool deferred = statement.assign_kind == AssignKind::defer;
    const Expression& target = *statement.target;
    for (Statement* loop = statement.outer; loop != nullptr; loop = loop->outer) {
      if (is_private(symbol, *loop)) break;
      if (!is_parallel(*loop) && !deferred) continue;
      const bool own = target.kind == ExpressionKind::field && is_parallel(*loop) &&
                       place_of(*target.operands[0], *loop) == Place::own;
      if (own && !deferred) continue;
      loops.push_back(loop);
    }
    // Sequential loops are candidates only if no parallel one is.
    const bool any = std::any_of(loops.begin(), loops.end(), [](const Statement* loop) { return is_parallel(*loop); });
    if (any) std::erase_if(loops, [](const Statement* loop) { return !is_parallel(*loop); });
    std::reverse(loops.begin(), loops.end());
    return loops;
  }

  bool binding_is_possible(const Statement& statement, const Statement& loop) {
    for (const auto& mine : accesses(loop)) {
      if (mine.statement != &statement) continue;
      if (mine.kind != AccessKind::reduce && mine.kind != AccessKind::defer) continue;
      for (const auto& other : accesses(loop)) {
        if (other.symbol != mine.symbol) continue;
        const bool conflict =
            other.statement == &statement
                ? other.kind == AccessKind::read && mine.kind == AccessKind::reduce  // x += x
                : verdict_on(mine, mine.kind, other, seen_kind_if_bound(other, loop)) == Verdict::error;
        if (conflict && can_meet(mine, other)) return false;
      }
    }
    return true;
  }

  /// Of a loop, or of both parts of a traversal. Collected once, as every statement within asks for them.
  const std::vector<Access>& accesses(const Statement& loop) {
    const auto [found, fresh] = accesses_.try_emplace(&loop);
    if (!fresh) return found->second;
    found->second = accesses_of(loop, Part::forward);
    if (loop.kind != StatementKind::bfs) return found->second;
    const auto reverse = accesses_of(loop, Part::reverse);
    found->second.insert(found->second.end(), reverse.begin(), reverse.end());
    return found->second;
  }

  /// Another unbound statement of the same kind will be bound to this loop as well.
  static AccessKind seen_kind_if_bound(const Access& access, const Statement& loop) {
    const bool open =
        access.statement != nullptr && access.statement->bound_loop == nullptr && !access.statement->bound;
    return open ? access.kind : seen_kind(access, loop);
  }

  /// What reduces the iterator's own element is bound to an inner loop, or to none; where another reduction by the same
  /// operator reaches that element from other instances, both happen at the end of the loop around.
  static void join_bindings(Statement& body) {
    std::map<const Symbol*, std::vector<Statement*>> reductions;
    walk_changing(body, [&](Statement& statement) {
      if (statement.target && statement.assign_kind == AssignKind::reduce)
        reductions[changed_symbol(statement)].push_back(&statement);
    });
    for (auto& [symbol, statements] : reductions) {
      for (auto* inner : statements) {
        if (inner->bound) continue;
        for (const auto* outer : statements) {
          if (outer->bound_loop == nullptr || outer->reduction != inner->reduction) continue;
          const bool around = inner->bound_loop != outer->bound_loop && is_within(inner, outer->bound_loop) &&
                              (inner->bound_loop == nullptr || is_within(inner->bound_loop, outer->bound_loop));
          if (around) inner->bound_loop = outer->bound_loop;
        }
      }
    }
  }

  void check_double_binding(const Statement& body) {
    std::map<const Symbol*, std::vector<const Statement*>> bound;
    walk_statements(body, [&](const Statement& statement) {
      if (statement.bound_loop != nullptr) bound[changed_symbol(statement)].push_back(&statement);
    });
    for (const auto& [symbol, statements] : bound) {
      for (const auto* inner : statements) {
        for (const auto* outer : statements) {
          const bool nested = inner->bound_loop != outer->bound_loop && is_within(inner->bound_loop, outer->bound_loop);
          if (!nested) continue;
          diagnostics_.error(
              inner->span,
              fmt::format("'{}' is bound to this inner loop here, and to a loop around it elsewhere", symbol->name));
          diagnostics_.note(outer->span, "there");
        }
      }
    }
  }

  // --- regions

  void check_region(const Statement& region, Part part) {
    std::map<Symbol*, std::vector<Access>> by_symbol;
    for (const auto& access : accesses_of(region, part)) by_symbol[access.symbol].push_back(access);
    for (const auto& [symbol, accesses] : by_symbol) check_symbol(region, *symbol, accesses);
  }

  void check_symbol(const Statement& region, const Symbol& symbol, const std::vector<Access>& accesses) {
    if (only_one_value_is_written(accesses)) return;
    for (const auto wanted : {Verdict::error, Verdict::warning}) {
      for (std::size_t i = 0; i < accesses.size(); ++i) {
        for (std::size_t j = i; j < accesses.size(); ++j) {
          const Access &a = accesses[i], &b = accesses[j];
          const auto first = seen_kind(a, region), second = seen_kind(b, region);
          if (!can_meet(a, b) || verdict_on(a, first, b, second) != wanted) continue;
          return report(region, symbol, a, first, b, second, wanted);
        }
      }
    }
  }

  /// Several instances may write the same literal if none reads it meanwhile.
  static bool only_one_value_is_written(const std::vector<Access>& accesses) {
    return std::all_of(accesses.begin(), accesses.end(), [&](const Access& each) {
      return each.kind == AccessKind::write && each.constant && each.literal == accesses.front().literal;
    });
  }

  void report(const Statement& region, const Symbol& symbol, const Access& a, AccessKind first, const Access& b,
              AccessKind second, Verdict verdict) {
    // First the write, then the access with which it conflicts.
    const bool swap = first == AccessKind::read;
    const Access &change = swap ? b : a, &other = swap ? a : b;
    const AccessKind change_kind = swap ? second : first, other_kind = swap ? first : second;
    if (!reported_.insert({&symbol, change.span.begin, other.span.begin}).second) return;
    const auto& iterator = assigns_to_graph(region) ? region.element->name : region.iteration->name.name;
    std::string message = &a == &b
                              ? fmt::format("several instances of the loop over '{}' may {} the same '{}'", iterator,
                                            change_kind == AccessKind::defer ? "assign to" : "write", symbol.name)
                              : fmt::format("one instance of the loop over '{}' {} '{}' while another one {} it",
                                            iterator, to_string(change_kind), symbol.name, to_string(other_kind));
    message += verdict == Verdict::error ? "; that is not defined" : ": a data race";
    if (verdict == Verdict::error) {
      diagnostics_.error(change.span, std::move(message));
    } else {
      diagnostics_.warning(change.span, std::move(message));
    }
    if (&a != &b) diagnostics_.note(other.span, fmt::format("{} it here", to_string(other_kind)));
  }

  // --- collections

  /// A collection must not change while it is iterated over, even in a sequential loop.
  void check_iterated_collection(const Statement& loop) {
    if (loop.iteration->range != Range::items) return;
    const Expression& source = *loop.iteration->source;
    const Symbol* symbol = source.reference.symbol;
    for (const auto& access : accesses_of(loop)) {
      if (access.symbol != symbol || access.kind == AccessKind::read) continue;
      if (source.kind == ExpressionKind::field) {
        // Possibly the collection of another node.
        const bool same = access.driver != nullptr && access.driver->kind == ExpressionKind::name &&
                          access.driver->reference.symbol == source.operands[0]->reference.symbol;
        if (!same) continue;
      }
      diagnostics_.error(access.span, fmt::format("'{}' changes while the loop over '{}' runs over it", symbol->name,
                                                  loop.iteration->name.name));
      return;
    }
  }

  Program& program_;
  Diagnostics& diagnostics_;
  std::set<std::tuple<const Symbol*, std::uint32_t, std::uint32_t>> reported_;
  std::map<const Statement*, std::vector<Access>> accesses_;
};

}  // namespace

void check_races(Program& program, Diagnostics& diagnostics) { RaceChecker(program, diagnostics).run(); }

}  // namespace smelt::graph::language
