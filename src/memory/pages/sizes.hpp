// The page size of an array, out of what the system offers.
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

/// Fewer huge pages per node than this, and placement by huge pages is too coarse.
inline constexpr std::size_t least_huge_pages_per_node = 2;

/// What becomes of the wish. `nodes`: over how many one copy is spread. Where it cannot be granted: with `strict` an
/// error (not_supported, out_of_memory), else the next smaller kind, and a line in `notes`.
Result<Pages> decide_pages(PageSize wish, std::size_t size_bytes, std::size_t nodes, bool strict,
                           const PageSupport& support, std::vector<std::string>& notes);

}  // namespace smelt::memory
