// The floor is one: no candidate of any operation is predicted to be faster.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "machine/test_support.hpp"
#include "plan/plan_test_util.hpp"
#include "plan/schedule/lowering.hpp"
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
  for (const Operation one_way : {Operation::scatter, Operation::reduce, Operation::scan, Operation::exscan}) {
    EXPECT_EQ(moved(one_way), 300.0) << to_string(one_way);
  }
  EXPECT_EQ(moved(Operation::allgather), 1200.0);
  EXPECT_EQ(moved(Operation::reduce_scatter), 1200.0);
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

/// Whether what `to` ends with depends on what `from` had.
bool needs_what_another_has(Operation operation, int to, int from, int root) {
  switch (operation) {
    case Operation::broadcast:
    case Operation::scatter: return from == root;
    case Operation::reduce:
    case Operation::gather: return to == root;
    case Operation::scan:
    case Operation::exscan: return from < to;
    default: return true;
  }
}

// One rank whose messages take long, or who is reached late: that counts if somebody needs what it has, or if it needs
// something.
TEST(Floors, CountWhoMustTellAndWhoMustHear) {
  constexpr int ranks = 5;
  constexpr double late_ns = 1000.0;
  for (int late = 0; late < ranks; ++late) {
    Machine slow_to_tell = test::uniform_machine(ranks, 10.0, 10.0), slow_to_hear = slow_to_tell;
    for (int other = 0; other < ranks; ++other) {
      const auto i = static_cast<std::size_t>(late), j = static_cast<std::size_t>(other);
      if (late == other) continue;
      slow_to_tell.send_ns(i, j) = late_ns;
      slow_to_hear.recv_ns(j, i) = late_ns;
    }
    for (const auto operation : planned_operations()) {
      for (int root = 0; root < ranks; ++root) {
        bool tells = false, hears = false;
        for (int other = 0; other < ranks; ++other) {
          tells |= other != late && needs_what_another_has(operation, other, late, root);
          hears |= other != late && needs_what_another_has(operation, late, other, root);
        }
        const auto counts = [&](const Machine& machine) {
          return schedule_floor(machine, whole_machine(machine), operation, 8, root).message_ns >= late_ns;
        };
        EXPECT_EQ(counts(slow_to_tell), tells) << to_string(operation) << ", rank " << late << ", root " << root;
        EXPECT_EQ(counts(slow_to_hear), hears) << to_string(operation) << ", rank " << late << ", root " << root;
      }
    }
  }
}

// ---- the same by hand, pair by pair ---------------------------------------------------------

/// The floor of a group of all PUs of a machine, by the rules in floor.cpp.
class FloorByHand {
 public:
  FloorByHand(const Machine& machine, Operation operation, std::size_t bytes, int root)
      : machine_(machine),
        operation_(operation),
        bytes_(static_cast<double>(bytes)),
        root_(static_cast<std::size_t>(root)) {
    whole_ = bytes_ * (has_rank_blocks(operation) ? n() : 1.0);
    copiers_ = plan::copiers_of(operation, static_cast<int>(machine.size()));
  }

  double message_ns() const {
    double most = 0.0;
    for (std::size_t rank = 0; rank < machine_.size(); ++rank) {
      double heard = 1e300, told = 1e300;
      for (std::size_t other = 0; other < machine_.size(); ++other) {
        if (other == rank) continue;
        heard = std::min(heard, one(other, rank));
        told = std::min(told, one(rank, other));
      }
      if (hears(rank)) most = std::max(most, heard);
      if (tells(rank)) most = std::max(most, told);
    }
    return most;
  }

  double work_ns() const {
    double move = 1e300, combine = 1e300, keep = 1e300, again = 1e300;
    for (std::size_t to = 0; to < machine_.size(); ++to) {
      keep = std::min(keep, copied(to, to));
      again = std::min(again, (rate(to, to) + least(to, to, copiers_)) / 2);
      for (std::size_t from = 0; from < machine_.size(); ++from) {
        if (from == to) continue;
        const double streamed = line(from, to) / 56.0;
        const double at_once = machine_.combine_share.empty() ? add(to) : 0.0;
        move = std::min({move, copied(from, to), streamed});
        combine =
            std::min({combine, streamed + least(to, to, 1) + add(to),
                      std::max(least(from, to, copiers_) + at_once, std::min(rate(to, to), rate(from, to) + at_once))});
      }
    }
    const double others = (n() - 1) * bytes_;
    switch (operation_) {
      case Operation::broadcast: return others * move / n();
      case Operation::scatter:
      case Operation::gather: return (others * move + bytes_ * keep) / n();
      case Operation::allgather: return (n() * others * std::min(move, again) + n() * bytes_ * keep) / n();
      case Operation::alltoall: return (n() * others * move + n() * bytes_ * keep) / n();
      case Operation::reduce: return others * combine / n();
      case Operation::scan: return (others * combine + bytes_ * keep) / n();
      case Operation::exscan: return ((others - bytes_) * combine + bytes_ * move) / n();
      case Operation::allreduce: return (others * combine + others * move) / n();
      default: return n() * others * combine / n();  // reduce-scatter
    }
  }

