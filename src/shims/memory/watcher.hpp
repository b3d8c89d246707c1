// Large allocations of the program, and what becomes of their pages.
//
// A huge page makes 2 MiB resident at the first touch of any byte in it. So that programs which use their memory
// sparsely do not grow, no more than trust_bytes of huge pages are ahead of what is seen to be used:
//
//   begin                                                                     end
//   | used densely: huge pages | window        c | window        c | small pages    |
//                                the program is     already asked
//                                on its way here    for
//
// A window is memory that huge pages were asked for, but for its last block, the canary c. When the canary is full of
// small pages, the window was used densely: the canary is collapsed into a huge page, and the next window is opened.
// Where a canary stays empty, so do all the windows that would have followed. Threads that fill other parts are found
// by samples of which pages are there (mincore), and get windows ahead of them. Elsewhere, and in the heaps of the C
// library's malloc, blocks of small pages are collapsed when they are full.
//
// None of this while huge pages are dear (prices.hpp): windows are closed then, and their untouched memory gets small
// pages.
//
// The thread starts with the first allocation that is large enough, runs while something changes, and sleeps otherwise.
// Nothing here uses the program's heap. Content is read to see whether trusted pages have been written, never changed.
#pragma once

#include <cstddef>

namespace smelt::shims::memory {

constexpr std::size_t least_bytes = std::size_t{4} << 20;   ///< of an allocation that is looked at
constexpr std::size_t trust_bytes = std::size_t{48} << 20;  ///< of all windows: of the 64 MiB that may be lost

/// A fresh allocation of anonymous, private, writable memory: [memory, memory + bytes).
/// `refused`: it has been taken back from huge pages.
void added(void* memory, std::size_t bytes, bool refused) noexcept;

/// A thread was given some MiB of small allocations since the last call, `memory` the last of them, by the C library's
/// malloc. The heap that it comes from is looked at from now on.
void grown(const void* memory) noexcept;

/// Before memory is given back or changed: whatever is known of allocations that overlap it is forgotten. Returns when
/// the watching thread no longer looks at them.
void removed(const void* memory, std::size_t bytes) noexcept;

/// The same for the allocation that begins there, if it is known. Cost where it is not: a load or two.
void removed(const void* memory) noexcept;

/// Before realloc of the C library: the allocation that begins there is forgotten, and is one mapping again, which can
/// be moved at once. Whether it was taken back from huge pages for that.
bool moves(const void* memory) noexcept;

/// Whether advice may have made several mappings of one.
bool has_divided() noexcept;

/// Ends the watching thread and waits until it has gone. The next large allocation starts it again.
void pause_watching() noexcept;

}  // namespace smelt::shims::memory
