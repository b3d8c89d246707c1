// A program's text, and diagnostics about it: errors and warnings with the line and a caret.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace smelt::graph::language {

/// Bytes [begin, end) of a program's text.
struct Span {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

inline Span from_to(Span first, Span last) { return {first.begin, last.end}; }

class Source {
 public:
  static constexpr std::size_t most_bytes = 4u << 20;

  Source(std::string name, std::string text);

  const std::string& name() const noexcept { return name_; }
  std::string_view text() const noexcept { return text_; }
  std::string_view text(Span span) const noexcept;

  struct Place {
    std::uint32_t line = 1;    ///< from 1
    std::uint32_t column = 1;  ///< from 1, in bytes
  };
  Place place(std::uint32_t offset) const noexcept;
  std::uint32_t lines() const noexcept { return static_cast<std::uint32_t>(line_begins_.size()); }
  /// Without its end.
  std::string_view line(std::uint32_t number) const noexcept;

 private:
  std::string name_;
  std::string text_;
  std::vector<std::uint32_t> line_begins_;
};

enum class Severity { error, warning, note };
const char* to_string(Severity severity) noexcept;

struct Diagnostic {
  Severity severity;
  Span span;
  std::string message;  ///< one line: what is wrong, and what was expected
};

class Diagnostics {
 public:
  explicit Diagnostics(const Source& source) : source_(source) {}

  void error(Span span, std::string message) { add(Severity::error, span, std::move(message)); }
  void warning(Span span, std::string message) { add(Severity::warning, span, std::move(message)); }
  /// Belongs to the error or warning before.
  void note(Span span, std::string message) { add(Severity::note, span, std::move(message)); }

  bool has_errors() const noexcept { return errors_ > 0; }
  /// Whether to stop: further errors would probably be consequences of earlier ones.
  bool enough() const noexcept { return errors_ >= most_errors; }
  const std::vector<Diagnostic>& all() const noexcept { return all_; }
  const Source& source() const noexcept { return source_; }

  /// In the order of the text; notes follow the error or warning to which they belong.
  void sort();

 private:
  static constexpr int most_errors = 20;
  static constexpr int most_warnings = 100;

  void add(Severity severity, Span span, std::string message);

  const Source& source_;
  std::vector<Diagnostic> all_;
  int errors_ = 0;
  int warnings_ = 0;
  bool notes_dropped_ = false;  ///< because their error or warning was dropped
};

/// "FILE:LINE:COLUMN: error: MESSAGE", the line, and below it a caret and a wave under the span.
std::string format(const Source& source, const Diagnostic& diagnostic);
/// All of them.
std::string format(const Diagnostics& diagnostics);

/// The candidate that is most similar to `name`; empty if none is.
std::string nearest(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace smelt::graph::language
