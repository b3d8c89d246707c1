// What memory cost the process, for its report: misses of the TLB where the kernel lets them be counted, page faults.
#pragma once

#include <cstdio>

namespace smelt::shims::memory {

/// Prints a line or two. Counted since the library was loaded, if SMELT_VERBOSE=1, in all threads of the process; the
/// TLB's misses also in its children, as far as they have ended. Cost: none unless SMELT_VERBOSE=1.
void print_counters(std::FILE* to) noexcept;

}  // namespace smelt::shims::memory
