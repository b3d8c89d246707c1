#include "state/map/lines.hpp"

#ifdef SMELT_MAP_WIDE
#include <immintrin.h>
#endif

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

namespace smelt::map_detail {
namespace {

#ifdef SMELT_MAP_WIDE

// The assembler's syntax is either of both, as in move_lines(). The registers from 16 on need no vzeroupper.
#ifdef __AVX512F__
#define SMELT_CHANGED "xmm16", "xmm17", "xmm18", "xmm19", "memory"
#else
#define SMELT_CHANGED "memory"
#endif

void move_by_avx512(void* to, const void* from, std::size_t lines) noexcept {
  auto* target = static_cast<std::byte*>(to);
  const auto* source = static_cast<const std::byte*>(from);
  for (; lines >= 4; lines -= 4, target += 256, source += 256) {
    asm volatile(
        "vmovdqu64 {(%1), %%zmm16|zmm16, [%1]}\n\t"
        "vmovdqu64 {64(%1), %%zmm17|zmm17, [%1+64]}\n\t"
        "vmovdqu64 {128(%1), %%zmm18|zmm18, [%1+128]}\n\t"
        "vmovdqu64 {192(%1), %%zmm19|zmm19, [%1+192]}\n\t"
        "vmovdqu64 {%%zmm16, (%0)|[%0], zmm16}\n\t"
        "vmovdqu64 {%%zmm17, 64(%0)|[%0+64], zmm17}\n\t"
        "vmovdqu64 {%%zmm18, 128(%0)|[%0+128], zmm18}\n\t"
        "vmovdqu64 {%%zmm19, 192(%0)|[%0+192], zmm19}"
        :
        : "r"(target), "r"(source)
        : SMELT_CHANGED);
  }
  for (; lines != 0; --lines, target += 64, source += 64) {
    asm volatile("vmovdqu64 {(%1), %%zmm16|zmm16, [%1]}\n\tvmovdqu64 {%%zmm16, (%0)|[%0], zmm16}"
                 :
                 : "r"(target), "r"(source)
                 : SMELT_CHANGED);
  }
}

void move_by_avx(void* to, const void* from, std::size_t lines) noexcept {
  auto* target = static_cast<std::byte*>(to);
  const auto* source = static_cast<const std::byte*>(from);
  for (; lines != 0; --lines, target += 64, source += 64) {
    asm volatile(
        "vmovdqu {(%1), %%ymm0|ymm0, [%1]}\n\t"
        "vmovdqu {32(%1), %%ymm1|ymm1, [%1+32]}\n\t"
        "vmovdqu {%%ymm0, (%0)|[%0], ymm0}\n\t"
        "vmovdqu {%%ymm1, 32(%0)|[%0+32], ymm1}"
        :
        : "r"(target), "r"(source)
        : "xmm0", "xmm1", "memory");
  }
  asm volatile("vzeroupper"
               :
               :
               : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",
                 "xmm12", "xmm13", "xmm14", "xmm15");
}

void move_by_sse(void* to, const void* from, std::size_t lines) noexcept {
  auto* target = static_cast<std::byte*>(to);
  const auto* source = static_cast<const std::byte*>(from);
  for (; lines != 0; --lines, target += 64, source += 64) move_lines(target, source, 1);
}

// CPUs without the second set run at a lower frequency for a while after instructions of the first.
bool has_avx512() noexcept {
  return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bf16") != 0;
}
bool has_avx() noexcept { return __builtin_cpu_supports("avx") != 0; }

constexpr std::size_t most_lines_in_registers = 16;

/// The last line ends with the value, and so overlaps the one before if the value has no whole number of lines.
template <std::size_t... line>
[[gnu::target("avx512f")]] bool load_lines(std::byte* to, const std::byte* from, std::size_t bytes,
                                           const Unchanged& unchanged) noexcept {
  const std::size_t last = bytes - 64;
  const __m512i lines[] = {_mm512_loadu_si512(from + line * 64)...}, end = _mm512_loadu_si512(from + last);
  asm volatile("" : : : "memory");  // the CPU keeps the order of loads, and so does the compiler
  if (!unchanged()) return false;
  (_mm512_storeu_si512(to + line * 64, lines[line]), ...);
  _mm512_storeu_si512(to + last, end);
  return true;
}

template <std::size_t... line>
constexpr LoadIfUnchanged loader_of(std::index_sequence<line...>) noexcept {
  return load_lines<line...>;
}

/// By the number of lines before the last one.
template <std::size_t... lines>
LoadIfUnchanged loader_of_lines(std::size_t wanted, std::index_sequence<lines...>) noexcept {
  static constexpr LoadIfUnchanged all[] = {loader_of(std::make_index_sequence<many_lines - 1 + lines>())...};
  return all[wanted - (many_lines - 1)];
}

LoadIfUnchanged loader_by_avx512(std::size_t bytes) noexcept {
  if (bytes < many_lines * 64 || bytes > most_lines_in_registers * 64) return nullptr;
  return loader_of_lines((bytes - 1) / 64, std::make_index_sequence<most_lines_in_registers - many_lines + 1>());
}

#else

// Here load_bytes() and store_bytes() copy words, and nothing calls these.
void move_by_avx512(void*, const void*, std::size_t) noexcept {}
void move_by_avx(void*, const void*, std::size_t) noexcept {}
void move_by_sse(void*, const void*, std::size_t) noexcept {}
bool has_avx512() noexcept { return false; }
bool has_avx() noexcept { return false; }
LoadIfUnchanged loader_by_avx512(std::size_t) noexcept { return nullptr; }

#endif

}  // namespace

const LineMover (&all_line_movers() noexcept)[line_movers] {
  static const LineMover all[] = {
      {"avx512", move_by_avx512, has_avx512()}, {"avx", move_by_avx, has_avx()}, {"sse2", move_by_sse, true}};
  return all;
}

void move_many_lines(void* to, const void* from, std::size_t lines) noexcept {
  static const MoveLines fastest = std::ranges::find_if(all_line_movers(), &LineMover::is_supported)->move;
  fastest(to, from, lines);
}

LoadIfUnchanged load_by_registers(std::size_t bytes) noexcept {
  static const bool has_registers = has_avx512();
  return has_registers ? loader_by_avx512(bytes) : nullptr;
}

bool load_by_saving(void* to, const AtomicWord* from, std::size_t bytes, const Unchanged& unchanged,
                    void* former) noexcept {
  if (former != nullptr) {  // the value arrives while the former contents are saved
    Table::fetch_lines<false>(from, words_of(bytes));
    copy_alike(former, to, bytes);
  }
  load_bytes(to, from, bytes);
  if (unchanged()) return true;
  if (former != nullptr) std::memcpy(to, former, bytes);
  return false;
}

bool load_if_unchanged(void* to, const AtomicWord* from, std::size_t bytes, const Unchanged& unchanged,
                       void* former) noexcept {
  if (const auto load = load_by_registers(bytes)) {
    return load(static_cast<std::byte*>(to), reinterpret_cast<const std::byte*>(from), bytes, unchanged);
  }
  return load_by_saving(to, from, bytes, unchanged, former);
}

}  // namespace smelt::map_detail
