// Placing memory on NUMA nodes and asking where it lies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "smelt/error.hpp"

namespace smelt {

/// Asks the kernel to place the pages of [address, address + size_bytes) on the NUMA node with that os_index. The
/// policy is mbind's "preferred": a near node is used if this one is full. Pages that were touched before move if they
/// can. The range is widened to whole pages. Does nothing on a machine with one NUMA node. Cost: a system call, plus
/// moving. Errors: not_found (no such node), permission_denied, io_error.
Result<void> bind_to_numa_node(void* address, std::size_t size_bytes, int os_index);

namespace memory_detail {

/// Arguments of mbind(2): whole pages, and the nodes as bits of a mask.
struct Request {
  std::uintptr_t start = 0;
  std::size_t length = 0;
  std::vector<unsigned long> nodes;
  unsigned long max_node = 0;  ///< number of bits of the mask + 1, because the kernel reads one bit less
};
Request request_for(const void* address, std::size_t size_bytes, std::span<const int> os_indices);
/// Calls mbind(2) with that policy. `move`: also moves pages that exist already. Returns mbind's result, with errno.
long set_policy(const Request& request, int policy, bool move) noexcept;

}  // namespace memory_detail

/// As above, for memory whose pages may exist although this process has not touched them, such as those of a reserved
/// segment. Maps the pages first, because the kernel moves mapped pages only. Moves only pages that no other process
/// has mapped. Cost: an access to each page.
Result<void> bind_reserved_to_numa_node(void* address, std::size_t size_bytes, int os_index);

/// os_index of the NUMA node that holds the page at `address`. Errors: not_found while the page is untouched.
Result<int> numa_node_of(const void* address);

}  // namespace smelt
