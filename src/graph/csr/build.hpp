// Builds graphs from lists of edges.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "graph/csr/edge_list.hpp"
#include "graph/csr/structure.hpp"
#include "graph/team/team.hpp"
#include "smelt/graph.hpp"

namespace smelt::graph {

/// Weights are passed on as 64 bits: as std::int64_t, or as doubles if any of them is not an integer.
using WeightBits = std::uint64_t;

/// Properties of an edge list's weights.
struct WeightRange {
  bool real = false;
  std::int64_t min = 0;
  std::int64_t max = 0;
};

/// Parameters of the construction that users do not choose.
struct ListOptions : BuildOptions {
  std::uint64_t nodes = 0;     ///< larger than every node number that occurs
  bool both_listed = false;    ///< the list should contain the reverse of every edge; the graph is undirected then
  bool wide = false;           ///< for tests: 64-bit numbers even if 32 bits suffice
  std::string what = "graph";  ///< the file's name, for error messages
};

/// Consumes the list. Errors: out_of_memory; bad_format if the reverse of an edge is missing with `both_listed`.
Result<Graph> build_graph(ThreadTeam& team, EdgeList<std::uint32_t, NoPayload> list, const ListOptions& options);
Result<Graph> build_graph(ThreadTeam& team, EdgeList<std::uint64_t, NoPayload> list, const ListOptions& options);
Result<Graph> build_graph(ThreadTeam& team, EdgeList<std::uint32_t, WeightBits> list, const WeightRange& range,
                          const ListOptions& options);
Result<Graph> build_graph(ThreadTeam& team, EdgeList<std::uint64_t, WeightBits> list, const WeightRange& range,
                          const ListOptions& options);

/// Rebuilds a graph with its weights and, unless nodes are renumbered, the values of its nodes. The edges of a node
/// need not be sorted. `what`: the file's name, for error messages.
Result<Graph> rebuild_graph(const Graph& graph, const BuildOptions& options, ThreadTeam& team, const std::string& what);

/// The widths of a graph's numbers.
struct Widths {
  int node_bytes;
  int edge_bytes;
};
Widths widths_for(std::uint64_t nodes, std::uint64_t edges, bool wide = false);

/// Makes a graph from sorted out edges with numbers of these widths.
std::shared_ptr<Structure> make_structure(std::uint64_t nodes, std::uint64_t edges, Widths widths, Rows out);

/// Creates the in edges of a structure if they do not exist.
Result<void> make_in_rows(const Structure& structure, ThreadTeam& team);
Result<void> make_in_edge_ids(const Structure& structure, ThreadTeam& team);

/// Converts 64-bit offsets to the structure's width.
Result<Pages> narrowed(ThreadTeam& team, Pages wide, std::uint64_t count, int bytes);

/// Whether each edge has its reverse, as often: by a SymmetrySum.
bool is_symmetric(const Structure& structure, ThreadTeam& team);

}  // namespace smelt::graph
