// Common code of all text formats. A format defines how its lines are parsed. Chunks are parsed in parallel, and their
// edges are joined in the order of the file.
#pragma once

#include <bit>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "graph/csr/build.hpp"
#include "graph/files/cursor.hpp"
#include "graph/files/lines.hpp"
#include "graph/team/team.hpp"
#include "smelt/graph.hpp"

namespace smelt::graph {

/// Receives the edges of one chunk from the parser.
class EdgeSink {
 public:
  virtual ~EdgeSink() = default;

  void add(std::uint64_t from, std::uint64_t to) {
    batch_[size_++] = {from, to, 0};
    if (size_ == batch_size) flush();
  }
  void add(std::uint64_t from, std::uint64_t to, const Number& weight) {
    if (weight.real && !real_) become_real();
    batch_[size_++] = {from, to, weight_bits(weight)};
    if (size_ == batch_size) flush();
  }
  /// Adds a node, which may have no edges.
  virtual void note(std::uint64_t node) = 0;
  /// For formats with a line per node: `from` counts the lines of the chunk, from 0.
  void count_node() noexcept { ++nodes_; }
  std::uint64_t nodes() const noexcept { return nodes_; }

  /// Whether to stop: memory ran out, or numbers are too large for the sink.
  bool failed() const noexcept { return failed_; }

 protected:
  struct RawEdge {
    std::uint64_t from, to;
    WeightBits weight;
  };
  static constexpr std::size_t batch_size = 256;

  virtual void take(const RawEdge* edges, std::size_t count) = 0;
  /// Converts the integer weights so far to doubles.
  virtual void make_real() = 0;
  void flush() {
    if (!failed_) take(batch_, size_);
    size_ = 0;
  }

  bool failed_ = false;
  bool real_ = false;  ///< weights are doubles from now on

 private:
  WeightBits weight_bits(const Number& weight) const noexcept {
    if (!real_) return static_cast<WeightBits>(weight.whole);
    return std::bit_cast<WeightBits>(weight.real ? weight.value : static_cast<double>(weight.whole));
  }
  void become_real() {
    flush();
    make_real();
    real_ = true;
  }

  RawEdge batch_[batch_size];
  std::size_t size_ = 0;
  std::uint64_t nodes_ = 0;
};

struct TextFormat {
  std::string name;                              ///< of the file
  bool weighted = false;                         ///< all edges are added with a weight
  bool undirected = false;                       ///< the format lists each edge once
  bool nodes_are_lines = false;                  ///< lines stand for nodes: EdgeSink::count_node()
  std::optional<std::uint64_t> nodes = {};       ///< if the header contains it
  std::optional<std::uint64_t> edges = {};       ///< in the file, if the header contains it
  std::optional<std::uint64_t> edges_else = {};  ///< the alternative if both ends list an edge
  std::function<std::optional<ParseError>(Cursor&, EdgeSink&)> parse = {};  ///< all lines of a chunk; any thread
};

/// Reads the header of an open file and describes the rest. Called again if a second attempt needs wider numbers.
using ReadHeader = std::function<Result<TextFormat>(Lines&)>;

/// A graph from a text file.
Result<Graph> read_text(const std::string& file, const ReadHeader& read_header, const LoadOptions& options,
                        ThreadTeam& team);

/// An error in the line that was read last.
Error error_in_line(const Lines& lines, const std::string& reason);

// The formats: each reads its header.
Result<TextFormat> read_edge_list_header(Lines& lines);
Result<TextFormat> read_matrix_market_header(Lines& lines);
Result<TextFormat> read_dimacs_header(Lines& lines);
/// `may_have_sizes` is set to whether the header is ambiguous about node sizes. With `sizes`, they are expected.
Result<TextFormat> read_metis_header(Lines& lines, bool sizes, bool& may_have_sizes);
Result<TextFormat> read_adj_header(Lines& lines, const LoadOptions& options);

}  // namespace smelt::graph
