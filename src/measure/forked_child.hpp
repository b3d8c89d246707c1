// A child process that timings need: pinned, without a trace in the program that measures.
#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

namespace smelt::measure {

/// Runs body() in a forked process on one PU, and ends it with this object. It sends no signal when it ends, so that
/// the program's handling of its children does not notice it. The body may use only system calls and memory, since
/// locks of other threads may be held in the copy of the process.
class ForkedChild {
 public:
  template <class Body>
  ForkedChild(int os_index, Body&& body) {
    pid_ = static_cast<pid_t>(syscall(SYS_clone, 0L, 0L, 0L, 0L, 0L));
    // qemu-user has no children without that signal.
    if (pid_ < 0 && errno == EINVAL) pid_ = static_cast<pid_t>(syscall(SYS_clone, long{SIGCHLD}, 0L, 0L, 0L, 0L));
    if (pid_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    unsigned long mask[65536 / (8 * sizeof(unsigned long))] = {};
    const auto bit = static_cast<std::size_t>(os_index);
    mask[bit / (8 * sizeof mask[0])] |= 1ul << bit % (8 * sizeof mask[0]);
    syscall(SYS_sched_setaffinity, 0, sizeof mask, mask);
    body();
    _exit(0);
  }
  ForkedChild(const ForkedChild&) = delete;
  ForkedChild& operator=(const ForkedChild&) = delete;
  ~ForkedChild() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    while (waitpid(pid_, nullptr, __WALL) < 0 && errno == EINTR) {}
  }

  /// Below 0 if there is no child; errno says why.
  pid_t pid() const noexcept { return pid_; }

 private:
  pid_t pid_ = -1;
};

}  // namespace smelt::measure
