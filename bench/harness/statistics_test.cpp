#include "harness/statistics.hpp"

#include <gtest/gtest.h>

namespace smelt::bench {
namespace {

TEST(Statistics, NothingGivesNothing) {
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

}  // namespace
}  // namespace smelt::bench
