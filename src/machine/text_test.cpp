#include "machine/text.hpp"

#include <gtest/gtest.h>

#include <sstream>

namespace smelt {
namespace {

using Ids = std::vector<int>;

TEST(Text, IdLists) {
  EXPECT_EQ(*parse_id_list("0-3,8\n"), (Ids{0, 1, 2, 3, 8}));
  EXPECT_EQ(*parse_id_list("5,1,1-2"), (Ids{1, 2, 5}));
  EXPECT_EQ(*parse_id_list(" \n"), Ids{});
  for (const auto* bad : {"a", "1-", "-1", "3-1", "1-2-3", "1,,2", "1;2", "99999999999", "0-2000000000"}) {
    EXPECT_FALSE(parse_id_list(bad)) << bad;
  }
}

TEST(Text, Numbers) {
  EXPECT_EQ(*parse_number("1.5e3"), 1500.0);
  for (const auto* bad : {"", " 1", "1x", "nan", "inf", "-inf", "1e999", "0x10", "1,5"}) {
    EXPECT_FALSE(parse_number(bad)) << bad;
  }
}

TEST(Text, LinesWithAnyEnding) {
  std::istringstream stream("a\r\nb\n\nlast");
  LineReader lines(stream, 16);
  EXPECT_EQ(*lines.next(), "a");
  EXPECT_EQ(*lines.next(), "b");
  EXPECT_EQ(*lines.next(), "");
  EXPECT_EQ(*lines.next(), "last");
  EXPECT_EQ(lines.line(), 4u);
  EXPECT_FALSE(lines.next());
  EXPECT_FALSE(lines.too_long());
}

TEST(Text, FinalNewlineMakesNoLine) {
  std::istringstream stream("a\n");
  LineReader lines(stream, 16);
  EXPECT_EQ(*lines.next(), "a");
  EXPECT_FALSE(lines.next());
}

TEST(Text, LineTooLongIsNotHalfRead) {
  for (const std::size_t length : {16u, 17u, 18u, 1000u}) {
    std::istringstream stream(std::string(length, 'x') + "\nnext\n");
    LineReader lines(stream, 16);
    const auto line = lines.next();
    if (length <= 16) {
      EXPECT_EQ(line->size(), length);
    }
    EXPECT_EQ(lines.too_long(), length > 17) << length;
    EXPECT_EQ(line.has_value(), length <= 17) << length;
  }
}

}  // namespace
}  // namespace smelt
