// The cgroups of the process, and for how long a CPU quota has stopped it, as in a container with a limit.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace smelt {

/// The cgroup, such as "/a/b", that /proc/<pid>/cgroup names for a controller of the old hierarchies, or (empty
/// controller) for the unified one. `text`: that file; its lines are "3:cpu,cpuacct:/a/b" and "0::/a/b".
std::optional<std::string_view> find_cgroup(std::string_view text, std::string_view controller) noexcept;

/// The sum over the process's cgroup and those above it, as far as they can be seen, in microseconds or nanoseconds. It
/// is there to see it change: a thread that did not run meanwhile may have been stopped together with all others. 0 if
/// nothing can be read. `root`: a directory in place of "/"; empty: that one. Cost: three system calls for each cgroup.
std::uint64_t throttled_time(const char* root = "") noexcept;

}  // namespace smelt
