// Work on pages in the program's place, on a PU that is idle.
#pragma once

#include <cstddef>

namespace smelt::shims::memory {

/// Whether somebody may answer this process's page faults: a page that is touched too early would be asked of them.
/// Cost: a directory and a link per open file.
bool has_userfaultfd() noexcept;

/// Whether the kernel made all pages of [begin, end) resident; content stays as it is. Linux 5.14; false before.
bool populate(std::byte* begin, std::byte* end) noexcept;

/// Makes a huge page that the kernel gives out next cheap to write. The hypervisor of a virtual machine may have taken
/// free huge pages back, and gives them in small pages when they are first written: milliseconds that would pass under
/// the kernel's lock of the address space otherwise. Used by the watching thread alone.
void warm_huge_page(std::size_t huge_bytes) noexcept;

}  // namespace smelt::shims::memory
