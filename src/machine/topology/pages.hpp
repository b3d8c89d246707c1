// Private anonymous memory with pages of a wanted size, and the placement of these pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "smelt/error.hpp"

namespace smelt {

/// How the page size of a mapping is chosen.
enum class PageKind {
  base,         ///< the smallest size; refuses huge pages (MADV_NOHUGEPAGE)
  transparent,  ///< huge pages as far as the kernel has some (MADV_HUGEPAGE)
  reserved,     ///< from the pool that the administrator reserved (hugetlb)
};

/// The page sizes that this system offers.
struct PageSupport {
  std::uint64_t base_bytes = 4096;
  std::uint64_t transparent_bytes = 0;  ///< 0: switched off or not available
  bool transparent_always = false;      ///< used even if not requested
  /// Size and number of free pages of each pool, ascending; includes empty pools.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> reserved{};
};

/// Read from /sys below `root`.
PageSupport read_page_support(const std::filesystem::path& root = "/");

/// Owner of a mapping that begins at a multiple of its page size. Unmaps when destroyed; move-only.
class PageMapping {
 public:
  PageMapping() = default;
  PageMapping(PageMapping&& other) noexcept;
  PageMapping& operator=(PageMapping&& other) noexcept;
  ~PageMapping();

  /// Zeroed memory that is not touched yet. `page_bytes`: for `reserved` pages the size of the pool, for transparent
  /// ones the alignment. Errors: out_of_memory (address space, an empty pool), invalid_argument.
  static Result<PageMapping> map(std::size_t size_bytes, PageKind kind, std::size_t page_bytes);

  std::byte* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }  ///< whole pages

 private:
  PageMapping(std::byte* data, std::size_t size) noexcept : data_(data), size_(size) {}
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// The kernel takes pages of [address, address + size_bytes) from that node (os_index) from now on, or from a near one
/// if the node is full. A full node never kills the process. `move`: also moves existing pages that only this process
/// has mapped. Errors: permission_denied (containers), not_found, io_error.
Result<void> set_node_policy(void* address, std::size_t size_bytes, int node, bool move = false);

/// As above, interleaved page by page over several nodes.
Result<void> set_interleave_policy(void* address, std::size_t size_bytes, std::span<const int> nodes,
                                   bool move = false);

/// Makes all pages of the range exist. New pages are zeroed. Errors: out_of_memory.
Result<void> populate(void* address, std::size_t size_bytes);

/// Node (os_index) of each page of `page_bytes` of the range in order; -1 for a page that does not exist. Errors:
/// permission_denied if the kernel forbids the query and there are several nodes.
Result<std::vector<int>> nodes_of_pages(const void* address, std::size_t size_bytes, std::size_t page_bytes);

/// Bytes in [address, address + size_bytes) that are in huge pages (smaps). Cost: reads /proc/self/smaps.
std::uint64_t huge_bytes_in(const void* address, std::size_t size_bytes);
/// The same of a text as /proc/self/smaps is.
std::uint64_t huge_bytes_in(std::istream& smaps, const void* address, std::size_t size_bytes);

/// "4 KiB", "2 MiB", "1 GiB".
std::string page_size_name(std::uint64_t bytes);

}  // namespace smelt
