// Reading the result of a timed operation, as a program would. Data that another PU has written into a buffer is in
// that PU's cache, so an operation in which others write is complete only when its caller has fetched the data.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/cacheline.hpp"
#include "base/clock.hpp"

namespace smelt {

/// The sum of one word per cache line; 0 for fewer bytes than a word.
inline std::uint64_t read_lines(const void* data, std::size_t bytes) noexcept {
  const auto* at = static_cast<const std::byte*>(data);
  std::uint64_t sum = 0, word = 0;
  for (std::size_t line = 0; line + sizeof word <= bytes; line += line_bytes) {
    std::memcpy(&word, at + line, sizeof word);
    sum += word;
  }
  return sum;
}

/// Keeps the compiler from removing or moving the computation of `value`.
inline void use(std::uint64_t value) noexcept { asm volatile("" : : "r"(value) : "memory"); }

/// When data had arrived whose reading began at `start` and ended at `first`, and whose second reading, from the
/// reader's cache, ended at `second`.
constexpr std::uint64_t tick_of_arrival(std::uint64_t start, std::uint64_t first, std::uint64_t second) noexcept {
  return std::max(start, first - std::min(second - first, first));
}

/// The tick at which read() ends, minus the duration of a second read(), when all data is in the reader's cache. Not
/// earlier than the call.
template <class Read>
std::uint64_t ticks_when_read(Read&& read) noexcept {
  const std::uint64_t start = ticks();
  use(read());
  const std::uint64_t first = ticks();
  use(read());
  return tick_of_arrival(start, first, ticks());
}

}  // namespace smelt
