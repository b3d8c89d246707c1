// The Boost Graph Library's kernels as C functions, for peers.py: over compressed sparse rows, which is what is fastest
// there. Betweenness is left out, as it cannot start from a few nodes; triangles and PageRank, as there is no counting
// and no tolerance.
#include <boost/graph/breadth_first_search.hpp>
#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/graph/connected_components.hpp>
#include <boost/graph/dijkstra_shortest_paths.hpp>
#include <cstdint>
#include <utility>
#include <vector>

namespace {

struct Length {
  std::int32_t length;
};
using Graph = boost::compressed_sparse_row_graph<boost::directedS, boost::no_property, Length, boost::no_property,
                                                 std::uint32_t, std::uint32_t>;

auto map_over(const Graph& graph, std::int32_t* values) {
  return boost::make_iterator_property_map(values, boost::get(boost::vertex_index, graph));
}

}  // namespace

extern "C" {

/// Of an undirected graph, each edge in both directions, sorted by where it starts; released by boost_free.
void* boost_graph(std::uint64_t nodes, const std::int64_t* begin, const std::int64_t* to, const std::int32_t* weight) {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;
  std::vector<Length> lengths;
  for (std::uint64_t node = 0; node < nodes; ++node) {
    for (std::int64_t edge = begin[node]; edge < begin[node + 1]; ++edge) {
      edges.emplace_back(static_cast<std::uint32_t>(node), static_cast<std::uint32_t>(to[edge]));
      lengths.push_back({weight[edge]});
    }
  }
  return new Graph(boost::edges_are_sorted, edges.begin(), edges.end(), lengths.begin(),
                   static_cast<std::uint32_t>(nodes));
}

void boost_free(void* graph) { delete static_cast<Graph*>(graph); }

/// The node before each node; -1 for nodes that are not reached.
void boost_bfs(const void* given, std::uint64_t root, std::int32_t* parent) {
  const auto& graph = *static_cast<const Graph*>(given);
  for (std::uint64_t node = 0; node < boost::num_vertices(graph); ++node) parent[node] = -1;
  parent[root] = static_cast<std::int32_t>(root);
  boost::breadth_first_search(graph, static_cast<std::uint32_t>(root),
                              boost::visitor(boost::make_bfs_visitor(
                                  boost::record_predecessors(map_over(graph, parent), boost::on_tree_edge()))));
}

/// A number per component for each node; returns how many components there are.
std::int64_t boost_cc(const void* given, std::int32_t* component) {
  const auto& graph = *static_cast<const Graph*>(given);
  return boost::connected_components(graph, map_over(graph, component));
}

/// The largest number where there is no path.
void boost_sssp(const void* given, std::uint64_t root, std::int32_t* distance) {
  const auto& graph = *static_cast<const Graph*>(given);
  boost::dijkstra_shortest_paths(
      graph, static_cast<std::uint32_t>(root),
      boost::distance_map(map_over(graph, distance)).weight_map(boost::get(&Length::length, graph)));
}

}  // extern "C"
