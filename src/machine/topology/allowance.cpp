// What a process may use: its affinity mask, restricted by the cpuset of its cgroup, and the CPU quota.
//
//   /proc/self/cgroup     "0::/path" (v2), "3:cpu,cpuacct:/path" (v1): the group per hierarchy
//   /proc/self/mountinfo  where each hierarchy is mounted, and which of its groups is the top there
//
// A quota applies to a group and all groups below it. So every directory from the process's group up to the mount
// counts, and the smallest quota wins. In a container, the group's path may lie outside of what is mounted. Then the
// mount's top directory is the group.
#include "machine/topology/allowance.hpp"

#include <algorithm>
#include <charconv>
#include <climits>
#include <string>

#include "base/cgroup.hpp"
#include "base/error.hpp"
#include "machine/text.hpp"
#include "machine/topology/affinity.hpp"
#include "smelt/machine.hpp"

namespace smelt {
namespace {

namespace fs = std::filesystem;

struct Mount {
  std::string top;  ///< the cgroup at the mount point, such as "/" or "/docker/0123"
  fs::path point;
};

/// The two files above, read once: they may be long, and the kernel makes their text anew for each reader.
struct CgroupFiles {
  std::optional<std::string> cgroup, mountinfo;

  explicit CgroupFiles(const fs::path& root) : cgroup(read_small_file(root / "proc/self/cgroup")) {
    if (cgroup) mountinfo = read_small_file(root / "proc/self/mountinfo");
  }
};

struct Hierarchy {
  bool unified = false;  ///< v2
  Mount mount;
  std::string group;  ///< of the process

