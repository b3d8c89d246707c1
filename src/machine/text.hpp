// Reading the small text files of /proc and /sys, and lists of ids such as "0-3,8".
#pragma once

#include <cstddef>
#include <filesystem>
#include <istream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace smelt {

/// The content of a text file of at most 16 MiB; nothing if it is not there or not readable.
std::optional<std::string> read_small_file(const std::filesystem::path& file);

/// "0-3,8" -> {0, 1, 2, 3, 8}, ascending, without duplicates; blanks and a final newline are
/// ignored; nothing if the text is anything else or names ids above limits' max_id.
std::optional<std::vector<int>> parse_id_list(std::string_view text);

/// The text without blanks, tabs, carriage returns and newlines at both ends.
std::string_view trimmed(std::string_view text);

/// The parts between separators; one (maybe empty) part for a text without any.
std::vector<std::string_view> split(std::string_view text, char separator);

/// A whole text as a number; nothing if it is anything else ("", "1x", "nan", "inf", "1e999").
std::optional<double> parse_number(std::string_view text);

/// The lines of a text file as people save it, without line ends, in bounded memory: ends are LF, CR LF or CR; a byte
/// order mark is left out; of UTF-16 with a mark the ASCII characters are kept, all others become '?'.
class LineReader {
 public:
  LineReader(std::istream& stream, std::size_t max_line_bytes) : stream_(stream), max_line_bytes_(max_line_bytes) {}

  /// The next line, valid until the next call; nothing at the end or after a line too long.
  std::optional<std::string_view> next();
  std::size_t line() const { return line_; }  ///< number of the line last read, from 1
  bool too_long() const { return too_long_; }
  bool failed() const { return stream_.bad(); }

 private:
  static constexpr int end = -1;
  enum class Encoding { bytes, utf16_little, utf16_big };

  bool refill();
  void skip_mark();
  int byte();
  int character();

  std::istream& stream_;
  const std::size_t max_line_bytes_;
  std::string chunk_;   ///< of the stream
  std::size_t at_ = 0;  ///< in the chunk
  std::string text_;    ///< the line last read
  Encoding encoding_ = Encoding::bytes;
  bool started_ = false;
  bool after_return_ = false;  ///< the last line ended in CR, whose LF may follow
  std::size_t line_ = 0;
  bool too_long_ = false;
};

}  // namespace smelt
