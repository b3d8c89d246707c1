// What the rest of the room needs to know about CopyCosts.
#pragma once

#include <cstddef>

#include "smelt/machine.hpp"

namespace smelt {

/// Where copies were not measured: what a core's cache is taken to hold, beyond which copies get dearer.
inline constexpr double estimated_cache_bytes = 1u << 20;

/// Sizes of the first numbers of Machine::combine_share. The last one is of cached_bytes.
inline constexpr double combine_sizes_bytes[] = {4096, 65536};

/// How many numbers of PUs copying at once are measured on a machine of so many PUs: 1, 2, 4, ...
/// and all.
std::size_t contention_levels(std::size_t pus) noexcept;

/// How many times as long the first chunk_bytes take that `copiers` PUs copy out of the caches of others at once, as
/// far as that was measured of chunks (Machine::chunk_contention); else 1. At least 1.
double chunk_slowdown(const Machine& machine, int copiers) noexcept;

/// combine_ns() of a part of a buffer of `buffer_bytes`, all of which another PU has written before.
double combine_part_ns(const Machine& machine, std::size_t from, std::size_t to, double bytes, double buffer_bytes,
                       int copiers) noexcept;

}  // namespace smelt
