// Lexemes of Green-Marl.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "graph/language/source.hpp"

namespace smelt::graph::language {

enum class TokenKind : std::uint8_t {
  end,
  name,  ///< keywords, too: which names are reserved depends on the place
  integer,
  real,
  string,
  foreign_name,  ///< $NAME
  mark,          ///< operators and punctuation
  wrong,         ///< no lexeme; `reason` says why
};

struct Token {
  TokenKind kind = TokenKind::end;
  Span span;
  std::string_view text;         ///< as it stands in the source
  const char* reason = nullptr;  ///< of a wrong one

  bool is(std::string_view mark) const noexcept { return kind == TokenKind::mark && text == mark; }
};

/// The token at `offset`, after any blanks and comments.
Token next_token(const Source& source, std::uint32_t offset);

/// The span of the foreign text after the '[' at `offset`, up to its ']'. Brackets inside are balanced. If there is no
/// such
/// ']', the span ends beyond the source.
Span foreign_text(const Source& source, std::uint32_t offset);

/// Where the foreign type that begins with the foreign name ending at `offset` ends: $a::b<c, d>::e* without blanks
/// except within < >. `offset` itself where nothing of that follows.
std::uint32_t foreign_type_end(const Source& source, std::uint32_t offset);

/// What a string's lexeme stands for, without quotes and escapes.
std::string string_value(std::string_view lexeme);

/// Whether `text` is the word in a usual capitalization: "Foreach" as "foreach", "FOREACH", "ForEach".
bool is_word(std::string_view text, std::string_view word) noexcept;

}  // namespace smelt::graph::language
