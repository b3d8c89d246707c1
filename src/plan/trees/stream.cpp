// The tree for streams of chunks. In a pipeline the slowest link determines the rate, and depth costs only at the
// start. So the cost of the slowest link is minimized first, and then the length of paths.
//
//   1  bottleneck = most expensive edge of a minimum spanning tree; every spanning tree has one at least as expensive
//   2  shortest paths from the root over edges of at most that cost (Dijkstra)
//
// Source: widest-shortest paths, as in routing; the pipelining is [Shahmirzadi14] 2.4.
#include <algorithm>
#include <limits>

#include "plan/trees/builders.hpp"
#include "plan/trees/rule.hpp"

namespace smelt::plan {

Tree stream_tree(const CostTable& costs, int root) {
  const int n = costs.size();
  const Tree spanning = prim_tree(costs, root, false);
  float bottleneck = 0.0F;
  for (int parent = 0; parent < n; ++parent) {
    for (int child : spanning.children[static_cast<std::size_t>(parent)]) {
      bottleneck = std::max(bottleneck, costs.edge(parent, child));
    }
  }
  const float most = bottleneck;
  constexpr float far = std::numeric_limits<float>::infinity();
  std::vector<float> distance(static_cast<std::size_t>(n), far);
  std::vector<int> parent(static_cast<std::size_t>(n), -1);
  std::vector<bool> done(static_cast<std::size_t>(n), false);
  distance[static_cast<std::size_t>(root)] = 0.0F;
  std::vector<float> row;
  for (int step = 0; step < n; ++step) {
    int next = -1;
    for (int rank = 0; rank < n; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      if (!done[r] && distance[r] < far && (next < 0 || distance[r] < distance[static_cast<std::size_t>(next)]))
        next = rank;
    }
    done[static_cast<std::size_t>(next)] = true;
    const float* edges = costs.edge_row(next, row);
    for (int rank = 0; rank < n; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      const float edge = edges[r];
      if (done[r] || rank == next || edge > most) continue;
      const float through = distance[static_cast<std::size_t>(next)] + edge;
      if (through >= distance[r]) continue;
      distance[r] = through;
      parent[r] = next;
    }
  }
  return from_parents(parent);
}

const TreeRule rules::stream = {"stream", "shortest paths over the fastest links: for long messages in chunks", true,
                                [](Problem& p, Direction d, int, int root) { return stream_tree(p.table(d), root); }};

}  // namespace smelt::plan
