#include "base/read_timing.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace smelt {
namespace {

TEST(Reading, AWordOfEachLine) {
  std::vector<std::uint64_t> data(3 * line_bytes / 8 + 1, 0);
  for (std::size_t line = 0; line < 4; ++line) data[line * line_bytes / 8] = std::uint64_t{1} << line;
  EXPECT_EQ(read_lines(data.data(), data.size() * 8), 15u);
  EXPECT_EQ(read_lines(data.data(), 3 * line_bytes), 7u);
  EXPECT_EQ(read_lines(data.data(), 3 * line_bytes + 7), 7u) << "no word beyond the end";
  EXPECT_EQ(read_lines(data.data(), 0), 0u);
}

TEST(Reading, IsOverNotBeforeItBegan) {
  int readings = 0;
  const auto before = ticks();
  const auto end = ticks_when_read([&] { return static_cast<std::uint64_t>(++readings); });
  EXPECT_GE(end, before);
  EXPECT_LE(end, ticks());
  EXPECT_EQ(readings, 2);
}

TEST(Reading, LastsForWhatTheSecondOneDoesNot) {
  EXPECT_EQ(tick_of_arrival(1000, 1500, 1600), 1400u);
  EXPECT_EQ(tick_of_arrival(1000, 1500, 1500), 1500u);
  EXPECT_EQ(tick_of_arrival(1000, 1500, 2100), 1000u) << "the second one was interrupted";
  EXPECT_EQ(tick_of_arrival(10, 20, 100), 10u) << "for longer than the counter runs";
}

}  // namespace
}  // namespace smelt
