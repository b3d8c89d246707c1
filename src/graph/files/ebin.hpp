// Constants of Green-Marl's binary formats.
#pragma once

#include <array>
#include <cstdint>

#include "smelt/graph.hpp"

namespace smelt::graph::ebin {

constexpr std::uint32_t magic = 0x10102048;
constexpr std::uint32_t plain_magic = 0x03939999;  ///< of files that end behind the edges
constexpr std::uint32_t end_mark = 0x99191191;

/// The type with this number.
inline constexpr std::array types = {ValueType::boolean, ValueType::int32, ValueType::int64, ValueType::float32,
                                     ValueType::float64};

}  // namespace smelt::graph::ebin
