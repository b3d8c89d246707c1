#include "comm/collective/buffer_walk.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace smelt::comm {
namespace {

using Addresses = std::vector<std::uintptr_t>;

/// The lines that are fetched when `buffers` are passed.
Addresses fetched(const Addresses& buffers) {
  BufferWalk walk;
  Addresses lines;
  for (const std::uintptr_t buffer : buffers) {
    walk.pass(reinterpret_cast<const void*>(buffer), [&](std::uintptr_t line) { lines.push_back(line); });
  }
  return lines;
}

TEST(BufferWalk, FetchesShortBuffersFourCallsAhead) {
  EXPECT_EQ(fetched({4096, 4096 + 64, 4096 + 128, 4096 + 192}), (Addresses{4096 + 384, 4096 + 448}));
  EXPECT_EQ(fetched({4096, 4096 + 8, 4096 + 16}), Addresses{4096 + 48});
}

TEST(BufferWalk, WalksBackwardsToo) { EXPECT_EQ(fetched({9000, 8936, 8872}), Addresses{8872 - 256}); }

TEST(BufferWalk, FetchesLongerBuffersFewerCallsAheadAndSixteenLinesAtMost) {
  struct {
    std::uintptr_t apart, ahead, lines;
  } const cases[] = {{128, 4, 2}, {256, 4, 4}, {257, 2, 5}, {512, 2, 8}, {513, 1, 9}, {1024, 1, 16}, {100000, 1, 16}};
  for (const auto& each : cases) {
    Addresses expected;
    for (std::uintptr_t line = 0; line < each.lines; ++line) {
      expected.push_back(4096 + (2 + each.ahead) * each.apart + 64 * line);
    }
    EXPECT_EQ(fetched({4096, 4096 + each.apart, 4096 + 2 * each.apart}), expected) << each.apart;
  }
}

TEST(BufferWalk, TheSameBufferAgainAndCallsWithoutOneChangeNothing) {
  EXPECT_EQ(fetched({4096, 4096, 4096, 4096}), Addresses{});
  EXPECT_EQ(fetched({4096, 4096 + 64, 0, 4096 + 64, 4096 + 128}), Addresses{4096 + 384});
}

TEST(BufferWalk, FetchesNothingForOtherOrders) {
  EXPECT_EQ(fetched({4096, 8192}), Addresses{});
  EXPECT_EQ(fetched({4096, 4160, 4288, 4480, 4096, 4160}), Addresses{});
}

}  // namespace
}  // namespace smelt::comm
