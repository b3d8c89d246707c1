#include "graph/language/lexer.hpp"

#include <algorithm>
#include <array>
#include <cctype>

namespace smelt::graph::language {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v'; }

/// Longer ones first.
constexpr std::array<std::string_view, 38> marks = {
    "&&=", "||=", "<=", ">=", "==", "!=", "&&", "||", "+=", "-=", "*=", "/=", "&=", "|=", "++", "--", "::", "+", "-",
    "*",   "/",   "%",  "<",  ">",  "=",  "!",  "?",  ":",  ";",  ",",  ".",  "(",  ")",  "{",  "}",  "[",  "]", "|"};
constexpr std::string_view single_marks = "@#^&";

class Scanner {
 public:
  Scanner(const Source& source, std::uint32_t offset) : text_(source.text()), at_(offset) {}

  Token token() {
    if (const char* reason = skip_blanks()) return make(TokenKind::wrong, comment_begin_, reason);
    const auto begin = at_;
    if (at_ >= text_.size()) return {TokenKind::end, {size(), size()}, {}, nullptr};
    const char c = text_[at_];
    if (is_letter(c)) return make(word(), begin);
    if (is_digit(c)) return number(begin);
    if (c == '"') return string(begin);
    if (c == '$' && is_letter(look(1))) {
      ++at_;
      word();
      return make(TokenKind::foreign_name, begin);
    }
    for (const auto mark : marks) {
      if (text_.substr(at_, mark.size()) != mark) continue;
      at_ += static_cast<std::uint32_t>(mark.size());
      return make(TokenKind::mark, begin);
    }
    ++at_;
    if (single_marks.find(c) != std::string_view::npos) return make(TokenKind::mark, begin);
    while (at_ < text_.size() && static_cast<unsigned char>(text_[at_]) >= 0x80)
      ++at_;  // the rest of a UTF-8 character
    return make(TokenKind::wrong, begin, "this character has no meaning here");
  }

 private:
  std::uint32_t size() const { return static_cast<std::uint32_t>(text_.size()); }
  char look(std::uint32_t ahead) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  Token make(TokenKind kind, std::uint32_t begin, const char* reason = nullptr) const {
    return {kind, {begin, at_}, text_.substr(begin, at_ - begin), reason};
  }

  /// The reason, if a comment does not end.
  const char* skip_blanks() {
    while (at_ < text_.size()) {
      if (is_blank(text_[at_])) {
        ++at_;
      } else if (look(0) == '/' && look(1) == '/') {
        at_ = static_cast<std::uint32_t>(std::min(text_.find('\n', at_), text_.size()));
      } else if (look(0) == '/' && look(1) == '*') {
        comment_begin_ = at_;
        const auto end = text_.find("*/", at_ + 2);
        at_ = end == std::string_view::npos ? size() : static_cast<std::uint32_t>(end + 2);
        if (end == std::string_view::npos) return "this comment has no end; '*/' is missing";
      } else {
        break;
      }
    }
    return nullptr;
  }

  TokenKind word() {
    while (is_letter(look(0)) || is_digit(look(0))) ++at_;
    return TokenKind::name;
  }

  Token number(std::uint32_t begin) {
    while (is_digit(look(0))) ++at_;
    bool real = false;
    if (look(0) == '.' && is_digit(look(1))) {
      real = true;
      for (++at_; is_digit(look(0)); ++at_) continue;
    } else if (look(0) == '.' && !is_letter(look(1))) {
      real = true;
      ++at_;
    }
    if (look(0) == 'e' || look(0) == 'E') {
      const std::uint32_t sign = look(1) == '+' || look(1) == '-' ? 1 : 0;
      if (is_digit(look(1 + sign))) {
        real = true;
        for (at_ += 1 + sign; is_digit(look(0)); ++at_) continue;
      }
    }
    if (real && (look(0) == 'f' || look(0) == 'F') && !is_letter(look(1))) {
      ++at_;
    } else if (is_letter(look(0))) {
      word();
      return make(TokenKind::wrong, begin, "a name must not start with a digit");
    }
    return make(real ? TokenKind::real : TokenKind::integer, begin);
  }

