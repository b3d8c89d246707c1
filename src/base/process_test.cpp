#include "base/process.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ctime>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

namespace smelt {
namespace {

constexpr int failed = 1, skipped = 2;

/// What `body` returns in a child.
template <class Body>
int in_child(const Body& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

std::uint64_t ticks_since_boot() {
  timespec now = {};
  clock_gettime(CLOCK_BOOTTIME, &now);
  const auto per_s = static_cast<std::uint64_t>(sysconf(_SC_CLK_TCK));
  return static_cast<std::uint64_t>(now.tv_sec) * per_s +
         static_cast<std::uint64_t>(now.tv_nsec) * per_s / 1'000'000'000;
}

TEST(Process, IsTheCallingOneAlsoAfterAFork) {
  const auto self = ProcessId::self();
  ASSERT_TRUE(self);
  EXPECT_EQ(self->pid, getpid());
  EXPECT_EQ(liveness_of(*self), Liveness::alive);
  const auto before = ticks_since_boot();
  EXPECT_GT(self->start_ticks, 0u);
  EXPECT_LE(self->start_ticks, before);
  EXPECT_EQ(in_child([&] {
              const auto own = ProcessId::self();
              if (!own || own->pid != getpid() || liveness_of(*own) != Liveness::alive) return failed;
              return own->start_ticks + 1 >= before && own->start_ticks <= ticks_since_boot() ? 0 : failed;
            }),
            0);
}

/// Longer than so many ticks of the clock of starting times.
void pause_ticks(unsigned ticks) { usleep((ticks + 1) * 1'000'000 / static_cast<unsigned>(sysconf(_SC_CLK_TCK))); }

// An emulator in user mode makes up what /proc/self/stat says, for a child the same as for its parent.
TEST(Process, IsTheSameOneToOthersAsToItself) {
  ASSERT_TRUE(ProcessId::self());
  pause_ticks(3);
  int pipes[2];
  ASSERT_EQ(pipe2(pipes, O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto own = ProcessId::self();
    const std::uint64_t word = own ? own->packed() : 0;
    if (write(pipes[1], &word, sizeof word) == sizeof word) pause();
    _exit(failed);
  }
  close(pipes[1]);
  std::uint64_t word = 0;
  EXPECT_EQ(read(pipes[0], &word, sizeof word), static_cast<ssize_t>(sizeof word));
  EXPECT_EQ(ProcessId::unpacked(word).pid, child);
  EXPECT_EQ(liveness_of(ProcessId::unpacked(word)), Liveness::alive);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(liveness_of(ProcessId::unpacked(word)), Liveness::dead);
  close(pipes[0]);
}

/// Asks the kernel to give the next process that pid. Needs the right to.
bool ask_for(pid_t pid) {
  const int file = open("/proc/sys/kernel/ns_last_pid", O_WRONLY | O_CLOEXEC);
  if (file < 0) return false;
  const std::string text = std::to_string(pid - 1);
  const bool asked = write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(file);
  return asked;
}

// A process, its child that ends, and that one's child in turn, which is given the pid of the first one: what it
// inherits in memory is about its grandparent.
TEST(Process, IsNotTheAncestorThatHadItsPid) {
  const auto as_grandchild = [](const ProcessId& ancestor) {
    pause_ticks(3);
    for (int attempt = 0; attempt < 20; ++attempt) {
      if (!ask_for(ancestor.pid)) return skipped;
      const int result = in_child([&] {
        if (getpid() != ancestor.pid) return skipped;
        const auto own = ProcessId::self();
        return own && own->start_ticks > ancestor.start_ticks && liveness_of(*own) == Liveness::alive &&
                       liveness_of(ancestor) == Liveness::dead
                   ? 0
                   : failed;
      });
      if (result != skipped) return result;
    }
    return skipped;
  };
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t ancestor = fork();
  if (ancestor == 0) {
    const ProcessId self = *ProcessId::self();
    if (fork() == 0) {
      while (kill(self.pid, 0) == 0) usleep(1000);  // until it has been waited for
      const char result = static_cast<char>(as_grandchild(self));
      _exit(write(ends[1], &result, 1) == 1 ? 0 : 1);
    }
    _exit(0);
  }
  waitpid(ancestor, nullptr, 0);
  char result = failed;
  EXPECT_EQ(read(ends[0], &result, 1), 1);
  close(ends[0]);
  close(ends[1]);
  if (result == skipped) GTEST_SKIP() << "this process may not choose the pids of others";
  EXPECT_EQ(result, 0);
}

TEST(Process, IsDeadAsAZombieAndWhenAnotherHasItsPid) {
  const auto self = ProcessId::self();
  // Of this process's pid, but not this process: the way of all others.
  EXPECT_EQ(liveness_of({self->pid, self->start_ticks + 1}), Liveness::dead);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto own = *ProcessId::self();
    const bool told = write(ends[1], &own, sizeof own) == static_cast<ssize_t>(sizeof own);
    pause();
    _exit(told ? 0 : 1);
  }
  ProcessId other;
  ASSERT_EQ(read(ends[0], &other, sizeof other), static_cast<ssize_t>(sizeof other));
  EXPECT_EQ(liveness_of(other), Liveness::alive);
  EXPECT_EQ(liveness_of({other.pid, other.start_ticks + 1}), Liveness::dead);
  kill(child, SIGKILL);
  siginfo_t info = {};
  waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);
  EXPECT_EQ(liveness_of(other), Liveness::dead) << "a zombie";
  waitpid(child, nullptr, 0);
  EXPECT_EQ(liveness_of(other), Liveness::dead) << "nobody";
  close(ends[0]);
  close(ends[1]);
}

// Its other threads go on: the process lives.
TEST(Process, LivesWithoutItsFirstThread) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    std::thread([&] {
      const auto own = *ProcessId::self();
      for (char state = 0; state != 'Z'; usleep(1000)) {
        std::ifstream file("/proc/self/stat");
        const std::string text((std::istreambuf_iterator<char>(file)), {});
        state = text[text.rfind(')') + 2];
      }
      (void)!write(ends[1], &own, sizeof own);
      pause();
    }).detach();
    syscall(SYS_exit, 0);  // of this thread alone
  }
  ProcessId other;
  ASSERT_EQ(read(ends[0], &other, sizeof other), static_cast<ssize_t>(sizeof other));
  EXPECT_EQ(liveness_of(other), Liveness::alive);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(liveness_of(other), Liveness::dead);
  close(ends[0]);
  close(ends[1]);
}

