// Ways to copy and fill long ranges. Which is fastest depends on the machine and on whether the data is used soon
// after.
#pragma once

#include <cstddef>

namespace smelt {

/// A way to copy `bytes` bytes; the two must not overlap.
using CopyMethod = void (*)(std::byte* to, const std::byte* from, std::size_t bytes) noexcept;

/// The C library's.
void copy_by_library(std::byte* to, const std::byte* from, std::size_t bytes) noexcept;
/// By stores past the caches: nothing of the target is read first, and nothing of it is in the caches afterwards.
/// Visible to others as ordinary stores are. memcpy on machines without such stores.
void copy_nontemporal(std::byte* to, const std::byte* from, std::size_t bytes) noexcept;
/// By the CPU's string instruction (rep movsb); memcpy on machines without.
void copy_by_string(std::byte* to, const std::byte* from, std::size_t bytes) noexcept;

}  // namespace smelt
