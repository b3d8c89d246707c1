// From a list of edges to a graph.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "graph/csr/edge_list.hpp"
#include "graph/csr/structure.hpp"
#include "graph/team/team.hpp"
#include "smelt/graph.hpp"

namespace smelt::graph {

/// Weights travel as 64 bits: those of a std::int64_t or, if any of them is no whole number, of a double each.
using WeightBits = std::uint64_t;

/// What is known of an edge list's weights.
struct WeightRange {
  bool real = false;
  std::int64_t min = 0;
  std::int64_t max = 0;
};

/// How edges become a graph beyond what users choose.
struct ListOptions : BuildOptions {
  std::uint64_t nodes = 0;     ///< more than any number that occurs
  bool both_listed = false;    ///< the list holds every edge and its reverse: the graph is undirected if that is so
  bool wide = false;           ///< numbers of 64 bits although 32 suffice, for tests
  std::string what = "graph";  ///< in errors: the file's name
};

/// Consumes the list. Errors: out_of_memory; bad_format if the reverse of an edge is missing with `both_listed`.
Result<Graph> build_graph(ThreadTeam& team, EdgeList<std::uint32_t, NoPayload> list, const ListOptions& options);
Result<Graph> build_graph(ThreadTeam& team, EdgeList<std::uint64_t, NoPayload> list, const ListOptions& options);
Result<Graph> build_graph(ThreadTeam& team, EdgeList<std::uint32_t, WeightBits> list, const WeightRange& range,
                          const ListOptions& options);
Result<Graph> build_graph(ThreadTeam& team, EdgeList<std::uint64_t, WeightBits> list, const WeightRange& range,
                          const ListOptions& options);

/// A graph once more, with its weights and, unless nodes are renumbered, the values of its nodes. The edges of each
/// node need not be sorted. `what`: in errors, the file's name.
Result<Graph> rebuild_graph(const Graph& graph, const BuildOptions& options, ThreadTeam& team, const std::string& what);

/// How wide the numbers of a graph are.
struct Widths {
  int node_bytes;
  int edge_bytes;
};
Widths widths_for(std::uint64_t nodes, std::uint64_t edges, bool wide = false);

/// A graph whose out edges are ready, each node's ascending, with numbers of these widths.
std::shared_ptr<Structure> make_structure(std::uint64_t nodes, std::uint64_t edges, Widths widths, Rows out);

/// Makes in edges of a structure where they are missing.
Result<void> make_in_rows(const Structure& structure, ThreadTeam& team);
Result<void> make_in_edge_ids(const Structure& structure, ThreadTeam& team);

/// Offsets of 64 bits as those of the structure's width.
Result<Pages> narrowed(ThreadTeam& team, Pages wide, std::uint64_t count, int bytes);

/// Whether each edge has its reverse, as often: by a SymmetrySum.
bool is_symmetric(const Structure& structure, ThreadTeam& team);

}  // namespace smelt::graph
