// Broadcast of long messages: slices are scattered along a binomial tree, then go round a ring until all
// have all. The root sends its data about once instead of log2 n times.
//
//   positions from the root, n = 4:  0 -> 2 {2,3}   0 -> 1 {1}   2 -> 3 {3}   then 0 -> 1 -> 2 -> 3 -> 0
//
// Source: van de Geijn et al., as MPI libraries have it.
#include <algorithm>

#include "plan/algorithms/registry.hpp"

namespace smelt::plan {
namespace {

void scatter(Builder& b) {
  const int position = b.position();
  int width = 1;  // slices position .. position + width - 1 pass through this rank
  while (width < b.ranks && position % (2 * width) == 0) width *= 2;
  const auto slices = [&](int first, int count) { return out(first, std::min(count, b.ranks - first)); };
  if (position != 0) b.recv(b.at(position - width), slices(position, width));
  for (int half = width / 2; half >= 1; half /= 2) {
    if (position + half < b.ranks) b.send(b.at(position + half), slices(position + half, half));
  }
}

void build_broadcast_scatter_allgather(Builder& b) {
  b.schedule.slices = b.ranks;
  if (b.ranks == 1) return;
  scatter(b);
  const int position = b.position();
  for (int step = 0; step + 1 < b.ranks; ++step) {
    const int mine = (position - step + b.ranks) % b.ranks;
    const int theirs = (position - step - 1 + b.ranks) % b.ranks;
    b.exchange(b.neighbour(1), out(mine), b.neighbour(-1), out(theirs));
  }
  b.end();
  b.flush();
}

}  // namespace

const Algorithm broadcast_scatter_allgather = {{.name = "broadcast_scatter_allgather",
                                                .operation = Operation::broadcast,
                                                .description = "binomial scatter of slices, then a ring",
                                                .access = {Access::channels, Access::direct}},
                                               build_broadcast_scatter_allgather};

}  // namespace smelt::plan
