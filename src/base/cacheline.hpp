// Sizes of the memory system that layouts are built from.
#pragma once

#include <cstddef>

namespace smelt {

/// The unit of transfer between caches on x86-64 and on the AArch64 server cores.
inline constexpr std::size_t line_bytes = 64;

/// Lines written by different threads keep this distance: x86 prefetches lines in pairs.
inline constexpr std::size_t separation_bytes = 128;

/// Prefetches the line of `address` for writing. A hint without other effects.
inline void prefetch_to_write(const void* address) noexcept {
#if defined(__x86_64__)
  // The builtin would prefetch for reading, unless the compiler targets a CPU that has this instruction. On CPUs
  // without it the instruction is a no-op.
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(address)));
#else
  __builtin_prefetch(address, 1);
#endif
}

/// The same every line_bytes from there on.
inline void prefetch_to_write(const void* address, std::size_t bytes) noexcept {
  for (std::size_t at = 0; at < bytes; at += line_bytes) prefetch_to_write(static_cast<const char*>(address) + at);
}

}  // namespace smelt
