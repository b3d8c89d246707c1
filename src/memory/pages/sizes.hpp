// The choice of an array's page size among those of the system.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "machine/topology/pages.hpp"
#include "smelt/array.hpp"

namespace smelt::memory {

struct Pages {
  PageKind kind = PageKind::base;
  std::size_t bytes = 4096;
};

/// With fewer huge pages per node, placement by huge pages is too coarse.
inline constexpr std::size_t least_huge_pages_per_node = 2;

/// What pages are for.
struct PagedMemory {
  std::size_t bytes = 0;  ///< of one copy
  std::size_t copies = 1;
  std::size_t nodes = 1;  ///< over which a copy is spread
};

/// The page size for the requested one. If the request cannot be met: with `strict` an error (not_supported,
/// out_of_memory), otherwise the next smaller kind and a line in `notes`.
Result<Pages> decide_pages(PageSize wish, const PagedMemory& memory, bool strict, const PageSupport& support,
                           std::vector<std::string>& notes);

}  // namespace smelt::memory
