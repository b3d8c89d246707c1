#include "graph/language/source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <utility>

namespace smelt::graph::language {
namespace {

std::string printable(std::string_view text) {
  std::string result;
  for (const char c : text) result += c == '\t' ? ' ' : c >= ' ' && c != '\x7f' ? c : '?';
  return result;
}

/// Levenshtein's distance, without regard to case.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same =
          std::tolower(static_cast<unsigned char>(a[i - 1])) == std::tolower(static_cast<unsigned char>(b[j - 1]));
      const std::size_t replaced = diagonal + (same ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

Source::Source(std::string name, std::string text) : name_(std::move(name)), text_(std::move(text)) {
  line_begins_.push_back(0);
  for (std::size_t i = 0; i < text_.size(); ++i) {
    if (text_[i] == '\n') line_begins_.push_back(static_cast<std::uint32_t>(i + 1));
  }
}

std::string_view Source::text(Span span) const noexcept {
  return std::string_view(text_).substr(span.begin, span.end - span.begin);
}

Source::Place Source::place(std::uint32_t offset) const noexcept {
  const auto after = std::upper_bound(line_begins_.begin(), line_begins_.end(), offset);
  const auto line = static_cast<std::uint32_t>(after - line_begins_.begin());
  return {line, offset - line_begins_[line - 1] + 1};
}

std::string_view Source::line(std::uint32_t number) const noexcept {
  const auto begin = line_begins_[number - 1];
  auto line = std::string_view(text_).substr(begin);
  line = line.substr(0, line.find('\n'));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

const char* to_string(Severity severity) noexcept {
  switch (severity) {
    case Severity::error: return "error";
    case Severity::warning: return "warning";
    case Severity::note: return "note";
  }
  return "?";
}

void Diagnostics::add(Severity severity, Span span, std::string message) {
  if (severity == Severity::note) {
    if (!notes_dropped_) all_.push_back({severity, span, std::move(message)});
    return;
  }
  int& count = severity == Severity::error ? errors_ : warnings_;
  const bool twice = std::any_of(all_.begin(), all_.end(), [&](const Diagnostic& each) {
    return each.severity == severity && each.span.begin == span.begin &&
           (severity == Severity::error || each.message == message);
  });
  notes_dropped_ = twice || count >= (severity == Severity::error ? most_errors : most_warnings);
  if (notes_dropped_) return;
  ++count;
  all_.push_back({severity, span, std::move(message)});
}

void Diagnostics::sort() {
  std::vector<std::vector<Diagnostic>> groups;
  for (auto& each : all_) {
    if (each.severity != Severity::note || groups.empty()) groups.emplace_back();
    groups.back().push_back(std::move(each));
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const auto& a, const auto& b) { return a.front().span.begin < b.front().span.begin; });
  all_.clear();
  for (auto& group : groups) std::move(group.begin(), group.end(), std::back_inserter(all_));
}

std::string format(const Source& source, const Diagnostic& diagnostic) {
  constexpr std::size_t widest = 160;
  const auto [line, column] = source.place(diagnostic.span.begin);
  std::string text = fmt::format("{}:{}:{}: {}: {}\n", source.name(), line, column, to_string(diagnostic.severity),
                                 diagnostic.message);
  std::string shown = printable(source.line(line));
  std::size_t caret = std::min<std::size_t>(column - 1, shown.size());
  if (shown.size() > widest) {  // the part around the caret
    const std::size_t from = caret > widest / 2 ? caret - widest / 2 : 0;
    shown = shown.substr(from, widest);
    caret -= from;
  }
  const std::size_t length = std::max<std::size_t>(1, diagnostic.span.end - diagnostic.span.begin);
  const std::size_t wave = std::min(length, std::max<std::size_t>(1, shown.size() - caret));
  text += fmt::format("{:5} | {}\n      | {}^{}\n", line, shown, std::string(caret, ' '), std::string(wave - 1, '~'));
  return text;
}

std::string format(const Diagnostics& diagnostics) {
  std::string text;
  for (const auto& each : diagnostics.all()) text += format(diagnostics.source(), each);
  if (diagnostics.enough())
    text += fmt::format("{}: too many errors; the rest is not looked at\n", diagnostics.source().name());
  return text;
}

std::string nearest(std::string_view name, const std::vector<std::string>& candidates) {
  constexpr std::size_t longest = 64;
  std::string best;
  std::size_t least = name.size() <= 1   ? 1
                      : name.size() <= 3 ? 2
                                         : (name.size() + 2) / 3 + 1;  // as many changes are not near
  if (name.size() > longest) return best;
  for (const auto& candidate : candidates) {
    if (candidate.size() > longest) continue;
    const auto changes = distance(name, candidate);
    if (changes >= least) continue;
    least = changes;
    best = candidate;
  }
  return best;
}

}  // namespace smelt::graph::language
