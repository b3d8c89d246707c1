#include "machine/text.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <set>
#include <sstream>

#include "machine/test_support.hpp"

namespace smelt {
namespace {

using Ids = std::vector<int>;

TEST(Text, IdLists) {
  EXPECT_EQ(*parse_id_list("0-3,8\n"), (Ids{0, 1, 2, 3, 8}));
  EXPECT_EQ(*parse_id_list("5,1,1-2"), (Ids{1, 2, 5}));
  EXPECT_EQ(*parse_id_list(" \n"), Ids{});
  for (std::size_t length : {1, 3, 4}) {  // a part of a longer text
    EXPECT_EQ(parse_id_list(std::string_view("7-9123").substr(0, length))->back(), length == 1   ? 7
                                                                                   : length == 3 ? 9
                                                                                                 : 91);
  }
  for (const auto* bad : {"a", "1-", "-1", "3-1", "1-2-3", "1,,2", "1;2", "99999999999", "0-2000000000"}) {
    EXPECT_FALSE(parse_id_list(bad)) << bad;
  }
}

// A list of any length makes at most as many ids as there are, in as much memory as those take.
TEST(Text, AListThatRepeatsItself) {
  std::string text = "0-65535";
  for (int i = 0; i < 100'000; ++i) text += ",0-65535";
  const auto ids = parse_id_list(text);
  ASSERT_TRUE(ids);
  ASSERT_EQ(ids->size(), 65536u);
  EXPECT_EQ(ids->front(), 0);
  EXPECT_EQ(ids->back(), 65535);
  EXPECT_FALSE(parse_id_list("65536"));
  EXPECT_FALSE(parse_id_list("0-65536"));
}

TEST(Text, IdListsAgreeWithASet) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 300; ++trial) {
    std::set<int> expected;
    std::string text;
    for (unsigned part = 0; part < 1 + random() % 6; ++part) {
      const int first = static_cast<int>(random() % 40), last = first + static_cast<int>(random() % 5);
      for (int id = first; id <= last; ++id) expected.insert(id);
      text += (part == 0 ? "" : ", ") + std::to_string(first) + (last > first ? "-" + std::to_string(last) : "");
    }
    EXPECT_EQ(*parse_id_list(text), Ids(expected.begin(), expected.end())) << text;
  }
}

TEST(Text, Trimmed) {
  EXPECT_EQ(trimmed(" \t\r\n a b \n"), "a b");
  EXPECT_EQ(trimmed(" \t"), "");
  EXPECT_EQ(trimmed(""), "");
  EXPECT_EQ(trimmed("x"), "x");
}

TEST(Text, SplitKeepsEmptyParts) {
  using Parts = std::vector<std::string_view>;
  EXPECT_EQ(split("", ','), Parts{""});
  EXPECT_EQ(split("a", ','), Parts{"a"});
  EXPECT_EQ(split(",a,,b,", ','), (Parts{"", "a", "", "b", ""}));
}

TEST(Text, SmallFiles) {
  const test::ScopedDirectory directory;
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{4095}, std::size_t{4096},
                                  std::size_t{4097}, std::size_t{16} << 20}) {
    const std::string text(bytes, 'x');
    const auto read = read_small_file(directory.write("file", text));
    ASSERT_TRUE(read) << bytes;
    EXPECT_TRUE(*read == text) << bytes;
  }
  EXPECT_FALSE(read_small_file(directory.write("file", std::string((16u << 20) + 1, 'x'))));
  EXPECT_FALSE(read_small_file(directory.path() / "none"));
  EXPECT_FALSE(read_small_file(directory.path()));
}

TEST(Text, Numbers) {
  EXPECT_EQ(*parse_number("1.5e3"), 1500.0);
  for (const auto* bad : {"", " 1", "1x", "nan", "inf", "-inf", "1e999", "0x10", "1,5"}) {
    EXPECT_FALSE(parse_number(bad)) << bad;
  }
  const std::string_view longer = "15672";
  EXPECT_EQ(*parse_number(longer.substr(0, 2)), 15.0) << "what follows the text does not count";
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

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  LineReader lines(stream, 1 << 20);
  std::vector<std::string> result;
  while (const auto line = lines.next()) result.emplace_back(*line);
  EXPECT_EQ(lines.line(), result.size());
  return result;
}

// Whatever the lines are and however they end, and wherever the pieces of the file that are read at a time begin.
TEST(Text, LinesAreThoseThatWereWritten) {
  std::mt19937 random(3);
  for (const std::string ending : {"\n", "\r\n", "\r"}) {
    for (int trial = 0; trial < 20; ++trial) {
      std::vector<std::string> lines;
      std::string text = trial % 2 == 0 ? "" : "\xef\xbb\xbf";
      for (unsigned i = 0; i < 1 + random() % 30; ++i) {
        lines.emplace_back(random() % 3 == 0 ? 0 : random() % 5000, static_cast<char>('a' + i % 26));
        text += lines.back() + ending;
      }
      EXPECT_TRUE(lines_of(text) == lines) << trial;
      if (lines.back().empty()) continue;
      text.resize(text.size() - ending.size());
      EXPECT_TRUE(lines_of(text) == lines) << "without the last end, " << trial;
    }
  }
}

TEST(Text, ByteOrderMarksCountAtTheBeginningOnly) {
  using namespace std::string_literals;
  using Lines = std::vector<std::string>;
  EXPECT_EQ(lines_of("\xef\xbb\xbf"), Lines{});
  EXPECT_EQ(lines_of("\xef\xbb\xbf\xef\xbb\xbfx"), Lines{"\xef\xbb\xbfx"});
  EXPECT_EQ(lines_of("\xef\xbbx\n\xef\xbb\xbfy"), (Lines{"\xef\xbbx", "\xef\xbb\xbfy"}));
  EXPECT_EQ(lines_of("\xff\xfe"), Lines{});
  EXPECT_EQ(lines_of("\xff\xfe"s + "a\0\r\0\n\0b\0"s), (Lines{"a", "b"}));
  EXPECT_EQ(lines_of("\xfe\xff"s + "\0a\0\n\0b"s), (Lines{"a", "b"}));
  EXPECT_EQ(lines_of("\xff\xfe"s + "\xe9\0\x0a\x0a\x80\0c"s), Lines{"????"});
  EXPECT_EQ(lines_of("\xfe\xff"s + "\x0a\x0a\0\x80\0"s), Lines{"???"});
}

TEST(Text, AStreamThatCannotBeRead) {
  std::ifstream directory("/", std::ios::binary);
  LineReader lines(directory, 16);
  EXPECT_FALSE(lines.next());
  EXPECT_TRUE(lines.failed());
  std::istringstream good("a");
  LineReader fine(good, 16);
  EXPECT_TRUE(fine.next());
  EXPECT_FALSE(fine.next());
  EXPECT_FALSE(fine.failed());
}

TEST(Text, LineTooLongIsNotHalfRead) {
  for (const std::size_t length : {16u, 17u, 18u, 1000u}) {
    std::istringstream stream(std::string(length, 'x') + "\nnext\n");
    LineReader lines(stream, 16);
    const auto line = lines.next();
    if (length <= 16) {
      EXPECT_EQ(line->size(), length);
    }
    EXPECT_EQ(lines.too_long(), length > 16) << length;
    EXPECT_EQ(line.has_value(), length <= 16) << length;
  }
}

}  // namespace
}  // namespace smelt
