#include "memory/pages/clusters.hpp"

#include <map>
#include <utility>

namespace smelt::memory {

std::vector<CacheCluster> cache_clusters(const Machine& machine, std::span<const int> pus, const MemoryView& view) {
  std::vector<CacheCluster> clusters;
  std::map<std::pair<int, int>, std::size_t> known;  // by NUMA node and cache
  for (const int index : pus) {
    const Pu& pu = machine.pus[static_cast<std::size_t>(index)];
    const int node = view.node_of_pu(pu.os_index);
    const auto [at, is_new] = known.try_emplace({node, pu.l3}, clusters.size());
    if (is_new) clusters.push_back({.numa_node = node});
    clusters[at->second].pus.push_back(pu.os_index);
  }
  return clusters;
}

}  // namespace smelt::memory
