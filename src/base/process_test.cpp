#include "base/process.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace smelt {
namespace {

TEST(Process, IsTheCallingOneAlsoAfterAFork) {
  const auto self = ProcessId::self();
  ASSERT_TRUE(self);
  EXPECT_EQ(self->pid, getpid());
  EXPECT_EQ(life_of(*self), Life::alive);
  const pid_t child = fork();
  if (child == 0) {
    const auto own = ProcessId::self();
    _exit(own && own->pid == getpid() && own->start_ticks >= self->start_ticks ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(Process, IsDeadAsAZombieAndWhenAnotherHasItsPid) {
  const auto self = ProcessId::self();
  EXPECT_EQ(life_of({self->pid, self->start_ticks + 1}), Life::dead);
  const pid_t child = fork();
  if (child == 0) _exit(0);
  siginfo_t info = {};
  waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);
  EXPECT_EQ(life_of({child, self->start_ticks}), Life::dead);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(life_of({child, self->start_ticks}), Life::dead);
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
