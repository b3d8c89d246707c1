#include "graph/team/team.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace smelt::graph {
namespace {

TEST(ThreadTeam, RunsOncePerThreadAndWaitsForAll) {
  for (const int threads : {1, 2, 3, 8}) {
    const auto team = ThreadTeam::create(threads);
    ASSERT_TRUE(team) << team.error().message;
    EXPECT_EQ((*team)->size(), threads);
    std::vector<int> calls(static_cast<std::size_t>(threads));  // plain: run() orders all accesses
    for (int round = 1; round <= 200; ++round) {
      (*team)->run([&](int thread) { ++calls[static_cast<std::size_t>(thread)]; });
      EXPECT_THAT(calls, testing::Each(round));
    }
  }
}

TEST(ThreadTeam, EveryIndexIsVisitedOnce) {
  const auto team = ThreadTeam::create(4);
  ASSERT_TRUE(team);
  for (const std::size_t count : {0u, 1u, 3u, 1000u}) {
    std::vector<int> visits(count);
    (*team)->for_each(count, [&](std::size_t index, int) { ++visits[index]; });
    EXPECT_EQ(std::accumulate(visits.begin(), visits.end(), std::size_t{0}), count);
    EXPECT_THAT(visits, testing::Each(1));
  }
}

TEST(ThreadTeam, RefusesImpossibleSizes) {
  EXPECT_EQ(ThreadTeam::create(-1).error().status, Status::invalid_argument);
  EXPECT_EQ(ThreadTeam::create(ThreadTeam::max_size + 1).error().status, Status::invalid_argument);
  EXPECT_EQ((*ThreadTeam::create(0))->size(), usable_threads());
}

}  // namespace
}  // namespace smelt::graph
