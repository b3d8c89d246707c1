// Translates the heads of loops over nodes, edges, neighbours and items, of all of them or of a chunk. Each opens one
// or two braces; the depth of the output says how many.
#include <fmt/format.h>

#include <algorithm>

#include "graph/analysis/values.hpp"
#include "graph/code/writer.hpp"

namespace smelt::graph::language {
namespace {

bool along_in_edges(Range range, bool transposed) {
  switch (range) {
    case Range::in_neighbours:
    case Range::in_edges: return true;
    case Range::up_neighbours:
    case Range::up_edges: return !transposed;
    case Range::down_neighbours:
    case Range::down_edges: return transposed;
    default: return false;
  }
}

bool is_up(Range range) { return range == Range::up_neighbours || range == Range::up_edges; }

/// The edges by which a loop reaches neighbours: none, out edges, in edges or both.
struct Directions {
  bool out = false;
  bool in = false;
};

void add_directions(const Iteration& iteration, Directions& directions) {
  if (!is_of_node(iteration.range)) return;
  (along_in_edges(iteration.range, false) ? directions.in : directions.out) = true;
}

Directions directions_of(const Statement* body, const Expression* expression) {
  Directions directions;
  const auto look = [&](const Expression& each) {
    walk(each, [&](const Expression& inner) {
      if (inner.kind == ExpressionKind::reduction) add_directions(*inner.iteration, directions);
      if (inner.kind == ExpressionKind::method && inner.builtin == Builtin::has_edge_to) directions.out = true;
    });
  };
  if (body != nullptr) {
    walk_statements(*body, [&](const Statement& each) {
      if (each.kind == StatementKind::loop && &each != body) add_directions(*each.iteration, directions);
      for_each_expression(each, look);
    });
  }
  if (expression != nullptr) {
    for (const auto& operand : expression->operands) look(*operand);
    if (expression->iteration->filter) look(*expression->iteration->filter);
  }
  return directions;
}

}  // namespace

/// An array of a graph: the region's local pointer to it, or the graph's member.
std::string Writer::array(const Symbol& graph, const char* name) {
  const std::string member = fmt::format("{}.{}", name_of(graph), name);
  if (std::string_view(name).starts_with("r_")) result_.needs.in_edges = true;
  if (region_ == nullptr) return member;
  auto& local = region_->arrays[member];
  if (local.empty()) local = fresh(name);
  return local;
}

/// Whether the loop uses e.FromNode() of its edges. If so, it runs over nodes and their edges.
bool Writer::uses_from_node(const Symbol& iterator, const Statement* body, const Expression* reduction) const {
  bool uses = false;
  const auto look = [&](const Expression& each) {
    walk(each, [&](const Expression& inner) {
      uses |= inner.kind == ExpressionKind::method && inner.builtin == Builtin::from_node &&
              inner.operands[0]->kind == ExpressionKind::name && inner.operands[0]->reference.symbol == &iterator;
    });
  };
  if (body != nullptr) {
    walk_statements(*body, [&](const Statement& each) { for_each_expression(each, look); });
  }
  if (reduction != nullptr) look(*reduction);
  return uses;
}

/// Evaluates once, before a parallel loop, where the loop's elements come from: its instances may assign to names in
/// it.
void Writer::keep_source(const Iteration& iteration) {
  const Expression& source = *iteration.source;
  const bool items = iteration.range == Range::items;
  const bool lasts = iteration.range == Range::nodes || iteration.range == Range::edges ||
                     (items && source.kind == ExpressionKind::name);
  if (lasts) return;
  const std::string name = fresh(iteration.name.name + "_of");
  const std::string value = items ? collection(source) : index_of(source);
  out_->add(fmt::format("{} {} = {};", items ? "const auto&" : "const NodeId", name, value));
  sources_[&iteration] = name;
}

/// The node or collection that the iteration's elements come from.
std::string Writer::source_of(const Iteration& iteration) {
  const auto kept = sources_.find(&iteration);
  if (kept != sources_.end()) return kept->second;
  return iteration.range == Range::items ? collection(*iteration.source) : index_of(*iteration.source);
}

/// How the elements of an iteration are divided among threads.
std::string Writer::chunks_of(const Iteration& iteration, const Statement* body, const Expression* reduction) {
  const auto directions = directions_of(body, reduction);
  const Type& source = iteration.source->type;
  switch (iteration.range) {
    case Range::nodes: {
      const std::string graph = code(*iteration.source);
      if (directions.in && !directions.out) {
        result_.needs.in_edges = true;
        return graph + ".in_chunks()";
      }
      return graph + (directions.out ? ".out_chunks()" : ".node_chunks()");
    }
    case Range::edges: {
      const std::string graph = code(*iteration.source);
      if (uses_from_node(*iteration.iterator, body, reduction)) {
        from_names_[iteration.iterator] = fresh(iteration.name.name + "_from");
        return graph + ".out_chunks()";
      }
      return fmt::format("gm::ByCount({}.edges)", graph);
    }
    case Range::items:
      return fmt::format("gm::ByCount(static_cast<std::uint64_t>({}.size()), {})", source_of(iteration),
                         directions.in || directions.out ? 16 : 256);
    default: {
      const std::string graph = name_of(*graph_of(source)), node = source_of(iteration);
      const bool in = along_in_edges(iteration.range, false);
      if (in) result_.needs.in_edges = true;
      return fmt::format("gm::ByCount(static_cast<std::uint64_t>({}.{}({})), {})", graph, in ? "in_degree" : "degree",
                         node, directions.in || directions.out ? 16 : 512);
    }
  }
}

/// The elements of `chunk`.
void Writer::open_chunk(const Iteration& iteration, CodeLines& lines) {
  const std::string& name = name_of(*iteration.iterator);
  const auto run = [&](const char* type, const std::string& variable) {
    if (iteration.reverse) {
      lines.open(
          fmt::format("for (auto {} = static_cast<{}>(chunk.last); {}-- > chunk.first;)", variable, type, variable));
    } else {
      lines.open(fmt::format("for (auto {} = static_cast<{}>(chunk.first); {} < chunk.last; ++{})", variable, type,
                             variable, variable));
    }
  };
  switch (iteration.range) {
    case Range::nodes: return run("NodeId", name);
    case Range::edges: {
      const auto from = from_names_.find(iteration.iterator);
      if (from == from_names_.end()) return run("EdgeId", name);
      const std::string begin = array(*iteration.source->reference.symbol, "begin");
      run("NodeId", from->second);
      return lines.open(fmt::format("for (EdgeId {} = {}[{}]; {} < {}[{} + 1]; ++{})", name, begin, from->second, name,
                                    begin, from->second, name));
    }
    case Range::items: {
      const std::string index = fresh(name + "_at");
      lines.open(fmt::format("for (auto {} = chunk.first; {} < chunk.last; ++{})", index, index, index));
      const char* type = iteration.source->type.is(TypeKind::collection) ? "const auto&" : "const auto";
      return lines.add(fmt::format("{} {} = {}[{}];", type, name, source_of(iteration), index));
    }
    default: {
      const Symbol& graph = *graph_of(iteration.source->type);
      const bool in = along_in_edges(iteration.range, false);
      const std::string begin = array(graph, in ? "r_begin" : "begin"), node = source_of(iteration);
      const std::string edge = is_edges_of_node(iteration.range) && !in ? name : fresh(name + "_edge");
      lines.open(
          fmt::format("for (auto {} = static_cast<EdgeId>({}[{}] + chunk.first); {} < {}[{}] + chunk.last; ++{})", edge,
                      begin, node, edge, begin, node, edge));
      if (in) result_.needs.in_edge_numbers |= is_edges_of_node(iteration.range);
      if (is_edges_of_node(iteration.range)) {
        if (in) lines.add(fmt::format("const EdgeId {} = {}.in_edge({});", name, name_of(graph), edge));
        return;
      }
      edge_names_[iteration.iterator] = in ? fmt::format("{}.in_edge({})", name_of(graph), edge) : edge;
      return lines.add(
          fmt::format("const NodeId {} = {}[{}];", name, array(graph, in ? "r_node_idx" : "node_idx"), edge));
    }
  }
}

/// `body`: of a loop that is a statement; it may consist of one condition.
void Writer::open_iteration(const Iteration& iteration, CodeLines& lines, const Statement* body) {
  const std::string& name = name_of(*iteration.iterator);
  switch (iteration.range) {
    case Range::nodes:
    case Range::edges: {
      const bool nodes = iteration.range == Range::nodes;
      const std::string bound = fmt::format("{}.{}", code(*iteration.source), nodes ? "nodes" : "edges");
      const char* type = nodes ? "NodeId" : "EdgeId";
      if (iteration.reverse) {
        return lines.open(fmt::format("for (auto {} = static_cast<{}>({}); {}-- > 0;)", name, type, bound, name));
      }
      return lines.open(fmt::format("for ({} {} = 0; {} < {}; ++{})", type, name, name, bound, name));
    }
    case Range::items: return open_items(iteration, lines);
    case Range::common_neighbours: return open_common(iteration, lines);
    default: return open_neighbours(iteration, lines, bounds_of(iteration, body));
  }
}

/// Conditions that follow from the ascending order of the list of neighbours.
NeighbourBounds Writer::bounds_of(const Iteration& iteration, const Statement* body) {
  if (!options_.merge || (iteration.range != Range::neighbours && iteration.range != Range::in_neighbours)) return {};
  auto terms = terms_of(iteration.filter.get());
  while (body != nullptr && body->kind == StatementKind::block && body->body.size() == 1) body = body->body[0].get();
  if (body != nullptr && body->kind == StatementKind::if_else && body->body[1] == nullptr) {
    for (const auto* term : terms_of(body->value.get())) terms.push_back(term);
  }
  const auto bounds = neighbour_bounds(*iteration.iterator, terms, true);
  implied_.insert(bounds.implied.begin(), bounds.implied.end());
  return bounds;
}

void Writer::open_items(const Iteration& iteration, CodeLines& lines) {
  const std::string& name = name_of(*iteration.iterator);
  const std::string place = collection(*iteration.source);
  const char* type = iteration.source->type.is(TypeKind::collection) ? "auto&" : "const auto";
  if (!iteration.reverse) return lines.open(fmt::format("for ({} {} : {})", type, name, place));
  const std::string index = fresh(name + "_at"), items = fresh(name + "_of");
  lines.open("");
  lines.add(fmt::format("auto& {} = {};", items, place));
  lines.open(fmt::format("for (auto {} = static_cast<std::uint64_t>({}.size()); {}-- > 0;)", index, items, index));
  lines.add(fmt::format("{} {} = {}[{}];", type, name, items, index));
}

/// The search that gives the node its level: the one that visits it, else the innermost one of its graph.
const Search* Writer::search_of(const Iteration& iteration) const {
  const Expression& node = *iteration.source;
  const auto innermost = [&](auto&& is_it) {
    const auto found = std::find_if(searches_.rbegin(), searches_.rend(), is_it);
    return found == searches_.rend() ? nullptr : &*found;
  };
  const Search* visiting = innermost([&](const Search& each) { return place_of(node, *each.statement) == Place::own; });
  if (visiting != nullptr) return visiting;
  return innermost(
      [&](const Search& each) { return each.statement->iteration->source->reference.symbol == graph_of(node.type); });
}

/// Whether a neighbour is one level nearer to or farther from the root.
std::string Writer::level_check(const Iteration& iteration, const std::string& node_code,
                                const std::string& neighbour) {
  const Search* search = search_of(iteration);
  if (search == nullptr) return "true";
  std::string levels = search->name + ".levels_of_nodes()";
  if (region_ != nullptr && region_->statement == search->statement) {  // else the search begins within the region
    auto& local = region_->arrays[levels];
    if (local.empty()) local = fresh("levels");
    levels = local;
  }
  const Expression& node = *iteration.source;
  const bool of_level =
      node.kind == ExpressionKind::name && node.reference.symbol == search->statement->iteration->iterator;
  const std::string level = of_level ? search->level : fmt::format("{}[{}]", levels, node_code);
  return fmt::format("{}[{}] == {} {} 1", levels, neighbour, level, is_up(iteration.range) ? "-" : "+");
}

void Writer::open_neighbours(const Iteration& iteration, CodeLines& lines, const NeighbourBounds& bounds) {
  const std::string& name = name_of(*iteration.iterator);
  const Symbol& graph = *graph_of(iteration.source->type);
  const Search* search = is_by_level(iteration.range) ? search_of(iteration) : nullptr;
  const bool transposed = search != nullptr && search->statement->transposed;
  const bool in = along_in_edges(iteration.range, transposed);
  const bool of_edges = is_edges_of_node(iteration.range);
  const std::string begin = array(graph, in ? "r_begin" : "begin"),
                    node_idx = array(graph, in ? "r_node_idx" : "node_idx");
  std::string node = index_of(*iteration.source);
  const Symbol* source = iteration.source->kind == ExpressionKind::name ? iteration.source->reference.symbol : nullptr;
  if (is_by_level(iteration.range) && (source == nullptr || source->kind != SymbolKind::iterator)) {
    // The loop's body may assign to a variable.
    const std::string kept = fresh(name + "_of");
    lines.open("");
    lines.add(fmt::format("const NodeId {} = {};", kept, node));
    node = kept;
  }
  const std::string edge = of_edges && !in ? name : fresh(name + "_edge"), end = fresh(name + "_end");
  const auto entry = [&](const std::string& first, const std::string& idx, const std::string& of) {
    if (bounds.above == nullptr) return fmt::format("{}[{}]", first, of);
    return fmt::format("gm::above({}, {}[{}], {}[{} + 1], {})", idx, first, of, first, of, code(*bounds.above));
  };
  std::string head =
      fmt::format("EdgeId {} = {}, {} = {}[{} + 1]", edge, entry(begin, node_idx, node), end, begin, node);
  std::string with, with_end, with_idx;
  if (bounds.adjacent_to != nullptr) {
    const bool other_in = bounds.adjacent_from_neighbour;
    const std::string other_begin = array(graph, other_in ? "r_begin" : "begin"), other = code(*bounds.adjacent_to);
    with_idx = array(graph, other_in ? "r_node_idx" : "node_idx");
    with = fresh(name + "_with");
    with_end = fresh(name + "_with_end");
    head += fmt::format(", {} = {}, {} = {}[{} + 1]", with, entry(other_begin, with_idx, other), with_end, other_begin,
                        other);
    decide(iteration.name.span,
           fmt::format("neighbours '{}' that are adjacent to '{}': two ascending lists are merged", name, other));
  }
  lines.open(fmt::format("for ({}; {} < {}; ++{})", head, edge, end, edge));
  if (is_by_level(iteration.range)) {
    lines.add(fmt::format("if (!({})) continue;", level_check(iteration, node, fmt::format("{}[{}]", node_idx, edge))));
  }
  if (of_edges) {
    if (!in) return;
    result_.needs.in_edge_numbers = true;
    return lines.add(fmt::format("const EdgeId {} = {}.in_edge({});", name, name_of(graph), edge));
  }
  edge_names_[iteration.iterator] = in ? fmt::format("{}.in_edge({})", name_of(graph), edge) : edge;
  lines.add(fmt::format("const NodeId {} = {}[{}];", name, node_idx, edge));
  if (bounds.below != nullptr) lines.add(fmt::format("if (!({} < {})) break;", name, code(*bounds.below)));
  if (bounds.adjacent_to == nullptr) return;
  lines.add(fmt::format("while ({} < {} && {}[{}] < {}) ++{};", with, with_end, with_idx, with, name, with));
  lines.add(fmt::format("if ({} == {}) break;", with, with_end));
  lines.add(fmt::format("if ({}[{}] != {}) continue;", with_idx, with, name));
}

/// One pass over the neighbours of both nodes, since both lists ascend.
void Writer::open_common(const Iteration& iteration, CodeLines& lines) {
  const std::string& name = name_of(*iteration.iterator);
  const Symbol& graph = *graph_of(iteration.source->type);
  const std::string begin = array(graph, "begin"), node_idx = array(graph, "node_idx");
  const std::string node = index_of(*iteration.source), other = index_of(*iteration.argument);
  const std::string edge = fresh(name + "_edge"), end = fresh(name + "_end"), with = fresh(name + "_with"),
                    with_end = fresh(name + "_with_end");
  lines.open(fmt::format("for (EdgeId {} = {}[{}], {} = {}[{} + 1], {} = {}[{}], {} = {}[{} + 1]; {} < {}; ++{})", edge,
                         begin, node, end, begin, node, with, begin, other, with_end, begin, other, edge, end, edge));
  lines.add(fmt::format("const NodeId {} = {}[{}];", name, node_idx, edge));
  lines.add(fmt::format("while ({} < {} && {}[{}] < {}) ++{};", with, with_end, node_idx, with, name, with));
  lines.add(fmt::format("if ({} == {}) break;", with, with_end));
  lines.add(fmt::format("if ({}[{}] != {}) continue;", node_idx, with, name));
}

}  // namespace smelt::graph::language
