#include "graph/analysis/patterns.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace smelt::graph::language {
namespace {

constexpr const char* begin_name = "begin";
constexpr const char* node_idx_name = "node_idx";
constexpr const char* r_begin_name = "r_begin";
constexpr const char* r_node_idx_name = "r_node_idx";

enum class LoopKind { iterations, nodes, edges, neighbours, items };

class Patterns {
 public:
  explicit Patterns(const Procedure& procedure) : procedure_(procedure) {
    standard(begin_name, true);
    standard(node_idx_name, false);
    standard(r_begin_name, true);
    standard(r_node_idx_name, false);
    for (const auto& symbol : procedure.symbols) {
      if (is_property(symbol->type)) property(*symbol, symbol->name, symbol->kind == SymbolKind::variable);
    }
  }

  std::vector<ArrayPattern> run() {
    statement(*procedure_.body);
    std::vector<ArrayPattern> result;
    for (auto& pattern : arrays_) {
      finish(pattern);
      result.push_back(pattern);
      const auto next = nexts_.find(pattern.symbol);
      if (pattern.symbol == nullptr || next == nexts_.end()) continue;
      finish(next->second);
      result.push_back(next->second);
    }
    return result;
  }

 private:
  // --- arrays

  void standard(const char* name, bool node) {
    ArrayPattern pattern;
    pattern.name = name;
    pattern.node = node;
    pattern.edge = !node;
    pattern.standard = true;
    arrays_.push_back(pattern);
  }

  ArrayPattern property(const Symbol& symbol, const std::string& name, bool dynamic, bool keep = true) {
    ArrayPattern pattern;
    pattern.name = name;
    pattern.symbol = &symbol;
    pattern.node = symbol.type.is(TypeKind::node_property);
    pattern.edge = !pattern.node;
    pattern.dynamic = dynamic;
    if (keep) arrays_.push_back(pattern);
    return pattern;
  }

  ArrayPattern& array(const std::string& name) {
    return *std::find_if(arrays_.begin(), arrays_.end(),
                         [&](const ArrayPattern& each) { return each.symbol == nullptr && each.name == name; });
  }
  ArrayPattern& array(const Symbol* symbol) {
    return *std::find_if(arrays_.begin(), arrays_.end(),
                         [&](const ArrayPattern& each) { return each.symbol == symbol; });
  }
  ArrayPattern& next_array(const Symbol* symbol) {
    const auto found = nexts_.find(symbol);
    if (found != nexts_.end()) return found->second;
    return nexts_.emplace(symbol, property(*symbol, symbol->name + "_nxt", true, false)).first->second;
  }

  void finish(ArrayPattern& pattern) {
    pattern.used = !pattern.reads.empty() || !pattern.writes.empty();
    pattern.read_only = pattern.used && pattern.writes.empty();
    pattern.standard = pattern.standard && pattern.used;
    pattern.indexed = pattern.used && !unindexed_.contains(pattern.name);
    pattern.input = pattern.symbol != nullptr && !pattern.dynamic && !pattern.reads.empty() &&
                    !set_at_first_.contains(pattern.name);
  }

  void record(ArrayPattern& pattern, bool write, bool indexed) {
    const bool first = pattern.reads.empty() && pattern.writes.empty();
    if (first && write && assigns_all_) set_at_first_.insert(pattern.name);
    (write ? pattern.writes : pattern.reads).push_back(frequency());
    if (!indexed) unindexed_.insert(pattern.name);
  }

  // --- loops

  Frequency frequency() const {
    Frequency result;
    LoopKind before = LoopKind::iterations;
    for (const auto kind : loops_) {
      switch (kind) {
        case LoopKind::iterations: ++result.iterations; break;
        case LoopKind::nodes: ++result.nodes; break;
        case LoopKind::edges: ++result.edges; break;
        case LoopKind::items: ++result.sizes; break;
        case LoopKind::neighbours:
          if (before == LoopKind::nodes) {  // all edges
            --result.nodes;
            ++result.edges;
          } else if (result.edges > 0) {
            ++result.edges;
          } else {
            ++result.degrees;
          }
          break;
      }
      before = kind;
    }
    return result;
  }

  template <class F>
  void within(LoopKind kind, F&& f) {
    loops_.push_back(kind);
    f();
    loops_.pop_back();
  }

