// Graphs: compressed sparse rows with values of nodes and edges; files, generators.
//
//   begin      [ 0 | 2 | 2 | 5 ]          edges of node v: positions begin[v] to begin[v+1]; num_nodes + 1 offsets
//   node_idx   [ 1  2 | | 0  0  1 ]       where each edge leads, ascending within a node; an edge's number is its position
//
// Graphs are directed multigraphs: loops and repeated edges count. An undirected graph is one in which every edge has
// its reverse, each with a number of its own; its in edges are its out edges. Numbers take 32 bits where that suffices.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "smelt/error.hpp"

namespace smelt::graph {

enum class ValueType : std::uint8_t { boolean, int32, int64, float32, float64 };

/// Bytes of one value: a boolean takes one.
std::size_t size_of(ValueType type) noexcept;
/// "bool", "int", "long", "float", "double", as in Green-Marl.
const char* to_string(ValueType type) noexcept;

template <class T>
constexpr ValueType value_type_of() noexcept {
  if constexpr (std::is_same_v<T, bool>) return ValueType::boolean;
  if constexpr (std::is_same_v<T, std::int32_t>) return ValueType::int32;
  if constexpr (std::is_same_v<T, std::int64_t>) return ValueType::int64;
  if constexpr (std::is_same_v<T, float>) return ValueType::float32;
  if constexpr (std::is_same_v<T, double>) return ValueType::float64;
}

/// The values of all nodes or of all edges, by their numbers. Copies share the memory, which nobody changes.
class Column {
 public:
  Column(std::string name, ValueType type, std::uint64_t size, std::shared_ptr<const void> data)
      : name_(std::move(name)), type_(type), size_(size), data_(std::move(data)) {}

  /// A copy of `values`.
  template <class T>
  static Column of(std::string name, std::span<const T> values) {
    const auto copy = std::make_shared<std::vector<std::byte>>(values.size_bytes());
    std::copy_n(reinterpret_cast<const std::byte*>(values.data()), values.size_bytes(), copy->data());
    return Column(std::move(name), value_type_of<T>(), values.size(), {copy, copy->data()});
  }

  const std::string& name() const noexcept { return name_; }
  ValueType type() const noexcept { return type_; }
  std::uint64_t size() const noexcept { return size_; }
  const void* data() const noexcept { return data_.get(); }

  /// The values; requires that T is their type. Valid while a copy of the column lives.
  template <class T>
  std::span<const T> values() const noexcept {
    return {static_cast<const T*>(data_.get()), size_};
  }

  /// The number of the first value that is negative; size() if there is none. Found once: copies share the answer.
  std::uint64_t first_negative() const;

 private:
  std::string name_;
  ValueType type_;
  std::uint64_t size_;
  std::shared_ptr<const void> data_;
  /// What first_negative() found; relaxed, as whoever finds it again finds the same.
  std::shared_ptr<std::atomic<std::uint64_t>> first_negative_ =
      std::make_shared<std::atomic<std::uint64_t>>(~std::uint64_t{0});
};

/// One direction of a graph's edges.
template <class NodeId, class EdgeId>
struct Adjacency {
  const EdgeId* begin = nullptr;     ///< num_nodes + 1
  const NodeId* node_idx = nullptr;  ///< num_edges

  EdgeId degree(NodeId node) const noexcept { return begin[node + 1] - begin[node]; }
  std::span<const NodeId> neighbours(NodeId node) const noexcept { return {node_idx + begin[node], degree(node)}; }
};

struct Structure;  // what copies of a graph share

/// A graph is a value; copies share their arrays. All members may be called by any number of threads.
class Graph {
 public:
  /// No nodes, no edges.
  Graph();

  std::uint64_t num_nodes() const noexcept;
  std::uint64_t num_edges() const noexcept;

  /// Whether every edge is known to have its reverse; then the in edges are the out edges.
  bool undirected() const noexcept;
  /// Whether the graph is known to have neither loops nor repeated edges.
  bool simple() const noexcept;

  int node_id_bytes() const noexcept;  ///< 4 or 8
  int edge_id_bytes() const noexcept;  ///< 4 or 8

