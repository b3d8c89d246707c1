// For tests: mounts of their own, such as a /dev/shm that no other program uses.
#pragma once

#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace smelt::test {

/// Gives the calling process, which must have a single thread, mounts that nobody else sees, as this user. False where
/// that is not permitted.
inline bool have_own_mounts() {
  if (unshare(CLONE_NEWNS) != 0) {
    const auto user = std::to_string(geteuid()), group = std::to_string(getegid());
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
    std::ofstream("/proc/self/uid_map") << user << ' ' << user << " 1";
    std::ofstream("/proc/self/setgroups") << "deny";
    std::ofstream("/proc/self/gid_map") << group << ' ' << group << " 1";
  }
  return mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

/// The same, with an empty /dev/shm. `size`: as tmpfs(5) takes it, such as "1m".
inline bool have_own_dev_shm(const char* size) {
  const std::string option = std::string("size=") + size;
  return have_own_mounts() && mount("none", "/dev/shm", "tmpfs", 0, option.c_str()) == 0;
}

}  // namespace smelt::test
