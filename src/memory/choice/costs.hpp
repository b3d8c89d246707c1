// What the cost function asks of a machine's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "smelt/placement.hpp"

namespace smelt::memory {

/// NUMA nodes of a machine, at least 1, also where it does not list them.
std::size_t node_count(const Machine& machine);

/// Index of the nodes that arrays are spread over: with PUs and memory; all, where none is known to have both.
std::vector<std::size_t> homes_of(const Machine& machine);

/// Threads on each node: dealt to the nodes in order, a core each; threads = 0: one per core.
std::vector<int> threads_per_node(const Machine& machine, int threads);

/// What an independent access beyond the TLB's reach costs more, on the mean over an array of that size.
double walk_ns(const MemoryCosts& costs, std::uint64_t page_bytes, std::uint64_t size_bytes);

/// The costs with the threads and nodes that they are for, found out once.
struct Platform {
  MemoryCosts costs;
  std::vector<std::size_t> homes;
  std::vector<int> threads;  ///< per node
  std::size_t nodes = 1;
  int all_threads = 1;
  double link_gbs = 0.0;  ///< slowest between two nodes; 0: one node
};
Platform platform_of(const Machine& machine, int threads);

/// phase_ns() of placement.hpp on a platform.
double phase_on(const Platform& platform, std::span<const ArrayUse> arrays, std::span<const PlacementCandidate> placed,
                std::size_t home);

}  // namespace smelt::memory
