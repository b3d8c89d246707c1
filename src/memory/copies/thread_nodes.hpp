// The NUMA nodes on which threads can run whose data is placed.
#pragma once

#include <cstdint>
#include <vector>

namespace smelt::memory {

struct ThreadNode {
  int os_index = 0;
  std::vector<int> pus{};  ///< os_index of those that this process may use; ascending
  std::uint64_t total_bytes = 0;
};

/// Those with PUs and memory that this process may use. Cost: some small files per node.
std::vector<ThreadNode> thread_nodes();

}  // namespace smelt::memory
