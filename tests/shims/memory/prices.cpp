// When the memory library thinks huge pages dear.
#include "shims/memory/prices.hpp"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace smelt::shims::memory
