// CRC-32C (Castagnoli) of four pieces of the same length at a time. Uses the instruction of x86, whose latency is
// hidden by interleaving the pieces; otherwise uses tables.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace smelt::graph {

constexpr std::size_t crc_lanes = 4;

/// The CRCs of the pieces [data + i * lane_bytes, + lane_bytes), i = 0 .. 3.
std::array<std::uint32_t, crc_lanes> crc32c_lanes(const std::byte* data, std::size_t lane_bytes) noexcept;

std::uint32_t crc32c(const std::byte* data, std::size_t size_bytes) noexcept;

}  // namespace smelt::graph
