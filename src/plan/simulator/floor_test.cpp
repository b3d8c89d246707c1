// The floor is one: no candidate of any operation is predicted to be faster.
#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <string>
#include <vector>

#include "machine/test_support.hpp"
#include "plan/plan_test_util.hpp"
#include "smelt/schedule.hpp"

namespace smelt {
namespace {

using test::all_access;
using test::group_of;

constexpr std::size_t sizes[] = {1, 8, 56, 57, 1000, 4096, 65536, 1'000'000, 16u << 20};

/// With measured copies, so many times as dear: those of chunks, and all others.
Machine with_copies(const Machine& machine, double chunks, double others) {
  Machine measured = test::with_copies(machine);
  auto& copy = *measured.copy;
  for (std::size_t i = 0; i < machine.size(); ++i) {
    for (std::size_t j = 0; j < machine.size(); ++j) {
      copy.chunk_ns_per_kib(i, j) *= chunks;
      for (auto* costs : {&copy.cached_ns_per_kib, &copy.shared_ns_per_kib, &copy.memory_ns_per_kib}) {
        (*costs)(i, j) *= others;
      }
    }
  }
  return measured;
}

std::vector<Machine> machines() {
  std::vector<Machine> list;
  const auto add = [&](const std::string& name, const Machine& machine) {
    list.push_back(machine);
    list.back().name = name;
  };
  const Machine plain = *synthesize_machine({.packages = 2, .cores = 32, .l3 = 2, .jitter = 0.1});
  add("two packages", plain);
  add("two cores", *synthesize_machine({.cores = 2}));
  add("small cores of two threads", *synthesize_machine({.cores = 8, .smt = 2}));
  add("measured copies", with_copies(plain, 1.0, 1.0));
  add("dear chunks", with_copies(plain, 3.0, 1.0));
  add("copies dearer than channels", with_copies(plain, 40.0, 30.0));
  Machine sharing = with_copies(plain, 1.0, 1.0);
  sharing.combine_share = {1.0, 1.0, 1.5};
  sharing.chunk_contention = {1.0, 1.5, 2.0, 2.0, 2.0, 2.0, 2.0};
  sharing.rewrite_share = 0.5;
  add("dear sharing", sharing);
  Machine swift = plain;
  swift.exchange_ns = Matrix(plain.size());
  for (std::size_t i = 0; i < plain.size(); ++i) {
    for (std::size_t j = 0; j < plain.size(); ++j)
      (*swift.exchange_ns)(i, j) = i == j ? 0.0 : 0.6 * plain.recv_ns(i, j);
  }
  add("swift exchanges", swift);
  return list;
}

std::set<Operation> planned_operations() {
  std::set<Operation> operations;
  for (const auto& info : algorithms()) {
    if (info.operation != Operation::barrier) operations.insert(info.operation);
  }
  return operations;
}

/// The best predicted time over the floor.
double slack(const Machine& machine, int ranks, Operation operation, std::size_t bytes, bool processes, int root = 0) {
  const Group group = group_of(machine, ranks);
  const auto floor = schedule_floor(machine, group, operation, bytes, root);
  const auto ranked = rank_recipes(machine, group, operation, bytes, all_access, {.processes = processes}, root);
  EXPECT_TRUE(ranked) << ranked.error().message;
  double best_ns = std::numeric_limits<double>::infinity();
  for (const auto& [recipe, predicted_ns] : *ranked) {
    EXPECT_GE(predicted_ns * (1.0 + 1e-9), floor.total_ns())
        << machine.name << ", " << ranks << (processes ? " processes, " : " ranks, ") << to_string(recipe) << " of "
        << bytes << ": message " << floor.message_ns << ", work " << floor.work_ns;
    best_ns = std::min(best_ns, predicted_ns);
  }
  return best_ns / floor.total_ns();
}

class FloorOfGroups : public testing::TestWithParam<int> {};

TEST_P(FloorOfGroups, NobodyIsPredictedToBeFaster) {
  for (const auto& machine : machines()) {
    for (const auto operation : planned_operations()) {
      for (const std::size_t bytes : sizes) {
        if (GetParam() > 16 && bytes % 8 != 0) continue;  // many ranks take their time
        slack(machine, GetParam(), operation, bytes, false);
        if (GetParam() <= 8) slack(machine, GetParam(), operation, bytes, true, GetParam() / 2);
      }
    }
  }
}

// Two ranks share the work, however it is done: what is left over is messages, and reading what the other has put.
TEST(Floors, AreReachedByTwoRanksWithLongMessages) {
  const Machine machine = *synthesize_machine({.cores = 2});
  for (const auto operation : {Operation::broadcast, Operation::exscan, Operation::scan, Operation::allreduce,
                               Operation::scatter, Operation::gather, Operation::allgather, Operation::alltoall}) {
    EXPECT_LT(slack(machine, 2, operation, 16u << 20, false), 1.06) << to_string(operation);
    EXPECT_LT(slack(machine, 2, operation, 8, false), 1.05) << to_string(operation);
  }
}

TEST(Floors, KnowWhatMustMove) {
  const Machine machine = *synthesize_machine({.cores = 4});
  const Group group = whole_machine(machine);
  const auto moved = [&](Operation operation) { return schedule_floor(machine, group, operation, 100).moved_bytes; };
  EXPECT_EQ(moved(Operation::broadcast), 300.0);
  EXPECT_EQ(moved(Operation::gather), 300.0);
  EXPECT_EQ(moved(Operation::alltoall), 1200.0);
  EXPECT_EQ(moved(Operation::allreduce), 600.0);
  EXPECT_EQ(schedule_floor(machine, group, Operation::gather, 100).pus, 4);
  EXPECT_EQ(schedule_floor(machine, group, Operation::gather, 0).total_ns(), 0.0) << "nothing to do";
  EXPECT_EQ(schedule_floor(machine, Group{{1, 1}}, Operation::gather, 100).total_ns(), 0.0) << "on one PU";
}

// One far rank: the root cannot do without a message from there, nor the far one without one from somebody.
TEST(Floors, CountTheRankThatIsFarthestFromAll) {
  Machine machine = *synthesize_machine({.cores = 4});
  for (std::size_t i = 0; i < 3; ++i) {
    machine.send_ns(i, 3) = machine.send_ns(3, i) = 500.0;
    machine.recv_ns(i, 3) = machine.recv_ns(3, i) = 700.0;
  }
  const Group group = whole_machine(machine);
  for (const auto operation : planned_operations()) {
    EXPECT_GE(schedule_floor(machine, group, operation, 8).message_ns, 1200.0) << to_string(operation);
  }
}

#ifdef SMELT_SANITIZED  // 64 ranks take more than a minute
const auto rank_counts = testing::Values(2, 3, 8, 16);
#else
const auto rank_counts = testing::Values(2, 3, 8, 16, 64);
#endif
INSTANTIATE_TEST_SUITE_P(Ranks, FloorOfGroups, rank_counts, testing::PrintToStringParamName());

// Of classes, one pair each is looked at; cell by cell it is the same floor.
TEST(Floor, IsTheSameByClass) {
  for (const bool measured : {false, true}) {
    Machine by_class = *synthesize_machine({.packages = 2, .numa_per_package = 2, .cores = 160, .l3 = 4});
    ASSERT_NE(by_class.send_ns.classes(), nullptr);
    if (measured) {
      by_class.exchange_ns = by_class.send_ns;
      by_class.recv_gap_ns = by_class.recv_ns;
    }
    Machine full = by_class;
    for (Matrix* matrix : {&full.send_ns, &full.recv_ns}) (*matrix)(0, 0) = 0.0;  // writing turns it into one of cells
    ASSERT_EQ(full.send_ns.classes(), nullptr);
    Group group;
    for (int rank = 0; rank < 100; ++rank) group.pus.push_back(rank * 7 % 320);
    for (const Operation operation :
         {Operation::broadcast, Operation::reduce, Operation::allreduce, Operation::alltoall}) {
      for (const std::size_t bytes : {std::size_t{8}, std::size_t{4096}, std::size_t{1} << 20}) {
        const auto fast = schedule_floor(by_class, group, operation, bytes),
                   slow = schedule_floor(full, group, operation, bytes);
        EXPECT_EQ(fast.message_ns, slow.message_ns);
        EXPECT_EQ(fast.work_ns, slow.work_ns);
      }
    }
  }
}

}  // namespace
}  // namespace smelt
