// Cursor: parses numbers in the lines of a chunk of text.
#pragma once

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.hpp"

namespace smelt::graph {

/// An error in one line.
struct ParseError {
  std::uint64_t line = 0;  ///< within the chunk, from 1
  std::string reason;
};

/// A number in the text.
struct Number {
  bool real = false;
  std::int64_t whole = 0;
  double value = 0.0;
};

/// The text must end with a newline, because numbers are parsed without checks for the end of the text.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : at_(text.data()), end_(text.data() + text.size()) {}

  bool at_end() const noexcept { return at_ == end_; }
  std::uint64_t line() const noexcept { return line_; }
  char look() const noexcept { return *at_; }

  /// Skips blanks, tabs and separators of tables.
  void skip_blanks() noexcept {
    while (*at_ == ' ' || *at_ == '\t' || *at_ == ',' || *at_ == ';' || *at_ == '\r') ++at_;
  }
  bool at_line_end() const noexcept { return *at_ == '\n'; }
  /// Moves past the end of this line.
  void next_line() noexcept {
    while (*at_ != '\n') ++at_;
    ++at_;
    ++line_;
  }
  void skip() noexcept { ++at_; }
  void skip_word() noexcept {
    while (!ends_word(*at_)) ++at_;
  }

  /// Parses an integer of at most 63 bits that is followed by a blank or the end of the line. Otherwise the cursor does
  /// not move.
  bool read(std::uint64_t& number) noexcept {
    const char* from = at_;
    std::uint64_t value = 0;
    for (unsigned digit; (digit = static_cast<unsigned>(*from - '0')) < 10; ++from) value = value * 10 + digit;
    const auto digits = from - at_;
    if (digits == 0 || digits > most_digits || value > INT64_MAX || !ends_word(*from)) return false;
    at_ = from;
    number = value;
    return true;
  }

  bool read(Number& number) noexcept {
    const bool negative = *at_ == '-';
    const char* start = at_;
    if (negative || *at_ == '+') ++at_;
    std::uint64_t whole = 0;
    if (read(whole)) {
      number.real = false;
      number.whole = negative ? -static_cast<std::int64_t>(whole) : static_cast<std::int64_t>(whole);
      return true;
    }
    const auto [end, problem] = std::from_chars(at_, end_, number.value);
    if (problem != std::errc() || !std::isfinite(number.value) || !ends_word(*end) || *at_ == '-') {
      at_ = start;
      return false;
    }
    if (negative) number.value = -number.value;
    number.real = true;
    at_ = end;
    return true;
  }

  /// The word at the cursor, for messages.
  std::string word() const {
    const char* end = at_;
    while (!ends_word(*end)) ++end;
    return shown({at_, end}, 30);
  }

  ParseError mistake(std::string reason) const { return {line_, std::move(reason)}; }
  /// "'abc' is not WHAT", or "WHAT is missing".
  ParseError expected(const char* what) const {
    return mistake(at_line_end() ? fmt::format("{} is missing", what) : fmt::format("'{}' is not {}", word(), what));
  }

 private:
  static constexpr std::ptrdiff_t most_digits = 19;  ///< which 64 bits hold

  static bool ends_word(char c) noexcept {
    return c == ' ' || c == '\n' || c == '\t' || c == ',' || c == ';' || c == '\r';
  }

  const char* at_;
  const char* end_;
  std::uint64_t line_ = 1;
};

}  // namespace smelt::graph
