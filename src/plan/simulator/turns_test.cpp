// Ranks that share PUs: their turns, worked out by hand, and loops of calls.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "machine/test_support.hpp"
#include "plan/plan_test_util.hpp"
#include "plan/simulator/run_queues.hpp"
#include "plan/simulator/simulate_schedule.hpp"

namespace smelt {
namespace {

using plan::RunQueues;
using plan::ScheduleSimulator;

constexpr double switch_ns = 1000.0;

/// Two PUs with messages so short that only switches count.
Machine quick_machine() {
  Machine machine = test::uniform_machine(2, 0.5, 0.5);
  machine.switch_ns = switch_ns;
  return machine;
}

// Ranks 0 and 2 share PU 0; rank 1 has PU 1.
TEST(RunQueues, TurnsGoRoundAndAPuRestsUntilItsFirstRankCanGoOn) {
  RunQueues queues;
  queues.restart(Group{{0, 1, 0}}, 2, 100.0, 0.0);
  ASSERT_TRUE(queues.choose());
  EXPECT_EQ(queues.current(), 0) << "both clocks are 0; the first PU acts";
  queues.worked(30.0);
  ASSERT_TRUE(queues.choose());
  EXPECT_EQ(queues.current(), 1) << "its clock is earlier";
  queues.waits(RunQueues::never_ns);
  ASSERT_TRUE(queues.choose());
  EXPECT_EQ(queues.current(), 0);
  queues.waits(RunQueues::never_ns);
  ASSERT_TRUE(queues.choose());
  EXPECT_EQ(queues.current(), 2);
  EXPECT_EQ(queues.clock(), 130.0);
  queues.waits(RunQueues::never_ns);
  EXPECT_FALSE(queues.choose()) << "nobody knows when to go on";
  // The turns begin at 230 (rank 0), 330 (rank 2), 430 (rank 0) ...
  queues.becomes_ready(2, 240.0);
  ASSERT_TRUE(queues.choose());
  EXPECT_EQ(queues.current(), 2);
  EXPECT_EQ(queues.clock(), 330.0);
  queues.leaves();
  queues.becomes_ready(1, 7.0);
  ASSERT_TRUE(queues.choose());
  EXPECT_EQ(queues.current(), 1);
  EXPECT_EQ(queues.clock(), 7.0) << "a rank alone looks all the time";
  queues.leaves();
  ASSERT_TRUE(queues.choose());
  EXPECT_EQ(queues.current(), 0);
  EXPECT_EQ(queues.clock(), 430.0);
}

TEST(RunQueues, WakesInTheTurnOfARankThatStillHasToWait) {
  RunQueues queues;
  queues.restart(Group{{0, 0, 0}}, 1, 100.0, 0.0);
  for (int rank = 0; rank < 3; ++rank) {
    ASSERT_TRUE(queues.choose());
    EXPECT_EQ(queues.current(), rank);
    queues.waits(rank == 1 ? 310.0 : RunQueues::never_ns);
  }
  // Turns begin at 300 (rank 0), 400 (1).
  ASSERT_TRUE(queues.choose());
  EXPECT_EQ(queues.current(), 1);
  EXPECT_EQ(queues.clock(), 400.0);
}

TEST(RunQueues, ALateRankCostsNoTurns) {
  RunQueues queues;
  queues.restart(Group{{0, 0}}, 1, 100.0, 0.0);
  ASSERT_TRUE(queues.choose());
  queues.waits(5000.0, false);
  ASSERT_TRUE(queues.choose());
  EXPECT_EQ(queues.current(), 1);
  EXPECT_EQ(queues.clock(), 0.0);
}

// The root sends and leaves; the other rank on its PU has its turn then.
TEST(Turns, ABroadcastOnOnePuIsOneSwitch) {
  Machine machine = quick_machine();
  const Group group{{0, 0}};
  const auto request = *make_request(machine, group, *parse_recipe("broadcast_tree"));
  const auto times = simulate(machine, group, request, 8);
  ASSERT_TRUE(times);
  EXPECT_GT(times->total_ns, switch_ns);
  EXPECT_LT(times->total_ns, 1.05 * switch_ns);
  EXPECT_LT(times->finish_ns[0], 0.05 * switch_ns);
}

// The last rank to come opens the barrier and goes on, without a switch. With r ranks on one PU the others are r - 1
// switches. On two PUs the last one is on either, so that a PU makes r - 1 or r, and the time of a switch passes before
// the other PU sees it, half of it in the mean.
TEST(Turns, BarriersInALoopShareTheirSwitches) {
  const Machine machine = quick_machine();
  const auto switches = [&](std::vector<int> pus) {
    const Group group{std::move(pus)};
    return *ScheduleSimulator(machine, group, {}).run_barriers() / switch_ns;
  };
  EXPECT_NEAR(switches({0, 0}), 1.0, 0.05);
  EXPECT_NEAR(switches({0, 0, 0, 0}), 3.0, 0.1);
  EXPECT_NEAR(switches({0, 1, 0, 1}), 1.5, 0.15);
  EXPECT_NEAR(switches({0, 1, 0, 1, 0, 1, 0, 1}), 3.5, 0.2);
}

// A loop of broadcasts is one of sends: the receivers take several at a time, or a barrier synchronizes them.
TEST(Turns, CallsInALoopShareTheirSwitches) {
  const Machine machine = quick_machine();
  for (const int ranks : {4, 8}) {
    const Group group = test::group_of(machine, ranks);
    ScheduleSimulator simulator(machine, group, {});
    const double barrier_ns = *simulator.run_barriers();
    for (const char* name : {"broadcast_tree", "reduce_tree", "scatter_linear", "gather_linear"}) {
      const auto request = *make_request(machine, group, *parse_recipe(name));
      const double alone_ns = simulate(machine, group, request, 8)->total_ns;
      EXPECT_LT(*simulator.run_loop(request, 8, 1, false), alone_ns) << name;
      const double synchronized_ns = *simulator.run_loop(request, 8, 1, true);
      EXPECT_GE(synchronized_ns, 0.95 * barrier_ns) << name;
      EXPECT_LT(synchronized_ns, alone_ns + barrier_ns) << name;
    }
    // An allreduce through stages is a barrier with data.
    const auto request = *make_request(machine, group, *parse_recipe("allreduce_flat+staged"));
    EXPECT_NEAR(*simulator.run_loop(request, 8, 1, false), barrier_ns, 0.25 * barrier_ns);
  }
}

// Whatever was simulated before: a simulator is used for many recipes.
TEST(Turns, ALoopLeavesNothingBehind) {
  const Machine machine = test::with_copies(quick_machine());
  const Group group = test::group_of(machine, 6);
  const auto request = *make_request(machine, group, *parse_recipe("allreduce_slices+direct+chunk=4096"));
  ScheduleSimulator simulator(machine, group, {});
  const auto once = [&] { return (**simulator.run(request, 100'000, 8, {}, RunQueues::never_ns)).total_ns; };
  const double before = once();
  const double loop = *simulator.run_loop(request, 100'000, 8, true);
  EXPECT_EQ(*simulator.run_loop(request, 100'000, 8, true), loop);
  EXPECT_EQ(once(), before);
  EXPECT_EQ(before, simulate(machine, group, request, 100'000, 8)->total_ns);
}

// The ranks of a PU share its caches: long buffers that fit one by one do not fit together.
TEST(Turns, RanksOfAPuShareItsCaches) {
  Machine machine = test::with_copies(quick_machine());
  machine.switch_ns = 0.0;
  const double cached = machine.copy->cached_bytes;
  const auto time = [&](int ranks, double bytes) {
    const Group group = test::group_of(machine, ranks);
    const auto request = *make_request(machine, group, *parse_recipe("alltoall_flat+direct"));
    const auto block = static_cast<std::size_t>(bytes) / static_cast<std::size_t>(ranks);
    return simulate(machine, group, request, block)->total_ns;
  };
  Machine slow = machine;
  std::swap(machine, slow);
  for (auto* rate : {&machine.copy->shared_ns_per_kib, &machine.copy->memory_ns_per_kib}) {
    for (std::size_t i = 0; i < 2; ++i) {
      for (std::size_t j = 0; j < 2; ++j) (*rate)(i, j) *= 10.0;
    }
  }
  const double two_slow = time(2, 0.9 * cached), four_slow = time(4, 0.9 * cached);
  std::swap(machine, slow);
  EXPECT_DOUBLE_EQ(time(2, 0.9 * cached), two_slow);
  EXPECT_GT(four_slow, 1.1 * time(4, 0.9 * cached));
}

}  // namespace
}  // namespace smelt
