// The files of /proc and /sys that say what a process may use, and lists of ids.
#include "machine/limits.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "fuzz.hpp"
#include "machine/text.hpp"
#include "machine/topology/allowance.hpp"

namespace {

namespace fs = std::filesystem;

/// A directory that plays the root of a file system, removed at the end.
class Root {
 public:
  Root() : path_(fs::path("/dev/shm") / ("smelt-fuzz-" + std::to_string(getpid()))) {
    for (const auto* file : files) fs::create_directories((path_ / file).parent_path());
  }
  ~Root() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

  static constexpr const char* files[] = {"proc/self/cgroup",
                                          "proc/self/mountinfo",
                                          "sys/fs/cgroup/cpu.max",
                                          "sys/fs/cgroup/cpuset.cpus.effective",
                                          "sys/fs/cgroup/a/cpu.max",
                                          "sys/fs/cgroup/a/cpuset.cpus.effective",
                                          "sys/fs/cgroup/cpu/a/cpu.cfs_quota_us",
                                          "sys/fs/cgroup/cpu/a/cpu.cfs_period_us",
                                          "sys/fs/cgroup/cpuset/a/cpuset.cpus"};

 private:
  fs::path path_;
};

void check_ids(const std::vector<int>& ids) {
  smelt::fuzz::require(std::is_sorted(ids.begin(), ids.end()), "ids not sorted");
  smelt::fuzz::require(std::adjacent_find(ids.begin(), ids.end()) == ids.end(), "an id twice");
  smelt::fuzz::require(ids.empty() || (ids.front() >= 0 && ids.back() <= smelt::max_id), "an id out of range");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Root root;
  const auto text = smelt::fuzz::text_of(data, size);
  const auto contents = smelt::fuzz::files_of(text);
  if (contents.empty()) {
    if (const auto ids = smelt::parse_id_list(text)) check_ids(*ids);
    return 0;
  }
  for (const auto* file : Root::files) {
    const auto found = contents.find(file);
    std::error_code ignored;
    if (found == contents.end()) {
      fs::remove(root.path() / file, ignored);
    } else {
      std::ofstream(root.path() / file, std::ios::binary) << found->second;
    }
  }
  const auto limits = smelt::read_cgroup_limits(root.path());
  smelt::fuzz::require(std::isfinite(limits.cpu_quota) && limits.cpu_quota >= 0.0, "no quota");
  if (limits.pus) check_ids(*limits.pus);
  return 0;
}
