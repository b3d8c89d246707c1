// Reference kernels: the six kernels of the GAP benchmark suite as an OpenMP programmer writes them by hand, with the
// algorithms that the suite's own programs use [Beamer, Asanović, Patterson 2015]. They are what compiled Green-Marl is
// compared with.
//
//   bfs   direction-optimizing: top-down with queues, bottom-up with bitmaps [Beamer 2012]
//   pr    pull, in place: a node sees new contributions of those that came before in the same iteration
//   cc    Afforest: two sampled neighbours of each node, then all edges outside the largest component [Sutton et al. 2018]
//   bc    Brandes with a bitmap of the edges that lead one level on [Madduri et al. 2009]
//   sssp  delta stepping with bins per thread, small bins are worked off at once [Meyer and Sanders 2003; Zhang et al. 2020]
//   tc    merges of sorted lists, nodes renumbered by descending degree where degrees are skewed
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace bench::reference {

using Node = std::int32_t;

struct WeightedNode {
  Node node;
  std::int32_t weight;
};

/// An undirected graph without repeated edges: rows of neighbours, ascending.
struct Rows {
  std::vector<std::int64_t> begin;  ///< num_nodes + 1
  std::vector<Node> neighbour;
  std::vector<WeightedNode> weighted;  ///< the same with lengths; empty if there are none

  Node num_nodes() const noexcept { return static_cast<Node>(begin.size() - 1); }
  std::int64_t degree(Node node) const noexcept { return begin[node + 1] - begin[node]; }
  std::span<const Node> of(Node node) const noexcept {
    return {neighbour.data() + begin[node], static_cast<std::size_t>(degree(node))};
  }
};

constexpr std::int32_t unreachable = INT32_MAX;

/// The parent of each node, -1 where there is none; of the root itself.
std::vector<Node> bfs(const Rows& graph, Node root);
std::vector<float> pr(const Rows& graph, float damping, double tolerance, int max_iterations);
/// Nodes of a component have the same number, which is one of its nodes.
std::vector<Node> cc(const Rows& graph);
/// Not normalized.
std::vector<float> bc(const Rows& graph, std::span<const Node> sources);
std::vector<std::int32_t> sssp(const Rows& graph, Node root, std::int32_t delta);
std::uint64_t tc(const Rows& graph);

}  // namespace bench::reference
