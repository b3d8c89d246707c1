// Sizes of the memory system that layouts are built from.
#pragma once

#include <cstddef>

namespace smelt {

/// The unit of transfer between caches on x86-64 and on the AArch64 server cores.
inline constexpr std::size_t line_bytes = 64;

/// Lines written by different threads keep this distance: x86 prefetches lines in pairs.
inline constexpr std::size_t separation_bytes = 128;

}  // namespace smelt
