#include "machine/text.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>

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

std::string shown(std::string_view text, std::size_t max_bytes) {
  std::string result;
  for (const char byte : text.substr(0, max_bytes)) result += byte >= ' ' && byte <= '~' ? byte : '?';
  return text.size() > max_bytes ? result + "..." : result;
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
  for (const auto part : split(text, ',')) {
    const auto bounds = split(trimmed(part), '-');
    if (bounds.size() > 2) return std::nullopt;
    const auto first = parse_id(bounds.front());
    const auto last = parse_id(bounds.back());
    if (!first || !last || *first > *last) return std::nullopt;
    for (int id = *first; id <= *last; ++id) ids.push_back(id);
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

std::optional<double> parse_number(std::string_view text) {
  double value = 0.0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<std::string_view> LineReader::next() {
  if (too_long_ || !stream_.good()) return std::nullopt;
  stream_.getline(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
  auto count = static_cast<std::size_t>(stream_.gcount());
  if (stream_.fail() && count == 0) return std::nullopt;
  ++line_;
  too_long_ = stream_.fail();
  if (too_long_) return std::nullopt;
  if (!stream_.eof()) --count;  // the newline is counted, but not stored
  std::string_view text(buffer_.data(), count);
  if (!text.empty() && text.back() == '\r') text.remove_suffix(1);
  return text;
}

}  // namespace smelt
