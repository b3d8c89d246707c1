// Gather along a binomial tree: scatter_binomial backwards.
#include <algorithm>

#include "plan/algorithms/registry.hpp"

namespace smelt::plan {
namespace {

void build_gather_binomial(Builder& b) {
  const int position = b.position();
  int width = 1;
  while (width < b.ranks && position % (2 * width) == 0) width *= 2;
  width = std::min(width, b.ranks - position);
  b.schedule.work_blocks = width;
  b.copy(in(), work(0));
  for (int half = 1; half < width; half *= 2) {
    b.recv(b.at(position + half), work(half, std::min(half, width - half)));
  }
  if (position != 0) {
    b.send(b.at(position & (position - 1)), work(0, width));
  } else {
    b.copy(work(0, b.ranks - b.root), out(b.root, b.ranks - b.root));
    if (b.root > 0) b.copy(work(b.ranks - b.root, b.root), out(0, b.root));
  }
  b.end();
  b.flush();
}

}  // namespace

const Algorithm gather_binomial = {{.name = "gather_binomial",
                                    .operation = Operation::gather,
                                    .description = "blocks travel along a binomial tree",
                                    .access = {Access::channels}},
                                   build_gather_binomial};

}  // namespace smelt::plan