// Where /proc does not show it, nobody says that it is dead, and it is not disturbed.
TEST(Process, IsOfUnknownLifeWhereProcIsNotMounted) {
  const auto self = *ProcessId::self();
  const int result = in_child([&] {
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0 || mount("none", "/proc", "tmpfs", 0, nullptr) != 0) return skipped;
    if (liveness_of(self) != Liveness::unknown) return failed;
    const ProcessId nobody{(1 << 22) - 1, 1};
    return kill(nobody.pid, 0) != 0 && liveness_of(nobody) != Liveness::dead ? failed : 0;
  });
  if (result == skipped) GTEST_SKIP() << "no namespace to hide /proc in";
  EXPECT_EQ(result, 0);
}

// The same for a process that may not be signalled. It belongs to another user where this one may choose that.
TEST(Process, IsOfUnknownLifeWhereNeitherProcNorSignalsReachIt) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t other = fork();
  if (other == 0) {
    const int changed = setuid(54321);
    if (write(ends[1], &changed, sizeof changed) < 0) _exit(1);
    for (;;) pause();
  }
  int changed = 0;
  ASSERT_EQ(read(ends[0], &changed, sizeof changed), static_cast<ssize_t>(sizeof changed));
  const int result = in_child([&] {
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0 || mount("none", "/proc", "tmpfs", 0, nullptr) != 0) return skipped;
    return liveness_of({other, 1}) == Liveness::unknown ? 0 : failed;
  });
  kill(other, SIGKILL);
  waitpid(other, nullptr, 0);
  close(ends[0]);
  close(ends[1]);
  if (result == skipped) GTEST_SKIP() << "no namespace to hide /proc in";
  EXPECT_EQ(result, 0);
}

TEST(Process, IsPackedAndUnpacked) {
  for (const ProcessId each : {ProcessId{1, 1}, ProcessId{(1 << 22) - 1, 0}, ProcessId{12345, (1ull << 40) - 1}}) {
    EXPECT_EQ(ProcessId::unpacked(each.packed()), each);
    EXPECT_EQ(each.packed() >> ProcessId::packed_bits, 0u);
  }
  EXPECT_EQ(ProcessId{}.packed(), 0u);
}

}  // namespace
}  // namespace smelt
