// The matrix of the collectives: operation x algorithm with its parameters x synchronization x style x threads or
// processes x ranks x sizes around every boundary x roots x in place x blocks of different sizes x order of operands.
// A pseudo-random row of it for some seconds, always the same; with SMELT_TEST_MATRIX=1 all of it
// (docs/how-to/run-the-tests.md).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "comm/collective/collective_check.hpp"
#include "comm/collective/forked_ranks.hpp"
#include "smelt/schedule.hpp"

namespace smelt {
namespace {

using test::CallStyle;
using test::Case;
using test::CollectiveCheck;

/// Ranks that run one recipe.
struct ForkJoinTeam {
  int ranks = 1;
  Recipe recipe{};
  const AlgorithmInfo* info = nullptr;
};

std::vector<int> rank_counts() {
  std::vector<int> all = {32, 64};
  for (int ranks = 1; ranks <= 17; ++ranks) all.push_back(ranks);
  return all;
}

std::vector<ForkJoinTeam> teams_of(int ranks) {
  const std::vector<Access> access = {Access::channels, Access::staged, Access::direct};
  std::vector<ForkJoinTeam> teams;
  for (const auto& info : algorithms()) {
    if (info.operation == Operation::barrier) continue;
    std::vector<Recipe> seen;
    for (const std::size_t bytes : {64, 32768, 1 << 20}) {
      for (auto& recipe : candidate_recipes(info.operation, ranks, bytes, access)) {
        if (recipe.algorithm != info.name || std::find(seen.begin(), seen.end(), recipe) != seen.end()) continue;
        seen.push_back(recipe);
        teams.push_back({ranks, recipe, &info});
      }
    }
  }
  return teams;
}

/// Elements of 8 bytes around every boundary: nothing, a line and its payload, a piece, the recipe's chunk, a slot
/// of a stage, whole or shared by blocks; not more in all than some tens of MiB.
std::vector<std::size_t> counts_for(const ForkJoinTeam& team) {
  const auto ranks = static_cast<std::size_t>(team.ranks);
  const bool blocks = has_rank_blocks(team.info->operation);
  constexpr std::size_t slot = 4096, line = 8, payload = 7, piece = 256, channel = 256;
  std::vector<std::size_t> counts = {0, 1, 100, 1000, 20000};
  for (const auto edge : {payload, line, 2 * payload, 16 * payload, piece, channel * payload, slot, 2 * slot, 5 * slot,
                          slot / ranks / 8 * 8, 4 * (slot / ranks / 8 * 8), team.recipe.chunk_bytes / 8,
                          2 * (team.recipe.chunk_bytes / 8)}) {
    if (edge == 0) continue;
    for (const auto count : {edge - 1, edge, edge + 1}) counts.push_back(count);
  }
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  const std::size_t most = (std::size_t{4} << 20) / ranks / (blocks ? ranks : 1);
  std::erase_if(counts, [&](auto count) { return count > most; });
  return counts;
}

Reduction operator_of(const ForkJoinTeam& team, std::uint64_t number) {
  Reduction reduction = number % 3 == 1 ? test::matrix_product() : sum<std::uint64_t>();
  reduction.reproducible = number % 3 == 2 && team.info->canonical_order;
  return reduction;
}

bool takes_uneven(const ForkJoinTeam& team) {
  const auto& info = *team.info;
  return has_rank_blocks(info.operation) && (info.irregular || (info.irregular_pairs && team.ranks == 2));
}

std::vector<Case> some_cases(const ForkJoinTeam& team, std::mt19937_64& random) {
  const auto counts = counts_for(team);
  std::vector<Case> cases;
  for (int i = 0; i < 8; ++i) {
    Case one{.operation = team.info->operation, .count = counts[random() % counts.size()]};
    one.root = static_cast<int>(random() % static_cast<std::uint64_t>(team.ranks));
    one.sync = random() % 3 == 0 ? Sync::strict : Sync::loose;
    one.style = static_cast<CallStyle>(random() % 3);
    one.in_place = random() % 3 == 0;
    one.irregular = takes_uneven(team) && random() % 2 == 0;
    one.reduction = operator_of(team, random());
    cases.push_back(one);
  }
  return cases;
}

std::vector<Case> all_cases(const ForkJoinTeam& team) {
  std::vector<Case> cases;
  std::uint64_t number = 0;
  for (const auto count : counts_for(team)) {
    for (int root = 0; root < team.ranks; root += team.ranks <= 4 ? 1 : team.ranks / 3) {
      for (const Sync sync : {Sync::loose, Sync::strict}) {
        for (int variant = 0; variant < (takes_uneven(team) ? 4 : 2); ++variant, ++number) {
          Case one{.operation = team.info->operation, .count = count, .root = root, .sync = sync};
          one.style = static_cast<CallStyle>(number % 3);
          one.in_place = variant % 2 == 1;
          one.irregular = variant >= 2;
          one.reduction = operator_of(team, number / 2);
          cases.push_back(one);
        }
      }
    }
  }
  return cases;
}

CommunicatorOptions options_for(const ForkJoinTeam& team) {
  auto options = test::options_for(team.info != nullptr ? to_string(team.recipe) : "");
  options.timeout_s = 120;  // 64 ranks on few PUs beside other work
  return options;
}

std::string label_of(const ForkJoinTeam& team) {
  return (team.info != nullptr ? to_string(team.recipe) : "the best") + " on " + std::to_string(team.ranks);
}

void check_threads(const ForkJoinTeam& team, const std::vector<Case>& cases) {
  SynthSpec spec;
  spec.packages = 2;
  spec.cores = 4;
  spec.l3 = 2;
  Group group;
  for (int rank = 0; rank < team.ranks; ++rank) group.pus.push_back(rank % 8);
  auto comm = Communicator::create(*synthesize_machine(spec), group, options_for(team));
  ASSERT_TRUE(comm) << label_of(team) << ": " << comm.error().message;
  std::mutex mutex;
  std::string first;
  ASSERT_TRUE(comm->run([&](Rank& rank) {
    for (std::size_t i = 0; i < cases.size(); ++i) {
      std::string problem;
      CollectiveCheck checked(cases[i], rank.size(), rank.rank(), i + 1);
      if (checked.run(rank, problem)) continue;
      const std::lock_guard lock(mutex);
      if (first.empty()) first = test::describe(cases[i]) + ", rank " + std::to_string(rank.rank()) + ": " + problem;
      return;
    }
  }));
  EXPECT_EQ(first, "") << label_of(team);
}

void check_processes(const ForkJoinTeam& team, const std::vector<Case>& cases) {
  const auto name = test::fresh_name();
  const auto pids = test::fork_ranks(team.ranks, [&](int rank) {
    return test::run_cases(name, team.ranks, rank, cases, label_of(team), options_for(team));
  });
  EXPECT_EQ(test::wait_for(pids), std::vector<int>(static_cast<std::size_t>(team.ranks), 0)) << label_of(team);
}

#ifdef SMELT_SANITIZED
constexpr std::size_t least_teams = 5;
constexpr double budget_s = 3;
#else
constexpr std::size_t least_teams = 25;
constexpr double budget_s = 6;
#endif

/// Every team and case, of SMELT_TEST_RANKS ranks if that is set. Says how far it has come: 64 ranks take days.
template <class Check>
void go_through_all(const Check& check) {
  const auto only = static_cast<int>(test::setting("SMELT_TEST_RANKS", 0));
  for (const int ranks : rank_counts()) {
    if (only != 0 && ranks != only) continue;
    const auto start = monotonic_ns();
    std::size_t teams = 0, cases = 0;
    for (const auto& team : teams_of(ranks)) {
      const auto all = all_cases(team);
      check(team, all);
      if (testing::Test::HasFailure()) return;
      ++teams;
      cases += all.size();
    }
    std::printf("%d ranks: %zu teams, %zu cases, %.0f s\n", ranks, teams, cases,
                1e-9 * static_cast<double>(monotonic_ns() - start));
    std::fflush(stdout);
  }
}

/// Teams in a random order: small ones mostly, for they are fast.
template <class Check>
void go_through(const Check& check) {
  if (test::setting("SMELT_TEST_MATRIX", 0) != 0) return go_through_all(check);
  const auto seed = test::setting("SMELT_TEST_SEED", 1);
  std::mt19937_64 random(seed);
  const auto end = monotonic_ns() + static_cast<std::uint64_t>(1e9 * budget_s);
  const auto counts = rank_counts();
  std::size_t done = 0, cases_done = 0;
  for (; done < least_teams || monotonic_ns() < end; ++done) {
    // 32 and 64 ranks take their time: a few of the first, then now and then.
    const int ranks = done % 12 == 5 ? counts[done / 12 % 2] : counts[2 + random() % (counts.size() - 2)];
    const auto teams = teams_of(ranks);
    if (teams.empty()) continue;
    const auto& team = teams[random() % teams.size()];
    const auto cases = some_cases(team, random);
    check(team, cases);
    cases_done += cases.size();
    if (testing::Test::HasFailure()) return;
  }
  testing::Test::RecordProperty("teams", std::to_string(done));
  testing::Test::RecordProperty("cases", std::to_string(cases_done));
}

TEST(Matrix, OfThreads) { go_through(check_threads); }

TEST(ProcessMatrix, OfProcesses) { go_through(check_processes); }

/// 1 GiB and a bit, on two ranks: takes 5 GB of memory, so only when asked for.
std::vector<Case> huge_cases() {
  std::vector<Case> cases;
  for (const Operation operation : {Operation::broadcast, Operation::allreduce, Operation::reduce_scatter,
                                    Operation::allgather, Operation::alltoall}) {
    const std::size_t elements = (std::size_t{1} << 27) + 3;
    Case one{.operation = operation, .count = has_rank_blocks(operation) ? elements / 2 : elements, .root = 1};
    one.reduction = sum<std::uint64_t>();
    cases.push_back(one);
  }
  return cases;
}

TEST(Matrix, OfAGibibyte) {
  if (test::setting("SMELT_TEST_HUGE", 0) == 0) GTEST_SKIP() << "needs SMELT_TEST_HUGE=1 and 5 GB of memory";
  check_threads({2, {}, nullptr}, huge_cases());
  check_processes({2, {}, nullptr}, huge_cases());
}

}  // namespace
}  // namespace smelt
