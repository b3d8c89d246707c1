// For tests: a cgroup with a hundredth of a PU, where making one is permitted.
#pragma once

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace smelt::test {

class SmallCgroup {
 public:
  SmallCgroup() {
    const std::string name = "smelt_test_" + std::to_string(getpid());
    for (const std::filesystem::path top : {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup"}) {
      if (made() || !std::filesystem::create_directory(top / name, error_)) continue;
      group_ = top / name;
      if (exists(group_ / "cgroup.procs")) {                 // else it is an ordinary directory
        std::ofstream(group_ / "cpu.cfs_quota_us") << 1000;  // v1
        std::ofstream(group_ / "cpu.max") << "1000 100000";  // v2
      }
      std::string limit;
      std::ifstream(group_ / "cpu.cfs_quota_us") >> limit;
      std::ifstream(group_ / "cpu.max") >> limit;
      if (limit != "1000") remove();
    }
  }
  ~SmallCgroup() {
    if (made()) remove();
  }
  SmallCgroup(const SmallCgroup&) = delete;
  SmallCgroup& operator=(const SmallCgroup&) = delete;

  bool made() const { return !group_.empty(); }

  /// Whether `condition()` holds in a process there.
  template <class Condition>
  bool holds(const Condition& condition) const {
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      std::ofstream(group_ / "cgroup.procs") << getpid() << std::flush;
      _exit(condition() ? 0 : 1);
    }
    int status = -1;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

 private:
  /// A process that has ended leaves it a little later.
  void remove() {
    for (int tries = 0; tries < 1000 && !std::filesystem::remove(group_, error_) && exists(group_); ++tries)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    group_.clear();
  }

  std::filesystem::path group_;
  std::error_code error_;
};

}  // namespace smelt::test
