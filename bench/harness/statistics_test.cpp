#include "harness/statistics.hpp"

#include <gtest/gtest.h>

namespace smelt::bench {
namespace {

TEST(Statistics, NoSamplesGiveNoResult) {
  const Summary summary = summarize({});
  EXPECT_EQ(summary.count, 0u);
  EXPECT_EQ(summary.median, 0.0);
}

TEST(Statistics, OneSampleIsEverything) {
  const Summary summary = summarize({7.0});
  EXPECT_EQ(summary.count, 1u);
  EXPECT_EQ(summary.median, 7.0);
  EXPECT_EQ(summary.p99, 7.0);
  EXPECT_EQ(summary.spread, 0.0);
}

TEST(Statistics, QuantilesLieBetweenNeighbours) {
  EXPECT_DOUBLE_EQ(quantile({1, 2, 3, 4}, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(quantile({1, 2, 3, 4}, 0.0), 1.0);
  EXPECT_DOUBLE_EQ(quantile({1, 2, 3, 4}, 1.0), 4.0);
}

TEST(Statistics, OrderDoesNotMatterAndOutliersShowInP99Alone) {
  std::vector<double> samples;
  for (int i = 100; i >= 1; --i) samples.push_back(i);
  samples.push_back(1e9);
  const Summary summary = summarize(samples);
  EXPECT_DOUBLE_EQ(summary.median, 51.0);
  EXPECT_DOUBLE_EQ(summary.p99, 100.0);
  EXPECT_DOUBLE_EQ(summary.spread, (76.0 - 26.0) / 51.0);
}

// Two ranks that come by in turns, every 100 ticks: one operation is over every 100 ticks, no rank takes as long.
TEST(Statistics, OperationsOfRanksThatTakeTurnsAreNotCountedTwice) {
  const Stamps stamps = {{0, 60, 200, 260, 400}, {0, 100, 160, 300, 360}};
  EXPECT_EQ(spans_of_last(stamps), (std::vector<std::uint64_t>{100, 100, 100, 100}));
}

TEST(Statistics, LoopsWithoutOperationsKeepAPuBusyForEachOfItsRanks) {
  const Stamps stamps = {{0, 10, 20, 30}, {100, 112, 124, 136}, {0, 25, 9000, 9025}};  // the third one was interrupted
  EXPECT_DOUBLE_EQ(busiest_span(stamps, {0, 1, 2}), 25);
  EXPECT_DOUBLE_EQ(busiest_span(stamps, {0, 1, 0}), 35);
  EXPECT_DOUBLE_EQ(busiest_span(stamps, {0, 0, 1}), 25) << "PU 0 has 22 to do";
  EXPECT_DOUBLE_EQ(busiest_span(stamps, {3, 3, 3}), 47);
  EXPECT_DOUBLE_EQ(busiest_span(stamps, {0, 1}), 35) << "the third rank is on the first PU";
}

TEST(Statistics, ALateRankDelaysTheEnd) {
  const Stamps stamps = {{0, 10, 20, 30}, {0, 10, 70, 80}};
  EXPECT_EQ(spans_of_last(stamps), (std::vector<std::uint64_t>{10, 60, 10}));
}

}  // namespace
}  // namespace smelt::bench
