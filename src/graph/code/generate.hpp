// From a checked program to C++: one function per procedure, the program's own line above what it became.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/language/tree.hpp"

namespace smelt::graph::language {

struct CodeOptions {
  bool push_only = false;  ///< neighbour loops with a reduction always write to the neighbours
  bool pull_only = false;  ///< and where that is possible always read from them
  bool fuse = true;        ///< loops over the same nodes become one
  bool precompute = true;  ///< what a sum over neighbours takes of each neighbour is computed once per node before
  bool merge = true;       ///< HasEdgeTo within a loop over neighbours becomes a merge of two lists
  bool bins = true;  ///< a map that gives nodes by their least value, where their order does not matter, becomes bins
};

/// What was decided for one sentence, for people.
struct Decision {
  std::uint32_t line;
  std::string text;
};

/// What the code needs of the graph besides its out edges.
struct Needs {
  bool in_edges = false;
  bool in_edge_numbers = false;
};

struct GeneratedCode {
  std::string text;  ///< a header: template <class NodeId, class EdgeId> struct Procedures
  std::vector<Decision> decisions;
  Needs needs;
};

/// The same program and options give the same text. Requires a program without errors, its bindings and values found.
GeneratedCode generate_code(const Program& program, const CodeOptions& options = {});

/// The C++ type of a value: "std::int32_t", "NodeId", "gm::Set<NodeId>".
std::string cpp_type(const Type& type);

}  // namespace smelt::graph::language
