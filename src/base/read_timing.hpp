// Reading a result, as the program does that an operation is timed for. Bytes that another PU has written into a buffer
// lie in that PU's cache: an operation that lets others write is not over before its caller has fetched them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/cacheline.hpp"
#include "base/clock.hpp"

namespace smelt {

/// The sum of a word of each cache line; of fewer bytes than a word, nothing.
inline std::uint64_t read_lines(const void* data, std::size_t bytes) noexcept {
  const auto* at = static_cast<const std::byte*>(data);
  std::uint64_t sum = 0, word = 0;
  for (std::size_t line = 0; line + sizeof word <= bytes; line += line_bytes) {
    std::memcpy(&word, at + line, sizeof word);
    sum += word;
  }
  return sum;
}

/// Keeps the compiler from leaving out what came to `value`, and from moving it.
inline void use(std::uint64_t value) noexcept { asm volatile("" : : "r"(value) : "memory"); }

/// The tick at which read() is over, less what it takes the second time, when all lies in the reader's cache; not
/// before the call.
template <class Read>
std::uint64_t ticks_when_read(Read&& read) noexcept {
  const std::uint64_t start = ticks();
  use(read());
  const std::uint64_t first = ticks();
  use(read());
  const std::uint64_t again = ticks() - first;
  return std::max(start, first - std::min(again, first));
}

}  // namespace smelt
