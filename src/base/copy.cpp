#include "base/copy.hpp"

#include <algorithm>
#include <cstdint>

#include "base/clock.hpp"
#include "base/clones.hpp"

namespace smelt::copy_detail {

namespace {

using Vector = unsigned char __attribute__((vector_size(32)));

#if defined(__x86_64__)
/// Ticks that copies of 1 KiB take, the least of some tries. What compilers make of memcpy is not the question here.
std::uint64_t string_ticks(std::byte* to, const std::byte* from) noexcept {
  constexpr int tries = 4, copies = 4;
  std::uint64_t least = UINT64_MAX;
  for (int n = 0; n < tries; ++n) {
    const auto start = ticks();
    for (int i = 0; i < copies; ++i) {
      void* target = to;
      const void* source = from;
      std::size_t bytes = 1024;
      asm volatile("rep movsb" : "+D"(target), "+S"(source), "+c"(bytes) : : "memory");
    }
    least = std::min(least, ticks() - start);
  }
  return least;
}
#endif

}  // namespace

Strings find_out() noexcept {
  Strings found = Strings::fast;
#if defined(__x86_64__)
  // Where it is slow it takes 12 to 26 times as long; an interrupt in every try would have to come to make that of
  // less.
  constexpr std::uint64_t much = 4;
  std::byte memory[copy_page_bytes + 2048] = {};
  std::byte* const next_page = memory + copy_page_bytes;
  if (string_ticks(next_page + 16, memory) > much * string_ticks(next_page + 64, memory)) found = Strings::slow;
#endif
  strings.store(found, std::memory_order_relaxed);
  return found;
}

// From the end: the next load then never has the low address bits of a store just made, on which it would have to wait.
SMELT_VECTOR_CLONES void copy_backwards(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  while (bytes >= 2 * sizeof(Vector)) {
    bytes -= 2 * sizeof(Vector);
    Vector low, high;  // registers: the sizes are constants
    std::memcpy(&low, from + bytes, sizeof low);
    std::memcpy(&high, from + bytes + sizeof low, sizeof high);
    std::memcpy(to + bytes + sizeof low, &high, sizeof high);
    std::memcpy(to + bytes, &low, sizeof low);
  }
  std::memcpy(to, from, bytes);
}

}  // namespace smelt::copy_detail