  /// The directory of the process's group.
  fs::path lowest() const;
  /// The directory above, up to the mount point.
  std::optional<fs::path> above(const fs::path& directory) const;
};

bool contains(std::string_view comma_list, std::string_view word) {
  const auto words = split(comma_list, ',');
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// `text` as one directory below `root`, even though it starts with a slash.
fs::path below(const fs::path& root, std::string_view text) {
  while (!text.empty() && text.front() == '/') text.remove_prefix(1);
  return text.empty() ? root : root / text;
}

/// Mount points escape blank, tab, newline and backslash as three octal digits.
std::string unescaped(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    int code = 0;
    if (text[i] == '\\' && i + 3 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 4, code, 8).ptr == text.data() + i + 4) {
      result += static_cast<char>(code);
      i += 3;
    } else {
      result += text[i];
    }
  }
  return result;
}

/// A line of mountinfo: id parent device root point options [fields]* - type source super-options
std::optional<Mount> find_mount(std::string_view mountinfo, bool unified, std::string_view controller) {
  for (const auto line : split(mountinfo, '\n')) {
    const auto dash = line.find(" - ");
    if (dash == std::string_view::npos) continue;
    const auto left = split(line.substr(0, dash), ' ');
    const auto right = split(trimmed(line.substr(dash + 3)), ' ');
    if (left.size() < 5 || right.size() < 3) continue;
    const bool wanted = unified ? right[0] == "cgroup2" : right[0] == "cgroup" && contains(right.back(), controller);
    if (wanted) return Mount{unescaped(left[3]), unescaped(left[4])};
  }
  return std::nullopt;
}

fs::path Hierarchy::lowest() const {
  std::string_view group_path = group;
  const std::string_view top = mount.top == "/" ? std::string_view() : std::string_view(mount.top);
  const bool inside = group_path.substr(0, top.size()) == top &&
                      (group_path.size() == top.size() || group_path[top.size()] == '/') &&
                      group_path.find("/..") == std::string_view::npos;
  auto directory = below(mount.point, inside ? group_path.substr(top.size()) : std::string_view());
  return directory.filename().empty() ? directory.parent_path() : directory;
}

std::optional<fs::path> Hierarchy::above(const fs::path& directory) const {
  if (directory == mount.point || directory == directory.parent_path()) return std::nullopt;
  return directory.parent_path();
}

std::optional<Hierarchy> find_hierarchy(const fs::path& root, const CgroupFiles& files, bool unified,
                                        std::string_view controller) {
  if (!files.cgroup) return std::nullopt;
  const auto group = find_cgroup(*files.cgroup, unified ? "" : controller);
  if (!group || group->size() > PATH_MAX) return std::nullopt;
  auto mount = files.mountinfo ? find_mount(*files.mountinfo, unified, controller) : std::nullopt;
  if (mount && (mount->top.size() > PATH_MAX || mount->point.native().size() > PATH_MAX)) mount.reset();
  // Without mountinfo: the place where every distribution mounts it.
  if (!mount) mount = Mount{"/", unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/" + std::string(controller)};
  mount->point = below(root, mount->point.string());
  return Hierarchy{unified, std::move(*mount), std::string(*group)};
}

/// PUs' worth of time that a directory grants; 0 = no limit there.
double quota_v2(const fs::path& directory) {
  const auto text = read_small_file(directory / "cpu.max");  // "max 100000" or "150000 100000"
  if (!text) return 0.0;
  const auto parts = split(trimmed(*text), ' ');
  const auto quota = parse_number(parts.front());
  const auto period = parts.size() > 1 ? parse_number(parts[1]) : 100000.0;
  return quota && period && *quota > 0.0 && *period > 0.0 ? *quota / *period : 0.0;
}

double quota_v1(const fs::path& directory) {
  const auto quota_text = read_small_file(directory / "cpu.cfs_quota_us");  // -1: no limit
  const auto period_text = read_small_file(directory / "cpu.cfs_period_us");
  if (!quota_text || !period_text) return 0.0;
  const auto quota = parse_number(trimmed(*quota_text));
  const auto period = parse_number(trimmed(*period_text));
  return quota && period && *quota > 0.0 && *period > 0.0 ? *quota / *period : 0.0;
}

double smallest_quota(const std::optional<Hierarchy>& hierarchy, bool unified) {
  double smallest = 0.0;
  if (!hierarchy) return smallest;
  for (std::optional directory = hierarchy->lowest(); directory; directory = hierarchy->above(*directory)) {
    const double quota = unified ? quota_v2(*directory) : quota_v1(*directory);
    if (quota > 0.0 && (smallest == 0.0 || quota < smallest)) smallest = quota;
  }
  return smallest;
}

/// The cpuset of the nearest directory that has one. It already includes those of the directories above.
std::optional<std::vector<int>> cpuset(const std::optional<Hierarchy>& hierarchy, bool unified) {
  if (!hierarchy) return std::nullopt;
  const auto names = unified ? std::vector<const char*>{"cpuset.cpus.effective"}
                             : std::vector<const char*>{"cpuset.effective_cpus", "cpuset.cpus"};
  for (std::optional directory = hierarchy->lowest(); directory; directory = hierarchy->above(*directory)) {
    for (const auto* name : names) {
      const auto text = read_small_file(*directory / name);
      const auto pus = text ? parse_id_list(*text) : std::nullopt;
      if (pus && !pus->empty()) return pus;
    }
  }
  return std::nullopt;
}

/// The number of bytes in a file; nothing if the file contains "max" or does not exist.
std::optional<double> bytes_in(const fs::path& file) {
  const auto text = read_small_file(file);
  return text ? parse_number(trimmed(*text)) : std::nullopt;
}

/// Bytes of files that the kernel keeps for a group, and gives up when the group needs memory.
double file_cache(const fs::path& directory, bool unified) {
  const auto text = read_small_file(directory / "memory.stat");
  if (!text) return 0.0;
  double bytes = 0.0;
  for (const auto line : split(*text, '\n')) {
    for (const std::string_view key : {"inactive_file ", "active_file "}) {
      const std::string name = (unified ? "" : "total_") + std::string(key);
      if (line.starts_with(name)) bytes += parse_number(trimmed(line.substr(name.size()))).value_or(0.0);
    }
  }
  return bytes;
}

/// The bytes that the limits of a group leave beyond its use.
std::uint64_t memory_left(const fs::path& directory, bool unified) {
  constexpr double no_limit = 0x1p62;  // v1 writes a huge number
  double limit = no_limit;
  for (const char* name : {"memory.max", "memory.high", "memory.limit_in_bytes"}) {
    const bool of_v1 = std::string_view(name) == "memory.limit_in_bytes";
    if (of_v1 == unified) continue;
    limit = std::min(limit, bytes_in(directory / name).value_or(no_limit));
  }
  if (limit >= no_limit) return UINT64_MAX;
  const auto used = bytes_in(directory / (unified ? "memory.current" : "memory.usage_in_bytes")).value_or(0.0);
  const double needed = std::max(0.0, used - file_cache(directory, unified));
  return static_cast<std::uint64_t>(std::max(0.0, limit - needed));
}

}  // namespace

std::uint64_t read_memory_limit(const fs::path& root) {
  const CgroupFiles files(root);
  std::uint64_t least = UINT64_MAX;
  for (const bool unified : {true, false}) {
    const auto hierarchy = find_hierarchy(root, files, unified, "memory");
    if (!hierarchy) continue;
    for (std::optional directory = hierarchy->lowest(); directory; directory = hierarchy->above(*directory)) {
      least = std::min(least, memory_left(*directory, unified));
    }
  }
  return least;
}

CgroupLimits read_cgroup_limits(const fs::path& root) {
  const CgroupFiles files(root);
  CgroupLimits limits;
  for (const bool unified : {true, false}) {
    const double quota = smallest_quota(find_hierarchy(root, files, unified, "cpu"), unified);
    if (quota > 0.0 && (limits.cpu_quota == 0.0 || quota < limits.cpu_quota)) limits.cpu_quota = quota;
    if (!limits.pus) limits.pus = cpuset(find_hierarchy(root, files, unified, "cpuset"), unified);
  }
  return limits;
}

Result<Allowance> discover_allowance() {
  try {
    auto affinity = this_thread_affinity();
    if (!affinity) return affinity.error();
    const auto limits = read_cgroup_limits("/");
    Allowance allowance{*affinity, limits.cpu_quota};
    if (limits.pus) {
      std::vector<int> both;
      std::set_intersection(affinity->begin(), affinity->end(), limits.pus->begin(), limits.pus->end(),
                            std::back_inserter(both));
      // The cpuset changed at the same time. The scheduler obeys the mask.
      if (!both.empty()) allowance.pus = both;
    }
    return allowance;
  } catch (const std::exception& problem) {
    return make_error(Status::out_of_memory, "cannot read what this process may use: {}", problem.what());
  }
}

}  // namespace smelt
