// Placing memory on NUMA nodes and asking where it lies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "smelt/error.hpp"

namespace smelt {

/// Asks the kernel to place the pages of [address, address + size_bytes) on the NUMA node with
/// that os_index (mbind, preferred: where it is full, a near one is used); pages already touched
/// move if they can. Whole pages: the range is widened to page bounds. On a machine with one
/// NUMA node nothing is to be done. Cost: a system call, plus moving.
/// Errors: not_found (no such node), permission_denied, io_error.
Result<void> bind_to_numa_node(void* address, std::size_t size_bytes, int os_index);

namespace memory_detail {

/// What the kernel is told (mbind(2)): whole pages, and the nodes as bits of a mask.
struct Request {
  std::uintptr_t start = 0;
  std::size_t length = 0;
  std::vector<unsigned long> nodes;
  unsigned long max_node = 0;  ///< bits of the mask, and one more: the kernel reads one bit less than it is told
};
Request request_for(const void* address, std::size_t size_bytes, std::span<const int> os_indices);
/// mbind(2) with that policy; `move`: pages that are there, too. What it returns, with errno.
long set_policy(const Request& request, int policy, bool move) noexcept;

}  // namespace memory_detail

/// The same for memory whose pages may be there although this process has not touched them, as those of a segment
/// are that was reserved: maps them first, for the kernel moves mapped pages only, and those that no other process
/// has mapped. Cost: an access to each page.
Result<void> bind_reserved_to_numa_node(void* address, std::size_t size_bytes, int os_index);

/// os_index of the NUMA node that holds the page at `address`; not_found while it is untouched.
Result<int> numa_node_of(const void* address);

}  // namespace smelt
