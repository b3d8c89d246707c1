#include "base/clock.hpp"

#include <gtest/gtest.h>

namespace smelt {
namespace {

TEST(Clock, TicksNeverGoBack) {
  auto last = ticks();
  for (int i = 0; i < 10000; ++i) {
    const auto now = ticks();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST(Clock, RateIsPlausible) {
  EXPECT_GT(ticks_per_ns(), 0.001);  // 1 MHz
  EXPECT_LT(ticks_per_ns(), 20.0);   // 20 GHz
  EXPECT_EQ(ticks_per_ns(), ticks_per_ns());
}

}  // namespace
}  // namespace smelt
