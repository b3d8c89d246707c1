// Translates a checked program to C++: one function per procedure. Each source line is a comment above its translation.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/language/tree.hpp"

namespace smelt::graph::language {

struct CodeOptions {
  bool push_only = false;   ///< neighbour loops with a reduction always write to the neighbours
  bool pull_only = false;   ///< neighbour loops with a reduction read from the neighbours where possible
  bool fuse = true;         ///< merge loops over the same nodes
  bool precompute = true;   ///< compute the terms of a sum over neighbours once per node beforehand
  bool fetch_ahead = true;  ///< loops over neighbours ask early for what they read
  bool merge = true;        ///< turn HasEdgeTo within a loop over neighbours into a merge of two lists
  bool bins =
      true;  ///< turn a map that returns nodes by least value into bins if the order within a value does not matter
};

/// A decision about a statement, as text for users.
struct Decision {
  std::uint32_t line;
  std::string text;
};

/// Data of the graph that the code needs besides out edges.
struct Needs {
  bool in_edges = false;
  bool in_edge_numbers = false;
};

struct GeneratedCode {
  std::string text;  ///< a header: template <class NodeId, class EdgeId> struct Procedures
  std::vector<Decision> decisions;
  Needs needs;
};

/// Deterministic: the same program and options give the same text. Requires a program without errors whose bindings and
/// values have been determined.
GeneratedCode generate_code(const Program& program, const CodeOptions& options = {});

/// The C++ type of a value: "std::int32_t", "NodeId", "gm::Set<NodeId>".
std::string cpp_type(const Type& type);

/// The name of a procedure's function: its own, unless that means something in C++.
std::string cpp_name(const Procedure& procedure);

}  // namespace smelt::graph::language
