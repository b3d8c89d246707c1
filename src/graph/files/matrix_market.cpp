// Matrix Market, coordinate format: an entry "i j value" of a square matrix, numbered from 1, is an edge i -> j. Of a
// symmetric matrix, the file contains one half, and the graph is undirected. [NIST: Matrix Market exchange formats]
#include <algorithm>
#include <sstream>

#include "base/error.hpp"
#include "graph/files/text_edges.hpp"

namespace smelt::graph {
namespace {

struct Entries {
  std::uint64_t nodes;
  bool weighted;

  std::optional<ParseError> operator()(Cursor& cursor, EdgeSink& sink) const {
    for (; !cursor.at_end() && !sink.failed(); cursor.next_line()) {
      cursor.skip_blanks();
      if (cursor.at_line_end() || cursor.look() == '%') continue;
      std::uint64_t row = 0, column = 0;
      if (!cursor.read(row)) return cursor.expected("a row's number");
      cursor.skip_blanks();
      if (!cursor.read(column)) return cursor.expected("a column's number");
      if (row - 1 >= nodes || column - 1 >= nodes) {
        return cursor.mistake(fmt::format("entry ({}, {}) is not in a matrix of 1 to {}", row, column, nodes));
      }
      if (!weighted) {
        sink.add(row - 1, column - 1);
        continue;
      }
      Number value;
      cursor.skip_blanks();
      if (!cursor.read(value)) return cursor.expected("an entry's value");
      sink.add(row - 1, column - 1, value);
    }
    return std::nullopt;
  }
};

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

}  // namespace

Result<TextFormat> read_matrix_market_header(Lines& lines) {
  auto line = lines.line();
  if (!line) return error_in_line(lines, "the file is empty");
  std::istringstream banner{lower(std::string(*line))};
  std::string mark, object, layout, field, symmetry;
  banner >> mark >> object >> layout >> field >> symmetry;
  if (mark != "%%matrixmarket" || object != "matrix") {
    return error_in_line(lines, "must start with '%%MatrixMarket matrix coordinate ...'");
  }
  if (layout != "coordinate")
    return error_in_line(lines, fmt::format("'{}' matrices are no graphs; coordinate ones are", shown(layout)));
  if (field != "pattern" && field != "integer" && field != "real") {
    return error_in_line(lines,
                         fmt::format("'{}' values cannot be weights; pattern, integer or real ones can", shown(field)));
  }
  if (symmetry != "general" && symmetry != "symmetric") {
    return error_in_line(lines,
                         fmt::format("a '{}' matrix is no graph; a general or symmetric one is", shown(symmetry)));
  }
  do line = lines.line();
  while (line && (line->starts_with('%') || line->find_first_not_of(" \t") == std::string_view::npos));
  if (!line) return error_in_line(lines, "the line with the matrix's size is missing");
  const std::string size = std::string(*line) + '\n';
  Cursor cursor(size);
  std::uint64_t numbers[3] = {};
  for (auto& number : numbers) {
    cursor.skip_blanks();
    if (!cursor.read(number)) return error_in_line(lines, "must be the matrix's size, as in '14 14 256'");
  }
  if (numbers[0] != numbers[1]) {
    return error_in_line(lines, fmt::format("a graph's matrix is square, not {} x {}", numbers[0], numbers[1]));
  }
  TextFormat format;
  format.undirected = symmetry == "symmetric";
  format.weighted = field != "pattern";
  format.nodes = numbers[0];
  format.edges = numbers[2];
  format.parse = Entries{numbers[0], format.weighted};
  return format;
}

}  // namespace smelt::graph
