// Builds a graph from a list of edges. The edges are grouped by `to`, then by `from`, so that each node's edges are
// sorted. Loops and repetitions are removed on request. Offsets are as narrow as possible.
#include "graph/csr/build.hpp"

#include <bit>
#include <cstring>
#include <vector>

#include "base/error.hpp"
#include "graph/csr/grouping.hpp"
#include "graph/csr/renumbering.hpp"
#include "graph/csr/rows_source.hpp"

namespace smelt::graph {
namespace {

/// Groups the edges of a list by `to`; with `both`, also their reverses.
template <class NodeId, class List, class Convert>
class ListSource {
 public:
  ListSource(List& list, std::size_t slices, bool both, Convert convert)
      : blocks_(list.blocks()),
        slices_(std::max<std::size_t>(1, std::min(slices, list.blocks().size()))),
        both_(both),
        convert_(convert) {}

  std::size_t slices() const noexcept { return slices_; }

  template <class Emit>
  void visit(std::size_t slice, bool last, Emit&& emit) const {
    const auto count = blocks_.size();
    for (std::size_t i = count * slice / slices_; i < count * (slice + 1) / slices_; ++i) {
      auto& block = blocks_[i];
      const auto* edges = block.edges();
      for (std::size_t edge = 0; edge < block.count; ++edge) {
        const auto from = static_cast<NodeId>(edges[edge].from + block.from_offset);
        const auto to = static_cast<NodeId>(edges[edge].to);
        const auto payload = convert_(edges[edge].payload);
        emit(to, from, payload);
        if (both_ && from != to) emit(from, to, payload);
      }
      if (last) block.memory = Pages();
    }
  }

 private:
  std::vector<typename List::Block>& blocks_;
  std::size_t slices_;
  bool both_;
  Convert convert_;
};

/// Sorts each node's edges.
template <class NodeId, class Travel>
struct Sorted {
  Grouped rows;
  std::uint64_t edges = 0;
  ValueType type = ValueType::int32;  ///< of the payload
};

template <class NodeId, class Travel, class Source>
Result<Sorted<NodeId, Travel>> sort_edges(ThreadTeam& team, std::uint64_t nodes, Source& source) {
  auto by_target = Grouping<NodeId, Travel, Source>(team, nodes, source).run();
  if (!by_target) return by_target.error();
  const auto again = [&](auto payload_of) -> Result<Sorted<NodeId, Travel>> {
    RowsSource rows(by_target->begin.template as<std::uint64_t>(), by_target->values.template as<NodeId>(), nodes,
                    payload_of, slices_for(team), &by_target->values);
    auto by_source = Grouping<NodeId, Travel, decltype(rows)>(team, nodes, rows).run();
    if (!by_source) return by_source.error();
    Sorted<NodeId, Travel> sorted;
    sorted.edges = by_source->begin.template as<std::uint64_t>()[nodes];
    sorted.rows = *std::move(by_source);
    return sorted;
  };
  if constexpr (std::is_same_v<Travel, NoPayload>) {
    return again(NothingTravels{});
  } else {
    return again(ElementOf<Travel>{by_target->payloads.template as<Travel>()});
  }
}

template <class Travel>
bool is_smaller(ValueType type, Travel left, Travel right) {
  if constexpr (std::is_same_v<Travel, NoPayload>) {
    return false;
  } else if constexpr (sizeof(Travel) == 4) {
    return static_cast<std::int32_t>(left) < static_cast<std::int32_t>(right);
  } else {
    if (type == ValueType::int64) return static_cast<std::int64_t>(left) < static_cast<std::int64_t>(right);
    return std::bit_cast<double>(left) < std::bit_cast<double>(right);
  }
}

/// Removes loops, and all but the lightest of the edges between the same nodes.
template <class NodeId, class Travel>
class Simplification {
 public:
  Simplification(ThreadTeam& team, std::uint64_t nodes, Sorted<NodeId, Travel>& sorted)
      : team_(team),
        nodes_(nodes),
        sorted_(sorted),
        parts_(slices_for(team)),
        begin_(sorted.rows.begin.template as<std::uint64_t>()) {}

