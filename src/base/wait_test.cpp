#include "base/wait.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "base/cgroup.hpp"
#include "base/clock.hpp"
#include "base/segment.hpp"
#include "base/small_cgroup_test_util.hpp"

namespace smelt::wait_test {
thread_local int yields = 0;
thread_local bool yields_take_long = false;
thread_local bool others_run = false;
thread_local bool yields_take_the_quota = false;
}  // namespace smelt::wait_test

/// Stands before the C library's: counts, and takes as long as a time slice, or until the CPU quota is used up, if it
/// is told to.
extern "C" int sched_yield() noexcept {
  ++smelt::wait_test::yields;
  for (const auto start = smelt::monotonic_ns();
       smelt::wait_test::yields_take_long &&
       smelt::monotonic_ns() - start < 2 * smelt::PuContention::shared_slice_ns;) {}
  if (smelt::wait_test::yields_take_the_quota) {
    const auto before = smelt::throttled_time(), start = smelt::monotonic_ns();
    while (smelt::throttled_time() == before && smelt::monotonic_ns() - start < 20'000'000'000) {}
  }
  return static_cast<int>(syscall(SYS_sched_yield));
}

/// Says that each yield has let somebody else run, or none.
extern "C" int getrusage(__rusage_who_t, rusage* usage) noexcept {
  *usage = {};
  usage->ru_nivcsw = smelt::wait_test::others_run ? smelt::wait_test::yields : 0;
  return 0;
}

namespace smelt {
namespace {

using wait_test::others_run;
using wait_test::yields;
using wait_test::yields_take_long;

constexpr WaitMode all_modes[] = {WaitMode::automatic, WaitMode::spin, WaitMode::yield, WaitMode::sleep};

/// For a process that is never stopped, whatever this one's cgroup does.
WaitConfig config_of(WaitMode mode, double ranks_per_pu = 1.0) {
  WaitConfig config;
  config.throttled = []() noexcept { return std::uint64_t{0}; };
  config.mode = mode;
  config.ranks_per_pu = ranks_per_pu;
  return config;
}

TEST(WaitMode, ParsesItsNamesOnly) {
  EXPECT_EQ(parse_wait_mode("auto"), WaitMode::automatic);
  EXPECT_EQ(parse_wait_mode("spin"), WaitMode::spin);
  EXPECT_EQ(parse_wait_mode("yield"), WaitMode::yield);
  EXPECT_EQ(parse_wait_mode("sleep"), WaitMode::sleep);
  for (const char* text : {"", "Auto", "spinning", " spin"}) EXPECT_EQ(parse_wait_mode(text), std::nullopt);
}

TEST(WaitConfig, TakesArgumentThenEnvironmentThenDefault) {
  setenv("SMELT_WAIT", "yield", 1);
  EXPECT_EQ(make_wait_config(2, 2, "sleep").mode, WaitMode::sleep);
  EXPECT_EQ(make_wait_config(2, 2).mode, WaitMode::yield);
  setenv("SMELT_WAIT", "nonsense", 1);
  EXPECT_EQ(make_wait_config(2, 2).mode, WaitMode::automatic);
  unsetenv("SMELT_WAIT");
  EXPECT_EQ(make_wait_config(2, 2).mode, WaitMode::automatic);
}

TEST(WaitConfig, IsForThreadsThatHaveAPuEach) {
  const WaitConfig config;
  EXPECT_EQ(config.mode, WaitMode::automatic);
  EXPECT_EQ(config.ranks_per_pu, 1.0);
  EXPECT_FALSE(config.across_processes || config.slices_are_ours || config.wakes_by_rmw);
  EXPECT_EQ(config.yield_suppression, nullptr);
  EXPECT_EQ(config.awake_ns, 0u);
  EXPECT_FALSE(make_wait_config(2, 2).across_processes);
  EXPECT_TRUE(make_wait_config(2, 2, {}, true).across_processes);
}

TEST(WaitConfig, KnowsHowManyShareAPu) {
  EXPECT_EQ(make_wait_config(64, 2).ranks_per_pu, 32.0);
  EXPECT_EQ(make_wait_config(2, 2).ranks_per_pu, 1.0);
  EXPECT_EQ(make_wait_config(1, 8).ranks_per_pu, 1.0);
  EXPECT_EQ(make_wait_config(3, 0).ranks_per_pu, 3.0);
}

TEST(Waiter, ReturnsAtOnceWhenReady) {
  for (const auto mode : all_modes) {
    Waiter waiter(config_of(mode));
    Parking parking;
    EXPECT_TRUE(waiter.wait([] { return true; }, &parking));
    EXPECT_EQ(parking.parked.load(), 0u);
  }
}

TEST(Waiter, PausesBetweenPolls) {
  const Waiter waiter;
  EXPECT_GE(wait_detail::pauses_between_polls, 1u);
  EXPECT_LE(wait_detail::pauses_between_polls, 32u);  // of a nanosecond each
}

TEST(Waiter, InterruptEndsEveryMode) {
  for (const auto mode : all_modes) {
    for (const double share : {1.0, 8.0}) {
      Waiter waiter(config_of(mode, share));
      int calls = 0;
      waiter.set_interrupt([](void* count) { return ++*static_cast<int*>(count) == 3; }, &calls);
      Parking parking;
      EXPECT_FALSE(waiter.wait([] { return false; }, &parking));
      EXPECT_EQ(calls, 3);
    }
  }
}

// However long the thread is kept from running.
TEST(Waiter, CallsItsInterruptRarely) {
  for (const auto mode : {WaitMode::automatic, WaitMode::spin, WaitMode::yield}) {
    auto config = config_of(mode);
    config.awake_ns = 3'600'000'000'000;
    Waiter waiter(config);
    int calls = 0;
    waiter.set_interrupt(
        [](void* count) {
          ++*static_cast<int*>(count);
          return false;
        },
        &calls);
    const auto start = monotonic_ns();
    EXPECT_TRUE(waiter.wait([&] {
      const auto since = monotonic_ns() - start;
      return since >= 10'000'000'000 || (calls > 0 && since >= 20'000'000);
    }));
    EXPECT_GE(calls, 1);
    EXPECT_LE(static_cast<std::uint64_t>(calls), (monotonic_ns() - start) / 20'000 * 5 / 4 + 1);
  }
}

// Also while the interrupt function is not due.
TEST(Waiter, PollsAtEveryTurn) {
  struct Calls {
    std::uint64_t interrupts = 0, polls = 0;
  };
  for (const auto mode : {WaitMode::spin, WaitMode::yield}) {
    Calls calls;
    Waiter waiter(config_of(mode));
    waiter.set_interrupt(
        [](void* of) {
          ++static_cast<Calls*>(of)->interrupts;
          return false;
        },
        &calls,
        [](void* of) {
          ++static_cast<Calls*>(of)->polls;
          return false;
        });
    std::uint64_t turns = 0;
    EXPECT_TRUE(waiter.wait([&] { return ++turns == 5000; }));
    EXPECT_GE(calls.polls, 5000 / 8 - 64);  // one in eight looks at the condition, after those that are inlined
    EXPECT_LE(calls.interrupts, calls.polls);
  }
}

TEST(Waiter, SleepsShortlyWhileThereIsMoreToPoll) {
  for (const bool more : {false, true}) {
    bool left = more;
    Waiter waiter(config_of(WaitMode::sleep));
    waiter.set_interrupt([](void*) { return false; }, &left, [](void* left) { return *static_cast<bool*>(left); });
    std::vector<std::uint64_t> longest;
    EXPECT_TRUE(waiter.wait_or_sleep([&] { return longest.size() == 3; },
                                     [&](std::uint64_t longest_ns) { longest.push_back(longest_ns); }));
    EXPECT_EQ(longest, std::vector<std::uint64_t>(3, more ? 20'000 : waiter.config().longest_sleep_ns));
  }
}

TEST(Waiter, StaysAwakeWhileThereIsMoreToPoll) {
  auto config = config_of(WaitMode::automatic);
  config.slices_are_ours = true;  // else it would sleep where other programs need the PU
  config.awake_ns = 1;
  Waiter waiter(config);
  int polls = 0, polls_before_sleep = 0;
  waiter.set_interrupt([](void*) { return false; }, &polls,
                       [](void* polls) { return ++*static_cast<int*>(polls) < 1000; });
  EXPECT_TRUE(
      waiter.wait_or_sleep([&] { return polls_before_sleep > 0; }, [&](std::uint64_t) { polls_before_sleep = polls; }));
  EXPECT_GE(polls_before_sleep, 1000);
}

// Nor do short waits call it more often, except those in which the thread was kept from running.
TEST(Waiter, CallsItsInterruptRarelyDuringShortWaits) {
  Waiter waiter(config_of(WaitMode::spin));
  std::uint64_t calls = 0, allowed = 2;
  waiter.set_interrupt(
      [](void* count) {
        ++*static_cast<std::uint64_t*>(count);
        return false;
      },
      &calls);
  const auto start = monotonic_ns();
  for (auto now = start; now - start < 50'000'000;) {
    int polls_left = 72;  // the last few are not inlined
    EXPECT_TRUE(waiter.wait([&] { return --polls_left <= 0; }));
    const auto end = monotonic_ns();
    allowed += (end - now) * 5 / 4 >= 20'000 ? 1 : 0;  // it is asked once in eight polls
    now = end;
  }
  EXPECT_LE(calls, allowed + (monotonic_ns() - start) / 20'000'000 * 5 / 4);
}

// Each wait is over after some polls, or as soon as it has slept once.
TEST(Waiter, CallsItsInterruptDuringShortWaitsToo) {
  for (const auto mode : all_modes) {
    Waiter waiter(config_of(mode));
    int calls = 0;
    waiter.set_interrupt([](void* count) { return ++*static_cast<int*>(count) == 2; }, &calls);
    const auto deadline = monotonic_ns() + 10'000'000'000;
    bool completed = true;
    while (completed && monotonic_ns() < deadline) {
      int polls_left = 100;
      completed = waiter.wait_or_sleep([&] { return --polls_left <= 0; }, [&](std::uint64_t) { polls_left = 0; });
    }
    EXPECT_FALSE(completed);
    EXPECT_EQ(calls, 2);
  }
}

TEST(Waiter, WaitsWithoutParkingToo) {
  for (const auto mode : all_modes) {
    std::atomic<bool> flag{false};
    std::thread setter([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      flag.store(true, std::memory_order_release);
    });
    Waiter waiter(config_of(mode));
    EXPECT_TRUE(waiter.wait([&] { return flag.load(std::memory_order_acquire); }));
    setter.join();
  }
}

// 50, 100, ... 800 us, then 1 ms each.
TEST(Waiter, NapsLongerEachTimeUpToAMillisecond) {
  Waiter waiter(config_of(WaitMode::sleep));
  int polls_left = 5 + 40;  // the first five before the first nap
  const auto start = monotonic_ns();
  EXPECT_TRUE(waiter.wait([&] { return --polls_left <= 0; }));
  EXPECT_GE(monotonic_ns() - start, 31 * 50'000u + 35 * 1'000'000u);
}

TEST(Waiter, StaysAwakeAsLongAsItIsToldTo) {
  YieldSuppression yield_suppression;
  auto config = config_of(WaitMode::automatic);
  config.yield_suppression = &yield_suppression;
  config.slices_are_ours = true;  // else it may sleep earlier
  config.awake_ns = 20'000'000;
  Waiter waiter(config);
  bool slept = false;
  const auto start = ticks();
  EXPECT_TRUE(waiter.wait_or_sleep([&] { return slept; }, [&](std::uint64_t) { slept = true; }));
  EXPECT_GE(static_cast<double>(ticks() - start) + 1, 20'000'000 * rough_ticks_per_ns());
}

/// Where each yield takes as long as a time slice: how many a wait makes before it sleeps, or until it has made
/// `enough`.
int yields_before_sleep(WaitConfig config, int enough, bool to_others) {
  YieldSuppression yield_suppression;
  if (config.yield_suppression == nullptr) config.yield_suppression = &yield_suppression;
  yields_take_long = true;
  others_run = to_others;
  Waiter waiter(config);
  const int before = yields;
  bool slept = false;
  EXPECT_TRUE(
      waiter.wait_or_sleep([&] { return slept || yields - before >= enough; }, [&](std::uint64_t) { slept = true; }));
  EXPECT_TRUE(slept || yields - before >= enough) << "back before its time";
  yields_take_long = others_run = false;
  return yields - before;
}

TEST(Waiter, LongYieldsWithoutContextSwitchDoNotCount) {
  auto config = config_of(WaitMode::automatic);
  config.awake_ns = 3'600'000'000'000;
  EXPECT_EQ(yields_before_sleep(config, 20, false), 20);
}

TEST(Waiter, SleepsOnceYieldsCostTimeSlices) {
  for (const double share : {1.0, 8.0}) {
    auto config = config_of(WaitMode::automatic, share);
    config.awake_ns = 3'600'000'000'000;
    EXPECT_EQ(yields_before_sleep(config, 1000, true), 2);
  }
}

// A quota that is used up stops all threads of the process.
TEST(Waiter, LongYieldsInWhichTheProcessWasStoppedDoNotCount) {
  auto config = config_of(WaitMode::automatic);
  config.awake_ns = 3'600'000'000'000;
  config.throttled = []() noexcept { return static_cast<std::uint64_t>(yields); };
  EXPECT_EQ(yields_before_sleep(config, 20, true), 20);
  // One that was stopped at times shares its PU as well.
  config.throttled = []() noexcept { return static_cast<std::uint64_t>(yields / 3); };
  EXPECT_LT(yields_before_sleep(config, 1000, true), 1000);
}

TEST(Waiter, FindsOutItselfThatItWasStopped) {
  test::SmallCgroup group;
  if (!group.made()) GTEST_SKIP() << "no right to make a cgroup with a quota";
  EXPECT_TRUE(group.holds([] {
    auto config = config_of(WaitMode::automatic);
    config.awake_ns = 3'600'000'000'000;
    config.throttled = nullptr;
    wait_test::yields_take_the_quota = true;
    return yields_before_sleep(config, 5, true) == 5;
  }));
}

// What is waited for has not happened yet when a yield is over: nobody was late.
TEST(Waiter, KeepsYieldingWithoutEvents) {
  const std::atomic<std::uint64_t> happened{0};
  auto config = config_of(WaitMode::automatic, 8.0);
  config.awake_ns = 3'600'000'000'000;
  config.happened = &happened;
  EXPECT_EQ(yields_before_sleep(config, 20, true), 20);
}

/// Where waiters read when what they wait for happened.
enum class EventFrom { event, other_waiters };

/// Waits whose condition becomes true in the first yield of each, `early_ns` before it is over.
bool yields_after_waits(std::uint64_t early_ns, EventFrom from = EventFrom::event) {
  YieldSuppression yield_suppression;
  std::atomic<std::uint64_t> happened{0};
  auto config = config_of(WaitMode::automatic, 8.0);
  config.awake_ns = 3'600'000'000'000;
  if (from == EventFrom::event) {
    config.happened = &happened;
  } else {
    config.wait_began = &happened;
  }
  config.yield_suppression = &yield_suppression;
  Waiter waiter(config);
  yields_take_long = others_run = true;
  for (int i = 0; i < 4; ++i) {
    const int before = yields;
    bool slept = false;
    const std::uint64_t start = ticks();
    const auto over = [&] {
      if (yields == before) return slept;
      if (i == 0 && from == EventFrom::other_waiters) {
        EXPECT_GE(happened, start) << "this waiter has not noted when it began";
      }
      happened = ticks() - static_cast<std::uint64_t>(static_cast<double>(early_ns) * rough_ticks_per_ns());
      return true;
    };
    EXPECT_TRUE(waiter.wait_or_sleep(over, [&](std::uint64_t) { slept = true; }));
  }
  yields_take_long = others_run = false;
  return !yield_suppression.recent(static_cast<std::uint64_t>(static_cast<double>(ticks()) / rough_ticks_per_ns()));
}

TEST(Waiter, AYieldCostsItsDelayAfterTheEvent) {
  EXPECT_TRUE(yields_after_waits(0));
  EXPECT_FALSE(yields_after_waits(2 * PuContention::shared_slice_ns));
}

TEST(Waiter, AYieldCostsItsDelayAfterOthersBeganToWait) {
  EXPECT_TRUE(yields_after_waits(0, EventFrom::other_waiters));
  EXPECT_FALSE(yields_after_waits(2 * PuContention::shared_slice_ns, EventFrom::other_waiters));
}

std::uint64_t now_of_waiters() {
  return static_cast<std::uint64_t>(static_cast<double>(ticks()) / rough_ticks_per_ns());
}

TEST(Waiter, KeepsYieldingToThreadsOfTheSameTeam) {
  YieldSuppression yield_suppression;
  auto config = config_of(WaitMode::automatic, 8.0);
  config.awake_ns = 3'600'000'000'000;
  config.slices_are_ours = true;
  config.yield_suppression = &yield_suppression;
  EXPECT_EQ(yields_before_sleep(config, 10, true), 10);
  EXPECT_FALSE(yield_suppression.recent(now_of_waiters()));  // it says nothing to others
}

TEST(Waiter, YieldSuppressionOfOtherWaitersIsRespected) {
  YieldSuppression yield_suppression;
  yield_suppression.begin(now_of_waiters(), YieldSuppression::longest_ns);
  auto config = config_of(WaitMode::automatic, 8.0);
  config.awake_ns = 3'600'000'000'000;
  config.yield_suppression = &yield_suppression;
  EXPECT_EQ(yields_before_sleep(config, 10, true), 0);
  config.slices_are_ours = true;
  EXPECT_EQ(yields_before_sleep(config, 10, true), 10);
}

/// Waits that only sleep ends, in a yield suppression: how many of them have looked more than once before.
int waits_that_looked_around(int waits, double ranks_per_pu) {
  YieldSuppression yield_suppression;
  yield_suppression.begin(now_of_waiters(), YieldSuppression::longest_ns);
  auto config = config_of(WaitMode::automatic, ranks_per_pu);
  config.yield_suppression = &yield_suppression;
  Waiter waiter(config);
  int around = 0;
  for (int i = 0; i < waits; ++i) {
    bool slept = false;
    int looks = 0;
    EXPECT_TRUE(waiter.wait_or_sleep(
        [&] {
          looks += slept ? 0 : 1;
          return slept;
        },
        [&](std::uint64_t) { slept = true; }));
    EXPECT_TRUE(slept) << "back before its time";
    around += looks > 1 ? 1 : 0;
  }
  return around;
}

TEST(Waiter, SuppressedItSleepsAtOnceIfSpinningDoesNotHelp) {
  EXPECT_GE(waits_that_looked_around(100, 1.0), 1);  // it tries
  EXPECT_LE(waits_that_looked_around(100, 1.0), 7);
  EXPECT_LE(waits_that_looked_around(100, 8.0), 7);
}

TEST(Waiter, SuppressedItSpinsAsLongAsThatHelps) {
  YieldSuppression yield_suppression;
  yield_suppression.begin(now_of_waiters(), YieldSuppression::longest_ns);
  auto config = config_of(WaitMode::automatic);
  config.yield_suppression = &yield_suppression;
  Waiter waiter(config);
  int sleeps = 0;
  for (int i = 0; i < 100; ++i) {
    int looks = 0;
    bool slept = false;
    // More than the first polls; every tenth longer than any spinning.
    EXPECT_TRUE(waiter.wait_or_sleep([&] { return slept || (i % 10 != 0 && ++looks > 100); },
                                     [&](std::uint64_t) {
                                       slept = true;
                                       ++sleeps;
                                     }));
  }
  EXPECT_LE(sleeps, 30);  // a hypervisor may take the PU away, too
}

TEST(Waiter, YieldsForEverIfToldTo) { EXPECT_EQ(yields_before_sleep(config_of(WaitMode::yield), 10, true), 10); }

TEST(Monitor, IsFoundWhereTheKernelSeesIt) {
#if defined(__aarch64__)
  EXPECT_EQ(wait_detail::has_monitor(), (getauxval(AT_HWCAP) & HWCAP_EVTSTRM) != 0);
#elif defined(__x86_64__)
  std::ifstream file("/proc/cpuinfo");
  const std::string info((std::istreambuf_iterator<char>(file)), {});
  if (info.empty()) GTEST_SKIP() << "no /proc/cpuinfo";
  EXPECT_EQ(wait_detail::has_monitor(), info.find(" waitpkg") != std::string::npos);
#endif
}

TEST(Monitor, RestEnds) {
  if (!wait_detail::has_monitor()) GTEST_SKIP() << "the CPU has no user-mode wait";
  alignas(8) std::uint64_t word = 0;
  wait_detail::rest(
      nullptr, [](void*) { return false; }, nullptr);
  wait_detail::rest(
      &word, [](void*) { return true; }, nullptr);
  wait_detail::rest(
      &word, [](void*) { return false; }, nullptr);
}

/// With this a lost wake-up hangs the test instead of costing one bounded sleep.
WaitConfig sleeping_long(WaitMode mode) {
  auto config = config_of(mode);
  config.longest_sleep_ns = 3'600'000'000'000;
  return config;
}

/// Two sides hand a counter to and fro; each hand-over may find the other about to sleep.
struct PingPong {
  Parking parking[2];
  alignas(separation_bytes) std::atomic<std::uint32_t> turn{0};
};

bool take_turns(PingPong& ping_pong, std::uint32_t side, std::uint32_t turns, const WaitConfig& config) {
  enable_heavy_barrier();
  Waiter waiter(config);
  for (std::uint32_t turn = side; turn < turns; turn += 2) {
    const bool mine =
        waiter.wait([&] { return ping_pong.turn.load(std::memory_order_acquire) == turn; }, &ping_pong.parking[side]);
    if (!mine) return false;
    ping_pong.turn.store(turn + 1, std::memory_order_release);
    auto& partner = ping_pong.parking[1 - side];
    config.wakes_by_rmw ? unpark_by_rmw(partner) : unpark(partner);
  }
  return true;
}

TEST(Parking, NoWakeUpIsLostBetweenThreads) {
  for (const auto mode : all_modes) {
    PingPong ping_pong;
    // A spinning side on a PU that it shares costs a time slice per turn.
    const std::uint32_t turns = mode == WaitMode::spin ? 500 : 5000;
    std::thread other([&] { EXPECT_TRUE(take_turns(ping_pong, 1, turns, sleeping_long(mode))); });
    EXPECT_TRUE(take_turns(ping_pong, 0, turns, sleeping_long(mode)));
    other.join();
    EXPECT_EQ(ping_pong.turn.load(), turns);
  }
}

/// Keeps the calling thread on the PU that it is on.
void stay_here() {
  cpu_set_t here;
  CPU_ZERO(&here);
  CPU_SET(static_cast<std::size_t>(sched_getcpu()), &here);
  ASSERT_EQ(sched_setaffinity(0, sizeof here, &here), 0);
}

TEST(Parking, NoWakeUpIsLostWithWakingByReadModifyWrite) {
  auto config = sleeping_long(WaitMode::sleep);
  config.wakes_by_rmw = true;
  constexpr std::uint32_t turns = 20'000;
  PingPong ping_pong;
  std::thread other([&] { EXPECT_TRUE(take_turns(ping_pong, 1, turns, config)); });
  EXPECT_TRUE(take_turns(ping_pong, 0, turns, config));
  other.join();
  EXPECT_EQ(ping_pong.turn.load(), turns);
}

/// Two sides count by turns in one word, which a sleeper changes, too, before it sleeps.
TEST(Parking, NoWakeUpIsLostIfBothSidesChangeTheWord) {
  constexpr std::uint32_t turns = 100'000;
  struct {
    Parking parking{{}, FutexScope::threads};
    alignas(separation_bytes) std::atomic<std::uint32_t> turn{0};
  } shared;
  const auto side = [&shared](std::uint32_t me) {
    Waiter waiter(sleeping_long(WaitMode::sleep));
    for (std::uint32_t turn = me; turn < turns; turn += 2) {
      EXPECT_TRUE(waiter.wait_or_sleep(
          [&] { return shared.turn.load(std::memory_order_acquire) >= turn; },
          [&](std::uint64_t longest_ns) {
            park_unless([&] { return shared.turn.fetch_add(0, std::memory_order_acq_rel) >= turn; }, shared.parking,
                        longest_ns);
          }));
      shared.turn.fetch_add(1, std::memory_order_acq_rel);
      unpark(shared.parking);
    }
  };
  std::thread other(side, 1u);
  side(0);
  other.join();
  EXPECT_EQ(shared.turn.load(), turns);
}

// Two that yield to each other all the time sleep now and then, in the hope of another PU.
TEST(Parking, NoWakeUpIsLostOnOnePu) {
  PingPong ping_pong;
  constexpr std::uint32_t turns = 20'000;
  std::thread side([&] {
    stay_here();
    std::thread other([&] { EXPECT_TRUE(take_turns(ping_pong, 1, turns, sleeping_long(WaitMode::automatic))); });
    EXPECT_TRUE(take_turns(ping_pong, 0, turns, sleeping_long(WaitMode::automatic)));
    other.join();
  });
  side.join();
  EXPECT_EQ(ping_pong.turn.load(), turns);
}

TEST(Parking, NoWakeUpIsLostBetweenProcesses) {
  for (const auto mode : {WaitMode::automatic, WaitMode::sleep}) {
    auto segment = Segment::anonymous(sizeof(PingPong));
    ASSERT_TRUE(segment);
    auto* ping_pong = new (segment->data()) PingPong;
    auto config = sleeping_long(mode);
    config.across_processes = true;
    constexpr std::uint32_t turns = 2000;
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) _exit(take_turns(*ping_pong, 1, turns, config) ? 0 : 1);
    EXPECT_TRUE(take_turns(*ping_pong, 0, turns, config));
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(ping_pong->turn.load(), turns);
  }
}

class Sleepers : public testing::TestWithParam<FutexScope> {};

TEST_P(Sleepers, AreAllWoken) {
  Parking parking{{}, GetParam()};
  std::atomic<bool> flag{false};
  std::atomic<int> woken{0};
  std::vector<std::thread> sleepers;
  for (int i = 0; i < 16; ++i) {
    sleepers.emplace_back([&] {
      Waiter waiter(sleeping_long(WaitMode::sleep));
      if (waiter.wait([&] { return flag.load(std::memory_order_acquire); }, &parking)) ++woken;
    });
  }
  enable_heavy_barrier();
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  flag.store(true, std::memory_order_release);
  unpark(parking);
  for (auto& sleeper : sleepers) sleeper.join();
  EXPECT_EQ(woken.load(), 16);
}
INSTANTIATE_TEST_SUITE_P(Parking, Sleepers, testing::Values(FutexScope::processes, FutexScope::threads));

// A sleeper that has looked once more and is about to sleep: its wake-up passes, and another waiter, with a condition
// of its own, marks the word again before the first one gets to the kernel.
TEST(Parking, AnotherSleeperDoesNotHideAWakeUp) {
  for (const bool firm : {false, true}) {
    enable_heavy_barrier();
    auto config = sleeping_long(WaitMode::sleep);
    config.wakes_by_rmw = firm;
    const auto wake = [&](Parking& parking) { firm ? unpark_by_rmw(parking) : unpark(parking); };
    const auto marked = [](const Parking& parking) { return (parking.parked.load() & Parking::asleep) != 0; };
    Parking parking;
    std::atomic<bool> first{false}, second{false};
    std::thread other;
    Waiter waiter(config);
    EXPECT_TRUE(waiter.wait(
        [&] {
          if (first.load(std::memory_order_acquire)) return true;
          if (!marked(parking)) return false;
          first.store(true, std::memory_order_release);
          wake(parking);
          other = std::thread([&] {
            Waiter late(config);
            EXPECT_TRUE(late.wait([&] { return second.load(std::memory_order_acquire); }, &parking));
          });
          while (!marked(parking)) std::this_thread::yield();
          return false;  // as it was seen before all that
        },
        &parking));
    second.store(true, std::memory_order_release);
    wake(parking);
    other.join();
  }
}

TEST(Parking, FastPathLeavesTheWordAlone) {
  Parking parking;
  unpark(parking);
  EXPECT_EQ(parking.parked.load(), 0u);
  parking.parked = Parking::asleep;
  unpark(parking);
  EXPECT_EQ(parking.parked.load(), 2u);
  for (auto* wake : {&unpark, &unpark_by_rmw}) {
    (*wake)(parking);
    EXPECT_EQ(parking.parked.load(), 2u);
  }
}

}  // namespace
}  // namespace smelt
