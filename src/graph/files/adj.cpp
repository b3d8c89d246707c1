// Green-Marl's text format: a line "node [values] neighbour [value] neighbour [value] ..." per node with edges, numbers
// from 0, in any order of nodes. The caller must know the numbers of values per node and per neighbour.
#include "graph/files/text_edges.hpp"

namespace smelt::graph {
namespace {

struct AdjLines {
  int node_values;
  bool weighted;

  std::optional<ParseError> operator()(Cursor& cursor, EdgeSink& sink) const {
    for (; !cursor.at_end() && !sink.failed(); cursor.next_line()) {
      cursor.skip_blanks();
      if (cursor.at_line_end() || cursor.look() == '#') continue;
      if (auto mistake = line(cursor, sink)) return mistake;
    }
    return std::nullopt;
  }

  std::optional<ParseError> line(Cursor& cursor, EdgeSink& sink) const {
    std::uint64_t node = 0;
    if (!cursor.read(node)) return cursor.expected("a node's number");
    cursor.skip_blanks();
    for (int i = 0; i < node_values; ++i, cursor.skip_blanks()) {
      if (cursor.at_line_end()) return cursor.expected("a value of the node");
      cursor.skip_word();
    }
    while (!cursor.at_line_end()) {
      std::uint64_t neighbour = 0;
      Number weight;
      if (!cursor.read(neighbour)) return cursor.expected("a neighbour's number");
      cursor.skip_blanks();
      if (!weighted) {
        sink.add(node, neighbour);
        continue;
      }
      if (!cursor.read(weight)) return cursor.expected("an edge's value");
      cursor.skip_blanks();
      sink.add(node, neighbour, weight);
    }
    sink.note(node);
    return std::nullopt;
  }
};

}  // namespace

Result<TextFormat> read_adj_header(Lines&, const LoadOptions& options) {
  TextFormat format;
  format.weighted = options.adj_edge_values > 0;
  format.parse = AdjLines{options.adj_node_values, format.weighted};
  return format;
}

}  // namespace smelt::graph