  /// The accesses needed to find a node's edges, and to visit each of them.
  template <class F>
  void iterate(const Iteration& iteration, F&& body) {
    expression(*iteration.source);
    if (iteration.argument) expression(*iteration.argument);
    const auto inner = [&] {
      if (iteration.filter) expression(*iteration.filter);
      body();
    };
    switch (iteration.range) {
      case Range::nodes: return within(LoopKind::nodes, inner);
      case Range::edges: return within(LoopKind::edges, inner);
      case Range::items: return within(LoopKind::items, inner);
      case Range::in_neighbours:
      case Range::in_edges:
      case Range::up_neighbours:
      case Range::up_edges: return neighbours(iteration, r_begin_name, r_node_idx_name, inner);
      case Range::common_neighbours:
        record(array(begin_name), false, false);
        record(array(begin_name), false, false);
        [[fallthrough]];
      default: return neighbours(iteration, begin_name, node_idx_name, inner);
    }
  }

  template <class F>
  void neighbours(const Iteration& iteration, const char* begin, const char* node_idx, F&& inner) {
    record(array(begin), false, is_index(*iteration.source));
    record(array(begin), false, false);
    within(LoopKind::neighbours, [&] {
      record(array(node_idx), false, false);
      inner();
    });
  }

  /// Whether the expression is the index of a loop over all nodes or edges.
  static bool is_index(const Expression& driver) {
    if (driver.kind == ExpressionKind::current) return true;
    if (driver.kind != ExpressionKind::name) return false;
    const Symbol* symbol = driver.reference.symbol;
    if (symbol->iteration == nullptr) return false;
    const bool traversal = symbol->loop != nullptr && symbol->loop->kind != StatementKind::loop;
    return !traversal && (symbol->iteration->range == Range::nodes || symbol->iteration->range == Range::edges);
  }

  // --- statements

  void statement(const Statement& statement) {
    switch (statement.kind) {
      case StatementKind::assign:
      case StatementKind::arg_assign: return assignment(statement);
      case StatementKind::group_assign: {
        const bool items = !statement.source->type.is(TypeKind::graph);
        const bool edges = statement.element->type.is(TypeKind::edge);
        assigns_all_ = !items && statement.assign_kind == AssignKind::set;
        within(items ? LoopKind::items : edges ? LoopKind::edges : LoopKind::nodes, [&] { assignment(statement); });
        assigns_all_ = false;
        return;
      }
      case StatementKind::loop:
        depths_[&statement] = loops_.size();
        return iterate(*statement.iteration, [&] {
          this->statement(*statement.body[0]);
          copy_deferred(statement);
        });
      case StatementKind::bfs:
      case StatementKind::dfs: return traversal(statement);
      case StatementKind::while_loop:
        return within(LoopKind::iterations, [&] {
          this->statement(*statement.body[0]);
          expression(*statement.value);
        });
      case StatementKind::do_while:
        return within(LoopKind::iterations, [&] {
          this->statement(*statement.body[0]);
          expression(*statement.value);
        });
      default:
        for_each_expression(statement, [this](const Expression& each) { expression(each); });
        for (const auto& each : statement.body) {
          if (each) this->statement(*each);
        }
    }
  }

  void traversal(const Statement& statement) {
    expression(*statement.root);
    within(LoopKind::nodes, [&] {
      const bool along_in = statement.transposed;
      record(array(along_in ? r_begin_name : begin_name), false, false);
      record(array(along_in ? r_begin_name : begin_name), false, false);
      within(LoopKind::neighbours, [&] { record(array(along_in ? r_node_idx_name : node_idx_name), false, false); });
      if (statement.navigator) expression(*statement.navigator);
      if (statement.iteration->filter) expression(*statement.iteration->filter);
      this->statement(*statement.body[0]);
      if (statement.reverse_filter) expression(*statement.reverse_filter);
      if (statement.body[1]) this->statement(*statement.body[1]);
    });
  }

