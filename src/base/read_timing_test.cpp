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

}  // namespace
}  // namespace smelt
