// The results of the ready algorithms as their programs leave them, for callers that copy them to memory of their own.
// Arguments, results and errors: smelt/graph_algorithms.hpp.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "smelt/graph_algorithms.hpp"

namespace smelt::graph::results {

Result<Column> bfs(const Graph& graph, std::uint64_t root, const RunOptions& options);
/// `iterations` may be null.
Result<Column> pagerank(const Graph& graph, const PageRankOptions& how, const RunOptions& options, int* iterations);
Result<Column> connected_components(const Graph& graph, const RunOptions& options);
Result<Column> betweenness(const Graph& graph, std::span<const std::uint64_t> sources, const RunOptions& options);
Result<Column> sssp(const Graph& graph, std::uint64_t root, const std::string& length, int delta,
                    const RunOptions& options);
Result<Column> hop_distance(const Graph& graph, std::uint64_t root, const RunOptions& options);

/// Copies a column's values. Large ones by `threads` threads at once, which share the work of the first access to the
/// pages of `to`; 0 as in RunOptions.
Result<void> copy_values(const Column& values, void* to, int threads);

}  // namespace smelt::graph::results
