#include "graph/files/crc32c.hpp"

#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace smelt::graph {
namespace {

using Table = std::array<std::array<std::uint32_t, 256>, 8>;

/// tables[k][b]: contribution of byte b if k more bytes follow in the same step.
constexpr Table make_tables() {
  constexpr std::uint32_t polynomial = 0x82F63B78;
  Table tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? polynomial : 0);
    tables[0][byte] = crc;
  }
  for (std::size_t k = 1; k < tables.size(); ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const auto before = tables[k - 1][byte];
      tables[k][byte] = before >> 8 ^ tables[0][before & 0xff];
    }
  }
  return tables;
}

constexpr Table tables = make_tables();

std::uint32_t add_byte(std::uint32_t crc, std::byte byte) {
  return crc >> 8 ^ tables[0][(crc ^ static_cast<std::uint32_t>(byte)) & 0xff];
}

std::uint64_t word_at(const std::byte* data) {
  std::uint64_t word;
  std::memcpy(&word, data, sizeof word);
  return word;
}

std::uint32_t add_word(std::uint32_t crc, std::uint64_t word) {
  word ^= crc;
  std::uint32_t result = 0;
  for (std::size_t byte = 0; byte < 8; ++byte) result ^= tables[7 - byte][word >> 8 * byte & 0xff];
  return result;
}

/// Processes the last bytes of a lane and returns the CRC.
std::uint32_t finished(std::uint32_t crc, const std::byte* from, const std::byte* to) {
  for (; from != to; ++from) crc = add_byte(crc, *from);
  return ~crc;
}

std::array<std::uint32_t, crc_lanes> lanes_by_tables(const std::byte* data, std::size_t lane_bytes) {
  std::array<std::uint32_t, crc_lanes> result{};
  for (std::size_t lane = 0; lane < crc_lanes; ++lane, data += lane_bytes) {
    std::uint32_t crc = ~0u;
    std::size_t at = 0;
    for (; at + 8 <= lane_bytes; at += 8) crc = add_word(crc, word_at(data + at));
    result[lane] = finished(crc, data + at, data + lane_bytes);
  }
  return result;
}

#if defined(__x86_64__)

[[gnu::target("sse4.2")]] std::array<std::uint32_t, crc_lanes> lanes_by_instruction(const std::byte* data,
                                                                                    std::size_t lane_bytes) {
  std::uint64_t crc[crc_lanes] = {~0u, ~0u, ~0u, ~0u};
  std::size_t at = 0;
  for (; at + 8 <= lane_bytes; at += 8) {
    crc[0] = _mm_crc32_u64(crc[0], word_at(data + at));
    crc[1] = _mm_crc32_u64(crc[1], word_at(data + lane_bytes + at));
    crc[2] = _mm_crc32_u64(crc[2], word_at(data + 2 * lane_bytes + at));
    crc[3] = _mm_crc32_u64(crc[3], word_at(data + 3 * lane_bytes + at));
  }
  std::array<std::uint32_t, crc_lanes> result{};
  for (std::size_t lane = 0; lane < crc_lanes; ++lane, data += lane_bytes) {
    result[lane] = finished(static_cast<std::uint32_t>(crc[lane]), data + at, data + lane_bytes);
  }
  return result;
}

#endif

}  // namespace

std::array<std::uint32_t, crc_lanes> crc32c_lanes(const std::byte* data, std::size_t lane_bytes) noexcept {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction) return lanes_by_instruction(data, lane_bytes);
#endif
  return lanes_by_tables(data, lane_bytes);
}

std::uint32_t crc32c(const std::byte* data, std::size_t size_bytes) noexcept {
  return finished(~0u, data, data + size_bytes);
}

}  // namespace smelt::graph
