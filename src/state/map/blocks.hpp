// Blocks of a table's memory: overflow buckets and strings. Whole lines, in some sizes each of which has a free list.
#pragma once

#include <bit>
#include <cstddef>
#include <iterator>

#include "smelt/map_table.hpp"

namespace smelt::map_detail {

inline constexpr std::size_t line = 64;
inline constexpr int offset_bits = 34;  // of a block, in lines: 1 TiB
inline constexpr Word offset_mask = (Word{1} << offset_bits) - 1;

inline constexpr Word offset_of(Word reference) noexcept { return (reference & offset_mask) * line; }

// Blocks have 64, 128, 192, 256, 384, 512, 768, ... bytes.
inline std::size_t block_bytes(int size_class) {
  if (size_class == 0) return line;
  const int doublings = (size_class + 1) / 2;
  return size_class % 2 != 0 ? line << doublings : (line + line / 2) << doublings;
}

inline int class_of(std::size_t bytes) {
  if (bytes <= line) return 0;
  const int doublings = std::bit_width((bytes - 1) / line);  // of a line, to a power of 2 that is enough
  return bytes <= (line + line / 2) << (doublings - 1) && doublings > 1 ? 2 * (doublings - 1) : 2 * doublings - 1;
}

/// How large this process may make a file, memfds among them. One byte more, and a signal ends it.
Word most_file_bytes() noexcept;

}  // namespace smelt::map_detail