  void assignment(const Statement& statement) {
    expression(*statement.value);
    for (const auto& value : statement.more_values) expression(*value);
    const Expression& target = *statement.target;
    const bool minmax = statement.reduction == Reduction::minimum || statement.reduction == Reduction::maximum;
    if (target.kind == ExpressionKind::field) {
      expression(*target.operands[0]);
      const bool indexed = is_index(*target.operands[0]);
      if (statement.assign_kind == AssignKind::defer) {
        ArrayPattern& next = next_array(target.reference.symbol);
        record(next, true, indexed);
        deferred_[statement.bound_loop].insert(target.reference.symbol);
      } else {
        ArrayPattern& pattern = array(target.reference.symbol);
        if (statement.assign_kind == AssignKind::reduce) record(pattern, false, indexed);
        // A minimum is read a second time before it is replaced.
        if (statement.assign_kind == AssignKind::reduce && minmax) record(pattern, false, indexed);
        record(pattern, true, indexed);
      }
    } else if (target.kind == ExpressionKind::index) {
      expression(*target.operands[1]);
    }
    for (const auto& each : statement.more_targets) {
      if (each->kind != ExpressionKind::field) continue;
      expression(*each->operands[0]);
      record(array(each->reference.symbol), true, is_index(*each->operands[0]));
    }
  }

  /// The copy at the end of a loop: NAME = NAME_nxt for all elements.
  void copy_deferred(const Statement& loop) {
    const auto found = deferred_.find(&loop);
    if (found == deferred_.end()) return;
    const auto inner = loops_;
    loops_.resize(depths_[&loop]);
    for (const auto* symbol : found->second) {
      within(symbol->type.is(TypeKind::node_property) ? LoopKind::nodes : LoopKind::edges, [&] {
        record(next_array(symbol), false, true);
        record(array(symbol), true, true);
      });
    }
    loops_ = inner;
  }

  // --- expressions

  void expression(const Expression& expression) {
    switch (expression.kind) {
      case ExpressionKind::field:
        this->expression(*expression.operands[0]);
        if (expression.reference.symbol != nullptr)
          record(array(expression.reference.symbol), false, is_index(*expression.operands[0]));
        return;
      case ExpressionKind::reduction:
        return iterate(*expression.iteration, [&] {
          for (const auto& operand : expression.operands) this->expression(*operand);
        });
      case ExpressionKind::method: method(expression); [[fallthrough]];
      default: for_each_child(expression, [this](const Expression& child) { this->expression(child); });
    }
  }

  void method(const Expression& expression) {
    const auto look_up = [this](const char* begin, const char* node_idx) {
      record(array(begin), false, false);
      record(array(node_idx), false, false);
    };
    const auto twice = [this](const char* begin) {
      record(array(begin), false, false);
      record(array(begin), false, false);
    };
    switch (expression.builtin) {
      case Builtin::degree: return twice(begin_name);
      case Builtin::in_degree: return twice(r_begin_name);
      case Builtin::has_edge_to: return look_up(begin_name, node_idx_name);
      case Builtin::has_edge_from:
      case Builtin::is_neighbour_from: return look_up(r_begin_name, r_node_idx_name);
      case Builtin::pick_random_neighbour: return look_up(begin_name, node_idx_name);
      case Builtin::from_node: return record(array(begin_name), false, false);
      case Builtin::to_node: return record(array(node_idx_name), false, false);
      default: return;
    }
  }

  const Procedure& procedure_;
  std::vector<ArrayPattern> arrays_;
  std::map<const Symbol*, ArrayPattern> nexts_;
  std::set<std::string> unindexed_;
  std::set<std::string> set_at_first_;  ///< completely assigned before any other access
  bool assigns_all_ = false;
  std::vector<LoopKind> loops_;
  std::map<const Statement*, std::size_t> depths_;  ///< number of enclosing loops
  std::map<const Statement*, std::set<const Symbol*>> deferred_;
};

void append(std::string& text, const char* letter, int count) {
  for (int i = 0; i < count; ++i) text += letter;
}

}  // namespace

std::string Frequency::text() const {
  std::string text;
  append(text, "k", iterations);
  append(text, "N", nodes);
  append(text, "E", edges);
  append(text, "d", degrees);
  append(text, "S", sizes);
  return text.empty() ? "1" : text;
}

double Frequency::value(double node_count, double edge_count, double k, double size) const {
  const double degree = node_count > 0 ? edge_count / node_count : 0;
  return std::pow(k, iterations) * std::pow(node_count, nodes) * std::pow(edge_count, edges) *
         std::pow(degree, degrees) * std::pow(size, sizes);
}

std::string to_string(const std::vector<Frequency>& sum) {
  std::string text;
  for (const auto& each : sum) text += (text.empty() ? "" : " + ") + each.text();
  return text.empty() ? "0" : text;
}

std::vector<ArrayPattern> access_patterns(const Procedure& procedure) { return Patterns(procedure).run(); }

}  // namespace smelt::graph::language
