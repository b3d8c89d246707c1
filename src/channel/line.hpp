// The unit that both transports move: a slot of header and payload, normally a cache line.
//
//   line:   | header 8 | payload 56 |          cell: | header 8 | payload 8 |, four to a line
//   header: | stamp 32 | tag 26 | size 6 |     stamp: whose turn it is; 0 in zeroed memory
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/cacheline.hpp"

namespace smelt::channel {

inline constexpr std::size_t line_payload = 56;
inline constexpr std::uint32_t max_tag = (std::uint32_t{1} << 26) - 1;

template <std::size_t bytes>
struct alignas(bytes) Slot {
  static constexpr std::size_t payload_bytes = bytes - sizeof(std::uint64_t);

  std::atomic<std::uint64_t> header;
  std::byte payload[payload_bytes];
};
using Line = Slot<line_bytes>;
using Cell = Slot<16>;
static_assert(sizeof(Line) == line_bytes && Line::payload_bytes == line_payload && sizeof(Cell) == 16);

struct Header {
  std::uint64_t word;

  static constexpr Header make(std::uint32_t stamp, std::uint32_t tag, std::size_t size) noexcept {
    return {std::uint64_t{stamp} << 32 | std::uint64_t{tag} << 6 | size};
  }
  constexpr std::uint32_t stamp() const noexcept { return static_cast<std::uint32_t>(word >> 32); }
  constexpr std::uint32_t tag() const noexcept { return static_cast<std::uint32_t>(word) >> 6; }
  constexpr std::size_t size() const noexcept { return word & 63; }
};

/// memcpy of at most line_payload bytes, the common sizes without a call.
inline void copy_payload(std::byte* to, const std::byte* from, std::size_t size) noexcept {
  if (size == 8) {
    std::memcpy(to, from, 8);
  } else if (size == line_payload) {
    std::memcpy(to, from, line_payload);
  } else if (size > 16) {  // whole 16s from the front and a last, perhaps overlapping one
    for (std::size_t at = 0; at + 16 < size; at += 16) std::memcpy(to + at, from + at, 16);
    std::memcpy(to + size - 16, from + size - 16, 16);
  } else if (size > 8) {  // two 8s in the same way
    std::memcpy(to, from, 8);
    std::memcpy(to + size - 8, from + size - 8, 8);
  } else {
    for (std::size_t at = 0; at < size; ++at) to[at] = from[at];
  }
}

}  // namespace smelt::channel
