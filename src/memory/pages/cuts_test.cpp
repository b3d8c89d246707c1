#include "memory/pages/cuts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

namespace smelt::memory {
namespace {

using testing::ElementsAre;

TEST(Cuts, FollowTheRuleOfStaticSchedules) {
  EXPECT_THAT(static_cuts(10, 4), ElementsAre(0, 3, 6, 8));
  EXPECT_THAT(static_cuts(2, 4), ElementsAre(0, 1, 2, 2));
  const auto cuts = static_cuts(10, 4);
  EXPECT_EQ(part_of(cuts, 3, 10), (IndexRange{8, 10}));
  EXPECT_EQ(part_of(cuts, 0, 10), (IndexRange{0, 3}));
}

TEST(Cuts, APageBelongsToTheNodeWithMostOfIt) {
  const std::vector<std::size_t> cuts = {0, 5, 17};
  const std::vector<int> nodes = {3, 1, 2};
  // Pages of 8 bytes: node 3 has 5 bytes of [0,8), node 1 all of [8,16), node 2 has 7 of [16,24).
  EXPECT_THAT(page_runs(cuts, nodes, 20, 1, 8), ElementsAre(PageRun{0, 8, 3}, PageRun{8, 16, 1}, PageRun{16, 20, 2}));
}

TEST(Cuts, PartsOfOneNodeOnAPageCountTogether) {
  const std::vector<std::size_t> cuts = {0, 3, 5};
  const std::vector<int> nodes = {1, 2, 1};
  EXPECT_THAT(page_runs(cuts, nodes, 8, 1, 8), ElementsAre(PageRun{0, 8, 1}));
  const std::vector<int> others = {2, 1, 2};
  EXPECT_THAT(page_runs(cuts, others, 8, 1, 8), ElementsAre(PageRun{0, 8, 2}));
}

// Compares with a count of single bytes.
TEST(Cuts, RunsTileTheArrayAndEveryPageIsWithAMajority) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    const std::size_t count = random() % 200 + 1, element_bytes = random() % 12 + 1,
                      page_bytes = std::size_t{8} << random() % 4;
    const std::size_t parts = random() % 7 + 1;
    std::vector<std::size_t> cuts = {0};
    std::vector<int> nodes = {static_cast<int>(random() % 3)};
    for (std::size_t part = 1; part < parts; ++part) {
      cuts.push_back(random() % (count + 1));
      nodes.push_back(static_cast<int>(random() % 3));
    }
    std::sort(cuts.begin(), cuts.end());
    const auto runs = page_runs(cuts, nodes, count, element_bytes, page_bytes);
    std::size_t at = 0;
    for (const auto& run : runs) {
      ASSERT_EQ(run.first_byte, at);
      ASSERT_GT(run.last_byte, run.first_byte);
      at = run.last_byte;
      for (std::size_t page = run.first_byte; page < run.last_byte; page += page_bytes) {
        std::map<int, int> bytes;
        for (std::size_t byte = page; byte < std::min(page + page_bytes, count * element_bytes); ++byte) {
          for (std::size_t part = 0; part < parts; ++part) {
            const auto range = part_of(cuts, part, count);
            if (byte / element_bytes >= range.first && byte / element_bytes < range.last) ++bytes[nodes[part]];
          }
        }
        for (const auto& [node, share] : bytes) ASSERT_LE(share, bytes[run.node]);
      }
    }
    ASSERT_EQ(at, count * element_bytes);
  }
}

}  // namespace
}  // namespace smelt::memory
