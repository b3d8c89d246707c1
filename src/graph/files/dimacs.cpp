// DIMACS: "p sp NODES EDGES" with lines "a FROM TO WEIGHT" (9th challenge, shortest paths), or "p edge NODES EDGES"
// with lines "e A B" (2nd challenge, undirected; some files list an edge twice). Nodes are numbered from 1. Lines that
// start with c are comments.
#include "base/error.hpp"
#include "graph/files/text_edges.hpp"

namespace smelt::graph {
namespace {

struct Arcs {
  std::uint64_t nodes;
  bool weighted;

  std::optional<ParseError> operator()(Cursor& cursor, EdgeSink& sink) const {
    const char mark = weighted ? 'a' : 'e';
    for (; !cursor.at_end() && !sink.failed(); cursor.next_line()) {
      cursor.skip_blanks();
      if (cursor.at_line_end() || cursor.look() == 'c') continue;
      if (cursor.look() != mark) {
        return cursor.mistake(fmt::format("'{}': lines start with '{}' or 'c'", cursor.word(), mark));
      }
      cursor.skip();
      std::uint64_t from = 0, to = 0;
      cursor.skip_blanks();
      if (!cursor.read(from)) return cursor.expected("a node's number");
      cursor.skip_blanks();
      if (!cursor.read(to)) return cursor.expected("a node's number");
      if (from - 1 >= nodes || to - 1 >= nodes) {
        return cursor.mistake(fmt::format("edge {} {}: nodes are numbered 1 to {}", from, to, nodes));
      }
      if (!weighted) {
        sink.add(from - 1, to - 1);
        continue;
      }
      Number weight;
      cursor.skip_blanks();
      if (!cursor.read(weight)) return cursor.expected("a weight");
      sink.add(from - 1, to - 1, weight);
    }
    return std::nullopt;
  }
};

}  // namespace

Result<TextFormat> read_dimacs_header(Lines& lines) {
  auto line = lines.line();
  while (line && (line->starts_with('c') || line->find_first_not_of(" \t") == std::string_view::npos))
    line = lines.line();
  if (!line) return error_in_line(lines, "the line 'p sp NODES EDGES' is missing");
  const std::string text = std::string(*line) + '\n';
  const bool paths = text.starts_with("p sp "), edges = text.starts_with("p edge ") || text.starts_with("p col ");
  if (!paths && !edges) return error_in_line(lines, "must be 'p sp NODES EDGES' or 'p edge NODES EDGES'");
  Cursor cursor(std::string_view(text).substr(text.find(' ', 2)));
  std::uint64_t numbers[2] = {};
  for (auto& number : numbers) {
    cursor.skip_blanks();
    if (!cursor.read(number)) return error_in_line(lines, "the numbers of nodes and edges are missing");
  }
  TextFormat format;
  format.undirected = edges;
  format.weighted = paths;
  format.nodes = numbers[0];
  format.edges = numbers[1];
  if (edges) format.edges_else = 2 * numbers[1];
  format.parse = Arcs{numbers[0], paths};
  return format;
}

}  // namespace smelt::graph
