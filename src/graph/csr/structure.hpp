// Structure: what copies of a graph share. Out edges are there from the start; what else can be derived from them is
// made when somebody needs it.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <mutex>

#include "graph/storage/pages.hpp"
#include "graph/team/team.hpp"
#include "smelt/graph.hpp"

namespace smelt::graph {

/// The largest number of an id type means "none" (NIL), so there are at most so many nodes.
template <class Id>
constexpr std::uint64_t most_ids = std::numeric_limits<Id>::max();

/// Edges in one direction, with EdgeIds of the graph's width.
struct Rows {
  Pages begin;
  Pages node_idx;
};

struct Structure {
  std::uint64_t nodes = 0;
  std::uint64_t edges = 0;
  int node_bytes = 4;
  int edge_bytes = 4;
  bool undirected = false;
  bool simple = false;
  Rows out;
  Pages file;  ///< the mapping that `out` and `in` may point into

  /// `out` or `in` as pointers: into their own pages, or into `file`.
  struct View {
    const void* begin = nullptr;
    const void* node_idx = nullptr;
  };
  View out_view;

  /// in_view is written under `mutex` before `in_ready` is set (release), which readers load (acquire); so in_edge_ids.
  mutable std::mutex mutex;
  mutable std::atomic<bool> in_ready{false};
  mutable View in_view;
  mutable Rows in;
  mutable std::atomic<bool> in_edge_ids_ready{false};
  mutable Pages in_edge_ids;
  mutable const void* in_edge_ids_view = nullptr;
};

/// Calls f(NodeId{}, EdgeId{}) with the types that the structure has.
template <class F>
decltype(auto) with_ids(const Structure& structure, F&& f) {
  if (structure.node_bytes == 8) return f(std::uint64_t{}, std::uint64_t{});
  if (structure.edge_bytes == 8) return f(std::uint32_t{}, std::uint64_t{});
  return f(std::uint32_t{}, std::uint32_t{});
}

template <class NodeId, class EdgeId>
Adjacency<NodeId, EdgeId> adjacency(const Structure::View& view) {
  return {static_cast<const EdgeId*>(view.begin), static_cast<const NodeId*>(view.node_idx)};
}

/// Into how many pieces work on all edges is cut: some per thread, as not all take equally long.
inline std::size_t slices_for(const ThreadTeam& team) { return 8 * static_cast<std::size_t>(team.size()); }

/// Nodes [first, last) for each of `parts` pieces with about as many edges and nodes each.
template <class EdgeId>
std::uint64_t first_node_of_part(const EdgeId* begin, std::uint64_t nodes, std::uint64_t part, std::uint64_t parts) {
  const auto weight = [&](std::uint64_t node) { return static_cast<std::uint64_t>(begin[node]) + node; };
  const std::uint64_t all = weight(nodes);
  // Without overflow also for the largest graphs.
  const std::uint64_t wanted = all / parts * part + all % parts * part / parts;
  std::uint64_t low = 0, high = nodes;
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (weight(middle) < wanted) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return part == parts ? nodes : low;
}

}  // namespace smelt::graph
