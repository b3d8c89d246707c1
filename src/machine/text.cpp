#include "machine/text.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <utility>

#include "machine/limits.hpp"

namespace smelt {
namespace {

constexpr std::size_t max_text_bytes = 16u << 20;

std::optional<int> parse_id(std::string_view text) {
  int value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size() || value < 0 || value > max_id) return std::nullopt;
  return value;
}

}  // namespace

std::optional<std::string> read_small_file(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return std::nullopt;
  std::string text;
  char chunk[4096];
  while (stream.read(chunk, sizeof chunk) || stream.gcount() > 0) {
    text.append(chunk, static_cast<std::size_t>(stream.gcount()));
    if (text.size() > max_text_bytes) return std::nullopt;
  }
  if (stream.bad()) return std::nullopt;
  return text;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\n";
  const auto first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t start = 0;;) {
    const auto end = text.find(separator, start);
    parts.push_back(text.substr(start, end - start));
    if (end == std::string_view::npos) return parts;
    start = end + 1;
  }
}

std::optional<std::vector<int>> parse_id_list(std::string_view text) {
  std::vector<int> ids;
  text = trimmed(text);
  if (text.empty()) return ids;
  std::vector<std::pair<int, int>> ranges;  // first and last id
  for (const auto part : split(text, ',')) {
    const auto bounds = split(trimmed(part), '-');
    if (bounds.size() > 2) return std::nullopt;
    const auto first = parse_id(bounds.front());
    const auto last = parse_id(bounds.back());
    if (!first || !last || *first > *last) return std::nullopt;
    ranges.emplace_back(*first, *last);
  }
  std::sort(ranges.begin(), ranges.end());
  int next = 0;  // ids below it are in the list, or in no range
  for (const auto& [first, last] : ranges) {
    for (next = std::max(next, first); next <= last; ++next) ids.push_back(next);
  }
  return ids;
}

std::optional<double> parse_number(std::string_view text) {
  double value = 0.0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

bool LineReader::refill() {
  constexpr std::size_t chunk_bytes = 16u << 10;
  chunk_.resize(chunk_bytes);
  stream_.read(chunk_.data(), static_cast<std::streamsize>(chunk_bytes));
  chunk_.resize(static_cast<std::size_t>(stream_.gcount()));
  at_ = 0;
  return !chunk_.empty();
}

void LineReader::skip_mark() {
  started_ = true;
  if (!refill()) return;
  const std::string_view start = chunk_;
  if (start.starts_with("\xef\xbb\xbf")) at_ = 3;
  if (start.starts_with("\xff\xfe")) encoding_ = Encoding::utf16_little;
  if (start.starts_with("\xfe\xff")) encoding_ = Encoding::utf16_big;
  if (encoding_ != Encoding::bytes) at_ = 2;
}

int LineReader::byte() {
  if (at_ == chunk_.size() && (!stream_.good() || !refill())) return end;
  return static_cast<unsigned char>(chunk_[at_++]);
}

int LineReader::character() {
  const int first = byte();
  if (encoding_ == Encoding::bytes || first == end) return first;
  const int second = byte();
  const int high = encoding_ == Encoding::utf16_little ? second : first;
  const int low = encoding_ == Encoding::utf16_little ? first : second;
  return high == 0 && low != end && low < 0x80 ? low : '?';
}

std::optional<std::string_view> LineReader::next() {
  if (too_long_) return std::nullopt;
  if (!started_) skip_mark();
  text_.clear();
  int c = character();
  if (after_return_ && c == '\n') c = character();
  if (c == end) return std::nullopt;
  ++line_;
  for (; c != end && c != '\n' && c != '\r'; c = character()) {
    too_long_ = text_.size() == max_line_bytes_;
    if (too_long_) return std::nullopt;
    text_ += static_cast<char>(c);
  }
  after_return_ = c == '\r';
  return text_;
}

}  // namespace smelt
