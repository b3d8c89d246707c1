// Statistics of a graph that need a few passes over its edges.
#include <algorithm>
#include <vector>

#include "graph/csr/build.hpp"
#include "graph/csr/structure.hpp"
#include "graph/team/team.hpp"
#include "smelt/graph.hpp"

namespace smelt::graph {
namespace {

template <class EdgeId>
Statistics::Degrees degrees_of(const EdgeId* begin, std::uint64_t nodes) {
  Statistics::Degrees degrees;
  if (nodes == 0) return degrees;
  std::vector<EdgeId> sorted(nodes);
  for (std::uint64_t node = 0; node < nodes; ++node) sorted[node] = begin[node + 1] - begin[node];
  std::sort(sorted.begin(), sorted.end());
  degrees.min = sorted.front();
  degrees.median = sorted[nodes / 2];
  degrees.max = sorted.back();
  const auto edges = static_cast<double>(begin[nodes]);
  degrees.mean = edges / static_cast<double>(nodes);
  double top = 0.0;
  for (std::uint64_t i = nodes - (nodes + 99) / 100; i < nodes; ++i) top += static_cast<double>(sorted[i]);
  degrees.top_percent_share = edges > 0.0 ? top / edges : 0.0;
  return degrees;
}

/// Counts of one part of the nodes.
struct Counts {
  std::uint64_t isolated = 0, loops = 0, repeated = 0;
};

template <class NodeId, class EdgeId>
void count(Adjacency<NodeId, EdgeId> out, Adjacency<NodeId, EdgeId> in, std::uint64_t node, Counts& counts) {
  const auto own = static_cast<NodeId>(node);
  counts.isolated += out.degree(own) == 0 && in.degree(own) == 0;
  const auto neighbours = out.neighbours(own);
  for (std::size_t i = 0; i < neighbours.size(); ++i) {
    counts.loops += neighbours[i] == own;
    counts.repeated += i > 0 && neighbours[i] == neighbours[i - 1];
  }
}

}  // namespace

Result<Statistics> statistics(const Graph& graph, int threads) {
  const auto team = ThreadTeam::create(threads);
  if (!team) return team.error();
  const Structure& structure = graph.structure();
  if (auto made = make_in_rows(structure, **team); !made) return made.error();
  Statistics result;
  result.num_nodes = structure.nodes;
  result.num_edges = structure.edges;
  result.symmetric = is_symmetric(structure, **team);
  const auto direction_bytes = (structure.nodes + 1) * static_cast<std::uint64_t>(structure.edge_bytes) +
                               structure.edges * static_cast<std::uint64_t>(structure.node_bytes);
  result.structure_bytes = direction_bytes * (structure.undirected ? 1 : 2);
  with_ids(structure, [&](auto node_id, auto edge_id) {
    using NodeId = decltype(node_id);
    using EdgeId = decltype(edge_id);
    const auto out = adjacency<NodeId, EdgeId>(structure.out_view), in = adjacency<NodeId, EdgeId>(structure.in_view);
    result.out = degrees_of(out.begin, structure.nodes);
    result.in = degrees_of(in.begin, structure.nodes);
    const auto parts = slices_for(**team);
    std::vector<Counts> counts(parts);
    (*team)->for_each(parts, [&](std::size_t part, int) {
      const auto first = first_node_of_part(out.begin, structure.nodes, part, parts);
      const auto last = first_node_of_part(out.begin, structure.nodes, part + 1, parts);
      for (auto node = first; node < last; ++node) count(out, in, node, counts[part]);
    });
    for (const auto& part : counts) {
      result.isolated += part.isolated;
      result.loops += part.loops;
      result.repeated += part.repeated;
    }
  });
  return result;
}

}  // namespace smelt::graph
