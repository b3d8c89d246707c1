#include "state/map/lines.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace smelt::map_detail {
namespace {

/// Each way that this CPU has, the chosen one, and what short copies take: they copy these lines and nothing else.
TEST(Lines, AreCopiedByEveryWay) {
  if (!moves_lines) GTEST_SKIP() << "this build copies words";
  std::vector<std::pair<const char*, MoveLines>> ways = {{"chosen", move_many_lines}, {"any", move_lines}};
  for (const LineMover& way : all_line_movers()) {
    if (way.is_supported) ways.emplace_back(way.name, way.move);
  }
  ASSERT_GE(ways.size(), 3u);
  EXPECT_TRUE(all_line_movers()[line_movers - 1].is_supported);
  for (const auto& [name, move] : ways) {
    for (std::size_t lines = 0; lines < 20; ++lines) {
      for (const std::size_t offset : {0, 1, 8, 63}) {
        std::vector<unsigned char> from(lines * 64 + 128), to(from.size(), 255);
        std::iota(from.begin(), from.end(), static_cast<unsigned char>(lines));
        std::vector<unsigned char> expected = to;
        std::copy_n(from.begin() + 8, lines * 64, expected.begin() + static_cast<std::ptrdiff_t>(offset));
        move(to.data() + offset, from.data() + 8, lines);
        ASSERT_EQ(to, expected) << name << ", " << lines << " lines, offset " << offset;
      }
    }
  }
}

TEST(Lines, CopiesOfAnyLength) {
  for (const std::size_t bytes : {0, 1, 7, 8, 63, 64, 65, 255, 256, 257, 1000, 4099}) {
    std::vector<char> from(bytes), there(bytes + 1, 'x'), back(bytes + 1, 'y');
    std::iota(from.begin(), from.end(), 'a');
    std::vector<Word> words(bytes / sizeof(Word) + 2, 7);
    auto* const shared = reinterpret_cast<AtomicWord*>(words.data());
    store_bytes(shared, from.data(), bytes);
    EXPECT_EQ(words[words_of(bytes)], 7u) << bytes;
    load_bytes(there.data(), shared, bytes);
    copy_alike(back.data(), there.data(), bytes);
    from.push_back('x');
    EXPECT_EQ(there, from) << bytes;
    from.back() = 'y';
    EXPECT_EQ(back, from) << bytes;
    if (bytes % sizeof(Word) != 0) {
      EXPECT_EQ(words[bytes / sizeof(Word)] >> bytes % sizeof(Word) * 8, 0u) << "padded with zeros";
    }
  }
}

}  // namespace
}  // namespace smelt::map_detail
