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

/// load_if_unchanged() by registers, for values of so many bytes. Null if they are too long, or for this CPU.
using LoadIfUnchanged = bool (*)(std::byte* to, const std::byte* from, std::size_t bytes,
                                 const Unchanged& unchanged) noexcept;
LoadIfUnchanged load_by_registers(std::size_t bytes) noexcept;

/// The same by saving the former contents.
bool load_by_saving(void* to, const AtomicWord* from, std::size_t bytes, const Unchanged& unchanged,
                    void* former) noexcept;

}  // namespace smelt::map_detail
