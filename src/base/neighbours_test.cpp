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

TEST(Neighbours, SpinningInVainIsTriedAgainAfterManyWaitsOnly) {
  Truce truce;
  Neighbours neighbours(truce);
  neighbours.spun_in_vain();
  int waits = 0;
  for (; neighbours.crowd(); ++waits) neighbours.slept();
  EXPECT_GE(waits, 100);
  neighbours.spun();
  EXPECT_FALSE(neighbours.crowd());
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
