#include "base/pu_contention.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace smelt {
namespace {

constexpr std::uint64_t us = 1'000;
constexpr std::uint64_t ms = 1'000'000;
constexpr std::uint64_t slice = 3 * ms;
constexpr std::uint64_t start = 1'000'000 * ms;

/// A waiter in a made-up time: it wants to yield all the time, and does where that has no price.
struct Yielder {
  YieldSuppression& yield_suppression;
  PuContention contention{yield_suppression};
  std::uint64_t now = start;
  std::uint64_t yields = 0;
  std::uint64_t given = 0;  ///< time that its yields have taken

  /// Until `end`: yields that take `took`, and what happens beside them.
  void live(std::uint64_t end, std::uint64_t took) {
    while (now < end) {
      now += 100 * us;
      if (contention.take_slices(now)) continue;
      now += took;
      given += took;
      ++yields;
      contention.yielded(now, took);
    }
  }
};

TEST(PuContention, OneLongYieldMayBeAnything) {
  YieldSuppression yield_suppression;
  PuContention contention(yield_suppression);
  contention.yielded(start, slice);
  EXPECT_FALSE(contention.take_slices(start));
  // Long after, another one.
  contention.yielded(start + 1'000 * ms, slice);
  EXPECT_FALSE(contention.take_slices(start + 1'000 * ms));
}

TEST(PuContention, TwoLongYieldsInARowHaveAPriceForAllWaiters) {
  YieldSuppression yield_suppression;
  PuContention contention(yield_suppression), others(yield_suppression);
  contention.yielded(start, slice);
  contention.yielded(start + 4 * ms, slice);
  EXPECT_TRUE(contention.take_slices(start + 4 * ms));
  EXPECT_TRUE(others.take_slices(start + 4 * ms));
}

TEST(PuContention, LongYieldsOfTwoWaitersAreNoProof) {
  YieldSuppression yield_suppression;
  PuContention contention(yield_suppression), others(yield_suppression);
  contention.yielded(start, slice);
  others.yielded(start, slice);
  EXPECT_FALSE(others.take_slices(start));
}

TEST(PuContention, YieldsAtOnceOrToThoseWhoWaitNeverHaveAPrice) {
  YieldSuppression yield_suppression;
  Yielder yielder{yield_suppression};
  yielder.live(start + 100 * ms, 1 * us);
  yielder.live(start + 200 * ms, PuContention::slice_ns);
  EXPECT_FALSE(yielder.contention.take_slices(yielder.now));
}

TEST(PuContention, TryingTakesABoundedPartOfTheTime) {
  for (const auto took : {250 * us, 1 * ms, slice, 30 * ms}) {
    YieldSuppression yield_suppression;
    Yielder yielder{yield_suppression};
    for (int second = 1; second <= 60; ++second) {
      yielder.live(start + static_cast<std::uint64_t>(second) * 1'000 * ms, took);
      // Two to find out, one more that may have ended just now.
      EXPECT_LE(yielder.given, 3 * took + (yielder.now - start) / YieldSuppression::factor)
          << took << " ns, second " << second;
    }
    // Ever more seldom.
    EXPECT_LE(yielder.yields, 32u);
  }
}

TEST(PuContention, YieldsAreBackAsSoonAsTheTimeThatTheyHadAPriceHasPassedAgain) {
  for (const auto lasted : {10 * ms, 100 * ms, 1'000 * ms, 100'000 * ms}) {
    YieldSuppression yield_suppression;
    Yielder yielder{yield_suppression};
    yielder.live(start + lasted, slice);
    const auto gone = yielder.now;
    const auto before = yielder.yields;
    while (yielder.yields == before) yielder.live(yielder.now + 1, 1 * us);
    EXPECT_LE(yielder.now - gone,
              std::min(YieldSuppression::longest_ns, 2 * lasted + YieldSuppression::factor * slice) + ms)
        << lasted;
  }
}

TEST(PuContention, APauseLongAgoDoesNotMakeTheNextOneLonger) {
  YieldSuppression yield_suppression;
  Yielder yielder{yield_suppression};
  yielder.live(start + 10'000 * ms, slice);
  yielder.live(start + 100'000 * ms, 1 * us);
  ASSERT_FALSE(yielder.contention.take_slices(yielder.now));
  // New evidence is needed, and the first pause is short.
  yielder.contention.yielded(yielder.now, slice);
  EXPECT_FALSE(yielder.contention.take_slices(yielder.now));
  yielder.contention.yielded(yielder.now + slice, slice);
  EXPECT_TRUE(yielder.contention.take_slices(yielder.now + slice));
  EXPECT_FALSE(yielder.contention.take_slices(yielder.now + slice + YieldSuppression::factor * slice));
}

TEST(YieldSuppression, LastsForSoManySlicesAndIsRecentForTwiceAsLongAgain) {
  YieldSuppression yield_suppression;
  EXPECT_FALSE(yield_suppression.recent(0));
  yield_suppression.begin(start, 10);
  const auto pause = YieldSuppression::factor * 10, until = start + pause;
  EXPECT_TRUE(yield_suppression.holds(until - 1));
  EXPECT_FALSE(yield_suppression.holds(until));
  EXPECT_TRUE(yield_suppression.recent(until + 2 * pause - 1));
  EXPECT_FALSE(yield_suppression.recent(until + 2 * pause));
  yield_suppression.begin(until - 1, 1000);  // while it holds: another waiter has found out, too
  EXPECT_FALSE(yield_suppression.holds(until));
}

TEST(YieldSuppression, IsTwiceAsLongEachTimeAsLongAsItIsRecent) {
  YieldSuppression yield_suppression;
  yield_suppression.begin(start, 10);
  auto pause = YieldSuppression::factor * 10, until = start + pause;
  while (2 * pause < YieldSuppression::longest_ns) {
    yield_suppression.begin(until + 2 * pause - 1, 10);
    until += 4 * pause - 1;
    pause *= 2;
    ASSERT_TRUE(yield_suppression.holds(until - 1));
    ASSERT_FALSE(yield_suppression.holds(until));
  }
  yield_suppression.begin(until, 10);
  EXPECT_TRUE(yield_suppression.holds(until + YieldSuppression::longest_ns - 1));
  EXPECT_FALSE(yield_suppression.holds(until + YieldSuppression::longest_ns));
  until += YieldSuppression::longest_ns;
  yield_suppression.begin(until + 2 * YieldSuppression::longest_ns, 10);  // not recent any more
  EXPECT_FALSE(yield_suppression.holds(until + 2 * YieldSuppression::longest_ns + YieldSuppression::factor * 10));
}

// A suspicion: until so many lengths of the first yield after its end, for yields that began before.
TEST(PuContention, ASecondLongYieldIsProofIfItBeganSoonEnough) {
  for (const std::uint64_t late : {0, 1}) {
    YieldSuppression yield_suppression;
    PuContention contention(yield_suppression);
    contention.yielded(start, slice);
    const auto ends = start + YieldSuppression::factor * slice;
    EXPECT_TRUE(contention.watches(ends - 1));
    EXPECT_FALSE(contention.watches(ends));
    contention.yielded(ends + slice - 1 + late, slice);
    EXPECT_EQ(contention.take_slices(ends + slice), late == 0);
  }
}

// Longer than four times what one takes when nobody else wants the PU, and not longer than a slice.
TEST(PuContention, ACrowdIsMadeOfYieldsOfTheirLength) {
  struct Case {
    std::uint64_t took;
    bool crowd;
  };
  for (const auto& [took, crowd] : {Case{2000, false}, Case{2001, true}, Case{PuContention::slice_ns, true}}) {
    YieldSuppression yield_suppression;
    PuContention contention(yield_suppression);  // until now one takes 500 ns
    contention.yielded(start, took);
    EXPECT_FALSE(contention.crowd());
    contention.yielded(start, took);
    EXPECT_EQ(contention.crowd(), crowd) << took;
  }
  YieldSuppression yield_suppression;
  PuContention contention(yield_suppression);
  contention.yielded(start, 100);
  for (int i = 0; i < 100; ++i) contention.yielded(start, 401);
  for (int i = 0; i < 12; ++i) contention.yielded(start, 400);
  EXPECT_TRUE(contention.crowd());
  contention.yielded(start, 400);
  EXPECT_FALSE(contention.crowd());
  contention.yielded(start, 401);
  EXPECT_TRUE(contention.crowd());
  contention.spun();
  contention.spun();
  EXPECT_FALSE(contention.crowd());
  for (int i = 0; i < 20; ++i) contention.spun();
  contention.yielded(start, 401);
  EXPECT_FALSE(contention.crowd());
}

TEST(PuContention, RestsAreTwiceAsLongEachTimeAndHalfAsLongForEachSpinThatHelps) {
  YieldSuppression yield_suppression;
  PuContention contention(yield_suppression);
  const auto rests = [&] {
    int count = 0;
    while (contention.sleeps_at_once()) ++count;
    return count;
  };
  EXPECT_FALSE(contention.settled());
  for (const int rest : {1, 2, 4, 8, 16, 32, 64, 128, 128}) {
    contention.settle();
    EXPECT_TRUE(contention.settled());
    EXPECT_EQ(rests(), rest);
    EXPECT_FALSE(contention.settled());
  }
  for (int i = 0; i < 5; ++i) contention.spun();
  contention.settle();
  EXPECT_EQ(rests(), 4);
  for (int i = 0; i < 10; ++i) contention.spun();
  contention.settle();
  EXPECT_EQ(rests(), 1);
}

TEST(PuContention, CrowdIsLearnedAndForgottenByYields) {
  YieldSuppression yield_suppression;
  PuContention contention(yield_suppression);
  std::uint64_t now = start;
  EXPECT_FALSE(contention.crowd());
  for (int i = 0; i < 2; ++i) contention.yielded(++now, 10 * us);
  EXPECT_TRUE(contention.crowd());
  for (int i = 0; i < 16; ++i) contention.yielded(++now, 300);
  EXPECT_FALSE(contention.crowd());
}

/// Waits in a yield suppression, of which spinning ends those of which `helps(n)` is true: how many are spun in vain.
template <class Helps>
int vain_spins(int waits, const Helps& helps) {
  YieldSuppression yield_suppression;
  PuContention contention(yield_suppression);
  int vain = 0;
  for (int wait = 0; wait < waits; ++wait) {
    if (contention.sleeps_at_once()) continue;
    if (helps(wait)) {
      contention.spun();
    } else {
      ++vain;
      contention.settle();
    }
  }
  return vain;
}

TEST(PuContention, SpinningThatNeverHelpsIsTriedEverMoreSeldom) {
  EXPECT_LE(vain_spins(100, [](int) { return false; }), 7);
  EXPECT_LE(vain_spins(12'800, [](int) { return false; }), 8 + 100);
}

TEST(PuContention, SpinningThatMostlyHelpsIsGoneOnWith) {
  int helped = 0;
  const int vain = vain_spins(10'000, [&](int wait) {
    const bool helps = wait % 50 != 49;
    helped += helps ? 1 : 0;
    return helps;
  });
  EXPECT_LE(vain, 200);
  EXPECT_GE(helped, 9'300);  // so few have slept at once
}

TEST(PuContention, SpinsInVainAreAtMostSomeMoreThanThoseThatHelp) {
  for (const int every : {2, 3, 5}) {
    int helped = 0;
    const int waits = 12'800;
    const int vain = vain_spins(waits, [&](int wait) {
      const bool helps = wait % every == 0;
      helped += helps ? 1 : 0;
      return helps;
    });
    EXPECT_LE(vain, helped + 8 + waits / 128) << every;
  }
}

TEST(PuContention, ACrowdSeenInYieldsSaysNothingInATruce) {
  YieldSuppression yield_suppression;
  PuContention contention(yield_suppression);
  for (int i = 0; i < 4; ++i) contention.yielded(start, 10 * us);
  ASSERT_TRUE(contention.crowd());
  contention.settle();
  EXPECT_FALSE(contention.crowd());
  EXPECT_TRUE(contention.settled());
  EXPECT_TRUE(contention.sleeps_at_once());
  EXPECT_FALSE(contention.sleeps_at_once());
}

TEST(PuContention, ManyDisplacedYieldsAreToldOnce) {
  YieldSuppression yield_suppression;
  PuContention contention(yield_suppression);
  std::uint64_t now = start;
  for (int i = 0; i < 127; ++i) contention.yielded(++now, 10 * us);
  EXPECT_FALSE(contention.keep_displacing());
  contention.yielded(++now, 10 * us);
  EXPECT_TRUE(contention.keep_displacing());
  EXPECT_FALSE(contention.keep_displacing());
  // A yield at once counts for four of them.
  for (int i = 0; i < 127; ++i) contention.yielded(++now, 10 * us);
  contention.yielded(++now, 100);
  for (int i = 0; i < 4; ++i) contention.yielded(++now, 10 * us);
  EXPECT_FALSE(contention.keep_displacing());
  contention.yielded(++now, 10 * us);
  EXPECT_TRUE(contention.keep_displacing());
  contention.yielded(++now, 100);  // never less than none
  EXPECT_FALSE(contention.keep_displacing());
}

}  // namespace
}  // namespace smelt
