// Large allocations of the program, and what becomes of their pages.
//
// A huge page makes 2 MiB resident at the first touch of any byte in it. So that programs which use their memory
// sparsely do not grow, huge pages are asked for where there is evidence that the memory is used densely:
//
//   | trusted                        | rest                                                              |
//   huge pages at once, as long as     small pages at first. A watching thread looks at which are there: in
//   all that is trusted and not yet    blocks that fill up in one run, or are full, the program works densely:
//   seen to be dense is below          huge pages for the rest then, and full blocks are collapsed. Scattered
//   trust_bytes                        pages: small ones stay, until nearly all of them are there.
//
// Memory that was dense and is given back leaves credit: new allocations of as much are trusted, too.
//
// The thread starts with the first allocation that is large enough, runs while something changes, and sleeps otherwise.
// Nothing here uses the program's heap. Content is read to see whether trusted pages have been written, never changed.
#pragma once

#include <cstddef>

namespace smelt::shims::memory {

constexpr std::size_t least_bytes = std::size_t{4} << 20;   ///< of an allocation that is looked at
constexpr std::size_t trust_bytes = std::size_t{48} << 20;  ///< of the 64 MiB that resident memory may grow by

/// A fresh allocation of anonymous, private, writable memory: [memory, memory + bytes).
void added(void* memory, std::size_t bytes) noexcept;

/// Before memory is given back or changed: whatever is known of allocations that overlap it is forgotten. Returns when
/// the watching thread no longer looks at them.
void removed(const void* memory, std::size_t bytes) noexcept;

/// The same for the allocation that begins there, if it is known. Cost where it is not: a load or two.
void removed(const void* memory) noexcept;

}  // namespace smelt::shims::memory
