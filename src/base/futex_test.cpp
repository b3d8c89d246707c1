#include "base/futex.hpp"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/membarrier.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <iterator>
#include <thread>

#include "base/clock.hpp"

namespace smelt {
namespace {

class Futexes : public testing::TestWithParam<FutexScope> {};
INSTANTIATE_TEST_SUITE_P(Futex, Futexes, testing::Values(FutexScope::processes, FutexScope::threads));

TEST_P(Futexes, SleepAsLongAsTheyAreToldTo) {
  const std::atomic<std::uint32_t> word{7};
  for (const std::uint64_t timeout_ns : {std::uint64_t{0}, std::uint64_t{20'000'000}, std::uint64_t{1'050'000'000}}) {
    const auto start = monotonic_ns();
    futex_wait(word, 7, timeout_ns, GetParam());
    EXPECT_GE(monotonic_ns() - start, timeout_ns);
    EXPECT_LT(monotonic_ns() - start, timeout_ns + 10'000'000'000);
  }
}

TEST_P(Futexes, DoNotSleepOnAnotherValue) {
  const std::atomic<std::uint32_t> word{7};
  futex_wait(word, 8, no_timeout, GetParam());
}

TEST_P(Futexes, SleepUntilTheyAreWoken) {
  std::atomic<std::uint32_t> word{0};
  std::atomic<int> through{0};
  std::vector<std::thread> sleepers;
  for (int i = 0; i < 3; ++i) {
    sleepers.emplace_back([&] {
      while (word.load() == 0) futex_wait(word, 0, no_timeout, GetParam());
      ++through;
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(through, 0);
  word = 1;
  futex_wake(word, GetParam());
  for (auto& sleeper : sleepers) sleeper.join();
  EXPECT_EQ(through, 3);
}

#if __has_include(<sys/single_threaded.h>)
TEST(HeavyBarrier, IsRegisteredWhenTheLibraryIsLoaded) {
  const long offered = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
  for (const int command : {MEMBARRIER_CMD_PRIVATE_EXPEDITED, MEMBARRIER_CMD_GLOBAL_EXPEDITED}) {
    if (offered < 0 || (offered & command) == 0) GTEST_SKIP() << "this kernel has no expedited membarrier(2)";
    EXPECT_EQ(syscall(SYS_membarrier, command, 0, 0), 0);
  }
}
#endif

TEST(HeavyBarrier, ExistsIfTheKernelOffersIt) {
  const long offered = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
  const auto has = [&](int command) { return offered >= 0 && (offered & command) != 0; };
  enable_heavy_barrier();
  EXPECT_EQ(heavy_barrier(false), has(MEMBARRIER_CMD_PRIVATE_EXPEDITED));
  EXPECT_EQ(heavy_barrier(true), has(MEMBARRIER_CMD_GLOBAL_EXPEDITED));
}

// From now on the kernel refuses this process that command of membarrier(2). False if it cannot be told to.
bool refuse_membarrier(unsigned command) {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args)),  // the lower half: little-endian
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, command, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{static_cast<unsigned short>(std::size(program)), program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

// What the barriers say in a child that has registered for both but is refused `command`: bit 0 within the process,
// bit 1 across; `unable` if the child cannot be refused it.
constexpr int unable = 4;
int barriers_without(unsigned command) {
  const pid_t child = fork();
  if (child == 0) {
    if (!refuse_membarrier(command)) _exit(unable);
    _exit((heavy_barrier(false) ? 1 : 0) | (heavy_barrier(true) ? 2 : 0));
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(HeavyBarrier, IsNoneWhereTheKernelRefusesIt) {
  enable_heavy_barrier();
  if (!heavy_barrier(false) || !heavy_barrier(true)) GTEST_SKIP() << "this kernel has no expedited membarrier(2)";
  const int across_only = barriers_without(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
  if (across_only == unable) GTEST_SKIP() << "system calls cannot be filtered here";
  EXPECT_EQ(across_only, 2);
  EXPECT_EQ(barriers_without(MEMBARRIER_CMD_GLOBAL_EXPEDITED), 1);
}

}  // namespace
}  // namespace smelt
