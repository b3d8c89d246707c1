// Edge lists: a line "from to" or "from to weight" per edge, numbered from 0. Further columns are ignored.
// Comments start with # or %. The first edge determines whether there are weights.
#include "graph/files/text_edges.hpp"

namespace smelt::graph {
namespace {

bool is_edge_list_comment(std::string_view line) {
  const auto first = line.find_first_not_of(" \t");
  return first == std::string_view::npos || line[first] == '#' || line[first] == '%';
}

std::optional<ParseError> parse_edges(Cursor& cursor, EdgeSink& sink, bool weighted) {
  for (; !cursor.at_end() && !sink.failed(); cursor.next_line()) {
    cursor.skip_blanks();
    if (cursor.at_line_end() || cursor.look() == '#' || cursor.look() == '%') continue;
    std::uint64_t from = 0, to = 0;
    if (!cursor.read(from)) return cursor.expected("a node's number");
    cursor.skip_blanks();
    if (!cursor.read(to)) return cursor.expected("a node's number");
    if (!weighted) {
      sink.add(from, to);
      continue;
    }
    Number weight;
    cursor.skip_blanks();
    if (!cursor.read(weight)) return cursor.expected("a weight like that of the first edge");
    sink.add(from, to, weight);
  }
  return std::nullopt;
}

}  // namespace

Result<TextFormat> read_edge_list_header(Lines& lines) {
  auto line = lines.line();
  while (line && is_edge_list_comment(*line)) line = lines.line();
  TextFormat format;
  if (line) {
    const std::string text = std::string(*line) + '\n';
    Cursor cursor(text);
    std::uint64_t number = 0;
    Number weight;
    cursor.skip_blanks();
    bool ends = cursor.read(number);
    cursor.skip_blanks();
    ends = ends && cursor.read(number);
    cursor.skip_blanks();
    format.weighted = ends && cursor.read(weight);
    lines.unread();
  }
  format.parse = [weighted = format.weighted](Cursor& cursor, EdgeSink& sink) {
    return parse_edges(cursor, sink, weighted);
  };
  return format;
}

}  // namespace smelt::graph
