// What the `smelt graph` commands share: graphs and programs named on the command line.
#pragma once

#include <string>

#include "cli/document.hpp"
#include "cli/parser.hpp"
#include "smelt/graph.hpp"
#include "smelt/green_marl.hpp"

namespace smelt::cli {

/// How a graph is loaded.
struct GraphFlags {
  std::string format;
  int threads = 0;
  int adj_node_values = 0;
  int adj_edge_values = 0;
  bool undirected = false;
  bool simple = false;
  bool renumber = false;
};

void add_graph_options(Command& command, GraphFlags& flags);

/// A graph from a file, or made up by a name such as "kron:20"; with a progress bar.
graph::Graph load_graph(const std::string& name, const GraphFlags& flags);

/// Choices of the compiler.
struct CompileFlags {
  bool push = false, pull = false;
  bool no_fusion = false, no_precompute = false, no_fetch_ahead = false, no_merge = false, no_bins = false;
  bool no_cache = false;
  std::string compiler;

  graph::CompileOptions options() const;
};
void add_compile_options(Command& command, CompileFlags& flags);

/// A program without errors; its warnings go to stderr. Errors are printed as compilers do, then a Failure.
graph::GreenMarl read_program(const std::string& file, bool quiet = false);

Json graph_document(const graph::Graph& graph);

void add_graph_run(Command& graph);
void add_graph_files(Command& graph);

}  // namespace smelt::cli
