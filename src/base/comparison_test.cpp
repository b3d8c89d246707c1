#include "base/comparison.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace smelt {
namespace {

std::vector<double> up_to(int n) {
  std::vector<double> values;
  for (int i = n; i >= 1; --i) values.push_back(i);
  return values;
}

TEST(MedianInterval, ConsistsOfOrderStatistics) {
  // By the tables of the binomial distribution: 2 P(X <= k), n coins.
  const struct {
    int n;
    double low, high, confidence;
  } known[] = {{1, 1, 1, 0.0},
               {2, 1, 2, 0.5},
               {6, 1, 6, 1 - 2.0 / 64},
               {7, 1, 7, 1 - 2.0 / 128},
               {10, 1, 10, 1 - 2.0 / 1024},
               {11, 2, 10, 1 - 24.0 / 2048},
               {14, 3, 12, 1 - 212.0 / 16384}};
  for (const auto& each : known) {
    const auto interval = median_interval(up_to(each.n), 0.02);
    EXPECT_EQ(interval.low, each.low) << each.n;
    EXPECT_EQ(interval.high, each.high) << each.n;
    EXPECT_EQ(interval.median, (each.n + 1) / 2.0) << each.n;
    EXPECT_NEAR(interval.confidence, each.confidence, 1e-9) << each.n;
    EXPECT_EQ(interval.count, static_cast<std::size_t>(each.n));
  }
  EXPECT_EQ(median_interval({}, 0.02).count, 0u);
  EXPECT_EQ(median_interval({}, 0.02).high, 0.0);
}

TEST(MedianInterval, LessDoubtIsWider) {
  EXPECT_EQ(median_interval(up_to(20), 0.05).low, 6);
  EXPECT_EQ(median_interval(up_to(20), 0.02).low, 5);
  EXPECT_EQ(median_interval(up_to(20), 0.0001).low, 2);
}

// The places come as close to the middle as there are any, and no closer.
TEST(MedianInterval, IsOfTheMiddleAtMost) {
  const struct {
    int n;
    double low, high;
  } known[] = {{2, 1, 2}, {3, 1, 3}, {4, 2, 3}, {5, 2, 4}, {6, 3, 4}, {7, 3, 5}, {8, 4, 5}, {9, 4, 6}};
  for (const auto& each : known) {
    const auto interval = median_interval(up_to(each.n), 1.0);
    EXPECT_EQ(interval.low, each.low) << each.n;
    EXPECT_EQ(interval.high, each.high) << each.n;
  }
}

TEST(MedianOf, DoesNotDependOnTheOrder) {
  EXPECT_EQ(median_of({}), 0.0);
  EXPECT_EQ(median_of({7}), 7.0);
  EXPECT_EQ(median_of({9, 1}), 5.0);
  EXPECT_EQ(median_of({3, 1, 2}), 2.0);
  EXPECT_EQ(median_of({100, 4, 1, 2}), 3.0);
  EXPECT_EQ(median_of({2, 4, 1, 100}), 3.0);
}

// Coverage, of a skewed distribution with outliers: no more misses than promised, and hardly fewer.
TEST(MedianInterval, ContainsTheMedianWithTheStatedConfidence) {
  std::mt19937_64 random(5);
  std::exponential_distribution<double> skewed;
  std::bernoulli_distribution interrupted(0.05);
  for (const int n : {7, 10, 14, 40}) {
    int held = 0;
    double promised = 0.0;
    constexpr int trials = 4000;
    for (int t = 0; t < trials; ++t) {
      std::vector<double> samples;
      for (int i = 0; i < n; ++i) {
        const double value = skewed(random);
        samples.push_back(interrupted(random) && value > 0.6931471805599453 ? 100.0 * value : value);
      }
      const auto interval = median_interval(samples, 0.02);
      promised = interval.confidence;
      held += interval.low <= 0.6931471805599453 && 0.6931471805599453 <= interval.high;
    }
    EXPECT_GE(promised, 0.98) << n;
    EXPECT_NEAR(held / static_cast<double>(trials), promised, 0.01) << n;
  }
}

TEST(Judge, DecidesByTheIntervalOnly) {
  const auto verdict = [](std::vector<double> ratios) { return judge(std::move(ratios)).verdict; };
  EXPECT_EQ(verdict({1.1, 1.2, 1.3, 1.4, 1.1, 1.2, 1.07}), Verdict::faster);
  EXPECT_EQ(verdict({1.1, 1.2, 1.3, 1.4, 1.1, 1.2, 0.99}), Verdict::undecided) << "one of seven is on the other side";
  EXPECT_EQ(verdict({0.9, 0.8, 0.7, 0.9, 0.8, 0.5, 0.99}), Verdict::slower);
  EXPECT_EQ(verdict({0.96, 0.97, 1.0, 1.01, 1.02, 1.03, 1.05}), Verdict::equal);
  EXPECT_EQ(verdict({0.96, 0.97, 1.0, 1.01, 1.02, 1.03, 1.06}), Verdict::undecided);
  EXPECT_EQ(verdict({1.01, 1.02, 1.02, 1.03, 1.03, 1.04, 1.2}), Verdict::undecided) << "a median within the margin";
  EXPECT_EQ(verdict({1.2, 1.2, 1.2, 1.2, 1.2, 1.2}), Verdict::undecided) << "six are not enough for 20 %";
  // At the bounds.
  EXPECT_EQ(verdict({0.95, 0.97, 1.0, 1.01, 1.02, 1.03, 1.0}), Verdict::equal);
  EXPECT_EQ(verdict({0.94, 0.97, 1.0, 1.01, 1.02, 1.03, 1.0}), Verdict::undecided);
  EXPECT_EQ(verdict({1.0, 1.1, 1.2, 1.1, 1.2, 1.1, 1.1}), Verdict::undecided);
  EXPECT_EQ(verdict({1.01, 1.05, 1.05, 1.05, 1.05, 1.05, 1.2}), Verdict::undecided);
  EXPECT_EQ(verdict({1.0, 0.9, 0.8, 0.9, 0.8, 0.9, 0.9}), Verdict::undecided);
  EXPECT_EQ(verdict({0.99, 0.95, 0.95, 0.95, 0.95, 0.95, 0.8}), Verdict::undecided);
  EXPECT_EQ(verdict({0.99, 0.96, 0.96, 0.96, 0.96, 0.96, 0.8}), Verdict::undecided) << "a median within the margin";
}

TEST(Judge, FewRatiosDecideClearCases) {
  const auto verdict = [](std::vector<double> ratios) { return judge(std::move(ratios)).verdict; };
  EXPECT_EQ(verdict({1.5, 2, 3}), Verdict::faster);
  EXPECT_EQ(verdict({0.5, 0.6, 0.7}), Verdict::slower);
  EXPECT_EQ(verdict({1.3, 2, 3}), Verdict::undecided);
  EXPECT_EQ(verdict({0.5, 0.6, 0.75}), Verdict::undecided);
  EXPECT_EQ(verdict({1.4, 2, 3}), Verdict::undecided);
  EXPECT_EQ(verdict({0.5, 0.6, 1 / 1.4}), Verdict::undecided);
  EXPECT_EQ(verdict({1, 1, 1}), Verdict::undecided) << "three are too few for equality";
  EXPECT_EQ(verdict({5, 5}), Verdict::undecided) << "two are a coincidence";
  EXPECT_EQ(verdict({}), Verdict::undecided);
}

TEST(Judge, OneOutlierOfManyChangesNothing) {
  std::vector<double> ratios(20, 1.0);
  ratios[3] = 50.0;
  ratios[4] = 0.01;
  EXPECT_EQ(judge(ratios).verdict, Verdict::equal);
}

// Two that take as long as each other, with the noise of a shared machine: of all looks together seldom a difference.
TEST(Judge, RepeatedLooksSeldomFindAFalseDifference) {
  std::mt19937_64 random(7);
  std::lognormal_distribution<double> noise(0.0, 0.15);
  int wrong = 0;
  constexpr int trials = 2000;
  for (int t = 0; t < trials; ++t) {
    std::vector<double> ratios;
    Verdict verdict = Verdict::undecided;
    for (std::size_t n = next_look(0); n <= 40 && verdict == Verdict::undecided; n = next_look(n)) {
      while (ratios.size() < n) ratios.push_back(noise(random) / noise(random));
      verdict = judge(ratios).verdict;
    }
    wrong += verdict == Verdict::faster || verdict == Verdict::slower;
  }
  EXPECT_LT(wrong, trials * 7 / 100);
}

TEST(NextLook, IsSeldomEnough) {
  std::vector<std::size_t> looks;
  for (std::size_t n = next_look(0); n <= 160; n = next_look(n)) looks.push_back(n);
  EXPECT_EQ(looks, (std::vector<std::size_t>{3, 7, 10, 14, 20, 28, 40, 56, 80, 160}));
  EXPECT_EQ(next_look(8), 10u);
  EXPECT_EQ(next_look(1), 3u);
  EXPECT_EQ(next_look(79), 80u);
}

TEST(Floor, MovesByMoreThanAFifth) {
  EXPECT_FALSE(floor_moved(100, 119));
  EXPECT_FALSE(floor_moved(119, 100));
  EXPECT_TRUE(floor_moved(100, 121));
  EXPECT_TRUE(floor_moved(121, 100));
  EXPECT_FALSE(floor_moved(100, 120));
  EXPECT_FALSE(floor_moved(0, 121)) << "not known";
  EXPECT_FALSE(floor_moved(100, 0));
  EXPECT_FALSE(floor_moved(-1, 121));
  EXPECT_FALSE(floor_moved(100, -1));
  EXPECT_FALSE(floor_moved({100, 50}, {110, 55}));
  EXPECT_TRUE(floor_moved({100, 50}, {130, 50}));
  EXPECT_TRUE(floor_moved({100, 50}, {100, 65}));
  EXPECT_FALSE(floor_moved({100, 0}, {100, 65}));
}

TEST(Remeasurements, ThreeTimesAtMostEach) {
  Remeasurements retakes;
  EXPECT_FALSE(retakes.again(false));
  EXPECT_EQ(retakes.taken_again(), 0);
  EXPECT_TRUE(retakes.again(true));
  EXPECT_FALSE(retakes.again(false)) << "the second time it stood still";
  EXPECT_EQ(retakes.taken_again(), 1);
  EXPECT_EQ(retakes.unsteady(), 0);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(retakes.again(true));
  EXPECT_FALSE(retakes.again(true)) << "kept after four takings";
  EXPECT_EQ(retakes.taken_again(), 4);
  EXPECT_EQ(retakes.unsteady(), 1);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(retakes.again(true)) << "the next thing has three of its own";
  EXPECT_FALSE(retakes.again(true));
  EXPECT_EQ(retakes.taken_again(), 7);
  EXPECT_EQ(retakes.unsteady(), 2);
}

TEST(Verdicts, HaveNames) {
  EXPECT_STREQ(to_string(Verdict::faster), "faster");
  EXPECT_STREQ(to_string(Verdict::equal), "equal");
  EXPECT_STREQ(to_string(Verdict::slower), "slower");
  EXPECT_STREQ(to_string(Verdict::undecided), "not decided");
}

}  // namespace
}  // namespace smelt
