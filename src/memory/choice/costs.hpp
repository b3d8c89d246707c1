// The costs of a machine's memory, as the cost function needs them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "smelt/placement.hpp"

namespace smelt::memory {

/// Number of NUMA nodes; 1 if the machine lists none.
std::size_t node_count(const Machine& machine);

/// Indices of the nodes over which arrays are spread: those with PUs and memory, or all if none is known to have both.
std::vector<std::size_t> homes_of(const Machine& machine);

/// Threads on each node. Threads are dealt to the nodes in order, one per core. threads = 0: one per core.
std::vector<int> threads_per_node(const Machine& machine, int threads);

/// Additional cost of an independent access due to TLB misses, averaged over an array of that size.
double walk_ns(const MemoryCosts& costs, std::uint64_t page_bytes, std::uint64_t size_bytes);

/// The costs together with the threads and nodes to which they apply; computed once.
struct Platform {
  MemoryCosts costs;
  std::vector<std::size_t> homes;
  std::vector<int> threads;  ///< per node
  std::size_t nodes = 1;
  int all_threads = 1;
  double link_gbs = 0.0;  ///< the slowest link between two nodes; 0 with one node
};
Platform platform_of(const Machine& machine, int threads);

/// phase_ns() of placement.hpp on a platform.
double phase_on(const Platform& platform, std::span<const ArrayUse> arrays, std::span<const PlacementCandidate> placed,
                std::size_t home);

}  // namespace smelt::memory
