// Shortcuts: forms of sentences that have a faster equivalent.
#pragma once

#include <optional>
#include <vector>

#include "graph/language/tree.hpp"

namespace smelt::graph::language {

/// A condition's terms, joined by &&.
std::vector<const Expression*> terms_of(const Expression* condition);

/// What is known of a loop over a node's neighbours, whose list ascends, from the terms of its condition. The terms
/// need not be tested any more.
struct NeighbourBounds {
  const Expression* above = nullptr;        ///< only neighbours above this node: the list is entered behind it
  const Expression* below = nullptr;        ///< only neighbours below: it is left there
  const Expression* adjacent_to = nullptr;  ///< only those that this node has an edge to or from: two lists are merged
  bool adjacent_from_neighbour = false;     ///< the edge leads from the neighbour to that node
  std::vector<const Expression*> implied;   ///< the terms
};
NeighbourBounds neighbour_bounds(const Symbol& iterator, const std::vector<const Expression*>& terms, bool merge);

/// The term of a sequential loop's filter that stays false once it is: a variable that the loop only counts up is below
/// a bound that the loop does not change. Null if there is none.
const Expression* lasting_bound(const Statement& loop);

/// A nest of loops that adds a constant for the nodes of each clique of three or more, in some of their orders: it
/// counts the same however the nodes are numbered, if the graph is undirected and has neither loops nor repeated edges.
bool counts_cliques(const Statement& loop);

/// Foreach n { Foreach s over n's neighbours { reductions of s.P } }: what is written to the neighbours can also be
/// read from them. Null if the loop is not of this form.
struct Scatter {
  const Statement* inner = nullptr;            ///< the loop over neighbours
  std::vector<const Statement*> declarations;  ///< before it
  std::vector<const Statement*> reductions;    ///< in it
};
std::optional<Scatter> scatter_of(const Statement& loop);

/// InBFS { Foreach w of v.DownNbrs { w.P = ...; } }: any of the nodes that lead to w may assign, so the one that finds
/// it does. Null if the traversal is not of this form.
const Statement* assignments_on_discovery(const Statement& traversal);

/// While (m.Size() > 0) { Node v = m.RemoveMinKey(); For (w: v.Nbrs) { If (d < w.P) { w.P = d; m[w] = f; } } }, where d
/// is v.P plus what does not change: P ends up the same in whatever order nodes are taken. Null if the loop is not of
/// this form.
struct LabelCorrection {
  const Symbol* map = nullptr;
  const Symbol* property = nullptr;
  const Symbol* node = nullptr;                ///< v
  std::vector<const Statement*> before;        ///< declarations behind v's
  const Statement* loop = nullptr;             ///< over neighbours
  std::vector<const Statement*> declarations;  ///< in it, before the comparison
  const Statement* comparison = nullptr;       ///< If
  const Statement* lowering = nullptr;         ///< w.P = d
  const Statement* queueing = nullptr;         ///< m[w] = f
};
std::optional<LabelCorrection> label_correction_of(const Statement& loop);

}  // namespace smelt::graph::language
