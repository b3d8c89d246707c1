// Sizes of the memory system that layouts are built from.
#pragma once

#include <cstddef>

namespace smelt {

/// The unit of transfer between caches on x86-64 and on the AArch64 server cores.
inline constexpr std::size_t line_bytes = 64;

/// Lines written by different threads keep this distance: x86 prefetches lines in pairs.
inline constexpr std::size_t separation_bytes = 128;

/// Begins to take the line of `address` from whoever has it, to be written soon. A hint: nothing is read or changed.
inline void prefetch_to_write(const void* address) noexcept {
#if defined(__x86_64__)
  // The builtin would leave the line with its reader, too, unless the compiler is told of a CPU that has this
  // instruction; where one lacks it, it does nothing.
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(address)));
#else
  __builtin_prefetch(address, 1);
#endif
}

}  // namespace smelt
