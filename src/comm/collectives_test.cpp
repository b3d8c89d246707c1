// Every operation by every algorithm, held against a straightforward computation.
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <string>

#include "comm/collective_check.hpp"
#include "smelt/schedule.hpp"

namespace smelt {
namespace {

using test::Case;
using test::CollectiveCheck;
using test::Manner;

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
  options.timeout_s = 3;
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
        first = label + ", " + to_string(cases[i].operation) + " of " + std::to_string(cases[i].count) + ", root " +
                std::to_string(cases[i].root) + (cases[i].in_place ? ", in place" : "") +
                (cases[i].irregular ? ", irregular" : "") + ", case " + std::to_string(i) + ", rank " + std::to_string(rank.rank()) + ": " + problem;
      }
      return;
    }
  }));
  EXPECT_EQ(first, "");
}

std::vector<Access> all_access() { return {Access::channels, Access::staged, Access::direct}; }

/// Numbers of 8-byte elements around every boundary: nothing, a line, a piece, a stage's slot, and beyond.
std::vector<std::size_t> counts_around_boundaries() {
  return {0, 1, 6, 7, 8, 9, 111, 112, 113, 255, 256, 257, 2047, 2049, 4095, 4096, 4097, 20000};
}

std::vector<Case> cases_of(Operation operation, int ranks, const std::vector<std::size_t>& counts, bool in_order) {
  std::vector<Case> cases;
  int turn = 0;
  for (const auto count : counts) {
    for (int variant = 0; variant < 3; ++variant, ++turn) {
      Case one{.operation = operation, .count = count};
      one.root = turn % ranks;
      one.sync = turn % 5 == 4 ? Sync::strict : Sync::loose;
      one.manner = static_cast<Manner>(turn % 3);
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
      if (ranks > 8) counts = {0, 1, 7, 8, 113, 257, 4097};
      check(comm, cases_of(info.operation, ranks, counts, info.keeps_rank_order), to_string(recipe));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, EveryAlgorithm, testing::Values(1, 2, 3, 4, 5, 7, 8, 13));

}  // namespace
}  // namespace smelt
