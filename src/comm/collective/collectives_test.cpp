// Every operation by every algorithm, held against a straightforward computation.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "comm/collective/collective_check.hpp"
#include "comm/group/shared_layout.hpp"
#include "smelt/schedule.hpp"

namespace smelt {
namespace {

using test::CallStyle;
using test::Case;
using test::CollectiveCheck;

Communicator make_communicator(int ranks, const std::string& algorithm = "") {
  SynthSpec spec;
  spec.packages = 2;
  spec.cores = 4;
  spec.l3 = 2;
  const Machine machine = *synthesize_machine(spec);
  Group group;
  for (int rank = 0; rank < ranks; ++rank) group.pus.push_back(rank % 8);
  CommunicatorOptions options;
  options.pin = false;
  options.algorithm = algorithm;
  options.search_ms = 1;
  options.timeout_s = 60;  // nobody hangs; but the machine may be busy with something else
  auto made = Communicator::create(machine, group, options);
  EXPECT_TRUE(made) << (made ? "" : made.error().message);
  return std::move(*made);
}

/// Runs all cases, one after the other, on one communicator.
void check(Communicator& comm, const std::vector<Case>& cases, const std::string& label) {
  std::mutex mutex;
  std::string first;
  ASSERT_TRUE(comm.run([&](Rank& rank) {
    for (std::size_t i = 0; i < cases.size(); ++i) {
      std::string problem;
      CollectiveCheck checked(cases[i], rank.size(), rank.rank(), i + 1);
      if (checked.run(rank, problem)) continue;
      const std::lock_guard lock(mutex);
      if (first.empty()) {
        first = label + ", " + test::describe(cases[i]) + ", case " + std::to_string(i) + ", rank " +
                std::to_string(rank.rank()) + ": " + problem;
      }
      return;
    }
  }));
  EXPECT_EQ(first, "");
}

#ifdef __SANITIZE_THREAD__
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif

std::vector<Access> all_access() { return {Access::channels, Access::staged, Access::direct}; }

/// Numbers of 8-byte elements around every boundary: nothing, a line, a piece, a stage's slot, and beyond.
std::vector<std::size_t> counts_around_boundaries() {
  return {0, 1, 6, 7, 8, 9, 111, 112, 113, 223, 224, 225, 255, 256, 257, 2047, 2049, 4095, 4096, 4097, 20000};
}

std::vector<Case> cases_of(Operation operation, int ranks, const std::vector<std::size_t>& counts, bool in_order) {
  std::vector<Case> cases;
  int turn = 0;
  for (const auto count : counts) {
    for (int variant = 0; variant < 3; ++variant, ++turn) {
      Case one{.operation = operation, .count = count};
      one.root = turn % ranks;
      one.sync = turn % 5 == 4 ? Sync::strict : Sync::loose;
      one.style = static_cast<CallStyle>(turn % 3);
      one.in_place = variant == 1;
      one.irregular = false;
      one.reduction = in_order && turn % 2 == 0 ? test::matrix_product() : sum<std::uint64_t>();
      cases.push_back(one);
    }
  }
  return cases;
}

class EveryAlgorithm : public testing::TestWithParam<int> {};

TEST_P(EveryAlgorithm, GivesTheRightResult) {
  const int ranks = GetParam();
  for (const auto& info : algorithms()) {
    if (info.operation == Operation::barrier) continue;
    std::vector<std::string> seen;
    for (const auto& recipe : candidate_recipes(info.operation, ranks, 32768, all_access())) {
      if (recipe.algorithm != info.name) continue;
      auto comm = make_communicator(ranks, to_string(recipe));
      auto counts = counts_around_boundaries();
      if (ranks > 2) counts = {0, 1, 7, 8, 113, 224, 257, 4097};
      if (ranks > 8 || sanitized) counts = {1, 113, 4097};  // matrix_test.cpp has the others
      check(comm, cases_of(info.operation, ranks, counts, info.keeps_rank_order), to_string(recipe));
    }
  }
}

// Each rank sends the longest message that it sends before it receives. Before that the other one has found all
// messages there and waited for none, so it has acknowledged as few of them as it may: none of 31, in one of 32 turns.
TEST(FullChannels, HaveRoomForAnExchange) {
  const std::size_t count = comm::SharedLayout::most_lines_at_once(2) * channel::line_payload / sizeof(std::uint64_t);
  const std::pair<const char*, Operation> exchanges[] = {{"allgather_ring+channels", Operation::allgather},
                                                         {"alltoall_pairwise+channels", Operation::alltoall},
                                                         {"allreduce_recursive_doubling", Operation::allreduce}};
  for (const auto& exchange : exchanges) {
    const std::string recipe = exchange.first;
    const Case longest{.operation = exchange.second, .count = count, .reduction = sum<std::uint64_t>()};
    auto comm = make_communicator(2, recipe);
    std::atomic<int> sent{0};
    ASSERT_TRUE(comm.run([&](Rank& rank) {
      for (int turn = 0; turn < 64; ++turn) {
        for (int root = 0; root < 2; ++root) {
          const bool receives = rank.rank() != root;
          while (receives && sent.load(std::memory_order_acquire) <= 2 * turn + root) std::this_thread::yield();
          for (std::uint64_t i = 0, value = 0; i < 31; ++i) {
            if (!receives) value = i;
            ASSERT_EQ(rank.broadcast(&value, sizeof value, root), Status::ok) << rank.failure();
            ASSERT_EQ(value, i);
          }
          if (!receives) sent.store(2 * turn + root + 1, std::memory_order_release);
        }
        std::string problem;
        CollectiveCheck checked(longest, 2, rank.rank(), 1);
        ASSERT_TRUE(checked.run(rank, problem)) << recipe << ", turn " << turn << ": " << problem;
      }
    }));
  }
}

TEST(AllgatherByPuts, WritesEveryChunkWhereItBelongs) {
  for (const int ranks : {2, 3}) {
    auto comm = make_communicator(ranks, test::puts_in_chunks);
    check(comm, test::around_chunks_of_puts(), test::puts_in_chunks);
  }
}

TEST(DataAtRest, LongResultsAreWhereTheyBelong) {
  for (const int ranks : {2, 3}) {
    for (const std::string recipe : {"broadcast_tree+direct", "gather_flat+direct", "allgather_flat+direct",
                                     "alltoall_flat+direct", "allgather_flat+staged+chunk=8192"}) {
      auto comm = make_communicator(ranks, recipe);
      check(comm, test::long_results_at_rest(ranks), recipe);
    }
  }
}

// In every other turn the root has other things to do after its start, and the other rank is done without it.
TEST(SharedTransfers, DoNotWaitForARankThatComputes) {
  for (const char* recipe : {"scatter_shared", "gather_shared"}) {
    const bool scatters = std::string(recipe) == "scatter_shared";
    auto comm = make_communicator(2, recipe);
    std::atomic<int> waited{0};
    ASSERT_TRUE(comm.run([&](Rank& rank) {
      constexpr std::size_t count = 50'000;
      for (std::uint64_t turn = 0; turn < 40; ++turn) {
        const int root = static_cast<int>(turn / 2 % 2);
        const bool leads = rank.rank() != root;
        std::vector<std::uint64_t> in(2 * count, turn), out(2 * count, turn + 1);
        const auto me = static_cast<std::size_t>(rank.rank());
        const bool gets = scatters || !leads;
        auto call = scatters ? Collective::scatter(in.data(), out.data(), count * 8, root)
                             : Collective::gather(in.data(), out.data(), count * 8, root);
        ASSERT_EQ(rank.barrier(), Status::ok);
        Request request = rank.start(call);
        const bool computes = !leads && turn % 2 == 0;
        while (computes && waited.load(std::memory_order_acquire) <= static_cast<int>(turn)) std::this_thread::yield();
        const Status status = request.wait();
        if (leads) waited.store(static_cast<int>(turn) + 1, std::memory_order_release);
        ASSERT_EQ(status, Status::ok) << rank.failure();
        const std::ptrdiff_t mine = scatters ? count : 2 * count;
        const auto wrong = std::find_if(out.begin(), out.begin() + mine, [&](auto each) { return each != turn; });
        ASSERT_TRUE(!gets || wrong == out.begin() + mine) << recipe << ", rank " << me;
      }
    }));
  }
}

// Whoever is done first looks at its result, or reuses its input. The root's own block is in place, so that it helps
// from the beginning.
TEST(SharedTransfers, EndWhenBothEndsHaveMovedTheirParts) {
#ifdef SMELT_SANITIZED
  constexpr std::uint64_t turns = 60;  // the thread sanitizer sees a use that comes too early even if it does no harm
#else
  constexpr std::uint64_t turns = 400;
#endif
  for (const char* recipe : {"scatter_shared", "gather_shared"}) {
    const bool scatters = std::string(recipe) == "scatter_shared";
    auto comm = make_communicator(2, recipe);
    ASSERT_TRUE(comm.run([&](Rank& rank) {
      constexpr std::size_t count = 200'000;
      const bool root = rank.rank() == 0;
      std::vector<std::uint64_t> whole(2 * count), block(count);
      for (std::uint64_t turn = 1; turn <= turns; ++turn) {
        std::fill(whole.begin(), whole.end(), turn);
        std::fill(block.begin(), block.end(), turn + (scatters ? 1 : 0));
        ASSERT_EQ(rank.barrier(), Status::ok);
        auto* const own = root ? whole.data() : block.data();
        const Status status =
            scatters ? rank.scatter(whole.data(), own, count * 8, 0) : rank.gather(own, whole.data(), count * 8, 0);
        if (!root && !scatters) std::fill(block.rbegin(), block.rend(), 0);
        ASSERT_EQ(status, Status::ok) << rank.failure();
        if (root == scatters) continue;
        auto& result = scatters ? block : whole;
        const auto wrong = std::find_if(result.rbegin(), result.rend(), [&](auto each) { return each != turn; });
        ASSERT_EQ(wrong, result.rend()) << recipe << ", turn " << turn << ", " << wrong - result.rbegin();
      }
    }));
  }
}

TEST(RandomSequences, OnSeveralCommunicatorsAtOnce) {
  for (const int ranks : {6, 9}) {
    auto comm = make_communicator(ranks);
    ASSERT_TRUE(comm.run([&](Rank& rank) {
      EXPECT_EQ(test::random_sequence(rank, test::setting("SMELT_TEST_SEED", 7), 400), "") << "rank " << rank.rank();
    }));
  }
}

// Givers leave while the root reads: never before it has read what lies in their input, which is their own again then.
TEST(ReductionInHalves, ReturnsInputsWhenTheyHaveBeenRead) {
  for (const int ranks : {2, 3, 5}) {
    auto comm = make_communicator(ranks, "reduce_halves+direct");
    ASSERT_TRUE(comm.run([&](Rank& rank) {
      const auto me = static_cast<std::uint64_t>(rank.rank()), n = static_cast<std::uint64_t>(ranks);
      std::uint64_t turn = 0;
      for (const std::size_t count : {1, 8, 9, 300, 4096, 8192, 8193, 20000, 8 * 4096, 9 * 4096 + 1}) {
        std::vector<std::uint64_t> in(count), out(count);
        for (int again = 0; again < 12; ++again, ++turn) {
          const int root = static_cast<int>(turn % n);
          const bool in_place = turn % 3 == 1;
          for (std::size_t i = 0; i < count; ++i) in[i] = 1000 * turn + me + i;
          if (again % 4 == 0 && rank.rank() == root) std::this_thread::sleep_for(std::chrono::microseconds(300));
          auto* const to = in_place ? in.data() : out.data();
          ASSERT_EQ(rank.reduce(in.data(), to, count, sum<std::uint64_t>(), root), Status::ok);
          if (rank.rank() != root) {
            std::fill(in.begin(), in.end(), ~std::uint64_t{0});
            continue;
          }
          std::size_t wrong = 0;
          for (std::size_t i = 0; i < count; ++i) wrong += to[i] != n * (1000 * turn + i) + n * (n - 1) / 2;
          ASSERT_EQ(wrong, 0u) << count << " elements, turn " << turn;
        }
      }
    }));
  }
}

struct Large {
  std::uint64_t numbers[5000];
  Large operator+(const Large& other) const {
    Large result = *this;
    for (std::size_t i = 0; i < 5000; ++i) result.numbers[i] += other.numbers[i];
    return result;
  }
};

// A slot of a stage has no room for one of these.
TEST(ReductionInHalves, RefusesElementsLargerThanASlot) {
  auto comm = make_communicator(2, "reduce_halves+direct");
  ASSERT_TRUE(comm.run([&](Rank& rank) {
    std::vector<Large> in(4), out(4);
    const auto me = static_cast<std::uint64_t>(rank.rank());
    for (std::size_t i = 0; i < 4; ++i) {
      for (std::size_t k = 0; k < 5000; ++k) in[i].numbers[k] = 10000 * i + k + me;
    }
    ASSERT_EQ(rank.reduce(in.data(), out.data(), in.size(), sum<Large>(), 0), Status::ok);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < 4 && me == 0; ++i) {
      for (std::size_t k = 0; k < 5000; ++k) wrong += out[i].numbers[k] != 2 * (10000 * i + k) + 1;
    }
    EXPECT_EQ(wrong, 0u);
  }));
}

TEST(SplitPhase, ConcurrentOnesFinishInOrderWhicheverIsAwaited) {
  auto comm = make_communicator(3);
  ASSERT_TRUE(comm.run([&](Rank& rank) {
    std::vector<std::uint64_t> in(5000, 1), sums(5000), blocks(3);
    const std::uint64_t mine = static_cast<std::uint64_t>(rank.rank());
    bool committed = false, answer = true;
    Request total = rank.start(Collective::allreduce(in.data(), sums.data(), in.size(), sum<std::uint64_t>()));
    Request all = rank.start(Collective::allgather(&mine, blocks.data(), sizeof mine));
    Request commit = rank.start(Collective::two_phase_commit(
        &answer, sizeof answer, [](const void*, void*) { return true; }, nullptr, &committed));
    Request meet = rank.start(Collective::barrier());
    EXPECT_EQ(meet.wait(), Status::ok);
    bool done = false;
    EXPECT_EQ(total.test(&done), Status::ok);
    EXPECT_TRUE(done);
    EXPECT_EQ(all.wait(), Status::ok);
    EXPECT_EQ(commit.wait(), Status::ok);
    EXPECT_TRUE(committed);
    EXPECT_EQ(sums[4999], 3u);
    EXPECT_EQ(blocks, (std::vector<std::uint64_t>{0, 1, 2}));
  }));
}

TEST(Persistent, StartsManyTimesAndRefusesToBeStartedTwice) {
  auto comm = make_communicator(2);
  ASSERT_TRUE(comm.run([&](Rank& rank) {
    std::uint64_t in = 0, out = 0;
    Request request = rank.prepare(Collective::allreduce(&in, &out, 1, sum<std::uint64_t>()));
    for (std::uint64_t round = 0; round < 100; ++round) {
      in = round;
      ASSERT_EQ(request.start(), Status::ok);
      if (rank.rank() == 1) rank.barrier();  // runs after it
      ASSERT_EQ(request.wait(), Status::ok);
      if (rank.rank() == 0) rank.barrier();
      ASSERT_EQ(out, 2 * round);
    }
    Request bad = rank.prepare(Collective::allreduce(nullptr, &out, 1, sum<std::uint64_t>()));
    EXPECT_EQ(bad.start(), Status::invalid_argument);
    EXPECT_EQ(bad.wait(), Status::invalid_argument);
  }));
}

TEST(Persistent, RunsOnOtherBuffersWhileOthersCallDifferently) {
  for (const int ranks : {2, 3, 5}) {
    auto comm = make_communicator(ranks);
    ASSERT_TRUE(comm.run([&](Rank& rank) {
      std::uint64_t salt = 0;
      for (const auto operation :
           {Operation::broadcast, Operation::reduce, Operation::allreduce, Operation::scatter, Operation::gather,
            Operation::allgather, Operation::alltoall, Operation::reduce_scatter, Operation::scan, Operation::exscan}) {
        for (const std::size_t count : {1, 20, 3000}) {
          for (const bool in_place : {false, true}) {
            std::optional<Request> again;
            for (int turn = 0; turn < 12; ++turn) {
              Case one{.operation = operation, .count = count, .root = ranks - 1, .in_place = in_place};
              one.reduction = sum<std::uint64_t>();
              one.style = turn % 3 == 0 ? CallStyle::blocking : CallStyle::started;
              CollectiveCheck checked(one, rank.size(), rank.rank(), ++salt);
              std::string problem;
              const bool other = turn >= 4 && (turn + rank.rank()) % 3 == 0;
              const bool right = other ? checked.run(rank, problem) : checked.run_again(rank, again, problem);
              ASSERT_TRUE(right) << test::describe(one) << ", turn " << turn << ", rank " << rank.rank() << ": "
                                 << problem;
            }
          }
        }
      }
    }));
  }
}

// The sizes are looked at in each run: what ran one may not fit the next, nor what others choose for it.
TEST(Persistent, UsesTheCurrentSizesInItsArrays) {
  for (const int ranks : {2, 3}) {
    auto comm = make_communicator(ranks);
    ASSERT_TRUE(comm.run([&](Rank& rank) {
      const auto n = static_cast<std::size_t>(ranks), me = static_cast<std::size_t>(rank.rank());
      std::vector<std::size_t> counts(n), own(n), offsets(n);
      std::vector<std::uint64_t> in(20000 * n), out(20000 * n);
      for (std::size_t i = 0; i < n; ++i) offsets[i] = 20000 * i;
      auto exchange =
          Collective::alltoallv(in.data(), {counts.data(), offsets.data()}, out.data(), {own.data(), offsets.data()});
      exchange.element_bytes = sizeof(std::uint64_t);
      Request again = rank.prepare(exchange);
      for (std::uint64_t turn = 0; turn < 40; ++turn) {
        const std::size_t sizes[] = {1, 2, 3000, 3000, 17, 0, 20000, 20000};
        for (std::size_t i = 0; i < n; ++i) counts[i] = sizes[(turn / 2 + i) % 8];
        std::fill(own.begin(), own.end(), counts[me]);
        for (std::size_t i = 0; i < in.size(); ++i) in[i] = 1000000 * (me + 1) + 100 * turn + i / 20000;
        const bool other = (turn + me) % 3 == 0;
        if (turn % 3 == 0) {
          Request once = rank.prepare(exchange);
          Request& request = other ? once : again;
          ASSERT_EQ(request.start(), Status::ok) << rank.failure();
          ASSERT_EQ(request.wait(), Status::ok) << rank.failure();
        } else {
          ASSERT_EQ(other ? rank.run(exchange) : again.run(in.data(), out.data()), Status::ok) << rank.failure();
        }
        for (std::size_t i = 0; i < n; ++i) {
          for (std::size_t k = 0; k < own[i]; ++k) {
            ASSERT_EQ(out[offsets[i] + k], 1000000 * (i + 1) + 100 * turn + me) << "turn " << turn;
          }
        }
      }
    }));
  }
}

// What a start has found out is of no use to a blocking barrier, which has a way of its own.
TEST(Persistent, AStartedBarrierMatchesBlockingOnes) {
  for (const int ranks : {2, 3, 5}) {
    auto comm = make_communicator(ranks);
    std::atomic<int> entered{0};
    ASSERT_TRUE(comm.run([&](Rank& rank) {
      Request request = rank.prepare(Collective::barrier());
      for (int turn = 1; turn <= 20; ++turn) {
        ASSERT_EQ(request.start(), Status::ok);
        ASSERT_EQ(request.wait(), Status::ok);
        ++entered;
        ASSERT_EQ(turn % ranks == rank.rank() ? request.run(nullptr, nullptr) : rank.barrier(), Status::ok);
        EXPECT_GE(entered, turn * ranks);
      }
    }));
  }
}

TEST(Persistent, RunRefusesIncompatibleBuffersAndPendingRequests) {
  std::atomic<bool> tried{false};
  auto comm = make_communicator(2);
  ASSERT_TRUE(comm.run([&](Rank& rank) {
    std::uint64_t in = 1, out = 0, other = 2, sums[2] = {};
    Request request = rank.prepare(Collective::allreduce(&in, &out, 1, sum<std::uint64_t>()));
    for (int turn = 0; turn < 3; ++turn) {
      EXPECT_EQ(request.run(nullptr, &out), Status::invalid_argument);
      EXPECT_EQ(request.run(&in, nullptr), Status::invalid_argument);
      ASSERT_EQ(request.run(&other, &sums[1]), Status::ok);
      EXPECT_EQ(sums[1], 4u);
      EXPECT_EQ(out, 0u);
    }
    if (rank.rank() == 0) {
      ASSERT_EQ(request.start(), Status::ok);
      EXPECT_EQ(request.run(&in, &out), Status::invalid_argument);
      tried = true;
    } else {
      while (!tried) std::this_thread::yield();
      ASSERT_EQ(request.run(&other, &sums[0]), Status::ok);
    }
    ASSERT_EQ(request.wait(), Status::ok);
  }));
}

TEST(Reproducible, SameBitsForEveryRecipe) {
  std::vector<double> wanted;
  for (const char* recipe : {"", "allreduce_slices+direct", "allreduce_slices+staged+chunk=4096", "allreduce_ring"}) {
    auto comm = make_communicator(5, recipe);
    ASSERT_TRUE(comm.run([&](Rank& rank) {
      std::vector<double> in(1000), out(1000);
      for (std::size_t i = 0; i < in.size(); ++i)
        in[i] = 1.0 / static_cast<double>(3 + i * 7 + static_cast<std::size_t>(rank.rank()) * 1009);
      auto op = sum<double>();
      op.reproducible = true;
      ASSERT_EQ(rank.allreduce(in.data(), out.data(), in.size(), op), Status::ok);
      if (rank.rank() != 0) return;
      if (wanted.empty()) wanted = out;
      EXPECT_EQ(out, wanted) << recipe;
    }));
  }
}

TEST(UnevenBlocks, OnlyTheRootNeedsAllSizes) {
  for (const int ranks : {1, 3, 6}) {
    auto comm = make_communicator(ranks);
    std::vector<Case> cases;
    for (const Operation operation : {Operation::scatter, Operation::gather}) {
      for (const std::size_t count : {0, 1, 7, 300, 9000}) {
        cases.push_back({.operation = operation, .count = count, .root = ranks / 2, .irregular = true});
      }
    }
    check(comm, cases, "unknown sizes");
  }
}

TEST(UnevenBlocks, TwoRanksUseTheSizesThatBothKnow) {
  for (const auto& info : algorithms()) {
    if (!has_rank_blocks(info.operation) || (!info.irregular && !info.irregular_pairs)) continue;
    std::vector<Case> cases;
    for (const auto count : counts_around_boundaries()) {
      for (int turn = 0; turn < 12; ++turn) {
        Case one{.operation = info.operation, .count = count, .root = turn % 2, .irregular = true};
        one.sync = turn >= 8 ? Sync::strict : Sync::loose;
        one.style = static_cast<CallStyle>(turn / 2 % 3);
        one.in_place = turn / 2 % 2 == 1 && one.operation != Operation::reduce_scatter;
        one.reduction = sum<std::uint64_t>();
        cases.push_back(one);
      }
    }
    for (const auto& recipe : candidate_recipes(info.operation, 2, 32768, all_access())) {
      if (recipe.algorithm != info.name) continue;
      auto comm = make_communicator(2, to_string(recipe));
      check(comm, cases, to_string(recipe));
    }
    auto best = make_communicator(2);
    check(best, cases, "the best");
  }
}

TEST(UnevenBlocks, InPlaceAnAlltoallMayReceiveOtherBlocksThanItSends) {
  for (const char* recipe : {"", "alltoall_flat+staged", "alltoall_flat+direct", "alltoall_pairwise", "alltoall_put"}) {
    auto comm = make_communicator(2, recipe);
    ASSERT_TRUE(comm.run([&](Rank& rank) {
      const bool first = rank.rank() == 0;
      const auto me = static_cast<std::uint64_t>(rank.rank());
      for (const std::size_t unit : {1, 100, 1000, 30000}) {
        const std::size_t to_first[] = {1 * unit, 3 * unit}, to_second[] = {2 * unit, 4 * unit};  // by sender
        const std::size_t given[] = {to_first[me], to_second[me]};
        const std::size_t* const got = first ? to_first : to_second;
        const std::size_t given_at[] = {0, given[0]}, got_at[] = {0, got[0]};
        std::vector<std::uint64_t> data(7 * unit);
        for (std::size_t i = 0; i < data.size(); ++i) data[i] = 1000000 * me + i;
        auto call = Collective::alltoallv(data.data(), {given, given_at}, data.data(), {got, got_at});
        call.element_bytes = sizeof(std::uint64_t);
        ASSERT_EQ(rank.run(call), Status::ok) << rank.failure();
        std::size_t wrong = 0;
        for (std::uint64_t from = 0; from < 2; ++from) {
          const std::size_t sent_from = first ? 0 : to_first[from];
          for (std::size_t i = 0; i < got[from]; ++i) wrong += data[got_at[from] + i] != 1000000 * from + sent_from + i;
        }
        ASSERT_EQ(wrong, 0u) << recipe << ", rank " << me << ", " << unit;
      }
    }));
  }
}

// Who calls in place runs other code than who does not.
TEST(UnevenBlocks, EmptyInOneDirectionAndInPlaceOnOneRank) {
  for (const char* recipe : {"alltoall_pairwise", "alltoall_flat+staged"}) {
    auto comm = make_communicator(2, recipe);
    ASSERT_TRUE(comm.run([&](Rank& rank) {
      const bool first = rank.rank() == 0;
      const std::size_t given[] = {1, 0}, got[] = {1, 3}, other_given[] = {3, 1}, other_got[] = {0, 1};
      const std::size_t offsets[] = {0, 1}, other_offsets[] = {0, 3};
      for (std::uint64_t turn = 0; turn < 20; ++turn) {
        std::uint64_t in[4] = {turn, turn + 1, turn + 2, turn + 3}, out[4] = {turn, 0, 0, 0};
        auto call = first ? Collective::alltoallv(out, {given, offsets}, out, {got, offsets})
                          : Collective::alltoallv(in, {other_given, other_offsets}, out, {other_got, other_offsets});
        call.element_bytes = sizeof(std::uint64_t);
        ASSERT_EQ(rank.run(call), Status::ok) << rank.failure();
        EXPECT_EQ(out[0], turn);
        EXPECT_EQ(out[first ? 1 : 3], first ? turn : turn + 3);
        EXPECT_EQ(out[first ? 3 : 1], first ? turn + 2 : 0);
      }
    }));
  }
}

TEST(UnevenBlocks, AreRefusedUnlessTheCallIsMarkedUneven) {
  auto comm = make_communicator(2);
  ASSERT_TRUE(comm.run([&](Rank& rank) {
    const std::size_t counts[] = {1, 1}, offsets[] = {0, 1};
    char in[2] = {}, out[2] = {};
    Collective plain = Collective::allgather(in, out, 1);
    plain.out_blocks = {counts, offsets};
    EXPECT_EQ(rank.run(plain), Status::invalid_argument);
    EXPECT_EQ(rank.run(Collective::allgatherv(in, 1, out, {counts, nullptr})), Status::invalid_argument);
    EXPECT_EQ(rank.run(Collective::allgatherv(in, 1, nullptr, {counts, offsets})), Status::invalid_argument);
    EXPECT_EQ(rank.run(Collective::alltoallv(in, {counts, offsets}, out, {})), Status::invalid_argument);
    EXPECT_EQ(rank.run(Collective::reduce_scatterv(in, {}, out, 1, sum<char>())), Status::invalid_argument);
    Collective reduction = Collective::allreduce(in, out, 1, sum<char>());
    reduction.uneven = true;
    EXPECT_EQ(rank.run(reduction), Status::invalid_argument);
    if (rank.rank() == 0) {  // the root must know
      EXPECT_EQ(rank.run(Collective::scatterv(in, {}, out, 1)), Status::invalid_argument);
      EXPECT_EQ(rank.run(Collective::gatherv(in, 1, out, {})), Status::invalid_argument);
    }
    EXPECT_EQ(rank.barrier(), Status::ok);
  }));
}

TEST(LateRanks, KnownLatenessDoesNotChangeResults) {
  SynthSpec spec;
  const Machine machine = *synthesize_machine(spec);
  for (const int ranks : {4, 8}) {
    Group group = whole_machine(machine);
    group.pus.resize(static_cast<std::size_t>(ranks));
    CommunicatorOptions options;
    options.pin = false;
    options.late_ns.assign(static_cast<std::size_t>(ranks), 0.0);
    options.late_ns[1] = 3000.0;
    auto comm = Communicator::create(machine, group, options);
    ASSERT_TRUE(comm) << comm.error().message;
    const Tree& tree = *comm->plan(Operation::broadcast).broadcast_tree;
    EXPECT_NE(tree.root, 1);
    EXPECT_TRUE(tree.children[1].empty());
    check(*comm, cases_of(Operation::allreduce, ranks, {1, 300}, true), "late");
    options.late_ns.pop_back();
    EXPECT_EQ(Communicator::create(machine, group, options).error().status, Status::invalid_argument);
  }
}

#ifdef __SANITIZE_THREAD__
const auto group_sizes = testing::Values(2, 3);  // a tenth of the speed
#else
const auto group_sizes = testing::Values(1, 2, 3, 4, 5, 8, 13, 17);
#endif
INSTANTIATE_TEST_SUITE_P(Ranks, EveryAlgorithm, group_sizes);

}  // namespace
}  // namespace smelt
