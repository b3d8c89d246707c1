// Ready graph algorithms. They are written in Green-Marl and compiled by the build. `smelt graph run` knows them by
// name, too.
//
// All of them run in parallel, with RunOptions::threads. Errors of all: invalid_argument (a node that does not
// exist, values whose number does not match the graph), out_of_memory. Graphs of more than 2^32 edges or nodes need a
// C++ compiler at run time.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "smelt/graph.hpp"
#include "smelt/green_marl.hpp"

namespace smelt::graph {

/// Names of the programs that the library brings along.
std::vector<std::string> builtin_programs();
/// One of them. Errors: not_found, with the names that there are.
Result<GreenMarl> builtin_program(const std::string& name);

constexpr std::int64_t no_node = -1;  ///< NIL
constexpr std::int32_t unreachable = INT32_MAX;

/// For each node, its predecessor on a path from `root` with the fewest edges; the root for itself, no_node if there is
/// no path. Direction-optimizing [Beamer 2012].
Result<std::vector<std::int64_t>> bfs(const Graph& graph, std::uint64_t root, const RunOptions& options = {});

struct PageRankOptions {
  double damping = 0.85;
  double tolerance = 1e-4;  ///< of the sum of all ranks' changes in one iteration
  int max_iterations = 20;
};
struct PageRankResult {
  std::vector<float> rank;
  int iterations = 0;
};
/// Ranks by in edges, updated in place. Source: Brin and Page 1998.
Result<PageRankResult> pagerank(const Graph& graph, const PageRankOptions& how = {}, const RunOptions& options = {});

/// For each node, the smallest node of its weakly connected component.
Result<std::vector<std::int64_t>> connected_components(const Graph& graph, const RunOptions& options = {});

/// Betweenness from the shortest paths that start at `sources`. Source: Brandes 2001.
Result<std::vector<float>> betweenness(const Graph& graph, std::span<const std::uint64_t> sources,
                                       const RunOptions& options = {});

/// Lengths of shortest paths from `root`; `unreachable` if there is none. The lengths of edges are the edge values
/// `length`, which must be nonnegative integers (otherwise invalid_argument, as when a path is longer than 2^31 - 2).
/// `delta`: width of the buckets; 0: chosen.
/// Source: Meyer and Sanders 2003.
Result<std::vector<std::int32_t>> sssp(const Graph& graph, std::uint64_t root, const std::string& length = "weight",
                                       int delta = 0, const RunOptions& options = {});

/// Triangles of an undirected graph. Errors besides: invalid_argument for a graph that is not undirected, or has loops
/// or repeated edges (BuildOptions::simple leaves them out).
Result<std::uint64_t> triangles(const Graph& graph, const RunOptions& options = {});

/// Number of edges on a shortest path from `root`; `unreachable` if there is none.
Result<std::vector<std::int32_t>> hop_distance(const Graph& graph, std::uint64_t root, const RunOptions& options = {});

/// Numbers of strongly connected components, from 0.
Result<std::vector<std::int32_t>> strong_components(const Graph& graph, const RunOptions& options = {});

/// For each node of an undirected graph, the largest k such that it belongs to the k-core.
Result<std::vector<std::int32_t>> core_numbers(const Graph& graph, const RunOptions& options = {});

/// Communities by label propagation: a node of each node's community. At most `max_rounds` rounds.
Result<std::vector<std::int64_t>> communities(const Graph& graph, int max_rounds = 100, const RunOptions& options = {});

/// Local clustering coefficients of an undirected simple graph.
Result<std::vector<double>> clustering(const Graph& graph, const RunOptions& options = {});

}  // namespace smelt::graph
