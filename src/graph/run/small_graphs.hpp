// For tests: small random graphs of many kinds, as edges in memory and as graphs.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "smelt/graph.hpp"
#include "smelt/green_marl.hpp"

namespace smelt::graph::test {

/// A graph as the plain code of a reference sees it: edges in the order of their numbers.
struct Plain {
  std::uint64_t nodes = 0;
  std::vector<std::uint64_t> from, to;
  std::vector<double> weight;
  Graph graph;

  /// Each node's neighbours, by its edges out of it; made once.
  const std::vector<std::vector<std::uint64_t>>& out() const {
    if (lists_.size() != nodes) {
      lists_.resize(nodes);
      for (std::size_t i = 0; i < from.size(); ++i) lists_[from[i]].push_back(to[i]);
    }
    return lists_;
  }

 private:
  mutable std::vector<std::vector<std::uint64_t>> lists_;
};

inline Plain plain_graph(Graph graph) {
  Plain plain;
  plain.nodes = graph.num_nodes();
  const auto out = graph.out<std::uint32_t, std::uint32_t>();
  const auto* weights = graph.edge_values("weight");
  for (std::uint64_t node = 0; node < plain.nodes; ++node) {
    for (auto edge = out.begin[node]; edge < out.begin[node + 1]; ++edge) {
      plain.from.push_back(node);
      plain.to.push_back(out.node_idx[edge]);
      plain.weight.push_back(weights == nullptr ? 1.0 : weights->values<double>()[edge]);
    }
  }
  if (weights == nullptr) graph = *graph.with_edge_values(Column::of<double>("weight", plain.weight));
  plain.graph = std::move(graph);
  return plain;
}

/// 50 graphs: empty, one node, loops, repeated edges, several components, nodes without edges, dense and sparse,
/// skewed. Weights are whole, 1 to 20, as doubles.
inline std::vector<Plain> small_graphs(const BuildOptions& options = {}) {
  std::vector<Plain> graphs;
  std::mt19937_64 random(7);
  for (std::uint64_t i = 0; i < 50; ++i) {
    const std::uint64_t nodes = i == 0 ? 0 : i == 1 ? 1 : i == 2 ? 2 : 1 + random() % 40;
    const std::uint64_t edges = nodes == 0 || i % 7 == 3 ? 0 : random() % (nodes * (1 + i % 5) + 1);
    std::vector<std::uint64_t> from, to;
    std::vector<double> weight;
    for (std::uint64_t edge = 0; edge < edges; ++edge) {
      from.push_back(random() % nodes);
      to.push_back(i % 3 == 0 ? random() % (1 + nodes / 3) : random() % nodes);
      weight.push_back(static_cast<double>(1 + random() % 20));
    }
    graphs.push_back(plain_graph(*make_graph(nodes, from, to, weight, options)));
  }
  return graphs;
}

constexpr int thread_counts[] = {1, 2, 3, 8};

inline RunResult run(const CompiledProgram& program, const std::string& procedure, const Arguments& arguments,
                     int threads) {
  RunOptions options;
  options.threads = threads;
  auto result = program.run(procedure, arguments, options);
  if (!result) ADD_FAILURE() << result.error().message;
  return result ? *std::move(result) : RunResult{};
}

}  // namespace smelt::graph::test
