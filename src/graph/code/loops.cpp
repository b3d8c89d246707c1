// Translates loops and traversals, and decides which of them run in parallel.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "graph/analysis/values.hpp"
#include "graph/code/writer.hpp"

namespace smelt::graph::language {
namespace {

bool has_deferred(const Statement& loop) {
  bool found = false;
  walk_statements(loop, [&](const Statement& each) { found |= each.target && each.assign_kind == AssignKind::defer; });
  return found;
}

/// Whether a statement cannot run in one of many parallel instances, or profits from all threads itself. Its enclosing
/// loop is sequential then.
bool wants_all_threads(const Statement& body) {
  bool wants = false;
  walk_statements(body, [&](const Statement& statement) {
    switch (statement.kind) {
      case StatementKind::declare:
        wants |= !statement.symbols.empty() && is_property(statement.symbols.front()->type);
        break;
      case StatementKind::group_assign: wants |= statement.source->type.is(TypeKind::graph); break;
      case StatementKind::bfs:
      case StatementKind::print: wants = true; break;
      default: break;
    }
    for_each_expression(statement, [&](const Expression& expression) {
      walk(expression, [&](const Expression& each) {
        if (each.kind != ExpressionKind::call || each.procedure == nullptr) return;
        // A deferred assignment may replace the array of a property that other instances use.
        wants |= wants_all_threads(*each.procedure->body) || has_deferred(*each.procedure->body);
      });
    });
  });
  return wants;
}

/// Whether the body of a traversal is to know which nodes of the next level are left out: it looks for nodes of that
/// level, and changes nothing that the condition on them reads.
bool keeps_ahead(const Statement& traversal) {
  if (!traversal.navigator) return false;
  bool looks = false;
  const auto look = [&](const Iteration& iteration) {
    looks |= iteration.range == Range::down_neighbours || iteration.range == Range::down_edges;
  };
  const auto look_in = [&](const Expression& expression) {
    walk(expression, [&](const Expression& each) {
      if (each.kind == ExpressionKind::reduction) look(*each.iteration);
    });
  };
  if (traversal.iteration->filter) look_in(*traversal.iteration->filter);
  walk_statements(*traversal.body[0], [&](const Statement& statement) {
    if (statement.kind == StatementKind::loop) look(*statement.iteration);
    for_each_expression(statement, look_in);
  });
  if (!looks) return false;
  std::set<const Symbol*> read;
  walk(*traversal.navigator, [&](const Expression& each) { read.insert(each.reference.symbol); });
  const auto accesses = accesses_of(traversal);
  return std::none_of(accesses.begin(), accesses.end(),
                      [&](const Access& each) { return each.kind != AccessKind::read && read.contains(each.symbol); });
}

const Iteration* iteration_of(const Statement& loop) {
  return loop.kind == StatementKind::loop ? loop.iteration.get() : nullptr;
}

bool is_node_loop(const Statement& loop) {
  if (loop.kind == StatementKind::group_assign)
    return loop.source->type.is(TypeKind::graph) && loop.element->type.is(TypeKind::node);
  return loop.iteration->range == Range::nodes && !loop.iteration->reverse;
}

const Symbol* graph_of_loop(const Statement& loop) {
  return loop.kind == StatementKind::group_assign ? loop.source->reference.symbol
                                                  : loop.iteration->source->reference.symbol;
}

}  // namespace

bool Writer::runs_in_parallel(const Statement& statement) const {
  if (statement.kind == StatementKind::group_assign) return true;
  if (statement.kind != StatementKind::loop || !statement.parallel) return false;
  switch (statement.iteration->range) {
    case Range::nodes:
    case Range::edges:
    case Range::neighbours:
    case Range::in_neighbours:
    case Range::out_edges:
    case Range::in_edges: break;
    case Range::items:
      if (statement.iteration->source->type.is(TypeKind::collection)) return false;
      break;
    default: return false;
  }
  return !wants_all_threads(*statement.body[0]);
}

/// Whether the loops can be merged: only values of the same element pass from one to the other.
bool Writer::can_fuse(const Statement& first, const Statement& second) const {
  if (!is_node_loop(first) || !is_node_loop(second) || graph_of_loop(first) != graph_of_loop(second)) return false;
  if (has_deferred(first) || has_deferred(second)) return false;
  const auto before = accesses_of(first), after = accesses_of(second);
  for (const auto& a : before) {
    for (const auto& b : after) {
      if (a.symbol != b.symbol || (a.kind == AccessKind::read && b.kind == AccessKind::read)) continue;
      if (a.place != Place::own || b.place != Place::own) return false;
    }
  }
  return true;
}

void Writer::group_assignment(const Statement& statement) {
  if (region_ == nullptr) return parallel_loops({&statement});
  const std::string& element = name_of(*statement.element);
  if (statement.source->type.is(TypeKind::graph)) {
    const bool nodes = statement.element->type.is(TypeKind::node);
    out_->open(fmt::format("for ({} {} = 0; {} < {}.{}; ++{})", nodes ? "NodeId" : "EdgeId", element, element,
                           code(*statement.source), nodes ? "nodes" : "edges", element));
  } else {
    out_->open(fmt::format("for (const auto {} : {})", element, collection(*statement.source)));
  }
  assign(statement);
  out_->close();
}

/// A sequential loop.
void Writer::loop(const Statement& statement) {
  if (region_ == nullptr && runs_in_parallel(statement)) return parallel_loops({&statement});
  if (statement.parallel && region_ == nullptr) {
    decide(statement.span,
           fmt::format("the loop over '{}' runs its instances one after the other, each with all threads",
                       statement.iteration->name.name));
  }
  const auto deferred = open_deferred(statement, "");
  begin_ties(statement);
  if (const auto bounds = bounds_of(*statement.iteration, statement.body[0].get());
      is_marked(*statement.iteration, bounds)) {
    marked_loop(statement, bounds);
  } else {
    plain_loop(statement);
  }
  close_deferred(deferred);
}

void Writer::plain_loop(const Statement& statement) {
  fetch_first(statement);
  const int depth = out_->depth();
  open_iteration(*statement.iteration, *out_, statement.body[0].get());
  filtered_body(statement);
  while (out_->depth() > depth) out_->close();
}

/// The bound of a loop that ends where its filter's counter reaches it; null for other loops.
const Expression* Writer::ending_bound(const Statement& statement) const {
  const auto* bound = lasting_bound(statement);
  return bound != nullptr && mode_of(*bound->operands[0]->reference.symbol) == Mode::plain ? bound : nullptr;
}

/// Such a loop reads the start of each node's list, and the lists of the nodes that a loop over all nodes comes to next
/// are known.
void Writer::fetch_first(const Statement& statement) {
  const Iteration& iteration = *statement.iteration;
  const bool in = iteration.range == Range::in_neighbours;
  if (region_ == nullptr || !options_.fetch_ahead || (iteration.range != Range::neighbours && !in) ||
      !visits_all_lists(iteration) || ending_bound(statement) == nullptr)
    return;
  const std::string& name = name_of(*iteration.iterator);
  std::set<std::string> arrays;
  walk_statements(*statement.body[0], [&](const Statement& each) {
    for_each_expression(each, [&](const Expression& expression) {
      walk(expression, [&](const Expression& read) {
        if (read.kind != ExpressionKind::field || read.operands[0]->kind != ExpressionKind::name) return;
        const Symbol& property = *read.reference.symbol;
        const bool plain = !is_any_collection(read.type) && !read.type.is(TypeKind::string);
        if (read.operands[0]->reference.symbol != iteration.iterator || !plain) return;
        if (!property.type.is(TypeKind::node_property) || is_private(property, *region_->statement)) return;
        arrays.insert(array_of(property));
      });
    });
  });
  if (arrays.empty()) return;
  const Symbol& graph = *graph_of(iteration.source->type);
  const std::string begin = array(graph, in ? "r_begin" : "begin"),
                    node_idx = array(graph, in ? "r_node_idx" : "node_idx");
  out_->add(fmt::format("gm::fetch_first({}, {}, {}, {}.nodes, {}.edges, {});", node_idx, begin,
                        index_of(*iteration.source), name_of(graph), name_of(graph), fmt::join(arrays, ", ")));
  decide(statement.span,
         fmt::format("what the loop reads of the first neighbours '{}' is asked for some nodes before", name));
}

void Writer::filtered_body(const Statement& statement) {
  if (const auto* bound = ending_bound(statement)) {
    out_->add(fmt::format("if (!({})) break;", code(*bound)));
    implied_.insert(bound);
    decide(statement.span,
           fmt::format("the loop over '{}' ends where its filter's bound is reached", statement.iteration->name.name));
  }
  if (const std::string filter = statement.iteration->filter ? condition(*statement.iteration->filter) : "";
      !filter.empty()) {
    out_->add(fmt::format("if (!({})) continue;", filter));
  }
  body(*statement.body[0]);
}

/// Whether the loop visits the common neighbours of a node and another one whose neighbours are marked.
bool Writer::is_marked(const Iteration& iteration, const NeighbourBounds& bounds) const {
  const Expression& source = *iteration.source;
  return marked_ != nullptr && bounds.adjacent_to != nullptr && bounds.below == nullptr &&
         source.kind == ExpressionKind::name && source.reference.symbol == marked_ &&
         bounds.adjacent_to->reference.symbol != marked_ && iteration.range == Range::neighbours;
}

/// Whether all that such a loop does is to count the common neighbours above the other node.
bool Writer::counts_marked(const Statement& statement, const NeighbourBounds& bounds) const {
  return is_marked(*statement.iteration, bounds) && bounds.above != nullptr &&
         bounds.above->reference.symbol == bounds.adjacent_to->reference.symbol &&
         counting_of(statement, bounds) != nullptr;
}

/// Whether a nest of loops comes to its innermost loop once for each neighbour above each node.
bool Writer::visits_all_above(const Statement& nest, const Statement& innermost) const {
  const Statement* at = nest.body[0].get();
  const auto unwrap = [&] {
    while (at->kind == StatementKind::block && at->body.size() == 1) at = at->body[0].get();
  };
  unwrap();
  if (at->kind != StatementKind::loop) return false;
  const auto terms = terms_of(at->iteration->filter.get());
  const auto bounds = neighbour_bounds(*at->iteration->iterator, terms, true);
  const Expression& source = *at->iteration->source;
  const bool all = terms.size() == 1 && bounds.above != nullptr && bounds.below == nullptr &&
                   bounds.above->reference.symbol == marked_ && source.kind == ExpressionKind::name &&
                   source.reference.symbol == marked_;
  at = at->body[0].get();
  unwrap();
  return all && at == &innermost;
}

/// Visits the marked nodes in the other node's list. If edges repeat, both lists are merged instead, because the
/// multiplicity in the first list counts.
void Writer::marked_loop(const Statement& statement, const NeighbourBounds& bounds) {
  const Iteration& iteration = *statement.iteration;
  const Symbol& graph = *graph_of(iteration.source->type);
  const std::string &name = name_of(*iteration.iterator), other = code(*bounds.adjacent_to);
  const bool in = bounds.adjacent_from_neighbour;
  const std::string begin = array(graph, in ? "r_begin" : "begin"),
                    node_idx = array(graph, in ? "r_node_idx" : "node_idx");
  const std::string edge = fresh(name + "_edge"), end = fresh(name + "_end");
  const bool counts = !above_.empty() && counts_marked(statement, bounds);
  std::string first = fmt::format("{}[{}]", begin, other);
  if (counts) {
    first = fmt::format("{}.first({})", above_, other);
  } else if (bounds.above != nullptr) {
    first = fmt::format("gm::above({}, {}, {}[{} + 1], {})", node_idx, first, begin, other, code(*bounds.above));
  }
  const Statement* counting = counts ? counting_of(statement, bounds) : nullptr;
  if (!ahead_.empty()) out_->add(fmt::format("{}.next();", ahead_));
  if (counting != nullptr && mode_of(*counting->target->reference.symbol) == Mode::partial) {
    const std::string& place = region_->partials.at(counting->target->reference.symbol);
    out_->open(fmt::format("if ({}.has_bitmap({}))", above_, other));
    out_->add(fmt::format("{} += {} * static_cast<std::remove_cvref_t<decltype({})>>({}.count_marked({}, {}));", place,
                          code(*counting->value), place, above_, other, marks_));
    out_->close(fmt::format(" else if ({}.simple) {{", name_of(graph)));
    out_->set_depth(out_->depth() + 1);
  } else {
    out_->open(fmt::format("if ({}.simple)", name_of(graph)));
  }
  const std::string last = counts ? fmt::format("{}.last({})", above_, other) : fmt::format("{}[{} + 1]", begin, other);
  out_->open(fmt::format("for (EdgeId {} = {}, {} = {}; {} < {}; ++{})", edge, first, end, last, edge, end, edge));
  out_->add(fmt::format("const NodeId {} = {}[{}];", name, node_idx, edge));
  out_->add(fmt::format("if (!{}.has({})) continue;", marks_, name));
  filtered_body(statement);
  out_->close();
  out_->close(" else {");
  out_->set_depth(out_->depth() + 1);
  plain_loop(statement);
  out_->close();
  decide(
      statement.span,
      fmt::format(
          "neighbours of '{}' are marked in a bitmap: those that '{}' shares are found by going through its list alone",
          iteration.source->reference.name, bounds.adjacent_to->reference.name));
}

std::string Writer::chunks_of_loops(const std::vector<const Statement*>& loops) {
  std::string chosen;
  for (const auto* loop : loops) {
    std::string chunks;
    if (const auto* iteration = iteration_of(*loop)) {
      chunks = chunks_of(*iteration, loop, nullptr);
    } else {
      Iteration whole;  // the iteration of a group assignment
      whole.source = std::make_unique<Expression>();
      whole.source->kind = ExpressionKind::name;
      whole.source->type = loop->source->type;
      whole.source->reference = loop->source->reference;
      whole.iterator = loop->element;
      whole.range = !loop->source->type.is(TypeKind::graph)  ? Range::items
                    : loop->element->type.is(TypeKind::node) ? Range::nodes
                                                             : Range::edges;
      chunks = chunks_of(whole, loop, nullptr);
    }
    // Iterates over edges if any of the loops uses edges.
    const bool by_edges = chunks.ends_with(".out_chunks()") || chunks.ends_with(".in_chunks()");
    if (chosen.empty() || (by_edges && chosen.ends_with(".node_chunks()"))) chosen = chunks;
  }
  return chosen;
}

/// Several loops over the same nodes as one loop, or a single loop over anything. Uses special forms where possible.
void Writer::parallel_loops(const std::vector<const Statement*>& loops) {
  source_line(loops.front()->span);
  const Statement& first = *loops.front();
  if (loops.size() == 1 && options_.merge && counts_cliques(first)) {
    const Symbol& graph = *graph_of_loop(first);
    const std::string name = name_of(graph), ordered = fresh(name + "_ordered");
    out_->add(fmt::format("const gm::Ordered<NodeId, EdgeId> {}(run, {});", ordered, name));
    decide(first.span,
           "counts cliques: nodes are numbered by their degree where degrees are skewed, so that lists are short");
    names_[&graph] = ordered + ".view";
    const std::string node = name_of(*first.iteration->iterator), all_marks = fresh(node + "_marks");
    out_->add(fmt::format("gm::Marks<NodeId> {}(run, {}.nodes);", all_marks, name));
    marked_ = first.iteration->iterator;
    marks_ = fresh(node + "_marked");
    marks_of_chunk_ = fmt::format("auto& {} = {}.of(chunk);", marks_, all_marks);
    const Statement& innermost = innermost_loop(first);
    if (const auto bounds = bounds_of(*innermost.iteration, innermost.body[0].get());
        counts_marked(innermost, bounds)) {
      above_ = fresh(innermost.iteration->name.name + "_above");
      const std::string from = bounds.adjacent_from_neighbour ? "r_" : "";
      out_->add(fmt::format(
          "const gm::NeighboursAbove<NodeId, EdgeId> {0}(run, {1}.view, {1}.view.{2}begin, {1}.view.{2}node_idx);",
          above_, ordered, from));
      decide(innermost.span, "where lists are long, whole words of bitmaps of neighbours are compared with the marks");
      if (options_.fetch_ahead && visits_all_above(first, innermost)) {
        ahead_ = fresh(innermost.iteration->name.name + "_ahead");
        marks_of_chunk_ +=
            fmt::format("\ntypename gm::NeighboursAbove<NodeId, EdgeId>::Ahead {}({}, chunk.first);", ahead_, above_);
        decide(innermost.span, "lists of neighbours that come later are asked for");
      }
    }
    share_loops(loops);
    above_.clear();
    ahead_.clear();
    marked_ = nullptr;
    names_[&graph] = name;
    return;
  }
  for (const auto* loop : loops) {
    if (options_.precompute) precompute(*loop);
  }
  const auto scatter = loops.size() == 1 ? scatter_of(first) : std::nullopt;
  if (scatter && !options_.push_only) {
    scatter_or_gather(first, *scatter);
  } else {
    share_loops(loops);
  }
  precomputed_names_.clear();
}

/// Reductions at neighbours: written to them with atomics, or read from them without atomics if that is cheaper.
void Writer::scatter_or_gather(const Statement& loop, const Scatter& scatter) {
  const std::string graph = name_of(*graph_of_loop(loop)), pull = fresh("pull");
  if (options_.pull_only) {
    out_->add(fmt::format("const bool {} = {}.r_begin != nullptr;", pull, graph));
  } else if (!loop.iteration->filter) {
    out_->add(fmt::format("const bool {} = {}.r_begin != nullptr && run.threads() > 1;", pull, graph));
  } else {
    Region region;
    prepare_region(region, loop, Part::forward);
    CodeLines body;
    region_ = &region;
    const std::string filter = code(*loop.iteration->filter);
    region_ = nullptr;
    body.set_depth(out_->depth() + 1);
    region_prelude(region, body);
    out_->add(fmt::format("const bool {} = gm::pays_to_pull(run, {}, [&](const gm::Chunk& chunk, auto&& count) {{",
                          pull, graph));
    out_->raw(body.take());
    out_->set_depth(out_->depth() + 1);
    const std::string& node = name_of(*loop.iteration->iterator);
    out_->add(
        fmt::format("for (auto {} = static_cast<NodeId>(chunk.first); {} < chunk.last; ++{}) {{", node, node, node));
    out_->add(fmt::format("  if ({}) count({});", filter, node));
    out_->add("}");
    out_->close(");");
  }
  decide(
      loop.span,
      fmt::format("reductions at the neighbours '{}' are written to them, or read from them where most edges take part",
                  scatter.inner->iteration->name.name));
  out_->open(fmt::format("if ({})", pull));
  gather(loop, scatter);
  out_->close(" else {");
  out_->set_depth(out_->depth() + 1);
  share_loops({&loop});
  out_->close();
}

/// The same in pull direction: each neighbour collects the values that others would have written to it.
void Writer::gather(const Statement& loop, const Scatter& scatter) {
  const Iteration& inner = *scatter.inner->iteration;
  const Symbol& graph = *graph_of_loop(loop);
  const bool along_out = inner.range == Range::in_neighbours;  // the neighbours' own out edges lead to the nodes
  Region region;
  prepare_region(region, loop, Part::forward);
  for (const auto* reduction : scatter.reductions) {
    region.modes[reduction->target->reference.symbol] = Mode::plain;
    for (const auto& along : reduction->more_targets) region.modes[along->reference.symbol] = Mode::plain;
  }
  for (const auto& name : precomputed_names_)
    region.prelude.push_back(fmt::format("const auto* const {}_ = {}.local(chunk);", name, name));
  if (marked_ != nullptr) region.prelude.push_back(marks_of_chunk_);
  CodeLines body;
  CodeLines* outer = std::exchange(out_, &body);
  region_ = &region;
  body.set_depth(outer->depth() + 1);
  const std::string &node = name_of(*loop.iteration->iterator), &neighbour = name_of(*inner.iterator);
  const std::string begin = array(graph, along_out ? "begin" : "r_begin"),
                    node_idx = array(graph, along_out ? "node_idx" : "r_node_idx");
  const std::string edge = fresh(node + "_edge");
  body.open(fmt::format("for (auto {} = static_cast<NodeId>(chunk.first); {} < chunk.last; ++{})", neighbour, neighbour,
                        neighbour));
  for (const auto* reduction : scatter.reductions) {
    if (has_ties(*reduction) && !comes_in_order(*reduction)) begin_tie(*reduction);
  }
  body.open(fmt::format("for (EdgeId {} = {}[{}]; {} < {}[{} + 1]; ++{})", edge, begin, neighbour, edge, begin,
                        neighbour, edge));
  body.add(fmt::format("const NodeId {} = {}[{}];", node, node_idx, edge));
  if (loop.iteration->filter) body.add(fmt::format("if (!({})) continue;", code(*loop.iteration->filter)));
  for (const auto* declaration : scatter.declarations) statement(*declaration);
  if (inner.filter) body.add(fmt::format("if (!({})) continue;", code(*inner.filter)));
  for (const auto* reduction : scatter.reductions) statement(*reduction);
  body.close();
  body.close();
  region_ = nullptr;
  out_ = outer;
  out_->add(fmt::format("run.for_chunks({}.{}(), [&](const gm::Chunk& chunk) {{", name_of(graph),
                        along_out ? "out_chunks" : "in_chunks"));
  out_->set_depth(out_->depth() + 1);
  region_prelude(region, *out_);
  out_->raw(body.take());
  out_->close(");");
}

/// Whether the terms of a sum are expensive and stay constant during the loop.
bool Writer::pays_to_precompute(const Expression& body, const Symbol& neighbour, const Region& region) const {
  int accesses = 0;
  bool possible = true, costly = false;
  walk(body, [&](const Expression& each) {
    const bool whole_division = each.kind == ExpressionKind::binary && is_whole(each.type) &&
                                (each.op == Operator::divide || each.op == Operator::modulo);
    switch (each.kind) {
      case ExpressionKind::name: {
        const Symbol* symbol = each.reference.symbol;
        const auto mode = region.modes.find(symbol);
        const bool shared =
            !is_private(*symbol, *region.statement) && (mode == region.modes.end() || mode->second == Mode::plain);
        possible &= symbol == &neighbour || (shared && symbol->kind != SymbolKind::iterator);
        break;
      }
      case ExpressionKind::field: {
        const auto mode = region.modes.find(each.reference.symbol);
        possible &= (mode == region.modes.end() || mode->second == Mode::plain) &&
                    each.operands[0]->kind == ExpressionKind::name && each.operands[0]->reference.symbol == &neighbour;
        ++accesses;
        break;
      }
      case ExpressionKind::method:
        possible &= each.builtin == Builtin::degree || each.builtin == Builtin::in_degree ||
                    each.builtin == Builtin::num_nodes || each.builtin == Builtin::num_edges;
        possible &= !may_be_nil(*each.operands[0]);  // which ends the program
        accesses += each.builtin == Builtin::degree || each.builtin == Builtin::in_degree ? 2 : 0;
        break;
      case ExpressionKind::function:
        possible &= each.builtin != Builtin::rand && each.builtin != Builtin::uniform;
        costly = true;
        break;
      case ExpressionKind::binary:
        possible &= !whole_division;  // which may end the program
        costly |= each.op == Operator::divide;
        break;
      case ExpressionKind::convert:
        possible &= !(each.type.is(TypeKind::integer) && each.operands[0]->type.is(TypeKind::count));
        break;
      case ExpressionKind::reduction:
      case ExpressionKind::call:
      case ExpressionKind::index:
      case ExpressionKind::current:
      case ExpressionKind::foreign: possible = false; break;
      default: break;
    }
  });
  return possible && accesses > 0 && (accesses > 1 || costly);
}

/// Sums over neighbours in a loop over all nodes: precomputes the terms in an array.
std::vector<std::string> Writer::precompute(const Statement& loop) {
  if (loop.kind != StatementKind::loop || loop.iteration->range != Range::nodes || loop.iteration->filter) return {};
  Region region;
  prepare_region(region, loop, Part::forward);
  std::vector<const Expression*> sums;
  walk_statements(*loop.body[0], [&](const Statement& statement) {
    for_each_expression(statement, [&](const Expression& expression) {
      walk(expression, [&](const Expression& each) {
        if (each.kind != ExpressionKind::reduction || each.operands.empty()) return;
        const bool plain = each.iteration->range == Range::neighbours || each.iteration->range == Range::in_neighbours;
        const bool number = is_number(each.operands[0]->type);
        const bool same_graph = graph_of(each.iteration->source->type) == graph_of_loop(loop);
        if (plain && number && same_graph && pays_to_precompute(*each.operands[0], *each.iteration->iterator, region))
          sums.push_back(&each);
      });
    });
  });
  std::vector<std::string> names;
  for (const auto* sum : sums) {
    const Expression& body = *sum->operands[0];
    const std::string graph = name_of(*graph_of_loop(loop)), neighbour = name_of(*sum->iteration->iterator),
                      name = fresh(neighbour + "_value");
    out_->add(fmt::format("gm::Property<{}> {}(run, {}.nodes, {{\"{}\", true, false, true, false, 17, 1}});",
                          cpp_type(body.type), name, graph, name));
    Region own;
    own.statement = &loop;
    own.modes = region.modes;
    region_ = &own;
    const std::string value = code(body);
    region_ = nullptr;
    out_->add(fmt::format("run.for_chunks({}.node_chunks(), [&](const gm::Chunk& chunk) {{", graph));
    out_->set_depth(out_->depth() + 1);
    region_prelude(own, *out_);
    out_->add(fmt::format("auto* const {}_ = {}.local(chunk);", name, name));
    out_->add(fmt::format("for (auto {} = static_cast<NodeId>(chunk.first); {} < chunk.last; ++{}) {}_[{}] = {};",
                          neighbour, neighbour, neighbour, name, neighbour, value));
    out_->close(");");
    precomputed_[sum] = name + "_";
    precomputed_names_.push_back(name);
    names.push_back(name);
    decide(sum->span, fmt::format("what the sum takes of each neighbour '{}' is computed once per node before the loop",
                                  neighbour));
  }
  return names;
}

/// Divides the loops' elements into chunks that are distributed to all threads.
void Writer::share_loops(const std::vector<const Statement*>& loops) {
  Region region;
  for (const auto* loop : loops) prepare_region(region, *loop, Part::forward);
  region.statement = loops.front();
  const std::string chunks = fresh("chunks");
  if (const auto* iteration = iteration_of(*loops.front())) keep_source(*iteration);
  out_->add(fmt::format("const auto {} = {};", chunks, chunks_of_loops(loops)));
  const auto deferred = open_deferred(*loops.front(), chunks);
  for (const auto& store : deferred) {
    if (store.swapped)
      region.prelude.push_back(fmt::format("auto* const {}_ = {}.local(chunk);", store.name, store.name));
  }
  begin_shared(region, loops, chunks);
  for (const auto& name : precomputed_names_)
    region.prelude.push_back(fmt::format("const auto* const {}_ = {}.local(chunk);", name, name));
  if (marked_ != nullptr) region.prelude.push_back(marks_of_chunk_);

  CodeLines body;
  CodeLines* outer = std::exchange(out_, &body);
  region_ = &region;
  body.set_depth(outer->depth() + 1);
  const int depth = body.depth();
  std::string element;
  if (const auto* iteration = iteration_of(*loops.front())) {
    open_chunk(*iteration, body);
    element = name_of(*iteration->iterator);
  } else {
    const Statement& group = *loops.front();
    element = name_of(*group.element);
    const bool items = !group.source->type.is(TypeKind::graph);
    const std::string index = items ? fresh(element + "_at") : element;
    const char* type = items ? "std::uint64_t" : group.element->type.is(TypeKind::node) ? "NodeId" : "EdgeId";
    body.open(
        fmt::format("for (auto {} = static_cast<{}>(chunk.first); {} < chunk.last; ++{})", index, type, index, index));
    if (items) body.add(fmt::format("const auto {} = {}[{}];", element, collection(*group.source), index));
  }
  for (const auto* loop : loops) {
    region.statement = loop;
    one_of_parallel_loops(*loop, element);
  }
  while (body.depth() > depth) body.close();
  put_partials(region, body);
  region_ = nullptr;
  out_ = outer;

  out_->add(fmt::format("run.for_chunks({}, [&](const gm::Chunk& chunk) {{", chunks));
  out_->set_depth(out_->depth() + 1);
  region_prelude(region, *out_);
  out_->raw(body.take());
  out_->close(");");
  end_shared(region);
  close_deferred(deferred);
  if (loops.size() > 1) {
    decide(loops.front()->span, fmt::format("{} loops over the same nodes become one, up to line {}", loops.size(),
                                            line_of(loops.back()->span)));
  }
}

/// The body of a loop for one element. Another loop may have named the element.
void Writer::one_of_parallel_loops(const Statement& loop, const std::string& element) {
  source_line(loop.span);
  if (loop.kind == StatementKind::group_assign) {
    const std::string& own = name_of(*loop.element);
    if (own != element) {
      out_->open("");
      out_->add(fmt::format("const auto {} = {};", own, element));
    }
    assign(loop);
    if (own != element) out_->close();
    return;
  }
  const std::string& own = name_of(*loop.iteration->iterator);
  const bool filtered = loop.iteration->filter != nullptr;
  if (own != element) {
    out_->open("");
    out_->add(fmt::format("const auto {} = {};", own, element));
  }
  if (filtered) out_->open(fmt::format("if ({})", code(*loop.iteration->filter)));
  if (marked_ == loop.iteration->iterator) {
    const Symbol& graph = *graph_of_loop(loop);
    const std::string begin = array(graph, "begin"), node_idx = array(graph, "node_idx");
    out_->add(
        fmt::format("{}.mark({} + {}[{}], {} + {}[{} + 1]);", marks_, node_idx, begin, own, node_idx, begin, own));
  }
  const bool scope = !filtered && own == element && loop.body[0]->kind == StatementKind::block;
  if (scope) out_->open("");
  body(*loop.body[0]);
  if (scope) out_->close();
  if (filtered) out_->close();
  if (own != element) out_->close();
}

// --- traversals

void Writer::traversal(const Statement& statement) {
  const std::string& iterator = statement.iteration->name.name;
  const Search search{&statement, fresh(iterator + "_bfs"), fresh(iterator + "_level")};
  if (statement.transposed) result_.needs.in_edges = true;
  const Statement* discovery = region_ == nullptr ? assignments_on_discovery(statement) : nullptr;
  const bool without_levels = discovery != nullptr && statement.body[1] == nullptr;
  if (without_levels)
    decide(statement.span, "no level of a node is asked for: the search keeps bitmaps of nodes in place of levels");
  out_->open("");
  out_->add(fmt::format("gm::Bfs<NodeId, EdgeId{}> {}({}, {}, {});", without_levels ? ", false" : "", search.name,
                        run_name(), code(*statement.iteration->source), statement.transposed));
  out_->add(fmt::format("{}.start({});", search.name, index_of(*statement.root)));
  searches_.push_back(search);
  const bool ahead = keeps_ahead(statement);
  if (ahead) navigate(statement, search);
  out_->open(fmt::format("while ({}.has_level())", search.name));
  out_->add(fmt::format("[[maybe_unused]] const std::int32_t {} = {}.level();", search.level, search.name));
  if (statement.navigator && !ahead) level_loop(statement, LevelWork::navigate, search);
  if (discovery != nullptr) {
    assign_on_discovery(statement, *discovery, search);
  } else {
    out_->add(fmt::format("{}.expand();", search.name));
    if (ahead) navigate(statement, search);
    const Statement& body = *statement.body[0];
    if (body.kind != StatementKind::block || !body.body.empty()) level_loop(statement, LevelWork::forward, search);
  }
  out_->close();
  if (statement.body[1]) {
    out_->open(fmt::format("for (std::int32_t {} = {}.levels() - 1; {} >= 0; --{})", search.level, search.name,
                           search.level, search.level));
    level_loop(statement, LevelWork::reverse, search);
    out_->close();
  }
  searches_.pop_back();
  out_->close();
}

/// Leaves nodes out of the level that was found last.
void Writer::navigate(const Statement& statement, const Search& search) {
  out_->open("");
  const Search found{search.statement, search.name, fresh(search.level)};
  out_->add(fmt::format("[[maybe_unused]] const std::int32_t {} = {}.level();", found.level, search.name));
  searches_.push_back(found);
  level_loop(statement, LevelWork::navigate, found);
  searches_.pop_back();
  out_->close();
}

/// The thread that discovers a node assigns to it.
void Writer::assign_on_discovery(const Statement& traversal, const Statement& inner, const Search& search) {
  Region region;
  prepare_region(region, traversal, Part::forward);
  for (auto& [symbol, mode] : region.modes) mode = Mode::plain;
  CodeLines body;
  CodeLines* outer = std::exchange(out_, &body);
  body.set_depth(outer->depth() + 1);
  region_ = &region;
  this->body(*inner.body[0]);
  region_ = nullptr;
  out_ = outer;
  const std::string &node = name_of(*traversal.iteration->iterator), &neighbour = name_of(*inner.iteration->iterator);
  decide(traversal.span, fmt::format("'{}' is assigned to by the node that finds it", neighbour));
  out_->add(
      fmt::format("{}.expand([&](const NodeId {}, [[maybe_unused]] const NodeId {}) {{", search.name, neighbour, node));
  out_->set_depth(out_->depth() + 1);
  std::map<std::string, std::string> pointers;
  for (const auto& [symbol, pointer] : region.pointers) pointers[name_of(*symbol)] = pointer;
  for (const auto& [name, pointer] : pointers) out_->add(fmt::format("auto* const {} = {}.data();", pointer, name));
  for (const auto& [member, local] : region.arrays) out_->add(fmt::format("const auto* const {} = {};", local, member));
  out_->raw(body.take());
  out_->close(");");
}

/// The body for the nodes of one level: run by all threads, or within a region by the instance's thread.
void Writer::level_loop(const Statement& statement, LevelWork work, const Search& search) {
  if (region_ != nullptr) return level_of_instance(statement, work, search);
  const Part part = work == LevelWork::reverse ? Part::reverse : Part::forward;
  Region region;
  prepare_region(region, statement, part);
  const std::string chunks = fresh("chunks");
  std::vector<DeferredStore> deferred;
  if (work == LevelWork::navigate) {
    out_->add(fmt::format("{}.keep([&](const gm::Chunk& chunk, auto&& leave_out) {{", search.name));
  } else {
    out_->add(fmt::format("const auto {} = {}.chunks({});", chunks, search.name, search.level));
    deferred = open_deferred(statement, chunks);
    begin_shared(region, {&statement}, chunks);
    out_->add(fmt::format("run.for_chunks({}, [&](const gm::Chunk& chunk) {{", chunks));
  }
  out_->set_depth(out_->depth() + 1);
  CodeLines body;
  CodeLines* outer = std::exchange(out_, &body);
  body.set_depth(outer->depth());
  region_ = &region;
  level_elements(statement, work, search, " + chunk.first", " + chunk.last");
  if (work != LevelWork::navigate) put_partials(region, body);
  region_ = nullptr;
  out_ = outer;
  region_prelude(region, *out_);
  out_->raw(body.take());
  out_->close(");");
  if (work == LevelWork::navigate) return;
  end_shared(region);
  close_deferred(deferred);
}

/// Of a search within an instance.
void Writer::level_of_instance(const Statement& statement, LevelWork work, const Search& search) {
  if (work == LevelWork::navigate) return level_elements(statement, work, search, "", "");
  const auto deferred = open_deferred(statement, "");
  begin_ties(statement);
  level_elements(statement, work, search, "", "");
  close_deferred(deferred);
}

void Writer::level_elements(const Statement& statement, LevelWork work, const Search& search, const std::string& first,
                            const std::string& last) {
  const std::string& node = name_of(*statement.iteration->iterator);
  const std::string index = fresh(node + "_at"), begin = fmt::format("{}.level_begin({})", search.name, search.level);
  const std::string end =
      last.empty() ? fmt::format("{}.level_begin({} + 1)", search.name, search.level) : begin + last;
  out_->open(fmt::format("for (auto {} = {}{}; {} < {}; ++{})", index, begin, first, index, end, index));
  out_->add(fmt::format("const NodeId {} = {}.order({});", node, search.name, index));
  if (work == LevelWork::navigate) {
    const std::string leave = region_->statement == &statement ? "leave_out" : search.name + ".leave_out";
    out_->add(fmt::format("if (!({})) {}({});", code(*statement.navigator), leave, node));
  } else {
    const auto& filter = work == LevelWork::reverse ? statement.reverse_filter : statement.iteration->filter;
    if (filter) out_->add(fmt::format("if (!({})) continue;", code(*filter)));
    body(*statement.body[work == LevelWork::reverse ? 1 : 0]);
  }
  out_->close();
  if (work == LevelWork::navigate && region_->statement != &statement) out_->add(search.name + ".keep();");
}

void Writer::depth_first(const Statement& statement) {
  const std::string& node = name_of(*statement.iteration->iterator);
  const std::string dfs = fresh(node + "_dfs");
  if (statement.transposed) result_.needs.in_edges = true;
  out_->open("");
  const auto deferred = open_deferred(statement, "");
  begin_ties(statement);
  out_->add(fmt::format("gm::DepthFirst<NodeId, EdgeId> {}({}, {}, {});", dfs, code(*statement.iteration->source),
                        statement.transposed, index_of(*statement.root)));
  out_->open(fmt::format("while ({}.next())", dfs));
  out_->add(fmt::format("const NodeId {} = {}.node();", node, dfs));
  out_->open(fmt::format("if ({}.entering())", dfs));
  if (statement.navigator) {
    out_->open(fmt::format("if (!({}))", code(*statement.navigator)));
    out_->add(fmt::format("{}.leave_out();", dfs));
    out_->add("continue;");
    out_->close();
  }
  const auto part = [&](const ExpressionPtr& filter, const Statement& body) {
    if (filter) out_->open(fmt::format("if ({})", code(*filter)));
    this->body(body);
    if (filter) out_->close();
  };
  part(statement.iteration->filter, *statement.body[0]);
  if (statement.body[1]) {
    out_->close(" else {");
    out_->set_depth(out_->depth() + 1);
    part(statement.reverse_filter, *statement.body[1]);
  }
  out_->close();
  out_->close();
  close_deferred(deferred);
  out_->close();
}

}  // namespace smelt::graph::language
