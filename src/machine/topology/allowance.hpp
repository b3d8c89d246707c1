// What the cgroups of a process grant, read from files that tests can fake.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

namespace smelt {

struct CgroupLimits {
  std::optional<std::vector<int>> pus;  ///< os_index of the PUs in the cpuset; nothing where no cpuset is in force
  double cpu_quota = 0.0;               ///< PUs' worth of time; 0 = no limit
};

/// Limits of the process whose /proc/self lies under `root` ("/" for this process). Missing and
/// unreadable files mean no limit.
CgroupLimits read_cgroup_limits(const std::filesystem::path& root);

}  // namespace smelt
