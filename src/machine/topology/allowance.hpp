// What the cgroups of a process grant, read from files that tests can fake.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace smelt {

struct CgroupLimits {
  std::optional<std::vector<int>> pus;  ///< os_index of the PUs in the cpuset; nothing if no cpuset is in force
  double cpu_quota = 0.0;               ///< PUs' worth of time; 0 = no limit
};

/// Limits of the process whose /proc/self lies under `root` ("/" for this process). Missing and unreadable files mean
/// no limit.
CgroupLimits read_cgroup_limits(const std::filesystem::path& root);

/// Bytes of memory that the cgroups of the same process still grant. For its group and each group above: the smallest
/// of memory.max, memory.high (v2) or memory.limit_in_bytes (v1), minus the memory in use, of
/// which the kernel's copies of files are no part. UINT64_MAX without a limit.
std::uint64_t read_memory_limit(const std::filesystem::path& root);

}  // namespace smelt
