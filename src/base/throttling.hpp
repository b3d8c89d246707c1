// For how long the kernel has stopped the process because a CPU quota was used up, as in a container with a limit.
#pragma once

#include <cstdint>

namespace smelt {

/// The sum over the process's cgroup and those above it, as far as they can be seen, in microseconds or nanoseconds. It
/// is there to see it change: a thread that did not run meanwhile may have been stopped together with all others. 0 if
/// nothing can be read. `root`: a directory in place of "/"; empty: that one. Cost: three system calls for each cgroup.
std::uint64_t throttled_time(const char* root = "") noexcept;

}  // namespace smelt
