#include "base/neighbours.hpp"

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
  Truce& truce;
  Neighbours neighbours{truce};
  std::uint64_t now = start;
  std::uint64_t yields = 0;
  std::uint64_t given = 0;  ///< time that its yields have taken

  /// Until `end`: yields that take `took`, and what happens beside them.
  void live(std::uint64_t end, std::uint64_t took) {
    while (now < end) {
      now += 100 * us;
      if (neighbours.take_slices(now)) continue;
      now += took;
      given += took;
      ++yields;
      neighbours.yielded(now, took);
    }
  }
};

TEST(Neighbours, OneLongYieldMayBeAnything) {
  Truce truce;
  Neighbours neighbours(truce);
  neighbours.yielded(start, slice);
  EXPECT_FALSE(neighbours.take_slices(start));
  // Long after, another one.
  neighbours.yielded(start + 1'000 * ms, slice);
  EXPECT_FALSE(neighbours.take_slices(start + 1'000 * ms));
}

TEST(Neighbours, TwoLongYieldsInARowHaveAPriceForAllWaiters) {
  Truce truce;
  Neighbours neighbours(truce), others(truce);
  neighbours.yielded(start, slice);
  neighbours.yielded(start + 4 * ms, slice);
  EXPECT_TRUE(neighbours.take_slices(start + 4 * ms));
  EXPECT_TRUE(others.take_slices(start + 4 * ms));
}

TEST(Neighbours, LongYieldsOfTwoWaitersAreNoProof) {
  Truce truce;
  Neighbours neighbours(truce), others(truce);
  neighbours.yielded(start, slice);
  others.yielded(start, slice);
  EXPECT_FALSE(others.take_slices(start));
}

TEST(Neighbours, YieldsAtOnceOrToThoseWhoWaitNeverHaveAPrice) {
  Truce truce;
  Yielder yielder{truce};
  yielder.live(start + 100 * ms, 1 * us);
  yielder.live(start + 200 * ms, Neighbours::slice_ns);
  EXPECT_FALSE(yielder.neighbours.take_slices(yielder.now));
}

TEST(Neighbours, TryingTakesABoundedPartOfTheTime) {
  for (const auto took : {250 * us, 1 * ms, slice, 30 * ms}) {
    Truce truce;
    Yielder yielder{truce};
    for (int second = 1; second <= 60; ++second) {
      yielder.live(start + static_cast<std::uint64_t>(second) * 1'000 * ms, took);
      // Two to find out, one more that may have ended just now.
      EXPECT_LE(yielder.given, 3 * took + (yielder.now - start) / Truce::factor) << took << " ns, second " << second;
    }
    // Ever more seldom.
    EXPECT_LE(yielder.yields, 32u);
  }
}

TEST(Neighbours, YieldsAreBackAsSoonAsTheTimeThatTheyHadAPriceHasPassedAgain) {
  for (const auto lasted : {10 * ms, 100 * ms, 1'000 * ms, 100'000 * ms}) {
    Truce truce;
    Yielder yielder{truce};
    yielder.live(start + lasted, slice);
    const auto gone = yielder.now;
    const auto before = yielder.yields;
    while (yielder.yields == before) yielder.live(yielder.now + 1, 1 * us);
    EXPECT_LE(yielder.now - gone, std::min(Truce::longest_ns, 2 * lasted + Truce::factor * slice) + ms) << lasted;
  }
}

TEST(Neighbours, APauseLongAgoDoesNotMakeTheNextOneLonger) {
  Truce truce;
  Yielder yielder{truce};
  yielder.live(start + 10'000 * ms, slice);
  yielder.live(start + 100'000 * ms, 1 * us);
  ASSERT_FALSE(yielder.neighbours.take_slices(yielder.now));
  // New evidence is needed, and the first pause is short.
  yielder.neighbours.yielded(yielder.now, slice);
  EXPECT_FALSE(yielder.neighbours.take_slices(yielder.now));
  yielder.neighbours.yielded(yielder.now + slice, slice);
  EXPECT_TRUE(yielder.neighbours.take_slices(yielder.now + slice));
  EXPECT_FALSE(yielder.neighbours.take_slices(yielder.now + slice + Truce::factor * slice));
}

TEST(Truce, LastsForSoManySlicesAndIsRecentForTwiceAsLongAgain) {
  Truce truce;
  EXPECT_FALSE(truce.recent(0));
  truce.begin(start, 10);
  const auto pause = Truce::factor * 10, until = start + pause;
  EXPECT_TRUE(truce.holds(until - 1));
  EXPECT_FALSE(truce.holds(until));
  EXPECT_TRUE(truce.recent(until + 2 * pause - 1));
  EXPECT_FALSE(truce.recent(until + 2 * pause));
  truce.begin(until - 1, 1000);  // while it holds: another waiter has found out, too
  EXPECT_FALSE(truce.holds(until));
}

TEST(Truce, IsTwiceAsLongEachTimeAsLongAsItIsRecent) {
  Truce truce;
  truce.begin(start, 10);
  auto pause = Truce::factor * 10, until = start + pause;
  while (2 * pause < Truce::longest_ns) {
    truce.begin(until + 2 * pause - 1, 10);
    until += 4 * pause - 1;
    pause *= 2;
    ASSERT_TRUE(truce.holds(until - 1));
    ASSERT_FALSE(truce.holds(until));
  }
  truce.begin(until, 10);
  EXPECT_TRUE(truce.holds(until + Truce::longest_ns - 1));
  EXPECT_FALSE(truce.holds(until + Truce::longest_ns));
  until += Truce::longest_ns;
  truce.begin(until + 2 * Truce::longest_ns, 10);  // not recent any more
  EXPECT_FALSE(truce.holds(until + 2 * Truce::longest_ns + Truce::factor * 10));
}

// A suspicion: until so many lengths of the first yield after its end, for yields that began before.
TEST(Neighbours, ASecondLongYieldIsProofIfItBeganSoonEnough) {
  for (const std::uint64_t late : {0, 1}) {
    Truce truce;
    Neighbours neighbours(truce);
    neighbours.yielded(start, slice);
    const auto ends = start + Truce::factor * slice;
    EXPECT_TRUE(neighbours.watches(ends - 1));
    EXPECT_FALSE(neighbours.watches(ends));
    neighbours.yielded(ends + slice - 1 + late, slice);
    EXPECT_EQ(neighbours.take_slices(ends + slice), late == 0);
  }
}

// Longer than four times what one takes when nobody else wants the PU, and not longer than a slice.
TEST(Neighbours, ACrowdIsMadeOfYieldsOfTheirLength) {
  struct Case {
    std::uint64_t took;
    bool crowd;
  };
  for (const auto& [took, crowd] : {Case{2000, false}, Case{2001, true}, Case{Neighbours::slice_ns, true}}) {
    Truce truce;
    Neighbours neighbours(truce);  // until now one takes 500 ns
    neighbours.yielded(start, took);
    EXPECT_FALSE(neighbours.crowd());
    neighbours.yielded(start, took);
    EXPECT_EQ(neighbours.crowd(), crowd) << took;
  }
  Truce truce;
  Neighbours neighbours(truce);
  neighbours.yielded(start, 100);
  for (int i = 0; i < 100; ++i) neighbours.yielded(start, 401);
  for (int i = 0; i < 12; ++i) neighbours.yielded(start, 400);
  EXPECT_TRUE(neighbours.crowd());
  neighbours.yielded(start, 400);
  EXPECT_FALSE(neighbours.crowd());
  neighbours.yielded(start, 401);
  EXPECT_TRUE(neighbours.crowd());
  neighbours.spun();
  neighbours.spun();
  EXPECT_FALSE(neighbours.crowd());
  for (int i = 0; i < 20; ++i) neighbours.spun();
  neighbours.yielded(start, 401);
  EXPECT_FALSE(neighbours.crowd());
}

TEST(Neighbours, RestsAreTwiceAsLongEachTimeAndHalfAsLongForEachSpinThatHelps) {
  Truce truce;
  Neighbours neighbours(truce);
  const auto rests = [&] {
    int count = 0;
    while (neighbours.sleeps_at_once()) ++count;
    return count;
  };
  EXPECT_FALSE(neighbours.settled());
  for (const int rest : {1, 2, 4, 8, 16, 32, 64, 128, 128}) {
    neighbours.settle();
    EXPECT_TRUE(neighbours.settled());
    EXPECT_EQ(rests(), rest);
    EXPECT_FALSE(neighbours.settled());
  }
  for (int i = 0; i < 5; ++i) neighbours.spun();
  neighbours.settle();
  EXPECT_EQ(rests(), 4);
  for (int i = 0; i < 10; ++i) neighbours.spun();
  neighbours.settle();
  EXPECT_EQ(rests(), 1);
}

TEST(Neighbours, CrowdIsLearnedAndForgottenByYields) {
  Truce truce;
  Neighbours neighbours(truce);
  std::uint64_t now = start;
  EXPECT_FALSE(neighbours.crowd());
  for (int i = 0; i < 2; ++i) neighbours.yielded(++now, 10 * us);
  EXPECT_TRUE(neighbours.crowd());
  for (int i = 0; i < 16; ++i) neighbours.yielded(++now, 300);
  EXPECT_FALSE(neighbours.crowd());
}

/// Waits in a truce, of which spinning ends those of which `helps(n)` is true: how many are spun in vain.
template <class Helps>
int vain_spins(int waits, const Helps& helps) {
  Truce truce;
  Neighbours neighbours(truce);
  int vain = 0;
  for (int wait = 0; wait < waits; ++wait) {
    if (neighbours.sleeps_at_once()) continue;
    if (helps(wait)) {
      neighbours.spun();
    } else {
      ++vain;
      neighbours.settle();
    }
  }
  return vain;
}

TEST(Neighbours, SpinningThatNeverHelpsIsTriedEverMoreSeldom) {
  EXPECT_LE(vain_spins(100, [](int) { return false; }), 7);
  EXPECT_LE(vain_spins(12'800, [](int) { return false; }), 8 + 100);
}

TEST(Neighbours, SpinningThatMostlyHelpsIsGoneOnWith) {
  int helped = 0;
  const int vain = vain_spins(10'000, [&](int wait) {
    const bool helps = wait % 50 != 49;
    helped += helps ? 1 : 0;
    return helps;
  });
  EXPECT_LE(vain, 200);
  EXPECT_GE(helped, 9'300);  // so few have slept at once
}

TEST(Neighbours, SpinsInVainAreAtMostSomeMoreThanThoseThatHelp) {
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

TEST(Neighbours, ACrowdSeenInYieldsSaysNothingInATruce) {
  Truce truce;
  Neighbours neighbours(truce);
  for (int i = 0; i < 4; ++i) neighbours.yielded(start, 10 * us);
  ASSERT_TRUE(neighbours.crowd());
  neighbours.settle();
  EXPECT_FALSE(neighbours.crowd());
  EXPECT_TRUE(neighbours.settled());
  EXPECT_TRUE(neighbours.sleeps_at_once());
  EXPECT_FALSE(neighbours.sleeps_at_once());
}

TEST(Neighbours, ManyDisplacedYieldsAreToldOnce) {
  Truce truce;
  Neighbours neighbours(truce);
  std::uint64_t now = start;
  for (int i = 0; i < 127; ++i) neighbours.yielded(++now, 10 * us);
  EXPECT_FALSE(neighbours.keep_displacing());
  neighbours.yielded(++now, 10 * us);
  EXPECT_TRUE(neighbours.keep_displacing());
  EXPECT_FALSE(neighbours.keep_displacing());
  // A yield at once counts for four of them.
  for (int i = 0; i < 127; ++i) neighbours.yielded(++now, 10 * us);
  neighbours.yielded(++now, 100);
  for (int i = 0; i < 4; ++i) neighbours.yielded(++now, 10 * us);
  EXPECT_FALSE(neighbours.keep_displacing());
  neighbours.yielded(++now, 10 * us);
  EXPECT_TRUE(neighbours.keep_displacing());
  neighbours.yielded(++now, 100);  // never less than none
  EXPECT_FALSE(neighbours.keep_displacing());
}

}  // namespace
}  // namespace smelt
