// Groups of PUs that share a last-level cache.
#pragma once

#include <span>
#include <vector>

#include "machine/topology/numa.hpp"
#include "smelt/machine.hpp"

namespace smelt::memory {

struct CacheCluster {
  int numa_node = 0;       ///< os_index
  std::vector<int> pus{};  ///< os_index

  bool operator==(const CacheCluster&) const = default;
};

/// The clusters of some PUs (indices into machine.pus), in the order in which the PUs come. The PUs of one cache that
/// spans several NUMA nodes are a cluster on each of them.
std::vector<CacheCluster> cache_clusters(const Machine& machine, std::span<const int> pus, const MemoryView& view);

}  // namespace smelt::memory
