// Models of machines and programs of [Kaestle16] ch. 4, for tests and bench/memory/placements.cpp. The thesis does not
// report the memory performance of its machines, so plausible values are used: signs and orders of results are
// meaningful, their sizes are not. The models contain only memory accesses.
#pragma once

#include <algorithm>
#include <map>
#include <string>
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

/// The Twitter graph, and LiveJournal's, on which triangles are counted.
inline constexpr double graph_nodes = 41e6, graph_edges = 1468e6, iterations = 10;
inline constexpr double small_nodes = 4e6, small_edges = 69e6;
/// Share of accesses to properties of neighbours that miss the caches.
inline constexpr double missed = 0.35;

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
       .random_accesses = missed * iterations * graph_edges,
       .written_bytes = 8 * iterations * graph_nodes},
      {.name = "pg_rank_nxt",
       .size_bytes = node_bytes,
       .sequential_bytes = 16 * iterations * graph_nodes,
       .loop_index = true},
  };
  for (auto& use : arrays) use.phases = 1000;  // the thesis excludes the loading of the graph
  return arrays;
}

/// Hop distances in the Twitter graph: each node's edges are followed about once in all, 15 rounds go over all nodes.
inline std::vector<ArrayUse> hop_distance() {
  constexpr double rounds = 15;
  const auto bytes = [](double each, double count) { return static_cast<std::uint64_t>(each * count); };
  std::vector<ArrayUse> arrays = {
      {.name = "begin", .size_bytes = bytes(8, graph_nodes), .sequential_bytes = 16 * graph_nodes, .read_only = true},
      {.name = "node_idx", .size_bytes = bytes(8, graph_edges), .sequential_bytes = 8 * graph_edges, .read_only = true},
      {.name = "dist",
       .size_bytes = bytes(4, graph_nodes),
       .sequential_bytes = 4 * rounds * graph_nodes,
       .written_bytes = 4 * rounds * graph_nodes,
       .loop_index = true},
      {.name = "dist_nxt",
       .size_bytes = bytes(4, graph_nodes),
       .sequential_bytes = 4 * rounds * graph_nodes,
       .random_accesses = 0.02 * graph_edges,
       .written_bytes = 4 * graph_nodes},
      {.name = "updated",
       .size_bytes = bytes(1, graph_nodes),
       .sequential_bytes = 3 * rounds * graph_nodes,
       .written_bytes = rounds * graph_nodes,
       .loop_index = true},
      {.name = "updated_nxt",
       .size_bytes = bytes(1, graph_nodes),
       .sequential_bytes = 2 * rounds * graph_nodes,
       .random_accesses = 0.01 * graph_edges,
       .written_bytes = rounds * graph_nodes},
  };
  for (auto& use : arrays) use.phases = 1000;
  return arrays;
}

/// Triangles of LiveJournal: 20 pairs of neighbours per edge are looked up.
inline std::vector<ArrayUse> triangle_counting() {
  constexpr double pairs = 20 * small_edges;
  std::vector<ArrayUse> arrays = {
      {.name = "begin",
       .size_bytes = static_cast<std::uint64_t>(8 * small_nodes),
       .random_accesses = 0.1 * pairs,
       .read_only = true},
      {.name = "node_idx",
       .size_bytes = static_cast<std::uint64_t>(8 * small_edges),
       .sequential_bytes = 8 * small_edges,
       .random_accesses = missed * pairs,
       .read_only = true},
  };
  for (auto& use : arrays) use.phases = 1000;
  return arrays;
}

/// A program of figures 4.7, 4.8 and 4.10, and the arrays that Green-Marl allocates while it runs.
struct GraphProgram {
  const char* name;
  std::vector<ArrayUse> arrays;
  std::vector<std::string> dynamic;
};

inline std::vector<GraphProgram> graph_programs() {
  return {{"PageRank", pagerank(), {"pg_rank_nxt"}},
          {"hop-distance", hop_distance(), {"dist_nxt", "updated", "updated_nxt"}},
          {"triangle-counting", triangle_counting(), {}}};
}

/// The configurations of figure 4.10. Each of them contains those before it.
enum class Configuration { stock, distributed, replicated, partitioned, large_pages };

/// Stock Green-Marl distributes the graph; what it allocates later lies on one node.
inline std::vector<PlacementCandidate> placed_by(Configuration configuration, const GraphProgram& program) {
  std::vector<PlacementCandidate> placed;
  for (const auto& use : program.arrays) {
    PlacementCandidate candidate{Placement::interleaved, configuration == Configuration::large_pages ? mib2 : kib4};
    const bool dynamic = std::find(program.dynamic.begin(), program.dynamic.end(), use.name) != program.dynamic.end();
    if (configuration == Configuration::stock && dynamic) candidate.placement = Placement::single_node;
    if (configuration >= Configuration::partitioned && use.loop_index) candidate.placement = Placement::partitioned;
    if (configuration >= Configuration::replicated && use.read_only) candidate.placement = Placement::replicated;
    placed.push_back(candidate);
  }
  return placed;
}

/// What a phase of the program takes with the placements of stock Green-Marl, in multiples of what it takes with these.
inline double gain_over_stock(const Machine& machine, const GraphProgram& program, Configuration configuration,
                              int threads) {
  const auto takes = [&](Configuration each) {
    return phase_ns(machine, program.arrays, placed_by(each, program), threads);
  };
  return takes(Configuration::stock) / takes(configuration);
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
