// From the chunks of a text file to a graph: what all text formats share. A format says how its lines are parsed;
// chunks are parsed in parallel, and what they give is joined in the order of the file.
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

/// Where the parser of one chunk leaves its edges.
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
  /// There is such a node, even if it has no edge.
  virtual void note(std::uint64_t node) = 0;
  /// Where lines stand for nodes: `from` counts them within the chunk, from 0.
  void count_node() noexcept { ++nodes_; }
  std::uint64_t nodes() const noexcept { return nodes_; }

  /// No further edge is wanted: memory ran out, or numbers are too large for the sink.
  bool failed() const noexcept { return failed_; }

 protected:
  struct RawEdge {
    std::uint64_t from, to;
    WeightBits weight;
  };
  static constexpr std::size_t batch_size = 256;

  virtual void take(const RawEdge* edges, std::size_t count) = 0;
  /// Whole numbers that were taken so far become doubles.
  virtual void make_real() = 0;
  void flush() {
    if (!failed_) take(batch_, size_);
    size_ = 0;
  }

  bool failed_ = false;
  bool real_ = false;  ///< weights are doubles: all from now on

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
  bool undirected = false;                       ///< by the format: edges are listed once
  bool nodes_are_lines = false;                  ///< lines stand for nodes: EdgeSink::count_node()
  std::optional<std::uint64_t> nodes = {};       ///< if the header says it
  std::optional<std::uint64_t> edges = {};       ///< in the file, if the header says it
  std::optional<std::uint64_t> edges_else = {};  ///< or this, if edges are listed at both ends
  std::function<std::optional<ParseError>(Cursor&, EdgeSink&)> parse = {};  ///< all lines of a chunk; any thread
};

/// Reads the header of an open file and describes the rest. Called again where a second attempt needs wider numbers.
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
/// `may_have_sizes` becomes whether the header leaves it open if there are node sizes; they are expected with `sizes`.
Result<TextFormat> read_metis_header(Lines& lines, bool sizes, bool& may_have_sizes);
Result<TextFormat> read_adj_header(Lines& lines, const LoadOptions& options);

}  // namespace smelt::graph