 private:
  double n() const { return static_cast<double>(machine_.size()); }
  bool hears(std::size_t rank) const {
    switch (operation_) {
      case Operation::broadcast:
      case Operation::scatter: return rank != root_;
      case Operation::reduce:
      case Operation::gather: return rank == root_;
      case Operation::scan:
      case Operation::exscan: return rank != 0;
      default: return true;
    }
  }
  bool tells(std::size_t rank) const {
    switch (operation_) {
      case Operation::broadcast:
      case Operation::scatter: return rank == root_;
      case Operation::reduce:
      case Operation::gather: return rank != root_;
      case Operation::scan:
      case Operation::exscan: return rank != machine_.size() - 1;
      default: return true;
    }
  }
  double message(std::size_t from, std::size_t to) const {
    return machine_.send_ns(from, to) + machine_.recv_ns(from, to) +
           (machine_.propagation_ns ? (*machine_.propagation_ns)(from, to) : 0.0);
  }
  double one(std::size_t from, std::size_t to) const {
    return machine_.exchange_ns ? std::min(message(from, to), (*machine_.exchange_ns)(from, to)) : message(from, to);
  }
  /// No line of a message costs its receiver less.
  double line(std::size_t from, std::size_t to) const {
    double least = std::min(machine_.recv_ns(from, to), 0.2 * message(from, to));
    if (machine_.recv_gap_ns) least = std::min(least, (*machine_.recv_gap_ns)(from, to));
    return machine_.exchange_ns ? std::min(least, (*machine_.exchange_ns)(from, to)) : least;
  }
  /// Per byte of the whole buffer.
  double rate(std::size_t from, std::size_t to) const { return copy_ns(machine_, from, to, whole_, copiers_) / whole_; }
  /// Per byte of a piece of any length, after what any copy costs.
  double least(std::size_t from, std::size_t to, int copiers) const {
    const double any = copy_ns(machine_, from, to, 1e-300, copiers);
    double found = 1e300;
    const auto try_length = [&](double length) {
      if (length >= 1 && length <= whole_) {
        found = std::min(found, (copy_ns(machine_, from, to, length, copiers) - any) / length);
      }
    };
    for (double length = whole_; length >= 1; length /= 1.5) try_length(length);
    // Where the costs bend: see test::with_copies(), and 1 MiB without measured ones.
    for (const double bend : {16384.0, 262144.0, 4194304.0, 67108864.0, 1048576.0}) try_length(bend);
    return found;
  }
  double copied(std::size_t from, std::size_t to) const {
    return std::max(least(from, to, copiers_), std::min(rate(to, to), rate(from, to)));
  }
  double add(std::size_t pu) const {
    return (combine_ns(machine_, pu, pu, whole_, 1) - copy_ns(machine_, pu, pu, whole_, 1)) / whole_;
  }

  const Machine& machine_;
  Operation operation_;
  double bytes_, whole_ = 0.0;
  std::size_t root_;
  int copiers_ = 1;
};

TEST(Floors, AreThoseOfTheRules) {
  std::vector<Machine> list = {test::random_machine(5, 3)};
  list.push_back(with_copies(list[0], 1.0, 1.0));
  list.push_back(with_copies(list[0], 3.0, 1.0));
  list.push_back(with_copies(list[0], 40.0, 30.0));
  list.push_back(list[1]);
  list.back().combine_share = {1.0, 1.0, 1.5};
  list.back().propagation_ns = test::random_machine(5, 4).send_ns;
  list.push_back(list[0]);
  list.back().exchange_ns = test::random_machine(5, 5).recv_ns;
  list.push_back(test::with_gaps(list[3], 6));
  for (const Machine& machine : list) {
    const auto which = &machine - list.data();
    for (const auto operation : planned_operations()) {
      for (const std::size_t bytes : {std::size_t{8}, std::size_t{5000}, std::size_t{300'000}, std::size_t{32} << 20}) {
        for (const int root : {0, 2, 4}) {
          const auto floor = schedule_floor(machine, whole_machine(machine), operation, bytes, root);
          const FloorByHand expected(machine, operation, bytes, root);
          EXPECT_DOUBLE_EQ(floor.message_ns, expected.message_ns()) << to_string(operation) << " on " << which;
          if (root == 0) {
            EXPECT_NEAR(floor.work_ns / expected.work_ns(), 1.0, 1e-9)
                << to_string(operation) << " of " << bytes << " on " << which;
          }
        }
      }
    }
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
