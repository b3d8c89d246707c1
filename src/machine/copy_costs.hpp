// What the rest of the room needs to know about CopyCosts.
#pragma once

#include <cstddef>

namespace smelt {

/// How many numbers of PUs copying at once are measured on a machine of so many PUs: 1, 2, 4, ...
/// and all.
std::size_t contention_levels(std::size_t pus) noexcept;

}  // namespace smelt
