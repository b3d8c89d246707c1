// Shortcuts: forms of statements that have a faster equivalent.
#pragma once

#include <optional>
#include <vector>

#include "graph/language/tree.hpp"

namespace smelt::graph::language {

/// A condition's terms, joined by &&.
std::vector<const Expression*> terms_of(const Expression* condition);

/// Bounds of a loop over a node's neighbours, whose list ascends, from the terms of its condition. These terms need no
/// test then.
struct NeighbourBounds {
  const Expression* above = nullptr;  ///< only neighbours above this node: the loop starts after it
  const Expression* below = nullptr;  ///< only neighbours below this node: the loop ends there
  const Expression* adjacent_to =
      nullptr;  ///< only neighbours that have an edge to or from this node: two lists are merged
  bool adjacent_from_neighbour = false;    ///< the edge leads from the neighbour to that node
  std::vector<const Expression*> implied;  ///< the terms
};
NeighbourBounds neighbour_bounds(const Symbol& iterator, const std::vector<const Expression*>& terms, bool merge);

/// The statement T += constant, if that is all that the loop does for the neighbours that its bounds leave. Null else.
const Statement* counting_of(const Statement& loop, const NeighbourBounds& bounds);

/// A term of a sequential loop's filter that stays false once it is false: a variable that the loop only increases is
/// below a loop-invariant bound. Null if there is none.
const Expression* lasting_bound(const Statement& loop);

/// A nest of loops that adds a constant for each clique of three or more nodes, in some of their orders. The result
/// does not depend on the numbers of the nodes if the graph is undirected and has neither loops nor repeated edges.
bool counts_cliques(const Statement& loop);

/// The loop within all others of such a nest.
const Statement& innermost_loop(const Statement& nest);

/// Foreach n { Foreach s over n's neighbours { reductions of s.P } }: the push to the neighbours can be turned into a
/// pull from them. Null if the loop is not of this form.
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
  std::vector<const Statement*> before;        ///< declarations after that of v
  const Statement* loop = nullptr;             ///< over neighbours
  std::vector<const Statement*> declarations;  ///< in it, before the comparison
  const Statement* comparison = nullptr;       ///< If
  const Statement* lowering = nullptr;         ///< w.P = d
  const Statement* queueing = nullptr;         ///< m[w] = f
};
std::optional<LabelCorrection> label_correction_of(const Statement& loop);

}  // namespace smelt::graph::language