  Result<void> run() {
    std::vector<std::uint64_t> kept(parts_ + 1);
    for_parts([&](std::size_t part, std::uint64_t first, std::uint64_t last) {
      for (auto node = first; node < last; ++node) {
        for_kept(node, [&](std::uint64_t, std::uint64_t) { ++kept[part + 1]; });
      }
    });
    for (std::size_t part = 0; part < parts_; ++part) kept[part + 1] += kept[part];
    constexpr bool has_payload = !std::is_same_v<Travel, NoPayload>;
    auto begin = Pages::allocate((nodes_ + 1) * sizeof(std::uint64_t));
    auto values = Pages::allocate(kept.back() * sizeof(NodeId));
    auto payloads = Pages::allocate(has_payload ? kept.back() * sizeof(Travel) : 0);
    for (const auto* pages : {&begin, &values, &payloads}) {
      if (!*pages) return pages->error();
    }
    for_parts([&](std::size_t part, std::uint64_t first, std::uint64_t last) {
      auto next = kept[part];
      for (auto node = first; node < last; ++node) {
        begin->template as<std::uint64_t>()[node] = next;
        for_kept(node, [&](std::uint64_t edge, std::uint64_t smallest) {
          values->template as<NodeId>()[next] = sorted_.rows.values.template as<NodeId>()[edge];
          if constexpr (has_payload) {
            payloads->template as<Travel>()[next] = sorted_.rows.payloads.template as<Travel>()[smallest];
          }
          ++next;
        });
      }
    });
    begin->template as<std::uint64_t>()[nodes_] = kept.back();
    sorted_.edges = kept.back();
    sorted_.rows = {*std::move(begin), *std::move(values), *std::move(payloads)};
    return {};
  }

 private:
  template <class F>
  void for_parts(F&& f) {
    team_.for_each(parts_, [&](std::size_t part, int) {
      f(part, first_node_of_part(begin_, nodes_, part, parts_), first_node_of_part(begin_, nodes_, part + 1, parts_));
    });
  }

  /// Calls f(edge, lightest repetition of that edge).
  template <class F>
  void for_kept(std::uint64_t node, F&& f) {
    const auto* to = sorted_.rows.values.template as<NodeId>();
    const auto* payloads = sorted_.rows.payloads.template as<Travel>();
    for (auto edge = begin_[node]; edge < begin_[node + 1];) {
      const auto first = edge;
      auto smallest = edge;
      for (++edge; edge < begin_[node + 1] && to[edge] == to[first]; ++edge) {
        if constexpr (!std::is_same_v<Travel, NoPayload>) {
          if (is_smaller(sorted_.type, payloads[edge], payloads[smallest])) smallest = edge;
        }
      }
      if (to[first] != node) f(first, smallest);
    }
  }