  Token string(std::uint32_t begin) {
    bool escapes = true;
    for (++at_; look(0) != '"'; ++at_) {
      if (at_ >= text_.size() || text_[at_] == '\n')
        return make(TokenKind::wrong, begin, "this string has no end; '\"' is missing");
      if (text_[at_] != '\\' || at_ + 1 >= text_.size()) continue;
      ++at_;
      escapes = escapes && may_be_escaped(text_[at_]);
    }
    ++at_;
    if (!escapes) return make(TokenKind::wrong, begin, "behind '\\' can be n, t, r, a, b, f, v, 0, \", ' or \\");
    return make(TokenKind::string, begin);
  }

  static bool may_be_escaped(char c) { return std::string_view("ntrabfv0\"'\\").find(c) != std::string_view::npos; }

  std::string_view text_;
  std::uint32_t at_;
  std::uint32_t comment_begin_ = 0;
};

char unescaped(char c) {
  switch (c) {
    case 'n': return '\n';
    case 't': return '\t';
    case 'r': return '\r';
    case '0': return '\0';
    case 'a': return '\a';
    case 'b': return '\b';
    case 'f': return '\f';
    case 'v': return '\v';
    default: return c;
  }
}

}  // namespace

Token next_token(const Source& source, std::uint32_t offset) { return Scanner(source, offset).token(); }

Span foreign_text(const Source& source, std::uint32_t offset) {
  const auto text = source.text();
  int depth = 0;
  for (auto at = offset; at < text.size(); ++at) {
    if (text[at] == '[') ++depth;
    if (text[at] == ']' && depth-- == 0) return {offset, at};
    if (text[at] != '"' && text[at] != '\'') continue;
    // A literal of the other language, whose brackets do not count.
    const char quote = text[at];
    for (auto end = at + 1; end < text.size() && text[end] != '\n'; ++end) {
      if (text[end] == '\\') {
        ++end;
      } else if (text[end] == quote) {
        at = end;
        break;
      }
    }
  }
  return {offset, static_cast<std::uint32_t>(text.size()) + 1};
}

namespace {

/// Behind the '>' of the '<' at `at`; `at` itself if there is none, or what is between is no list of types.
std::uint32_t angles_end(std::string_view text, std::uint32_t at) {
  int depth = 0;
  for (auto end = at; end < text.size(); ++end) {
    const char c = text[end];
    if (c == '<') ++depth;
    if (c == '>' && --depth == 0) return end + 1;
    const bool of_type = is_letter(c) || is_digit(c) || c == '<' || c == '>' || c == ':' || c == ',' || c == '*';
    if (!of_type && c != ' ') break;
  }
  return at;
}

}  // namespace

std::uint32_t foreign_type_end(const Source& source, std::uint32_t offset) {
  const auto text = source.text();
  const auto at = [&](std::uint32_t place) { return place < text.size() ? text[place] : '\0'; };
  for (auto end = offset;;) {
    if (at(end) == ':' && at(end + 1) == ':' && is_letter(at(end + 2))) {
      for (end += 2; is_letter(at(end)) || is_digit(at(end));) ++end;
    } else if (at(end) == '<' && angles_end(text, end) > end) {
      end = angles_end(text, end);
    } else if (at(end) == '*') {
      ++end;
    } else {
      return end;
    }
  }
}

std::string string_value(std::string_view lexeme) {
  std::string value;
  for (std::size_t i = 1; i + 1 < lexeme.size(); ++i) {
    value += lexeme[i] == '\\' && i + 2 < lexeme.size() ? unescaped(lexeme[++i]) : lexeme[i];
  }
  return value;
}

bool is_word(std::string_view text, std::string_view word) noexcept {
  return std::equal(text.begin(), text.end(), word.begin(), word.end(), [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
  });
}

}  // namespace smelt::graph::language
