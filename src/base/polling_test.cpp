#include "base/polling.hpp"

#include <gtest/gtest.h>

namespace smelt {
namespace {

TEST(PollingPause, IsAQuarterOfTheTimeThatHasPassed) {
  const std::uint64_t before = monotonic_ns();
  const PollingPause pause(900'000'000);
  const std::uint64_t begun = monotonic_ns();
  for (int i = 0; i < 20; ++i) {
    const std::uint64_t least = (monotonic_ns() - begun) / 4;
    const std::uint64_t next = pause.next_ns();
    const std::uint64_t most = (monotonic_ns() - before) / 4;
    EXPECT_GE(next, std::max<std::uint64_t>(least, 20'000));
    EXPECT_LE(next, std::max<std::uint64_t>(most, 20'000));
    pause.sleep();
    EXPECT_GE(monotonic_ns() - begun, 4 * least + next);
  }
  EXPECT_GT(pause.next_ns(), 20'000u) << "20 pauses of 20 us have passed";
}

TEST(PollingPause, IsNotLongerThanTheLongest) {
  const PollingPause pause(30'000);
  const std::uint64_t begun = monotonic_ns();
  while (monotonic_ns() - begun < 1'000'000) EXPECT_LE(pause.next_ns(), 30'000u);
  EXPECT_EQ(pause.next_ns(), 30'000u);
}

}  // namespace
}  // namespace smelt
