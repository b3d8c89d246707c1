// The NUMA nodes whose memory this process may use, read from files that tests can fake.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace smelt {

struct NodeMemory {
  int os_index = 0;
  std::vector<int> pus{};          ///< os_index of its PUs that are online; empty for a node without PUs (CXL, HBM)
  std::vector<int> distances{};    ///< as reported by firmware (10: itself), to each node of MemoryView::nodes
  std::uint64_t total_bytes = 0;   ///< 0: it has no memory
  std::uint64_t free_bytes = 0;    ///< not in use at all at the moment; page cache does not count as free
  std::uint64_t cached_bytes = 0;  ///< page cache, which the kernel gives up for others
  bool allowed = true;             ///< the cpuset lets this process use its memory

  bool usable() const noexcept { return allowed && total_bytes > 0; }
};

struct MemoryView {
  std::vector<NodeMemory> nodes{};  ///< ascending by os_index; never empty
  std::uint64_t limit_bytes =
      UINT64_MAX;  ///< bytes that the cgroups of the process still grant (memory.max, memory.high)

  /// Index into `nodes` of the node with that os_index, or -1.
  int index_of(int os_index) const noexcept;
  /// os_index of the nodes whose memory may be used, ascending.
  std::vector<int> usable_nodes() const;
  /// The usable nodes with PUs, on which arrays are placed unless others are named. All usable nodes if none has PUs.
  std::vector<int> home_nodes() const;
  /// os_index of the node of a PU; that of the first node if no list contains the PU.
  int node_of_pu(int pu) const noexcept;
  /// Bytes that can be allocated on a node now: its free memory and page cache, limited by the cgroups.
  std::uint64_t available_bytes(int os_index) const noexcept;
};

/// For the process whose /proc/self and /sys lie under `root`. Without NUMA in the kernel there is one node with all
/// memory and PUs. Missing and unreadable files mean no limit. Cost: some small files per node.
MemoryView read_memory_view(const std::filesystem::path& root = "/");

/// NUMA node (os_index) of the PU that the calling thread runs on; 0 if the kernel does not report it. Cost: no system
/// call (vDSO).
int current_numa_node() noexcept;

}  // namespace smelt
