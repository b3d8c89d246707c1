// The node of each page of a partitioned array. Pure functions.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "smelt/array.hpp"

namespace smelt::memory {

/// Consecutive pages of one node, in bytes from the start of the array. The last run ends with the array, all others
/// with a page.
struct PageRun {
  std::size_t first_byte = 0;
  std::size_t last_byte = 0;
  int node = 0;

  bool operator==(const PageRun&) const = default;
};

/// First elements of `parts` parts by the rule of static_part().
std::vector<std::size_t> static_cuts(std::size_t count, std::size_t parts);

/// Part `part` of `count` elements: from its cut to the next.
IndexRange part_of(std::span<const std::size_t> cuts, std::size_t part, std::size_t count) noexcept;

/// Runs that cover an array of `count` elements. A page belongs to the node with most of its bytes; the first node wins
/// ties. `nodes`: one per part. Requirements: cuts ascending from 0, all <= count; count > 0.
std::vector<PageRun> page_runs(std::span<const std::size_t> cuts, std::span<const int> nodes, std::size_t count,
                               std::size_t element_bytes, std::size_t page_bytes);

}  // namespace smelt::memory
