// Ranks that read out of the same caches, worked out by hand, and rows of receives after a wait.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "machine/test_support.hpp"
#include "plan/plan_test_util.hpp"
#include "plan/simulator/simulate_schedule.hpp"
#include "smelt/schedule.hpp"

namespace smelt {
namespace {

constexpr std::size_t block = 4096;
constexpr double kib = block / 1024.0;

/// A machine on which nothing but copies of long data takes time: 100 ns and 25 ns a KiB.
Machine copying_machine(std::size_t pus) {
  Machine machine = test::with_copies(test::uniform_machine(pus, 0.001, 0.001));
  CopyCosts& copy = *machine.copy;
  copy.chunk_bytes = 16384;
  copy.cached_bytes = 1 << 20;
  copy.shared_bytes = 1 << 22;
  copy.memory_bytes = 1 << 24;
  copy.startup_ns = Matrix(pus, 0.0);
  for (auto* rates :
       {&copy.chunk_ns_per_kib, &copy.cached_ns_per_kib, &copy.shared_ns_per_kib, &copy.memory_ns_per_kib}) {
    *rates = Matrix(pus, 25.0);
  }
  for (auto* slower : {&copy.cached_contention, &copy.shared_contention, &copy.memory_contention}) {
    slower->assign(slower->size(), 1.0);
  }
  return machine;
}

double total_ns(const Machine& machine, const char* recipe, std::size_t bytes, int ranks) {
  Group group;
  for (int rank = 0; rank < ranks; ++rank) group.pus.push_back(rank);
  const auto request = make_request(machine, group, *parse_recipe(recipe));
  EXPECT_TRUE(request);
  return simulate(machine, group, *request, bytes)->total_ns;
}

/// How much longer a recipe takes than where caches hand out any number of lines at once.
double more_ns(const Machine& machine, const char* recipe, std::size_t bytes, int ranks) {
  Machine unaware = machine;
  unaware.source_ns_per_kib.reset();
  return total_ns(machine, recipe, bytes, ranks) - total_ns(unaware, recipe, bytes, ranks);
}

TEST(Sources, ReadersOfOneCacheShareWhatItHandsOut) {
  Machine machine = copying_machine(5);
  // Four readers need 4 x 20 ns a KiB, alone each needs 25.
  machine.source_ns_per_kib = 20.0;
  EXPECT_NEAR(more_ns(machine, "scatter_flat+direct", block, 5), kib * (4 * 20.0 - 25.0), 0.1);
  EXPECT_NEAR(more_ns(machine, "scatter_flat+direct", block, 3), kib * (2 * 20.0 - 25.0), 0.1);
  EXPECT_EQ(more_ns(machine, "scatter_flat+direct", block, 2), 0.0) << "one reader";
  machine.source_ns_per_kib = 6.0;
  EXPECT_NEAR(more_ns(machine, "scatter_flat+direct", block, 5), 0.0, 0.1) << "as fast as all of them";
  // A short read has all of its lines on the way at once: one after the other, which ends at the same time.
  machine.source_ns_per_kib = 20.0;
  EXPECT_NEAR(more_ns(machine, "scatter_flat+direct", 1024, 5), 4 * 20.0 - 25.0, 0.1);
}

TEST(Sources, TheFirstCacheHandsOutMoreSlowly) {
  Machine machine = copying_machine(5);
  machine.source_ns_per_kib = 20.0;
  machine.near_source_ns_per_kib = 40.0;
  machine.near_bytes = 5 * block;
  EXPECT_NEAR(more_ns(machine, "scatter_flat+direct", block, 5), kib * (4 * 40.0 - 25.0), 0.1);
  // Half of what it has written lies there.
  machine.near_source_ns_per_kib = 60.0;
  machine.near_bytes = 5 * block / 2;
  EXPECT_NEAR(more_ns(machine, "scatter_flat+direct", block, 5), kib * (4 * 30.0 - 25.0), 0.1);
}

// A PU's caches hold twice cached_bytes of what it wrote last. The rest is read elsewhere.
TEST(Sources, OfLongBuffersTheLastPartIsInTheCaches) {
  Machine machine = copying_machine(5);
  machine.source_ns_per_kib = 20.0;
  constexpr std::size_t long_block = 1 << 20;  // 2 of 5 MiB are there: 8 of 20 ns a KiB
  EXPECT_NEAR(more_ns(machine, "scatter_flat+direct", long_block, 5), 1024.0 * (4 * 8.0 - 25.0), 1.0);
  EXPECT_NEAR(more_ns(machine, "scatter_flat+direct", 4 * long_block, 5), 0.0, 1.0) << "2 of 20 MiB";
  EXPECT_NEAR(more_ns(machine, "scatter_flat+direct", long_block / 4, 5), 256.0 * (4 * 20.0 - 25.0), 1.0) << "all";
}

// In rank order all read out of one PU at a time. Those at the end have read as much by then as their caches hold.
TEST(Sources, WhatAPuHasReadItselfTakesThePlaceOfWhatItWrote) {
  Machine machine = copying_machine(5);
  machine.source_ns_per_kib = 20.0;
  const auto more_per_kib = [&](std::size_t bytes) {
    return more_ns(machine, "reduce_scatter_flat+direct", bytes, 5) / (static_cast<double>(bytes) / 1024);
  };
  EXPECT_LT(more_per_kib(1 << 18), 0.9 * more_per_kib(1 << 14));
}

// All but the first come to what that one has fetched into the last-level cache.
TEST(Sources, WhatOthersHaveReadIsReadOnlyOnce) {
  Machine machine = copying_machine(5);
  machine.source_ns_per_kib = 20.0;
  EXPECT_NEAR(more_ns(machine, "broadcast_flat+direct", block, 5), 0.0, 0.1);
  // Of a block that another rank has read before, the first KiB are not dearer than the others.
  machine.copy->chunk_ns_per_kib = Matrix(5, 100.0);
  machine.copy->cached_ns_per_kib = Matrix(5, 25.0);
  EXPECT_LT(more_ns(machine, "allgather_flat+direct", block, 5), -kib * 75.0);
}

// Each rank reads from another one: no cache has two readers.
TEST(Sources, RanksInStepDoNotDisturbEachOther) {
  Machine machine = copying_machine(5);
  machine.source_ns_per_kib = 20.0;
  EXPECT_NEAR(more_ns(machine, "alltoall_flat+direct", block, 5), 0.0, 0.1);
  // In rank order all begin with the same one.
  EXPECT_GT(more_ns(machine, "reduce_scatter_flat+direct", block, 5), kib * 20.0);
}

/// How much longer a recipe of processes takes than where the kernel does not count who uses a page.
double more_by_pages_ns(const Machine& machine, const char* recipe, int ranks, bool processes = true) {
  Group group;
  for (int rank = 0; rank < ranks; ++rank) group.pus.push_back(rank);
  const auto request = make_request(machine, group, *parse_recipe(recipe));
  EXPECT_TRUE(request);
  Machine unaware = machine;
  unaware.process_pages_ns_per_kib.reset();
  const Reach reach{.processes = processes};
  return simulate(machine, group, *request, block, 1, reach)->total_ns -
         simulate(unaware, group, *request, block, 1, reach)->total_ns;
}

TEST(Sources, ProcessesReadTheSamePagesOneAfterTheOther) {
  Machine machine = copying_machine(5);
  machine.copy->process = ProcessCopyCosts{0.0, 0.0};
  machine.process_pages_ns_per_kib = 30.0;
  EXPECT_NEAR(more_by_pages_ns(machine, "broadcast_flat+direct", 5), kib * (4 * 30.0 - 25.0), 0.1);
  EXPECT_NEAR(more_by_pages_ns(machine, "broadcast_flat+direct", 3), kib * (2 * 30.0 - 25.0), 0.1);
  EXPECT_EQ(more_by_pages_ns(machine, "broadcast_flat+direct", 2), 0.0) << "one reader";
  EXPECT_NEAR(more_by_pages_ns(machine, "scatter_flat+direct", 5), 0.0, 0.1) << "other pages";
  EXPECT_NEAR(more_by_pages_ns(machine, "broadcast_flat+staged", 5), 0.0, 0.1) << "not by the kernel";
  EXPECT_NEAR(more_by_pages_ns(machine, "broadcast_flat+direct", 5, false), 0.0, 0.1) << "threads";
  // What a cache hands out limits them less, as they read the same; in a scatter it is the only limit.
  machine.source_ns_per_kib = 20.0;
  EXPECT_NEAR(more_by_pages_ns(machine, "broadcast_flat+direct", 5), kib * (4 * 30.0 - 25.0), 0.1);
  EXPECT_NEAR(more_by_pages_ns(machine, "scatter_flat+direct", 5), 0.0, 0.1);
}

TEST(Sources, TimesAreNoShorterThanTheLeastOfEachRank) {
  Machine machine = copying_machine(6);
  machine.copy->process = ProcessCopyCosts{50.0, 10.0};
  machine.process_pages_ns_per_kib = 30.0;
  machine.source_ns_per_kib = 20.0;
  machine.near_source_ns_per_kib = 40.0;
  machine.near_bytes = 4 * block;
  Group group{{0, 1, 2, 3, 4, 5}};
  const auto check = [&](const Recipe& recipe, const Reach& reach) {
    const auto request = make_request(machine, group, recipe);
    ASSERT_TRUE(request) << to_string(recipe);
    const double ns = simulate(machine, group, *request, block, 8, reach)->total_ns;
    plan::ScheduleSimulator simulator(machine, group, reach);
    for (int rank = 0; rank < 6; ++rank) {
      EXPECT_LE(simulator.program_of(*request, block, 8, rank).least_ns(), ns * 1.000001) << to_string(recipe);
    }
  };
  for (int number = 0; number < operation_count; ++number) {
    const auto operation = static_cast<Operation>(number);
    if (operation == Operation::barrier || operation == Operation::two_phase_commit) continue;
    for (const auto& recipe : candidate_recipes(operation, 6, block, test::all_access)) {
      for (const bool processes : {false, true}) {
        for (const bool at_rest : {false, true}) check(recipe, {.processes = processes, .at_rest = at_rest});
      }
    }
  }
}

// Inputs that others have read are dearer to write again, but not a whole call.
TEST(Sources, LoopsWriteTheirInputs) {
  Machine machine = copying_machine(4);
  const Group group{{0, 1, 2, 3}};
  const auto inputs_ns = [&](const char* recipe) {
    const auto request = make_request(machine, group, *parse_recipe(recipe));
    return plan::ScheduleSimulator(machine, group, {}).inputs_ns(*request, block, 8);
  };
  EXPECT_EQ(inputs_ns("alltoall_flat+direct"), 0.0) << "not known";
  machine.change_ns_per_kib = 10.0;
  EXPECT_NEAR(inputs_ns("alltoall_flat+direct"), 3 * kib * 10.0, 1e-9) << "its own block it reads itself";
  EXPECT_NEAR(inputs_ns("allgather_flat+direct"), kib * 10.0, 1e-9) << "the same block";
  EXPECT_NEAR(inputs_ns("gather_linear+direct"), kib * 10.0, 1e-9) << "it tells the root where it lies";
  EXPECT_EQ(inputs_ns("alltoall_flat+staged"), 0.0) << "others read the stage";
}

// The result of recursive doubling is read by partners, and dearer to write in the next call.
TEST(Sources, ResultsThatRanksLendAreWrittenAgain) {
  Machine machine = copying_machine(4);
  const double before_ns = total_ns(machine, "allgather_recursive_doubling+direct", block, 4);
  machine.rewrite_share = 0.5;
  EXPECT_NEAR(total_ns(machine, "allgather_recursive_doubling+direct", block, 4) - before_ns, 2 * kib * 0.5 * 25.0,
              0.1);
}

/// Two ranks on each of two PUs. What copies on a PU read or write: the root's four blocks, to or from the block of the
/// rank beside it, too; four blocks of each in an alltoall.
TEST(SharedCaches, HoldTheBlocksThatTheirRanksHave) {
  Machine machine = copying_machine(2);
  machine.copy->memory_ns_per_kib = Matrix(2, 100.0);
  constexpr std::size_t long_block = 1 << 21;
  Group group;
  group.pus = {0, 0, 1, 1};
  const auto longest_ns = [&](const char* recipe) {
    const auto request = *make_request(machine, group, *parse_recipe(recipe));
    plan::ScheduleSimulator simulator(machine, group, {});
    double longest = 0.0;
    for (const auto& op : simulator.program_of(request, long_block, 1, 2).body) {
      longest = std::max({longest, op.stream_ns, op.line_ns, op.after_ns});
    }
    return longest;
  };
  EXPECT_NEAR(longest_ns("scatter_linear+direct"), copy_ns(machine, 0, 1, 4 * long_block, 1) / 4, 1.0);
  EXPECT_NEAR(longest_ns("alltoall_flat+direct"), copy_ns(machine, 0, 1, 8 * long_block, 2) / 8, 1.0);
}

/// Messages of 100 ns, and 20 ns for each line after the first. Ranks fetch lines 1.5 times as slowly if two of them do
/// so at once, and 2 times if four do.
TEST(ChannelLines, AreFetchedMoreSlowlyByManyRanksAtOnce) {
  Machine machine = test::uniform_machine(4, 10.0, 30.0);
  machine.propagation_ns = Matrix(4, 60.0);
  machine.lines_ns = {100.0, 120.0};
  Machine contended = machine;
  contended.chunk_contention = {1.0, 1.5, 2.0};
  const auto longer_ns = [&](const char* recipe, std::size_t bytes, int ranks) {
    return total_ns(contended, recipe, bytes, ranks) - total_ns(machine, recipe, bytes, ranks);
  };
  constexpr std::size_t two_lines = 112;
  EXPECT_NEAR(longer_ns("broadcast_tree+channels", 56, 2), 0.0, 1e-9) << "one line";
  EXPECT_NEAR(longer_ns("broadcast_tree+channels", two_lines, 2), 0.5 * 20, 1e-9);
  // Rank 1 receives one block of rank 0 at once; rank 0 that of rank 1 as well.
  EXPECT_NEAR(longer_ns("allgather_recursive_doubling+channels", two_lines, 2), 0.5 * 20, 1e-9);
  // Three of four copy. Rank 2 receives a block, and sends the root two, as one of two messages of two blocks at most.
  EXPECT_NEAR(longer_ns("gather_binomial+channels", two_lines, 4), 0.75 * 20 + 0.5 * 60, 1e-9);
  EXPECT_NEAR(longer_ns("gather_linear+channels", two_lines, 4), 0.0, 1e-9) << "the root receives alone";
  contended.chunk_contention = {1.0, 0.5, 0.5};
  EXPECT_NEAR(longer_ns("broadcast_tree+channels", two_lines, 2), 0.0, 1e-9) << "never faster than alone";
  contended.chunk_contention = {1.0, 1.5, 2.0};
  Group shared;
  shared.pus = {0, 0};
  const auto request = *make_request(machine, shared, *parse_recipe("broadcast_tree+channels"));
  EXPECT_DOUBLE_EQ(simulate(contended, shared, request, two_lines)->total_ns,
                   simulate(machine, shared, request, two_lines)->total_ns)
      << "ranks that share a PU take turns";
}

// All send at once. The root waits for the first; the lines of the next it has to wait for as well.
TEST(ReceiveRows, BeginAnewAfterAWait) {
  Machine machine = test::uniform_machine(5, 10.0, 30.0);
  machine.propagation_ns = Matrix(5, 60.0);
  machine.recv_gap_ns = Matrix(5, 5.0);
  machine.lines_ns = {100.0, 120.0};
  const auto ns = [&](int ranks) { return total_ns(machine, "gather_linear+channels", 8, ranks); };
  EXPECT_NEAR(ns(5) - ns(2), 3 * 5.0, 1.0);
  machine.recv_row_ns = {100.0, 80.0, 20.0};
  EXPECT_NEAR(ns(3) - ns(2), 80.0, 1.0);
  EXPECT_NEAR(ns(4) - ns(2), 80.0 + 20.0, 1.0);
  EXPECT_NEAR(ns(5) - ns(2), 80.0 + 20.0 + 5.0, 1.0) << "further ones as before";
  // Messages that take twice as long.
  machine.lines_ns = {50.0, 60.0};
  EXPECT_NEAR(ns(4) - ns(2), 2 * (80.0 + 20.0), 1.0);
}

}  // namespace
}  // namespace smelt