  ThreadTeam& team_;
  std::uint64_t nodes_;
  Sorted<NodeId, Travel>& sorted_;
  std::size_t parts_;
  const std::uint64_t* begin_;
};

Column weight_column(ValueType type, std::uint64_t edges, Pages pages) {
  const auto owner = std::make_shared<Pages>(std::move(pages));
  return Column("weight", type, edges, {owner, owner->data()});
}

/// The options for a graph of known size.
template <class NodeId, class Travel, class List, class Convert>
Result<Graph> build_with_ids(ThreadTeam& team, List& list, std::uint64_t nodes, ValueType type, Convert convert,
                             const ListOptions& options) {
  ListSource<NodeId, List, Convert> source(list, slices_for(team), options.undirected, convert);
  auto sorted = sort_edges<NodeId, Travel>(team, nodes, source);
  if (!sorted) return sorted.error();
  sorted->type = type;
  if (options.simple) {
    if (auto done = Simplification<NodeId, Travel>(team, nodes, *sorted).run(); !done) return done.error();
  }
  const Widths widths = widths_for(nodes, sorted->edges, options.wide);
  auto begin = narrowed(team, std::move(sorted->rows.begin), nodes + 1, widths.edge_bytes);
  if (!begin) return begin.error();
  auto structure = make_structure(nodes, sorted->edges, widths, {*std::move(begin), std::move(sorted->rows.values)});
  structure->undirected = options.undirected;
  structure->simple = options.simple;
  if (options.both_listed) {
    if (!is_symmetric(*structure, team)) {
      return make_error(Status::bad_format, "{}: an edge is listed at one of its nodes only; the format wants both",
                        options.what);
    }
    structure->undirected = true;
  }
  Graph graph(std::move(structure));
  if constexpr (std::is_same_v<Travel, NoPayload>) {
    return graph;
  } else {
    return graph.with_edge_values(weight_column(type, graph.num_edges(), std::move(sorted->rows.payloads)));
  }
}

template <class Travel, class List, class Convert>
Result<Graph> build(ThreadTeam& team, List& list, ValueType type, Convert convert, const ListOptions& options) {
  std::optional<Column> ids;
  std::uint64_t nodes = options.nodes;
  if (options.renumber) {
    ids = renumber(team, list);
    nodes = ids->size();
  }
  const bool wide = widths_for(nodes, 0, options.wide).node_bytes == 8;
  auto graph = wide ? build_with_ids<std::uint64_t, Travel>(team, list, nodes, type, convert, options)
                    : build_with_ids<std::uint32_t, Travel>(team, list, nodes, type, convert, options);
  if (graph && ids) graph = graph->with_node_values(*std::move(ids));
  return graph;
}

template <class List>
Result<Graph> build_plain(ThreadTeam& team, List list, const ListOptions& options) {
  return build<NoPayload>(
      team, list, ValueType::int32, [](NoPayload none) { return none; }, options);
}

/// Converts integers to doubles, because some weights are not integers.
void make_real(ThreadTeam& team, auto& list) {
  auto& blocks = list.blocks();
  team.for_each(blocks.size(), [&](std::size_t i, int) {
    for (std::size_t edge = 0; edge < blocks[i].count; ++edge) {
      auto& bits = blocks[i].edges()[edge].payload;
      if (!blocks[i].real) bits = std::bit_cast<WeightBits>(static_cast<double>(static_cast<std::int64_t>(bits)));
    }
  });
}

template <class List>
Result<Graph> build_weighted(ThreadTeam& team, List list, const WeightRange& range, const ListOptions& options) {
  const auto as_it_is = [](WeightBits bits) { return bits; };
  if (range.real) {
    make_real(team, list);
    return build<std::uint64_t>(team, list, ValueType::float64, as_it_is, options);
  }
  constexpr std::int64_t low = std::numeric_limits<std::int32_t>::min(),
                         high = std::numeric_limits<std::int32_t>::max();
  if (range.min < low || range.max > high) {
    return build<std::uint64_t>(team, list, ValueType::int64, as_it_is, options);
  }
  const auto lower_half = [](WeightBits bits) { return static_cast<std::uint32_t>(bits); };
  return build<std::uint32_t>(team, list, ValueType::int32, lower_half, options);
}

}  // namespace

Result<Graph> build_graph(ThreadTeam& team, EdgeList<std::uint32_t, NoPayload> list, const ListOptions& options) {
  return build_plain(team, std::move(list), options);
}
Result<Graph> build_graph(ThreadTeam& team, EdgeList<std::uint64_t, NoPayload> list, const ListOptions& options) {
  return build_plain(team, std::move(list), options);
}
Result<Graph> build_graph(ThreadTeam& team, EdgeList<std::uint32_t, WeightBits> list, const WeightRange& range,
                          const ListOptions& options) {
  return build_weighted(team, std::move(list), range, options);
}
Result<Graph> build_graph(ThreadTeam& team, EdgeList<std::uint64_t, WeightBits> list, const WeightRange& range,
                          const ListOptions& options) {
  return build_weighted(team, std::move(list), range, options);
}

}  // namespace smelt::graph
