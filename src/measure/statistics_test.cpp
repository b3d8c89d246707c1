#include "measure/statistics.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace smelt::measure {
namespace {

TEST(Median, OfSmallSets) {
  EXPECT_EQ(median({}), 0.0);
  EXPECT_EQ(median({3.0}), 3.0);
  EXPECT_EQ(median({4.0, 1.0}), 2.5);
  EXPECT_EQ(median({9.0, 1.0, 5.0}), 5.0);
}

TEST(MedianExcess, IsOfTheFurthestSeriesAboveItsUsualValue) {
  const std::vector<std::vector<double>> series{{5.0, 9.0, 6.0}, {107.0, 101.0, 90.0}};
  EXPECT_EQ(median_excess(series, std::vector{5.0, 100.0}), 4.0);  // of 7, 4 and 1
  EXPECT_EQ(median_excess({series.data(), 1}, std::vector{10.0}), -4.0);
}

TEST(MedianExcess, DoesNotCountWhenAThreadDidNotRun) {
  const std::vector<std::vector<double>> series{{5.0, 9.0, 6.0, 70'000.0}, {107.0, 101.0, 90'000.0, 90.0}};
  EXPECT_EQ(median_excess(series, std::vector{5.0, 100.0}), 5.5);  // of 7 and 4
}

TEST(WhileAllRan, TimesOfAbsencesAreDroppedIfThereAreOthers) {
  EXPECT_THAT(while_all_ran({900.0, 49'999.0, 50'000.0, 4e6, -3.0}), testing::ElementsAre(900.0, 49'999.0, -3.0));
  EXPECT_THAT(while_all_ran({4e6, 50'000.0}), testing::ElementsAre(4e6, 50'000.0));
  EXPECT_TRUE(while_all_ran({}).empty());
}

TEST(WhileAllRan, ADelayIsADifferenceOnlyIfBothTimesCount) {
  EXPECT_EQ(delay_while_all_ran(300.0, 420.0), 120.0);
  EXPECT_EQ(delay_while_all_ran(300.0, 280.0), -20.0);
  EXPECT_EQ(delay_while_all_ran(4e6, 420.0), 4e6) << "the lone one waited";
  EXPECT_EQ(delay_while_all_ran(300.0, 50'000.0), 50'000.0);
  EXPECT_EQ(delay_while_all_ran(3e6, 4e6), 4e6);
}

TEST(Quantile, IsLinearBetweenOrderStatistics) {
  const std::vector<double> values{0.0, 10.0, 20.0, 30.0, 40.0};
  EXPECT_EQ(quantile_of_sorted(values, 0.0), 0.0);
  EXPECT_EQ(quantile_of_sorted(values, 0.25), 10.0);
  EXPECT_DOUBLE_EQ(quantile_of_sorted(values, 0.9), 36.0);
  EXPECT_EQ(quantile_of_sorted(values, 1.0), 40.0);
}

TEST(Outliers, InterruptsAreDroppedAndTheRestIsKept) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> noise(100.0, 3.0);
  std::vector<double> values;
  for (int i = 0; i < 200; ++i) values.push_back(noise(random));
  for (int i = 0; i < 20; ++i) values.push_back(5'000.0 + 100.0 * i);
  const auto kept = without_outliers(values);
  EXPECT_GE(kept.size(), 198u);
  EXPECT_LE(kept.size(), 200u);
  EXPECT_LT(kept.back(), 130.0);
  EXPECT_TRUE(std::is_sorted(kept.begin(), kept.end()));
}

TEST(Outliers, ValuesWithinTheClocksResolutionStay) {
  // More than half of the values are equal, so the median deviation is 0. The others must not become outliers.
  const auto kept = without_outliers({100.0, 100.0, 100.0, 100.0, 101.0, 99.0, 102.0, 1000.0});
  EXPECT_THAT(kept, testing::ElementsAre(99.0, 100.0, 100.0, 100.0, 100.0, 101.0, 102.0));
  EXPECT_TRUE(without_outliers({}).empty());
}

TEST(Spread, IsInterquartileRangeOverMedian) {
  const std::vector<double> values{80.0, 90.0, 100.0, 110.0, 120.0};
  EXPECT_DOUBLE_EQ(relative_spread(values), 0.2);
  EXPECT_EQ(relative_spread(std::vector<double>{0.0, 0.0}), 0.0);
}

TEST(MedianInterval, RanksAreThoseOfTheTables) {
  // Published ranks of the 95 % interval of a median: n = 6: 1 and 6; n = 10: 2 and 9; n = 25: 8 and 18.
  const auto ranks = [](int n) {
    std::vector<double> sorted;
    for (int i = 1; i <= n; ++i) sorted.push_back(i);
    const auto interval = median_interval(sorted);
    return std::pair(interval.low, interval.high);
  };
  EXPECT_EQ(ranks(3), std::pair(1.0, 3.0));
  EXPECT_EQ(ranks(6), std::pair(1.0, 6.0));
  EXPECT_EQ(ranks(10), std::pair(2.0, 9.0));
  EXPECT_EQ(ranks(25), std::pair(8.0, 18.0));
  EXPECT_EQ(median_interval({}).high, 0.0);
}

TEST(MedianInterval, CoversTheTrueMedian) {
  // A skewed distribution with a known median: exponential, ln 2.
  std::mt19937_64 random(7);
  std::exponential_distribution<double> distribution(1.0);
  int covered = 0;
  constexpr int trials = 2'000;
  for (int trial = 0; trial < trials; ++trial) {
    std::vector<double> values(31);
    for (auto& value : values) value = distribution(random);
    std::sort(values.begin(), values.end());
    const auto interval = median_interval(values);
    covered += interval.low <= std::log(2.0) && std::log(2.0) <= interval.high;
  }
  EXPECT_GE(covered, trials * 94 / 100);
  EXPECT_LE(covered, trials * 99 / 100);
}

TEST(Series, FindsTheCostUnderNoiseInterruptsAndSpoiltRounds) {
  std::mt19937_64 random(3);
  std::normal_distribution<double> address(1.0, 0.02);  // a round's channel
  std::normal_distribution<double> noise(1.0, 0.05);    // a sample within it
  Series series;
  for (int round = 0; round < 40; ++round) {
    // In one round of ten, another process uses the PU during most samples.
    const bool spoilt = round % 10 == 9;
    const double center = 50.0 * address(random);
    std::vector<double> samples;
    for (int i = 0; i < 64; ++i) {
      samples.push_back(spoilt || i % 16 == 0 ? 3'000.0 : center * noise(random));
    }
    series.add_round(samples);
  }
  series.add_round({});
  EXPECT_EQ(series.rounds(), 40u);
  const auto estimate = series.estimate();
  EXPECT_NEAR(estimate.value, 50.0, 1.0);
  EXPECT_LT(estimate.error, 0.02);
  EXPECT_GT(estimate.error, 0.0);
  EXPECT_NEAR(estimate.spread, 0.0674, 0.015);  // of a normal distribution with sigma 5 %
}

TEST(Series, EmptyIsZero) {
  const auto estimate = Series().estimate();
  EXPECT_EQ(estimate.value, 0.0);
  EXPECT_EQ(estimate.spread, 0.0);
}

}  // namespace
}  // namespace smelt::measure
