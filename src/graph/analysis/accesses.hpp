// Accesses of a parallel region: what its instances read and write, and whether two instances can access one place.
//
// A region is the body of a Foreach, or of InBFS or InReverse for the nodes of one level. Accesses to properties are
// classified by how an instance reached the node or edge:
//
//   own     by the region's iterator, which visits every element once, or by an edge of such a node: no other instance
//           accesses it
//   level   by UpNbrs or DownNbrs within InBFS: on another level than all instances
//   shared  in any other way
#pragma once

#include <cstdint>
#include <vector>

#include "graph/language/tree.hpp"

namespace smelt::graph::language {

enum class AccessKind : std::uint8_t {
  read,
  write,
  reduce,
  defer,
  add,     ///< to a collection
  remove,  ///< from a set
  change,  ///< of a collection or map in another way
};

enum class Place : std::uint8_t { own, level, shared };

struct Access {
  AccessKind kind = AccessKind::read;
  Reduction reduction = Reduction::sum;
  Symbol* symbol = nullptr;  ///< a variable, property, collection or map that is declared outside the region
  Place place = Place::shared;
  const Expression* driver = nullptr;    ///< for a property: the node or edge
  const Statement* statement = nullptr;  ///< the assignment; null in conditions
  Span span;
  bool constant = false;  ///< a write of a literal
  std::int64_t literal = 0;
  bool along = false;  ///< an argument of min= or max=
};

/// A part of a traversal.
enum class Part : std::uint8_t { forward, reverse };

std::vector<Access> accesses_of(const Statement& region, Part part = Part::forward);

/// Whether two instances can access the same place by these accesses to one property.
bool can_meet(const Access& a, const Access& b);

/// How an instance of the region reaches the value of a property.
Place place_of(const Expression& driver, const Statement& region);

/// Whether the symbol is declared within the region, so that each instance has a separate one.
bool is_private(const Symbol& symbol, const Statement& region);

}  // namespace smelt::graph::language
