#include "channel/pace.hpp"

#include <gtest/gtest.h>

namespace smelt::channel {
namespace {

/// Waits that end at once, as in a stream. Returns how often `pace` has looked away in `waits` of them.
int looks_away(Pace& pace, int waits, bool gathers) {
  int away = 0;
  const auto ready = [] { return true; };
  const auto gathered = [&] {
    ++away;
    return gathers;
  };
  for (int i = 0; i < waits; ++i) pace.wait_shortly(ready, gathered);
  return away;
}

TEST(Pace, KeepsADistanceAsLongAsBatchesGather) {
  Pace pace;
  EXPECT_EQ(looks_away(pace, 16, true), 0);
  EXPECT_EQ(looks_away(pace, 100, true), 100);
}

TEST(Pace, BelievesInTheNextStreamLater) {
  Pace pace;
  EXPECT_EQ(looks_away(pace, 16 + 1, false), 1);
  EXPECT_EQ(looks_away(pace, 63, false), 0);
  EXPECT_EQ(looks_away(pace, 1 + 1, false), 1);
  EXPECT_LE(looks_away(pace, 1'000'000, false), 20);
}

TEST(Pace, LinesStillBeingFilledAreEvidence) {
  Pace pace;
  for (int i = 0; i < 16; ++i) pace.approach([] { return true; });
  EXPECT_EQ(looks_away(pace, 1, true), 1);
}

TEST(Pace, AMessageThatDoesNotComeIsNone) {
  Pace pace;
  EXPECT_EQ(looks_away(pace, 15, true), 0);
  EXPECT_FALSE(pace.wait_shortly([] { return false; }, [] { return true; }));
  EXPECT_EQ(looks_away(pace, 16, true), 0);
}

TEST(Pace, EndsWhereNothingGathers) {
  Pace pace;
  const auto never = [] { return false; };
  const auto always = [] { return true; };
  for (int i = 0; i < 16; ++i) pace.approach(never);
  EXPECT_TRUE(pace.wait_shortly(never, always)) << "a batch has come";
  EXPECT_TRUE(pace.wait_shortly(always, never)) << "less than one";
  for (int i = 0; i < 63; ++i) pace.approach(never);
  EXPECT_EQ(looks_away(pace, 1, true), 0);
  EXPECT_EQ(looks_away(pace, 1, true), 1) << "a stream again, after four times as much evidence";
  EXPECT_FALSE(pace.wait_shortly(never, never)) << "nothing has come";
  for (int i = 0; i < 256; ++i) pace.approach(never);
  pace.approach(never);
  EXPECT_EQ(looks_away(pace, 1, true), 0) << "it has ended while lines were being filled";
}

TEST(Pace, ABatchIsMoreThanTwoRanksThatExchangeAreAhead) {
  for (std::uint32_t lines = 1; lines <= 64; ++lines) {
    EXPECT_GT(Pace::batch_of(lines), 2 * lines);
    EXPECT_EQ(Pace::batch_of(lines), lines <= 5 ? 16u : 3 * lines);
  }
}

}  // namespace
}  // namespace smelt::channel