  /// The edges grouped by source node. Requires that the types have node_id_bytes() and edge_id_bytes().
  template <class NodeId, class EdgeId>
  Adjacency<NodeId, EdgeId> out() const noexcept {
    return {static_cast<const EdgeId*>(out_begin()), static_cast<const NodeId*>(out_node_idx())};
  }

  /// The edges grouped by target node; created by the first call. The types as for out(); `threads` as in LoadOptions.
  /// Cost: two passes over the edges, and 8 bytes per edge while it lasts. Errors: out_of_memory.
  template <class NodeId, class EdgeId>
  Result<Adjacency<NodeId, EdgeId>> in(int threads = 0) const {
    if (auto made = make_in_edges(threads); !made) return made.error();
    return Adjacency<NodeId, EdgeId>{static_cast<const EdgeId*>(in_begin()), static_cast<const NodeId*>(in_node_idx())};
  }

  /// For each position among the in edges, the number of that edge; created by the first call. Of an undirected graph,
  /// whose in edges are its out edges, null: their numbers are their positions. Cost and errors: as in().
  template <class EdgeId>
  Result<const EdgeId*> in_edge_numbers(int threads = 0) const {
    if (auto made = make_in_edge_numbers(threads); !made) return made.error();
    return static_cast<const EdgeId*>(in_edge_ids());
  }

  /// Values by name, such as "weight"; null if there are none of that name. Valid while a copy of the graph lives.
  const Column* node_values(std::string_view name) const noexcept;
  const Column* edge_values(std::string_view name) const noexcept;
  const std::vector<Column>& node_columns() const noexcept { return node_columns_; }
  const std::vector<Column>& edge_columns() const noexcept { return edge_columns_; }

  /// The same graph with these values, which replace those of the same name. Errors: invalid_argument if their number
  /// does not match the graph.
  Result<Graph> with_node_values(Column values) const;
  Result<Graph> with_edge_values(Column values) const;

  explicit Graph(std::shared_ptr<const Structure> structure) noexcept;
  const Structure& structure() const noexcept { return *structure_; }

 private:
  const void* out_begin() const noexcept;
  const void* out_node_idx() const noexcept;
  const void* in_begin() const noexcept;
  const void* in_node_idx() const noexcept;
  const void* in_edge_ids() const noexcept;
  Result<void> make_in_edges(int threads) const;
  Result<void> make_in_edge_numbers(int threads) const;

