// mmap, madvise, mbind and move_pages, so that neither libnuma nor libhugetlbfs is needed.
#include "machine/topology/pages.hpp"

#include <linux/mempolicy.h>
#include <linux/mman.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/error.hpp"
#include "machine/text.hpp"
#include "machine/topology/memory.hpp"
#include "machine/topology/numa.hpp"

namespace smelt {
namespace {

namespace fs = std::filesystem;

#ifndef MADV_POPULATE_WRITE  // since Linux 5.14; older headers lack it
constexpr int populate_write = 23;
#else
constexpr int populate_write = MADV_POPULATE_WRITE;
#endif

std::size_t rounded_up(std::size_t size, std::size_t unit) { return (size + unit - 1) / unit * unit; }

Error refused(const char* what, std::size_t size_bytes) {
  const int reason = errno;
  const auto status = reason == EPERM || reason == EACCES ? Status::permission_denied
                      : reason == ENOSYS                  ? Status::not_supported
                      : reason == EINVAL                  ? Status::not_found
                      : reason == ENOMEM                  ? Status::out_of_memory
                                                          : Status::io_error;
  return make_error(status, "cannot {} {} bytes: {}", what, size_bytes, std::strerror(reason));
}

Result<void> set_policy(void* address, std::size_t size_bytes, int mode, std::span<const int> nodes, bool move,
                        const char* what) {
  if (size_bytes == 0 || nodes.empty()) return {};
  if (memory_detail::set_policy(memory_detail::request_for(address, size_bytes, nodes), mode, move) == 0) return {};
  return refused(what, size_bytes);
}

/// Anonymous memory that begins at a multiple of `alignment`. Maps more than is needed, and unmaps the excess.
void* map_aligned(std::size_t size_bytes, std::size_t alignment) {
  const auto room = size_bytes + alignment;
  void* const raw = mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) return raw;
  auto* const begin = static_cast<std::byte*>(raw);
  const auto skip = (alignment - reinterpret_cast<std::uintptr_t>(begin) % alignment) % alignment;
  if (skip > 0) munmap(begin, skip);
  munmap(begin + skip + size_bytes, room - skip - size_bytes);
  return begin + skip;
}

void* map_reserved(std::size_t size_bytes, std::size_t page_bytes) {
  const int size_flag = std::countr_zero(page_bytes) << MAP_HUGE_SHIFT;
  return mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | size_flag, -1,
              0);
}

/// As above, for kernels without MADV_POPULATE_WRITE. The bytes keep their values.
void write_each_page(std::byte* begin, std::size_t size_bytes, std::size_t page_bytes) {
  for (std::size_t at = 0; at < size_bytes; at += page_bytes) {
    // The compiler would remove a plain load and store.
    std::atomic_ref(reinterpret_cast<unsigned char&>(begin[at])).fetch_or(0, std::memory_order_relaxed);
  }
}

}  // namespace

PageSupport read_page_support(const fs::path& root) {
  PageSupport support;
  support.base_bytes = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  const auto directory = root / "sys/kernel/mm/transparent_hugepage";
  const auto enabled = read_small_file(directory / "enabled");
  const auto size = read_small_file(directory / "hpage_pmd_size");
  const double bytes = size ? parse_number(trimmed(*size)).value_or(0) : 0;
  if (enabled && enabled->find("[never]") == std::string::npos && bytes > 0) {
    support.transparent_bytes = static_cast<std::uint64_t>(bytes);
    support.transparent_always = enabled->find("[always]") != std::string::npos;
  }
  std::error_code ignored;
  for (const auto& pool : fs::directory_iterator(root / "sys/kernel/mm/hugepages", ignored)) {
    std::string name = pool.path().filename();  // hugepages-2048kB
    const auto dash = name.find('-');
    if (dash == std::string::npos || !name.ends_with("kB")) continue;
    const auto kib = parse_number(std::string_view(name).substr(dash + 1, name.size() - dash - 3));
    const auto text = read_small_file(pool.path() / "free_hugepages");
    const auto free_pages = text ? parse_number(trimmed(*text)) : std::nullopt;
    if (!kib || !free_pages) continue;
    support.reserved.emplace_back(static_cast<std::uint64_t>(*kib) * 1024, static_cast<std::uint64_t>(*free_pages));
  }
  std::sort(support.reserved.begin(), support.reserved.end());
  return support;
}

