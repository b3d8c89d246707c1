// Structure: the data that copies of a graph share. Out edges exist from the start. Other data is derived from them
// when it is first needed.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "graph/storage/pages.hpp"
#include "graph/team/team.hpp"
#include "smelt/graph.hpp"

namespace smelt::graph {

/// The largest number of an id type means "none" (NIL). So this is the largest number of nodes, too.
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

  /// `out` or `in` as pointers, either into their own pages or into `file`.
  struct View {
    const void* begin = nullptr;
    const void* node_idx = nullptr;
  };
  View out_view;

  /// in_view is written under `mutex` before `in_ready` is set (release); readers load `in_ready` (acquire). The same
  /// holds for in_edge_ids_view and in_edge_ids_ready.
  mutable std::mutex mutex;
  mutable std::atomic<bool> in_ready{false};
  mutable View in_view;
  mutable Rows in;
  mutable std::atomic<bool> in_edge_ids_ready{false};
  mutable Pages in_edge_ids;
  mutable const void* in_edge_ids_view = nullptr;
  /// Its arrays once more, as runs placed them, by the array and the placement; under `mutex`.
  mutable std::map<std::pair<const void*, int>, std::shared_ptr<void>> placed;
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

/// The number of pieces into which work on all edges is divided: several per thread, since pieces differ in duration.
inline std::size_t slices_for(const ThreadTeam& team) { return 8 * static_cast<std::size_t>(team.size()); }

/// The first node of a part, if all nodes are divided into `parts` parts with about equal numbers of edges and nodes.
template <class EdgeId>
std::uint64_t first_node_of_part(const EdgeId* begin, std::uint64_t nodes, std::uint64_t part, std::uint64_t parts) {
  const auto weight = [&](std::uint64_t node) { return static_cast<std::uint64_t>(begin[node]) + node; };
  const std::uint64_t all = weight(nodes);
  // The product could overflow for the largest graphs.
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
