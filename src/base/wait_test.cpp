#include "base/wait.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "base/segment.hpp"

namespace smelt {
namespace {

constexpr WaitMode all_modes[] = {WaitMode::automatic, WaitMode::spin, WaitMode::yield, WaitMode::sleep};

WaitConfig config_of(WaitMode mode, double ranks_per_pu = 1.0) {
  WaitConfig config;
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

TEST(Monitor, IsFoundWhereTheKernelSeesIt) {
#if defined(__x86_64__)
  std::ifstream file("/proc/cpuinfo");
  const std::string info((std::istreambuf_iterator<char>(file)), {});
  if (info.empty()) GTEST_SKIP() << "no /proc/cpuinfo";
  EXPECT_EQ(wait_detail::has_monitor(), info.find(" waitpkg") != std::string::npos);
#endif
}

TEST(Monitor, RestEnds) {
  if (!wait_detail::has_monitor()) GTEST_SKIP() << "the CPU has no user-mode wait";
  alignas(8) std::uint64_t word = 0;
  wait_detail::rest(nullptr, [](void*) { return false; }, nullptr);
  wait_detail::rest(&word, [](void*) { return true; }, nullptr);
  wait_detail::rest(&word, [](void*) { return false; }, nullptr);
}

/// With this a lost wake-up hangs the test instead of costing one bounded sleep.
WaitConfig sleeping_long(WaitMode mode) {
  auto config = config_of(mode);
  config.longest_sleep_ns = 3'600'000'000'000;
  return config;
}

/// Two sides hand a counter to and fro; each hand-over may find the other about to sleep.
struct Court {
  Parking parking[2];
  alignas(separation_bytes) std::atomic<std::uint32_t> turn{0};
};

bool play(Court& court, std::uint32_t side, std::uint32_t turns, const WaitConfig& config) {
  enable_heavy_barrier();
  Waiter waiter(config);
  for (std::uint32_t turn = side; turn < turns; turn += 2) {
    const bool mine =
        waiter.wait([&] { return court.turn.load(std::memory_order_acquire) == turn; }, &court.parking[side]);
    if (!mine) return false;
    court.turn.store(turn + 1, std::memory_order_release);
    unpark(court.parking[1 - side]);
  }
  return true;
}

TEST(Parking, NoWakeUpIsLostBetweenThreads) {
  for (const auto mode : all_modes) {
    Court court;
    // A spinning side on a PU that it shares costs a time slice per turn.
    const std::uint32_t turns = mode == WaitMode::spin ? 500 : 5000;
    std::thread other([&] { EXPECT_TRUE(play(court, 1, turns, sleeping_long(mode))); });
    EXPECT_TRUE(play(court, 0, turns, sleeping_long(mode)));
    other.join();
    EXPECT_EQ(court.turn.load(), turns);
  }
}

/// Keeps the calling thread on the PU that it is on.
void stay_here() {
  cpu_set_t here;
  CPU_ZERO(&here);
  CPU_SET(static_cast<std::size_t>(sched_getcpu()), &here);
  ASSERT_EQ(sched_setaffinity(0, sizeof here, &here), 0);
}

// Two that yield to each other all the time sleep now and then, in the hope of another PU.
TEST(Parking, NoWakeUpIsLostOnOnePu) {
  Court court;
  constexpr std::uint32_t turns = 20'000;
  std::thread side([&] {
    stay_here();
    std::thread other([&] { EXPECT_TRUE(play(court, 1, turns, sleeping_long(WaitMode::automatic))); });
    EXPECT_TRUE(play(court, 0, turns, sleeping_long(WaitMode::automatic)));
    other.join();
  });
  side.join();
  EXPECT_EQ(court.turn.load(), turns);
}

TEST(Parking, NoWakeUpIsLostBetweenProcesses) {
  for (const auto mode : {WaitMode::automatic, WaitMode::sleep}) {
    auto segment = Segment::anonymous(sizeof(Court));
    ASSERT_TRUE(segment);
    auto* court = new (segment->data()) Court;
    auto config = sleeping_long(mode);
    config.across_processes = true;
    constexpr std::uint32_t turns = 2000;
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) _exit(play(*court, 1, turns, config) ? 0 : 1);
    EXPECT_TRUE(play(*court, 0, turns, config));
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(court->turn.load(), turns);
  }
}

TEST(Parking, WakesEveryoneWhoSleeps) {
  Parking parking;
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

TEST(Parking, FastPathLeavesTheWordAlone) {
  Parking parking;
  unpark(parking);
  EXPECT_EQ(parking.parked.load(), 0u);
  parking.parked = 1;
  unpark(parking);
  EXPECT_EQ(parking.parked.load(), 0u);
}

}  // namespace
}  // namespace smelt
