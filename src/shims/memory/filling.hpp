// Work on pages in the program's place, on a PU that is idle.
#pragma once

#include <cstddef>
#include <cstdint>

namespace smelt::shims::memory {

/// Whether somebody may answer this process's page faults: a page that is touched too early would be asked of them.
/// Cost: a directory and a link per open file.
bool has_userfaultfd() noexcept;

/// Whether the kernel made all pages of [begin, end) resident; content stays as it is. Linux 5.14; false before.
bool populate(std::byte* begin, std::byte* end) noexcept;

/// The same; the processor time that it took, at least 1, or 0 if it failed.
std::int64_t timed_populate(std::byte* begin, std::byte* end) noexcept;

/// The same in memory without a policy of its own, but on a NUMA node, if it has room. 0 also where the calling thread
/// has a policy, whose pages may lie elsewhere.
std::int64_t timed_populate_on(int node, std::byte* begin, std::byte* end) noexcept;

/// The NUMA node on which the first pages of all huge pages in [begin, end) lie; -1 if there are several, or none.
int node_of(std::byte* begin, std::byte* end, std::size_t huge_bytes) noexcept;

/// Makes a huge page that the kernel gives out next cheap to write. The hypervisor of a virtual machine may have taken
/// free huge pages back, and gives them in small pages when they are first written: milliseconds that would pass under
/// the kernel's lock of the address space otherwise. Returns the processor time that it took, 0 if it could not be had.
/// Used by the watching thread alone.
std::int64_t warm_huge_page(std::size_t huge_bytes) noexcept;

/// The processor time that a fresh huge page costs now: of two at a time, since the first may have been in use a moment
/// ago. 0 if that cannot be known. Used by the watching thread alone.
std::int64_t huge_page_ns(std::size_t huge_bytes) noexcept;

/// The processor time of fresh small pages, of as many bytes; 0 if that cannot be known.
std::int64_t small_pages_ns(std::size_t huge_bytes) noexcept;

}  // namespace smelt::shims::memory
