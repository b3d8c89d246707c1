// Access patterns: how a program accesses each array, by array and loop ([Kaestle16] 3.4.2 to 3.4.4, tables 3.2
// and 3.3).
//
// Every access is counted as often as its enclosing loops run:
//
//   While, Do                      k
//   Nodes, group assignments       N
//   Edges                          E
//   neighbours within Nodes        E instead of N; a further factor E for deeper ones
//   neighbours of one node         d, its degree
//   Items                          S, the collection's size
//
// Deferred assignments write a second array, NAME_nxt, which is copied at the end of their loop.
#pragma once

#include <string>
#include <vector>

#include "graph/language/tree.hpp"

namespace smelt::graph::language {

/// A frequency: a product such as "kE" or "EE"; "1" for once.
struct Frequency {
  int iterations = 0;  ///< k
  int nodes = 0;       ///< N
  int edges = 0;       ///< E
  int degrees = 0;     ///< d
  int sizes = 0;       ///< S

  std::string text() const;
  /// The number for a graph, with k iterations and collections of `size` elements.
  double value(double nodes, double edges, double k, double size) const;
};

struct ArrayPattern {
  std::string name;
  const Symbol* symbol = nullptr;  ///< of the property; null for the graph's own arrays
  bool node = false;               ///< an element per node
  bool edge = false;               ///< an element per edge
  bool used = false;
  bool read_only = false;
  bool standard = false;  ///< one of the graph's own arrays
  bool dynamic = false;   ///< created by the procedure, not passed to it
  bool indexed = false;   ///< always accessed by the index of a loop over all nodes or edges
  bool input = false;     ///< an argument that is read before all of it is assigned
  std::vector<Frequency> reads, writes;
};

/// "kE + kN"; "0" for never.
std::string to_string(const std::vector<Frequency>& sum);

/// All arrays of a procedure: the graph's, then properties in the order of declaration, each followed by its NAME_nxt
/// if it has one.
std::vector<ArrayPattern> access_patterns(const Procedure& procedure);

}  // namespace smelt::graph::language
