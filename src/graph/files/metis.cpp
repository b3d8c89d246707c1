// METIS (Chaco) graphs: a header "NODES EDGES [FMT [NCON]]", then a line per node with its neighbours, numbered from 1.
// The digits of FMT say whether there are node sizes, NCON node weights per line, and a weight after each neighbour.
// Node sizes and weights are ignored. Lines that start with % are comments.
//
// The format has two ambiguities, which are resolved by counting. EDGES is half the number of neighbours, since both
// ends list an edge, or the whole number if a directed graph is written in this format. The first digit of FMT means
// loops and repeated edges in the 10th DIMACS challenge, in which case no sizes follow.
#include <charconv>

#include "base/error.hpp"
#include "graph/files/text_edges.hpp"

namespace smelt::graph {
namespace {

struct MetisLines {
  std::uint64_t nodes;
  std::uint64_t skipped;  ///< numbers before a line's first neighbour
  bool weighted;

  std::optional<ParseError> operator()(Cursor& cursor, EdgeSink& sink) const {
    for (; !cursor.at_end() && !sink.failed(); cursor.next_line()) {
      cursor.skip_blanks();
      if (cursor.look() == '%') continue;
      if (sink.nodes() >= nodes) {  // empty lines may follow
        if (cursor.at_line_end()) continue;
        return cursor.mistake(fmt::format("a line too many: the header says {} nodes", nodes));
      }
      if (auto mistake = neighbours(cursor, sink)) return mistake;
      sink.count_node();
    }
    return std::nullopt;
  }

  std::optional<ParseError> neighbours(Cursor& cursor, EdgeSink& sink) const {
    Number number;
    for (std::uint64_t i = 0; i < skipped; ++i, cursor.skip_blanks()) {
      if (!cursor.read(number)) return cursor.expected("a size or weight of the node");
    }
    while (!cursor.at_line_end()) {
      std::uint64_t neighbour = 0;
      if (!cursor.read(neighbour)) return cursor.expected("a neighbour's number");
      if (neighbour - 1 >= nodes) {
        return cursor.mistake(fmt::format("neighbour {}: nodes are numbered 1 to {}", neighbour, nodes));
      }
      cursor.skip_blanks();
      if (!weighted) {
        sink.add(sink.nodes(), neighbour - 1);
        continue;
      }
      if (!cursor.read(number)) return cursor.expected("an edge's weight");
      cursor.skip_blanks();
      sink.add(sink.nodes(), neighbour - 1, number);
    }
    return std::nullopt;
  }
};

}  // namespace

Result<TextFormat> read_metis_header(Lines& lines, bool sizes, bool& may_have_sizes) {
  auto line = lines.line();
  while (line && line->starts_with('%')) line = lines.line();
  if (!line) return error_in_line(lines, "the line 'NODES EDGES' is missing");
  const std::string text = std::string(*line) + '\n';
  Cursor cursor(text);
  std::uint64_t numbers[4] = {0, 0, 0, 1};
  int count = 0;
  for (cursor.skip_blanks(); count < 4 && !cursor.at_line_end(); cursor.skip_blanks(), ++count) {
    if (!cursor.read(numbers[count])) return error_in_line(lines, "must be 'NODES EDGES [FMT [NCON]]'");
  }
  const std::uint64_t nodes = numbers[0], edges = numbers[1], flags = numbers[2], constraints = numbers[3];
  const auto digit = [flags](std::uint64_t place) { return flags / place % 10; };
  if (count < 2 || flags > 111 || digit(1) > 1 || digit(10) > 1 || digit(100) > 1 || constraints > 1000) {
    return error_in_line(lines, "must be 'NODES EDGES [FMT [NCON]]', FMT of the digits 0 and 1");
  }
  TextFormat format;
  format.weighted = digit(1) == 1;
  format.nodes_are_lines = true;
  format.nodes = nodes;
  format.edges = edges;
  format.edges_else = 2 * edges;
  may_have_sizes = digit(100) == 1;
  const std::uint64_t size_numbers = sizes && may_have_sizes ? 1 : 0;
  format.parse = MetisLines{nodes, (digit(10) == 1 ? constraints : 0) + size_numbers, format.weighted};
  return format;
}

}  // namespace smelt::graph
