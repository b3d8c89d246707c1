// Copies of lines by moves of different widths. The kinds that a CPU lacks must not be called.
#pragma once

#include <cstddef>

#include "smelt/map_table.hpp"

namespace smelt::map_detail {

using MoveLines = void (*)(void* to, const void* from, std::size_t lines) noexcept;

/// A way to copy lines.
struct LineMover {
  const char* name;
  MoveLines move;
  bool is_supported;  ///< by this CPU
};

inline constexpr std::size_t line_movers = 3;
/// All ways, the fastest first. The last one works on every CPU.
const LineMover (&all_line_movers() noexcept)[line_movers];

}  // namespace smelt::map_detail
