#include "base/stream.hpp"

#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace smelt {

void copy_by_library(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

#if defined(__x86_64__)

void copy_nontemporal(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  constexpr std::size_t line = 64;
  const std::size_t head = (line - reinterpret_cast<std::uintptr_t>(to) % line) % line;
  if (bytes < head + line) return copy_by_library(to, from, bytes);
  copy_by_library(to, from, head);
  std::size_t at = head;
  for (; at + line <= bytes; at += line) {
    const auto* source = reinterpret_cast<const __m128i*>(from + at);
    auto* target = reinterpret_cast<__m128i*>(to + at);
    const __m128i a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1);
    const __m128i c = _mm_loadu_si128(source + 2), d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
  copy_by_library(to + at, from + at, bytes - at);
  _mm_sfence();  // these stores are not ordered before a later release otherwise
}

void copy_by_string(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
}

#else

void copy_nontemporal(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  copy_by_library(to, from, bytes);
}
void copy_by_string(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  copy_by_library(to, from, bytes);
}

#endif

}  // namespace smelt
