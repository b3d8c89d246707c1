// Accesses of a parallel region: what its instances read and change, and whether two of them can meet there.
//
// A region is the body of a Foreach, or what InBFS or InReverse does to the nodes of one level. Where an instance
// touches a property is told apart by how it came to the node or edge:
//
//   own     by the region's iterator, which takes every element once, or by an edge of such a node: no other instance
//   level   by UpNbrs or DownNbrs within InBFS: of another level than all instances'
//   shared  any other way
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
  Symbol* symbol = nullptr;  ///< a variable, property, collection or map from outside of the region
  Place place = Place::shared;
  const Expression* driver = nullptr;    ///< of a property: whose value
  const Statement* statement = nullptr;  ///< an assignment's; null within conditions
  Span span;
  bool constant = false;  ///< a write of a literal
  std::int64_t literal = 0;
  bool along = false;  ///< an argument of min= or max=
};

/// Which part of a traversal is meant.
enum class Part : std::uint8_t { forward, reverse };

std::vector<Access> accesses_of(const Statement& region, Part part = Part::forward);

/// Whether two instances can meet at the places of these accesses to one property.
bool can_meet(const Access& a, const Access& b);

/// How an instance of the region comes to the value of a property.
Place place_of(const Expression& driver, const Statement& region);

/// Whether the symbol is declared within the region, so that each instance has its own.
bool is_private(const Symbol& symbol, const Statement& region);

}  // namespace smelt::graph::language
