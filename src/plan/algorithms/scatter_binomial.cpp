// Scatter along a binomial tree: each rank passes on the blocks of the ranks behind it.
//
//   positions, n = 8:   0 -> 4 {4..7}   0 -> 2 {2,3}   0 -> 1 {1}   4 -> 6 {6,7} ...
//
// `work` holds the blocks by position, counted from this rank's own.
#include <algorithm>

#include "plan/algorithms/registry.hpp"

namespace smelt::plan {
namespace {

void build_scatter_binomial(Builder& b) {
  const int position = b.position();
  int width = 1;  // positions from `position` on that this rank serves
  while (width < b.ranks && position % (2 * width) == 0) width *= 2;
  width = std::min(width, b.ranks - position);
  b.schedule.work_blocks = width;
  if (position != 0) {
    const int parent = position & (position - 1);
    b.recv(b.at(parent), work(0, width));
  } else {
    b.copy(in(b.root, b.ranks - b.root), work(0, b.ranks - b.root));
    if (b.root > 0) b.copy(in(0, b.root), work(b.ranks - b.root, b.root));
  }
  int half = largest_power_of_two(std::max(1, width));
  if (half == width) half /= 2;
  for (; half >= 1; half /= 2) {
    b.send(b.at(position + half), work(half, std::min(half, width - half)));
  }
  b.copy(work(0), out());
  b.end();
  b.flush();
}

}  // namespace

const Algorithm scatter_binomial = {{.name = "scatter_binomial",
                                     .operation = Operation::scatter,
                                     .description = "blocks travel along a binomial tree",
                                     .access = {Access::channels}},
                                    build_scatter_binomial};

}  // namespace smelt::plan
