// Models of machines and programs of [Kaestle16] ch. 4, for tests and bench/memory/placements.cpp. The thesis does not
// report the memory performance of its machines, so plausible values are used: signs and orders of results are
// meaningful, their sizes are not. The models contain only memory accesses.
#pragma once

#include <map>
#include <vector>

#include "smelt/placement.hpp"

namespace smelt::memory {

inline constexpr std::uint64_t kib4 = 4 << 10, mib2 = 2 << 20, gib1 = 1 << 30;

/// The parameters that differ between machines; all others are the same.
struct Published {
  int nodes = 8;
  int cores = 4;  ///< per node
  int nodes_per_package = 2;
  double latency_ns[2] = {90, 140};
  double gather_ns[2] = {24, 34};
  double thread_gbs[2] = {4.0, 2.2};
  double all_gbs[2] = {12.0, 5.0};  ///< near, far
};

inline Machine published_machine(const Published& published) {
  const int nodes = published.nodes;
  Machine machine;
  for (int node = 0; node < nodes; ++node) {
    machine.numa_nodes.push_back({node, 32ull << 30});
    for (int core = 0; core < published.cores; ++core) {
      const int id = node * published.cores + core;
      machine.pus.push_back({.os_index = id,
                             .core = id,
                             .package = node / published.nodes_per_package,
                             .numa_node = node,
                             .l2 = id,
                             .l3 = node});
    }
  }
  machine.page_sizes_bytes = {kib4, mib2, gib1};
  MemoryCosts costs;
  const auto n = static_cast<std::size_t>(nodes);
  const auto set = [&](Matrix& matrix, const double(&near_and_far)[2]) {
    matrix = Matrix(n, near_and_far[1]);
    for (std::size_t a = 0; a < n; ++a) matrix(a, a) = near_and_far[0];
  };
  set(costs.latency_ns, published.latency_ns);
  set(costs.gather_ns, published.gather_ns);
  set(costs.read_gbs, published.thread_gbs);
  set(costs.write_gbs, published.thread_gbs);
  set(costs.read_all_gbs, published.all_gbs);
  set(costs.write_all_gbs, published.all_gbs);
  costs.page_bytes = {kib4, mib2, gib1};
  costs.walk_ns = {30, 8, 2};
  costs.gather_walk_ns = {14, 2, 0.5};
  costs.reach_bytes = {0, 0, 0};
  costs.touch_ns_per_mib = {1, 1, 1};
  machine.memory = costs;
  return machine;
}

/// A IL 4x4x2: two NUMA nodes of 4 cores and 32 GiB in each package. Optionally with fewer nodes.
inline Machine thesis_machine(int nodes) { return published_machine({.nodes = nodes}); }

/// I SB 4x8x2: a NUMA node of 8 cores in each of four packages.
inline Machine sandy_bridge() {
  return published_machine({.nodes = 4,
                            .cores = 8,
                            .nodes_per_package = 1,
                            .latency_ns = {80, 150},
                            .gather_ns = {10, 20},
                            .thread_gbs = {5.0, 3.5},
                            .all_gbs = {30.0, 9.6}});  // links: [Kaestle16] 4.6.1
}

inline constexpr double graph_nodes = 41e6, graph_edges = 1468e6, iterations = 10;

/// PageRank on the Twitter graph: its arrays and their accesses in ten iterations.
inline std::vector<ArrayUse> pagerank() {
  const auto node_bytes = static_cast<std::uint64_t>(8 * graph_nodes);
  std::vector<ArrayUse> arrays = {
      {.name = "begin", .size_bytes = node_bytes, .random_accesses = 0.1 * iterations * graph_edges, .read_only = true},
      {.name = "r_begin",
       .size_bytes = node_bytes,
       .sequential_bytes = 8 * iterations * graph_nodes,
       .read_only = true},
      {.name = "r_node_idx",
       .size_bytes = static_cast<std::uint64_t>(8 * graph_edges),
       .sequential_bytes = 8 * iterations * graph_edges,
       .read_only = true},
      {.name = "pg_rank",
       .size_bytes = node_bytes,
       .random_accesses = 0.35 * iterations * graph_edges,
       .written_bytes = 8 * iterations * graph_nodes},
      {.name = "pg_rank_nxt",
       .size_bytes = node_bytes,
       .sequential_bytes = 16 * iterations * graph_nodes,
       .loop_index = true},
  };
  for (auto& use : arrays) use.phases = 1000;  // the thesis excludes the loading of the graph
  return arrays;
}

/// Streamcluster of PARSEC, native input: the accesses of a search step to the coordinates of a chunk of 200000 points
/// in 128 dimensions.
inline std::vector<ArrayUse> streamcluster() {
  constexpr double coordinates = 200'000.0 * 128;
  return {{.name = "coordinates",
           .size_bytes = static_cast<std::uint64_t>(4 * coordinates),
           .sequential_bytes = 4 * coordinates,
           .read_only = true,
           .phases = 1000}};
}

}  // namespace smelt::memory
