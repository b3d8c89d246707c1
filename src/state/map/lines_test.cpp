#include "state/map/lines.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
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

/// By both ways: the value, and nothing beside it; if it has changed meanwhile, what was there.
TEST(Lines, AreLoadedUnlessTheChainHasChanged) {
  for (const std::size_t bytes : {256, 257, 300, 320, 511, 512, 1000, 1016, 1017, 1023, 1024, 1025, 4099}) {
    const bool fits = bytes <= 1024, has_registers = load_by_registers(1000) != nullptr;
    EXPECT_EQ(load_by_registers(bytes) != nullptr, fits && has_registers) << bytes;
    std::vector<unsigned char> value(bytes);
    std::iota(value.begin(), value.end(), static_cast<unsigned char>(1));
    std::vector<Word> words(words_of(bytes));
    std::memcpy(words.data(), value.data(), bytes);
    const auto* const cell = reinterpret_cast<const AtomicWord*>(words.data());
    Bucket home{7 * one_change | live_bit, 0, 0};
    for (const Word before : {7 * one_change | live_bit, 6 * one_change | live_bit}) {
      const bool unchanged = before == home.word;
      std::vector<unsigned char> to(bytes + 16, 255), expected = to, saved(bytes);
      if (unchanged) std::ranges::copy(value, expected.begin() + 8);
      EXPECT_EQ(load_by_saving(to.data() + 8, cell, bytes, {home, before}, saved.data()), unchanged);
      EXPECT_EQ(to, expected) << bytes << " bytes, saved";
      std::ranges::fill(to, static_cast<unsigned char>(255));
      EXPECT_EQ(load_if_unchanged(to.data() + 8, cell, bytes, {home, before}, saved.data()), unchanged);
      EXPECT_EQ(to, expected) << bytes << " bytes, chosen";
      EXPECT_EQ(load_by_saving(to.data() + 8, cell, bytes, {home, before}, nullptr), unchanged);
      EXPECT_TRUE(std::equal(value.begin(), value.end(), to.begin() + 8)) << bytes << " bytes, at once";
    }
  }
}

/// Owners and valid cells come and go without a change of what was read.
TEST(Lines, OwnersChangeNothing) {
  Bucket home{5 * one_change | live_bit | Word{3} << valid_shift, 0, 0};
  EXPECT_TRUE(Unchanged(home, 5 * one_change | live_bit | 17)());
  EXPECT_FALSE(Unchanged(home, 5 * one_change | live_bit | moved_bit)());
  EXPECT_FALSE(Unchanged(home, 5 * one_change)());
  EXPECT_FALSE(Unchanged(home, 4 * one_change | live_bit)());
}

}  // namespace
}  // namespace smelt::map_detail