PageMapping::PageMapping(PageMapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

PageMapping& PageMapping::operator=(PageMapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

PageMapping::~PageMapping() {
  if (data_ != nullptr) munmap(data_, size_);
}

Result<PageMapping> PageMapping::map(std::size_t size_bytes, PageKind kind, std::size_t page_bytes) {
  if (size_bytes == 0 || size_bytes > std::size_t{1} << 46 || !std::has_single_bit(page_bytes)) {
    return make_error(Status::invalid_argument, "a mapping of {} bytes in pages of {}: must be 1 to 2^46 bytes",
                      size_bytes, page_bytes);
  }
  const auto size = rounded_up(size_bytes, page_bytes);
  void* const memory = kind == PageKind::reserved ? map_reserved(size, page_bytes) : map_aligned(size, page_bytes);
  if (memory == MAP_FAILED) {
    if (kind != PageKind::reserved) return refused("map", size);
    return make_error(Status::out_of_memory,
                      "no {} pages of {} are reserved and free; write their number to /sys/kernel/mm/hugepages, or ask "
                      "for another page size",
                      size / page_bytes, page_size_name(page_bytes));
  }
  // A kernel without transparent huge pages refuses this. Then all pages are small in any case.
  if (kind != PageKind::reserved) {
    (void)madvise(memory, size, kind == PageKind::transparent ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  }
  return PageMapping(static_cast<std::byte*>(memory), size);
}

Result<void> set_node_policy(void* address, std::size_t size_bytes, int node, bool move) {
  const int nodes[] = {node};
  return set_policy(address, size_bytes, MPOL_PREFERRED, nodes, move, "place");
}

Result<void> set_interleave_policy(void* address, std::size_t size_bytes, std::span<const int> nodes, bool move) {
  return set_policy(address, size_bytes, MPOL_INTERLEAVE, nodes, move, "interleave");
}

Result<void> populate(void* address, std::size_t size_bytes) {
  if (size_bytes == 0) return {};
  int result;
  do result = madvise(address, size_bytes, populate_write);
  while (result != 0 && (errno == EINTR || errno == EAGAIN));
  if (result == 0) return {};
  if (errno == EINVAL) {  // an older kernel
    write_each_page(static_cast<std::byte*>(address), size_bytes, static_cast<std::size_t>(sysconf(_SC_PAGESIZE)));
    return {};
  }
  // EFAULT: a page fault that would have raised SIGBUS, for example because the pool of a node is empty.
  const int reason = errno;
  return make_error(Status::out_of_memory, "no memory for {} bytes where they are to lie: {}", size_bytes,
                    std::strerror(reason));
}

Result<std::vector<int>> nodes_of_pages(const void* address, std::size_t size_bytes, std::size_t page_bytes) {
  const auto count = (size_bytes + page_bytes - 1) / page_bytes;
  std::vector<int> nodes;
  std::vector<void*> pages;
  constexpr std::size_t batch = 4096;
  auto* const begin = static_cast<std::byte*>(const_cast<void*>(address));
  while (nodes.size() < count) {
    const auto first = nodes.size();
    pages.clear();
    for (std::size_t i = first; i < std::min(count, first + batch); ++i) pages.push_back(begin + i * page_bytes);
    nodes.resize(first + pages.size(), -1);
    if (syscall(SYS_move_pages, 0, pages.size(), pages.data(), nullptr, nodes.data() + first, 0) != 0) {
      const auto error = refused("ask where pages lie of", size_bytes);
      const auto usable = read_memory_view().nodes;
      if (usable.size() > 1) return error;
      return std::vector<int>(count, usable.front().os_index);  // the only usable node
    }
  }
  for (int& node : nodes) node = std::max(node, -1);
  return nodes;
}

std::uint64_t huge_bytes_in(const void* address, std::size_t size_bytes) {
  std::ifstream smaps("/proc/self/smaps");
  return huge_bytes_in(smaps, address, size_bytes);
}

std::uint64_t huge_bytes_in(std::istream& smaps, const void* address, std::size_t size_bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(address), end = begin + size_bytes;
  std::uint64_t total = 0;
  bool inside = false;
  for (std::string line; std::getline(smaps, line);) {
    unsigned long long from = 0, to = 0, kib = 0;
    if (std::sscanf(line.c_str(), "%llx-%llx ", &from, &to) == 2) {
      inside = from < end && to > begin;
    } else if (inside && (std::sscanf(line.c_str(), "AnonHugePages: %llu", &kib) == 1 ||
                          std::sscanf(line.c_str(), "Private_Hugetlb: %llu", &kib) == 1 ||
                          std::sscanf(line.c_str(), "ShmemPmdMapped: %llu", &kib) == 1)) {
      total += kib * 1024;
    }
  }
  return std::min<std::uint64_t>(total, size_bytes);
}

std::string page_size_name(std::uint64_t bytes) {
  if (bytes >= 1u << 30) return fmt::format("{} GiB", bytes >> 30);
  if (bytes >= 1u << 20) return fmt::format("{} MiB", bytes >> 20);
  return fmt::format("{} KiB", bytes >> 10);
}

}  // namespace smelt
