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
}

}  // namespace
}  // namespace smelt
