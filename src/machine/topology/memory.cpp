// mbind(2) and move_pages(2) as plain system calls, so that libnuma is not needed.
#include "machine/topology/memory.hpp"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/error.hpp"
#include "machine/limits.hpp"
#include "machine/text.hpp"

namespace smelt {
namespace {

/// os_index of the NUMA nodes that are online; {0} if the kernel was built without NUMA.
const std::vector<int>& online_nodes() {
  static const std::vector<int> nodes = [] {
    const auto text = read_small_file("/sys/devices/system/node/online");
    const auto list = text ? parse_id_list(*text) : std::nullopt;
    return list && !list->empty() ? *list : std::vector<int>{0};
  }();
  return nodes;
}

std::uintptr_t page_bytes() {
  static const auto size = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  return size;
}

std::uintptr_t page_of(const void* address) { return reinterpret_cast<std::uintptr_t>(address) & ~(page_bytes() - 1); }

Status status_of(int error_number) {
  if (error_number == EPERM || error_number == EACCES) return Status::permission_denied;
  return error_number == ENOSYS ? Status::not_supported : Status::io_error;
}

}  // namespace

memory_detail::Request memory_detail::request_for(const void* address, std::size_t size_bytes,
                                                  std::span<const int> os_indices) {
  constexpr std::size_t word_bits = 8 * sizeof(unsigned long);
  Request request;
  request.nodes.resize(static_cast<std::size_t>(*std::max_element(os_indices.begin(), os_indices.end())) / word_bits +
                       1);
  for (const int os_index : os_indices) {
    request.nodes[static_cast<std::size_t>(os_index) / word_bits] |=
        1ul << (static_cast<std::size_t>(os_index) % word_bits);
  }
  request.max_node = request.nodes.size() * word_bits + 1;
  request.start = page_of(address);
  const auto end = reinterpret_cast<std::uintptr_t>(address) + size_bytes;
  request.length = (end - request.start + page_bytes() - 1) & ~(page_bytes() - 1);
  return request;
}

long memory_detail::set_policy(const Request& request, int policy, bool move) noexcept {
  return syscall(SYS_mbind, request.start, request.length, policy, request.nodes.data(), request.max_node,
                 move ? MPOL_MF_MOVE : 0);
}

Result<void> bind_to_numa_node(void* address, std::size_t size_bytes, int os_index) {
  const auto& nodes = online_nodes();
  if (!std::binary_search(nodes.begin(), nodes.end(), os_index)) {
    return make_error(Status::not_found, "cannot place memory on NUMA node {}: no such node is online", os_index);
  }
  if (nodes.size() == 1 || size_bytes == 0) return {};
  const auto request = memory_detail::request_for(address, size_bytes, {&os_index, 1});
  if (memory_detail::set_policy(request, MPOL_PREFERRED, true) == 0) return {};
  const int reason = errno;
  return make_error(status_of(reason), "cannot place {} bytes on NUMA node {}: {}", size_bytes, os_index,
                    std::strerror(reason));
}

Result<void> bind_reserved_to_numa_node(void* address, std::size_t size_bytes, int os_index) {
  if (online_nodes().size() > 1) {
    auto* const bytes = static_cast<unsigned char*>(address);
    for (std::size_t at = 0; at < size_bytes; at += page_bytes()) {
      (void)std::atomic_ref<unsigned char>(bytes[at]).load(std::memory_order_relaxed);
    }
  }
  return bind_to_numa_node(address, size_bytes, os_index);
}

Result<int> numa_node_of(const void* address) {
  void* page = reinterpret_cast<void*>(page_of(address));
  int node = -1;
  if (syscall(SYS_move_pages, 0, 1ul, &page, nullptr, &node, 0) != 0) {
    const int reason = errno;
    // Containers may forbid the call. With one NUMA node the answer is known without it.
    if (online_nodes().size() == 1) return online_nodes().front();
    return make_error(status_of(reason), "cannot ask where a page lies: {}", std::strerror(reason));
  }
  if (node >= 0) return node;
  if (node == -ENOENT || node == -EFAULT) {
    return make_error(Status::not_found, "the page is not in memory: it was never written, or is not mapped");
  }
  return make_error(Status::io_error, "cannot ask where a page lies: {}", std::strerror(-node));
}

}  // namespace smelt
