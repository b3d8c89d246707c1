#include "base/copy.hpp"

#include <algorithm>
#include <cstdint>

#include "base/cacheline.hpp"
#include "base/clock.hpp"
#include "base/clones.hpp"

namespace smelt::copy_detail {

namespace {

using Vector = unsigned char __attribute__((vector_size(32)));

#if defined(__x86_64__)
/// Ticks of copies of 1 KiB by the string instruction itself.
CopyTimes string_ticks(std::byte* to, const std::byte* from) noexcept {
  constexpr int copies = 4;
  CopyTimes times;
  for (auto& time : times) {
    const auto start = ticks();
    for (int i = 0; i < copies; ++i) {
      void* target = to;
      const void* source = from;
      std::size_t bytes = 1024;
      asm volatile("rep movsb" : "+D"(target), "+S"(source), "+c"(bytes) : : "memory");
    }
    time = ticks() - start;
  }
  return times;
}
#endif

}  // namespace

Strings judge(const CopyTimes& suspect, const CopyTimes& usual) noexcept {
  // Slow copies take more than ten times as long. Only an interrupt in every try could hide that.
  constexpr std::uint64_t much = 4;
  return *std::ranges::min_element(suspect) > much * *std::ranges::min_element(usual) ? Strings::slow : Strings::fast;
}

Strings find_out() noexcept {
  Strings found = Strings::fast;
#if defined(__x86_64__)
  std::byte memory[copy_page_bytes + 2048] = {};
  std::byte* const next_page = memory + copy_page_bytes;
  found = judge(string_ticks(next_page + 16, memory), string_ticks(next_page + 64, memory));
#endif
  strings.store(found, std::memory_order_relaxed);
  return found;
}

// From the end, so that a load never has the same low address bits as a preceding store, which would delay it.
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

// Four lines at a time. Lines beyond the end are not prefetched, as other threads may be writing them.
SMELT_VECTOR_CLONES void copy_early(std::byte* to, const std::byte* from, std::size_t bytes,
                                    std::size_t ahead) noexcept {
  using Line = unsigned char __attribute__((vector_size(64)));
  constexpr std::size_t line = sizeof(Line), step = 4 * line;
  // Whole lines are written. The copy of the first bytes may overlap the first of them.
  const std::size_t head = std::min(bytes, (line - reinterpret_cast<std::uintptr_t>(to) % line) % line);
  std::memcpy(to, from, head);
  std::size_t at = head;
  for (; at + step <= bytes; at += step) {
    if (at + ahead + step <= bytes) {
      for (std::size_t i = 0; i < step; i += line) {
        __builtin_prefetch(from + at + ahead + i, 0, 2);
        prefetch_to_write(to + at + ahead + i);
      }
    }
    Line first, second, third, fourth;  // registers; an array would be written to the stack
    std::memcpy(&first, from + at, line);
    std::memcpy(&second, from + at + line, line);
    std::memcpy(&third, from + at + 2 * line, line);
    std::memcpy(&fourth, from + at + 3 * line, line);
    std::memcpy(to + at, &first, line);
    std::memcpy(to + at + line, &second, line);
    std::memcpy(to + at + 2 * line, &third, line);
    std::memcpy(to + at + 3 * line, &fourth, line);
  }
  std::memcpy(to + at, from + at, bytes - at);
}

}  // namespace smelt::copy_detail
