#include "channel/temporal_slipping.hpp"

#include <gtest/gtest.h>

namespace smelt::channel {
namespace {

/// Waits that end at once, as in a stream. Returns how often `slipping` has looked away in `waits` of them.
int looks_away(TemporalSlipping& slipping, int waits, bool gathers) {
  int away = 0;
  const auto ready = [] { return true; };
  const auto gathered = [&] {
    ++away;
    return gathers;
  };
  for (int i = 0; i < waits; ++i) slipping.wait_shortly(ready, gathered);
  return away;
}

TEST(TemporalSlipping, KeepsADistanceAsLongAsBatchesGather) {
  TemporalSlipping slipping;
  EXPECT_EQ(looks_away(slipping, 16, true), 0);
  EXPECT_EQ(looks_away(slipping, 100, true), 100);
}

TEST(TemporalSlipping, BelievesInTheNextStreamLater) {
  TemporalSlipping slipping;
  EXPECT_EQ(looks_away(slipping, 16 + 1, false), 1);
  EXPECT_EQ(looks_away(slipping, 63, false), 0);
  EXPECT_EQ(looks_away(slipping, 1 + 1, false), 1);
  EXPECT_LE(looks_away(slipping, 1'000'000, false), 20);
}

TEST(TemporalSlipping, LinesStillBeingFilledAreEvidence) {
  TemporalSlipping slipping;
  for (int i = 0; i < 16; ++i) slipping.approach([] { return true; });
  EXPECT_EQ(looks_away(slipping, 1, true), 1);
}

TEST(TemporalSlipping, AMessageThatDoesNotComeIsNone) {
  TemporalSlipping slipping;
  EXPECT_EQ(looks_away(slipping, 15, true), 0);
  EXPECT_FALSE(slipping.wait_shortly([] { return false; }, [] { return true; }));
  EXPECT_EQ(looks_away(slipping, 16, true), 0);
}

TEST(TemporalSlipping, EndsWhereNothingGathers) {
  TemporalSlipping slipping;
  const auto never = [] { return false; };
  const auto always = [] { return true; };
  for (int i = 0; i < 16; ++i) slipping.approach(never);
  EXPECT_TRUE(slipping.wait_shortly(never, always)) << "a batch has come";
  EXPECT_TRUE(slipping.wait_shortly(always, never)) << "less than one";
  for (int i = 0; i < 63; ++i) slipping.approach(never);
  EXPECT_EQ(looks_away(slipping, 1, true), 0);
  EXPECT_EQ(looks_away(slipping, 1, true), 1) << "a stream again, after four times as much evidence";
  EXPECT_FALSE(slipping.wait_shortly(never, never)) << "nothing has come";
  for (int i = 0; i < 256; ++i) slipping.approach(never);
  slipping.approach(never);
  EXPECT_EQ(looks_away(slipping, 1, true), 0) << "it has ended while lines were being filled";
}

TEST(TemporalSlipping, ABatchIsMoreThanTwoRanksThatExchangeAreAhead) {
  for (std::uint32_t lines = 1; lines <= 64; ++lines) {
    EXPECT_GT(TemporalSlipping::batch_of(lines), 2 * lines);
    EXPECT_EQ(TemporalSlipping::batch_of(lines), lines <= 5 ? 16u : 3 * lines);
  }
}

}  // namespace
}  // namespace smelt::channel