  std::shared_ptr<const Structure> structure_;
  std::vector<Column> node_columns_;
  std::vector<Column> edge_columns_;
};

/// Calls f(NodeId{}, EdgeId{}) with the unsigned types of the graph's numbers, and returns what it returns.
template <class F>
decltype(auto) with_ids(const Graph& graph, F&& f) {
  if (graph.node_id_bytes() == 8) return f(std::uint64_t{}, std::uint64_t{});
  if (graph.edge_id_bytes() == 8) return f(std::uint32_t{}, std::uint64_t{});
  return f(std::uint32_t{}, std::uint32_t{});
}

/// Reports progress of long work: its name, and the completed fraction, 0 to 1. Called by one thread at a time.
using Progress = std::function<void(const char* phase, double fraction)>;

/// How edges become a graph.
struct BuildOptions {
  int threads = 0;          ///< 0: one per PU that the process may use
  bool undirected = false;  ///< add the reverse of every edge except loops, with the same weight
  bool simple = false;      ///< remove loops, and all but the lightest of repeated edges
  bool renumber = false;  ///< number the nodes that occur 0, 1, ... by their numbers, which become the node values "id"
};

/// A graph from edges in memory: edge i leads from[i] -> to[i], and has weight[i] if there are weights, which become
/// the edge values "weight". Errors: invalid_argument (lengths, numbers not below num_nodes), out_of_memory.
Result<Graph> make_graph(std::uint64_t num_nodes, std::span<const std::uint64_t> from,
                         std::span<const std::uint64_t> to, std::span<const double> weight = {},
                         const BuildOptions& options = {});

enum class Format {
  automatic,      ///< by the file's name and its first bytes
  edge_list,      ///< a line "from to [weight]" per edge; comments start with # or %
  matrix_market,  ///< coordinate format; an entry (i, j) is an edge i -> j
  dimacs,         ///< "p sp" (shortest paths) and "p edge"
  metis,          ///< a line of neighbours per node
  gap,            ///< .sg and .wsg of the GAP benchmark suite
  ebin,           ///< Green-Marl, binary
  adj,            ///< Green-Marl, a line "node [values] neighbour [values] neighbour ..." per node
  smelt,          ///< .smg, smelt's container, which is mapped and checked instead of parsed
};

/// "edge-list", "matrix-market", ...
const char* to_string(Format format) noexcept;
/// The format of that name, or of a file name's usual ending such as "mtx". Errors: invalid_argument, with all names.
Result<Format> parse_format(std::string_view name);

struct LoadOptions : BuildOptions {
  Format format = Format::automatic;
  int adj_node_values = 0;  ///< number of values after the node in each line of an ADJ file; they are ignored
  int adj_edge_values = 0;  ///< number of values after each neighbour: 0, or 1 for the edge's weight
  Progress progress;
};

/// A graph from a file; text may be compressed by gzip or zstd. Weights become the edge values "weight": int, long or
/// double, whichever holds them all. Repeated edges keep their order in the file. Cost: one pass over
/// the file by all threads; memory at most 2.5 times the graph with in and out edges. Errors: not_found,
/// permission_denied, io_error, out_of_memory, and bad_format as "FILE:LINE: reason".
Result<Graph> load(const std::string& file, const LoadOptions& options = {});

struct SaveOptions {
  Format format = Format::automatic;  ///< by the file's name
  int threads = 0;
  Progress progress;
};

/// Writes a graph, with the edge values "weight" if the format has weights, with all values in our own format. The file
/// is replaced when it is complete. Errors: invalid_argument (no such format, or it cannot hold the graph), io_error.
Result<void> save(const Graph& graph, const std::string& file, const SaveOptions& options = {});

/// A synthetic graph. The same values give the same graph for any number of threads.
struct GeneratorSpec {
  enum class Kind { kronecker, uniform, grid };
  Kind kind = Kind::kronecker;
  int scale = 16;                       ///< kronecker, uniform: 2^scale nodes; 0 to 40
  int degree = 16;                      ///< kronecker, uniform: edges drawn per node
  std::uint64_t rows = 0, columns = 0;  ///< grid: its nodes, each linked with its two to four neighbours
  std::uint64_t seed = 1;
  bool directed = false;  ///< leave out the reverse edges
  bool multi = false;     ///< keep loops and repeated edges as they were drawn
  int max_weight = 0;  ///< > 0: edge values "weight", uniform in 1 .. max_weight, the same for an edge and its reverse
};

/// "kron:20", "uniform:20:degree=8:seed=3", "grid:1000x500:weights=255", ":directed", ":multi". Errors:
/// invalid_argument.
Result<GeneratorSpec> parse_generator(std::string_view text);

/// Kronecker: each bit of an edge's ends is drawn from (.57 .19; .19 .05), then nodes are permuted, as in Graph500 and
/// GAP. Errors: invalid_argument (values out of range), out_of_memory. Cost: some 20 ns per edge and thread.
Result<Graph> generate(const GeneratorSpec& spec, int threads = 0, const Progress& progress = {});

struct Statistics {
  struct Degrees {
    std::uint64_t min = 0, median = 0, max = 0;
    double mean = 0.0;
    /// The share of all edges at the hundredth of the nodes with the highest degrees; about 0.01 if degrees are equal.
    double top_percent_share = 0.0;
  };
  std::uint64_t num_nodes = 0, num_edges = 0;
  Degrees out, in;
  std::uint64_t isolated = 0;         ///< nodes without any edge
  std::uint64_t loops = 0;            ///< edges from a node to itself
  std::uint64_t repeated = 0;         ///< further copies of an edge
  bool symmetric = false;             ///< the reverse of every edge exists with the same multiplicity
  std::uint64_t structure_bytes = 0;  ///< of the arrays of out and in edges
};

/// Cost: some passes over the edges; makes the in edges. Errors: out_of_memory.
Result<Statistics> statistics(const Graph& graph, int threads = 0);

}  // namespace smelt::graph
