// The results of the ready algorithms as columns, or in memory of the caller: `into` has room for a value per node, of
// the column's type; null: the column's own memory. Arguments, results and errors: smelt/graph_algorithms.hpp. After an
// error the values there are undefined.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "smelt/graph_algorithms.hpp"

namespace smelt::graph::results {

Result<Column> bfs(const Graph& graph, std::uint64_t root, const RunOptions& options, void* into = nullptr);
/// `iterations` may be null.
Result<Column> pagerank(const Graph& graph, const PageRankOptions& how, const RunOptions& options, int* iterations,
                        void* into = nullptr);
Result<Column> connected_components(const Graph& graph, const RunOptions& options, void* into = nullptr);
Result<Column> betweenness(const Graph& graph, std::span<const std::uint64_t> sources, const RunOptions& options,
                           void* into = nullptr);
Result<Column> sssp(const Graph& graph, std::uint64_t root, const std::string& length, int delta,
                    const RunOptions& options, void* into = nullptr);
Result<Column> hop_distance(const Graph& graph, std::uint64_t root, const RunOptions& options, void* into = nullptr);

}  // namespace smelt::graph::results
