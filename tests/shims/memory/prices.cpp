// When the memory library thinks huge pages dear, how many blocks it collapses, and how long it trusts a look at
// limits.
#include "shims/memory/prices.hpp"

#include <gtest/gtest.h>

#include <cstdint>

#include "shims/memory/left.hpp"

namespace smelt::shims::memory {
namespace {

constexpr std::int64_t ms = 1'000'000, s = 1000 * ms;

TEST(PagePrices, NothingIsKnownAtFirst) {
  const PagePrices prices;
  EXPECT_FALSE(prices.known());
  EXPECT_FALSE(prices.dear());
  EXPECT_EQ(prices.huge_ns(), 0);
}

TEST(PagePrices, TheFirstPageDecidesAlone) {
  PagePrices prices;
  prices.add(5 * ms, s, [] { return ms; });
  EXPECT_TRUE(prices.known());
  EXPECT_TRUE(prices.dear());
  EXPECT_EQ(prices.huge_ns(), 5 * ms);
  EXPECT_EQ(prices.last_ns(), s);
}

TEST(PagePrices, LaterOnTwoInARowDo) {
  PagePrices prices;
  prices.add(ms / 10, s, [] { return ms; });
  EXPECT_TRUE(prices.known());
  EXPECT_FALSE(prices.dear());
  prices.add(5 * ms, s, [] { return ms; });
  EXPECT_FALSE(prices.dear());
  prices.add(5 * ms, s, [] { return ms; });
  EXPECT_TRUE(prices.dear());
  prices.add(ms / 10, s, [] { return ms; });
  EXPECT_FALSE(prices.dear());
  prices.add(5 * ms, s, [] { return ms; });
  EXPECT_FALSE(prices.dear());
}

/// Memory that nobody has used yet costs as much in small pages.
TEST(PagePrices, AsDearAsSmallPagesIsNotDear) {
  PagePrices prices;
  prices.add(5 * ms, s, [] { return 4 * ms; });
  EXPECT_FALSE(prices.dear());
  prices.add(8 * ms, s, [] { return 4 * ms; });
  prices.add(8 * ms, s, [] { return 4 * ms; });
  EXPECT_FALSE(prices.dear());
  prices.add(8 * ms + 1, s, [] { return 4 * ms; });
  prices.add(8 * ms + 1, s, [] { return 4 * ms; });
  EXPECT_TRUE(prices.dear());
}

TEST(PagePrices, SmallPagesAreAskedForSeldom) {
  PagePrices prices;
  int asked = 0;
  const auto small = [&asked] {
    ++asked;
    return asked == 1 ? ms : 4 * ms;
  };
  prices.add(ms / 10, s, small);
  EXPECT_EQ(asked, 0);
  for (std::int64_t now = s; now < 2 * s; now += s / 4) prices.add(5 * ms, now, small);
  EXPECT_EQ(asked, 1);
  EXPECT_TRUE(prices.dear());
  prices.add(5 * ms, 2 * s, small);
  EXPECT_EQ(asked, 2);
  EXPECT_FALSE(prices.dear());
}

/// How many collapses of that price there are, one every 20 ms, until so much processor time of one thread is used.
int collapses(std::int64_t huge_ns, std::int64_t until_ns, bool pu_is_idle) {
  CollapseBudget budget;
  int count = 0;
  for (std::int64_t now = 0; now <= until_ns; now += 20 * ms) {
    if (!budget.allows(huge_ns, now, now, pu_is_idle)) continue;
    budget.add(CollapseBudget::usual_ns + huge_ns);
    ++count;
  }
  return count;
}

TEST(CollapseBudget, CheapOnesTakeAShareOfTheProcessorTime) {
  EXPECT_EQ(collapses(0, 32 * s, true), 999);
  EXPECT_EQ(collapses(0, 32 * s, false), 249);
}

TEST(CollapseBudget, ThoseThatCostTwiceAsMuchAreAQuarterAsMany) {
  EXPECT_EQ(collapses(ms, 32 * s, true), 249);
  EXPECT_EQ(collapses(3 * ms, 32 * s, true), 62);
  EXPECT_EQ(collapses(7 * ms, 32 * s, false), 3);
}

TEST(CollapseBudget, ThePriceThatWasPaidCountsNotTheOneExpected) {
  CollapseBudget budget;
  ASSERT_TRUE(budget.allows(0, s, s, true));
  budget.add(8 * ms);
  EXPECT_EQ(budget.spent_ns(), 8 * ms);
  EXPECT_EQ(budget.charged_ns(), 64 * ms);
  EXPECT_FALSE(budget.allows(0, 2 * s, 2 * s, true));
  EXPECT_TRUE(budget.allows(0, 3 * s, 3 * s, true));
  EXPECT_FALSE(budget.allows(0, 3 * s, 3 * s, false));
  EXPECT_FALSE(budget.allows(7 * ms, 3 * s, 3 * s, true));
}

TEST(CollapseBudget, OneThatWasInterruptedCountsTenTimesAtMost) {
  CollapseBudget budget;
  budget.add(100 * ms);
  EXPECT_EQ(budget.charged_ns(), s);
  budget.add(3600 * s);
  EXPECT_EQ(budget.charged_ns(), 36001 * s);
}

constexpr std::size_t gib = std::size_t{1} << 30;

TEST(LeftLater, NothingIsKnownBeforeTheFirstLook) {
  const LeftLater left;
  EXPECT_EQ(left.at_least(0), 0u);
  EXPECT_EQ(left.at_least(20'000 * s), 0u);
}

TEST(LeftLater, WhatAllCouldHaveUsedSinceIsGone) {
  LeftLater left;
  left.note(2 * gib, 20'000 * s);
  EXPECT_EQ(left.at_least(20'000 * s), 2 * gib);
  EXPECT_EQ(left.at_least(20'000 * s + 4 * ms), 2 * gib - 1'024'000'000);
  EXPECT_EQ(left.at_least(20'000 * s + 9 * ms), 0u);
  left.note(gib, 20'000 * s + 10 * ms);
  EXPECT_EQ(left.at_least(20'000 * s + 10 * ms), gib);
}

TEST(LeftLater, NoLimitHoldsForATenthOfASecond) {
  for (const std::int64_t now : {std::int64_t{0}, 10 * 365 * 24 * 3600 * s}) {
    LeftLater left;
    left.note(SIZE_MAX, now);
    EXPECT_GT(left.at_least(now + 100 * ms), 1000 * gib);
    EXPECT_EQ(left.at_least(now + 100 * ms + 1), 0u);
  }
}

}  // namespace
}  // namespace smelt::shims::memory
