// Rebuilds a graph as if its edges were a list: to sort them, add reverses, remove edges, or renumber nodes.
#include <limits>

#include "base/error.hpp"
#include "graph/csr/build.hpp"
#include "graph/csr/edge_list.hpp"

namespace smelt::graph {
namespace {

WeightBits weight_bits(const Column& weights, std::uint64_t edge, WeightRange& range) {
  std::int64_t whole = 0;
  switch (weights.type()) {
    case ValueType::boolean: whole = weights.values<bool>()[edge] ? 1 : 0; break;
    case ValueType::int32: whole = weights.values<std::int32_t>()[edge]; break;
    case ValueType::int64: whole = weights.values<std::int64_t>()[edge]; break;
    case ValueType::float32: return std::bit_cast<WeightBits>(double{weights.values<float>()[edge]});
    case ValueType::float64: return std::bit_cast<WeightBits>(weights.values<double>()[edge]);
  }
  range.min = std::min(range.min, whole);
  range.max = std::max(range.max, whole);
  return static_cast<WeightBits>(whole);
}

template <class Payload, class NodeId, class EdgeId>
Result<Graph> rebuild(const Structure& structure, const Column* weights, const ListOptions& options, ThreadTeam& team) {
  const auto out = adjacency<NodeId, EdgeId>(structure.out_view);
  const auto parts = slices_for(team);
  std::vector<typename EdgeList<NodeId, Payload>::Part> lists(parts);
  std::vector<WeightRange> ranges(parts);
  std::atomic<bool> room{true};
  team.for_each(parts, [&](std::size_t part, int) {
    const auto last = first_node_of_part(out.begin, structure.nodes, part + 1, parts);
    for (auto node = first_node_of_part(out.begin, structure.nodes, part, parts); node < last; ++node) {
      for (EdgeId edge = out.begin[node]; edge < out.begin[node + 1]; ++edge) {
        Payload payload{};
        if constexpr (!std::is_same_v<Payload, NoPayload>) payload = weight_bits(*weights, edge, ranges[part]);
        const bool added = lists[part].add({static_cast<NodeId>(node), out.node_idx[edge], payload});
        if (!added) room.store(false, std::memory_order_relaxed);  // read after the team's barrier
      }
    }
  });
  if (!room.load(std::memory_order_relaxed)) {
    return make_error(Status::out_of_memory, "{}: does not fit into memory", options.what);
  }
  EdgeList<NodeId, Payload> list;
  WeightRange range;
  range.real = weights != nullptr && (weights->type() == ValueType::float32 || weights->type() == ValueType::float64);
  for (std::size_t part = 0; part < parts; ++part) {
    list.append(lists[part], 0, range.real);
    range.min = std::min(range.min, ranges[part].min);
    range.max = std::max(range.max, ranges[part].max);
  }
  if constexpr (std::is_same_v<Payload, NoPayload>) {
    return build_graph(team, std::move(list), options);
  } else {
    return build_graph(team, std::move(list), range, options);
  }
}

}  // namespace

Result<Graph> rebuild_graph(const Graph& graph, const BuildOptions& build_options, ThreadTeam& team,
                            const std::string& what) {
  const Structure& structure = graph.structure();
  ListOptions options;
  static_cast<BuildOptions&>(options) = build_options;
  options.nodes = structure.nodes;
  options.what = what;
  options.both_listed = structure.undirected;
  if (structure.undirected) options.undirected = false;
  const Column* weights = graph.edge_values("weight");
  auto rebuilt = with_ids(structure, [&](auto node, auto edge) {
    using NodeId = decltype(node);
    using EdgeId = decltype(edge);
    return weights == nullptr ? rebuild<NoPayload, NodeId, EdgeId>(structure, nullptr, options, team)
                              : rebuild<WeightBits, NodeId, EdgeId>(structure, weights, options, team);
  });
  if (options.renumber) return rebuilt;
  for (const auto& column : graph.node_columns()) {
    if (rebuilt) rebuilt = rebuilt->with_node_values(column);
  }
  return rebuilt;
}

}  // namespace smelt::graph
