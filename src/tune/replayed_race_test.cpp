// Which moments are usual, and what races make of rounds of other moments.
#include "tune/replayed_race.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace smelt::comm {
namespace {

MATCHER_P(AboutNs, ns, "") { return arg > ns * 0.97 && arg < ns * 1.03; }

/// Looks every 10 ms for so long.
void watch(BaselineTime& barriers, double from_s, double to_s, double ns) {
  for (double at = from_s; at < to_s; at += 0.01) barriers.add(at, ns);
}

TEST(BaselineTime, NothingIsUnusualAtFirst) {
  BaselineTime barriers;
  EXPECT_EQ(barriers.ns(), 0.0);
  EXPECT_TRUE(barriers.is_usual(7.0));
  barriers.add(0.0, 0.0);
  EXPECT_EQ(barriers.ns(), 0.0) << "what is not known tells nothing";
  barriers.add(1.0, 100.0);
  EXPECT_THAT(barriers.ns(), AboutNs(100.0));
  EXPECT_FALSE(barriers.is_usual(1000.0));
  EXPECT_TRUE(barriers.is_usual(0.0)) << "what is not known passes";
}

TEST(BaselineTime, IsTheLowerQuartileOverTheTime) {
  BaselineTime barriers;
  watch(barriers, 0.0, 1.0, 240.0);
  EXPECT_THAT(barriers.ns(), AboutNs(240.0));
  watch(barriers, 1.0, 1.2, 70.0);
  EXPECT_THAT(barriers.ns(), AboutNs(240.0)) << "0.2 s of 1.2: an exception";
  watch(barriers, 1.2, 1.5, 70.0);
  EXPECT_THAT(barriers.ns(), AboutNs(70.0)) << "0.5 s of 1.5: the machine at its best";
  watch(barriers, 1.5, 2.5, 250.0);
  EXPECT_THAT(barriers.ns(), AboutNs(240.0));
}

TEST(BaselineTime, HowOftenIsLookedDoesNotMatter) {
  BaselineTime barriers;
  for (int i = 1; i <= 20; ++i) barriers.add(0.09 * i, 70.0);
  for (int i = 0; i < 1000; ++i) barriers.add(1.8 + 1e-4 * i, 20.0);
  EXPECT_THAT(barriers.ns(), AboutNs(70.0));
}

TEST(BaselineTime, APauseTellsNothing) {
  BaselineTime barriers;
  watch(barriers, 0.0, 1.0, 70.0);
  barriers.add(60.0, 20.0);
  EXPECT_THAT(barriers.ns(), AboutNs(70.0));
}

TEST(BaselineTime, IsNearWithinAFactor) {
  EXPECT_TRUE(BaselineTime::is_near(100.0, 149.0));
  EXPECT_TRUE(BaselineTime::is_near(149.0, 100.0));
  EXPECT_FALSE(BaselineTime::is_near(100.0, 151.0));
  EXPECT_FALSE(BaselineTime::is_near(151.0, 100.0));
}

TEST(BaselineTime, HoldsTimesOfEverySize) {
  for (const double ns : {0.1, 3.0, 1e3, 1e9, 1e15}) {
    BaselineTime barriers;
    barriers.add(0.0, ns);
    EXPECT_THAT(barriers.ns(), AboutNs(std::clamp(ns, 1.0, 1.1e12)));
  }
}

/// A machine on which the first contender is the faster one at 70 ns, the second one at 250.
class TwoMachines {
 public:
  ReplayedRace race{2, {}, 1};
  BaselineTime barriers;

  void rounds(int count, double barrier_ns) {
    for (int i = 0; i < count; ++i) {
      barriers.add(at_s_ += 0.01, barrier_ns);
      std::vector<double> times(2, 0.0);
      for (const auto each : race.next_order()) times[each] = (each == 0) == (barrier_ns < 100.0) ? 1000.0 : 1200.0;
      race.add_round(barrier_ns, times, barriers);
    }
  }

 private:
  double at_s_ = 0.0;
};

TEST(ReplayedRace, RoundsOfUnusualMomentsDecideNothing) {
  TwoMachines now;
  now.rounds(5, 70.0);
  now.rounds(4, 250.0);
  EXPECT_EQ(now.race.rounds(), 5);
  EXPECT_EQ(now.race.all_rounds(), 9u);
  EXPECT_FALSE(now.race.decided());
  now.rounds(2, 70.0);
  EXPECT_TRUE(now.race.decided()) << "seven rounds alike";
  const auto verdict = now.race.verdict();
  EXPECT_TRUE(verdict.conclusive);
  EXPECT_EQ(verdict.race.leader(), 0u);
  EXPECT_EQ(verdict.race.standing(1), AlgorithmRace::Standing::out);
}

TEST(ReplayedRace, IsRunAgainWhereOtherRoundsCount) {
  TwoMachines now;
  now.rounds(3, 70.0);
  now.rounds(9, 250.0);
  EXPECT_EQ(now.race.rounds(), 6) << "the first ones of both moments were usual when they came";
  EXPECT_FALSE(now.race.decided()) << "they contradict each other";
  EXPECT_TRUE(now.race.replay(now.barriers));
  EXPECT_FALSE(now.race.replay(now.barriers)) << "nothing has changed since";
  EXPECT_EQ(now.race.rounds(), 7) << "of one moment, which is enough";
  const auto verdict = now.race.verdict();
  EXPECT_EQ(verdict.race.leader(), 1u);
}

TEST(ReplayedRace, WithoutUsualRoundsTheOthersDecide) {
  TwoMachines now;
  for (int i = 0; i < 100; ++i) now.barriers.add(-10.0 + 0.05 * i, 70.0);
  now.rounds(2, 250.0);
  EXPECT_EQ(now.race.rounds(), 0);
  EXPECT_FALSE(now.race.verdict().conclusive) << "two rounds say nothing";
  now.rounds(1, 250.0);
  const auto verdict = now.race.verdict();
  EXPECT_TRUE(verdict.conclusive);
  EXPECT_EQ(verdict.race.leader(), 1u);
}

TEST(ReplayedRace, ALoneContenderHasWonButIsTimed) {
  BaselineTime barriers;
  for (int i = 0; i < 100; ++i) barriers.add(0.05 * i, 70.0);
  ReplayedRace race(1, {}, 1);
  EXPECT_TRUE(race.decided());
  EXPECT_FALSE(race.verdict().conclusive) << "nothing is known";
  race.add_round(250.0, {1200.0}, barriers);
  EXPECT_TRUE(race.verdict().conclusive);
  EXPECT_EQ(race.verdict().race.time_ns(0), 1200.0) << "of an unusual moment, as there is no other";
  race.add_round(70.0, {1000.0}, barriers);
  EXPECT_EQ(race.verdict().race.time_ns(0), 1000.0);
}

}  // namespace
}  // namespace smelt::comm
