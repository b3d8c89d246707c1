// Checks of arrays that come from files.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "graph/csr/structure.hpp"
#include "graph/team/team.hpp"

namespace smelt::graph {

/// Whether all numbers of [first, last) are below `bound`. Branch-free, so that it is vectorized.
template <class Id>
bool all_below(const Id* first, const Id* last, std::uint64_t bound) {
  if (first == last) return true;
  Id most = 0;
  for (; first != last; ++first) most = std::max(most, *first);
  return most < bound;
}

/// Whether all(first, last) is true on all pieces of [0, count). Stops at the first one that is not.
template <class F>
bool all_pieces(ThreadTeam& team, std::uint64_t count, F&& all) {
  constexpr std::uint64_t step = 1u << 16;
  std::atomic<bool> good{true};
  team.for_each((count + step - 1) / step, [&](std::size_t piece, int) {
    const std::uint64_t first = piece * step, last = std::min(count, first + step);
    if (!all(first, last)) good.store(false, std::memory_order_relaxed);  // read after the team's barrier
  });
  return good.load(std::memory_order_relaxed);
}

/// Whether nodes + 1 offsets ascend from 0 to `edges`.
template <class Offset>
bool ascend(const Offset* begin, std::uint64_t nodes, std::uint64_t edges, ThreadTeam& team) {
  if (begin[0] != 0 || static_cast<std::uint64_t>(begin[nodes]) != edges) return false;
  return all_pieces(team, nodes, [&](std::uint64_t first, std::uint64_t last) {
    bool up = true;
    for (auto node = first; node < last; ++node) up &= begin[node] <= begin[node + 1];
    return up;
  });
}

}  // namespace smelt::graph
