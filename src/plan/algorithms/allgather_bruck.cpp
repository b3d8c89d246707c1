// Bruck's allgather: ceil(log2 n) rounds for any n. Blocks are kept in the order rank, rank+1, ... and turned
// into place at the end.
//
// Source: Bruck et al. 1997.
#include <algorithm>

#include "plan/algorithms/registry.hpp"

namespace smelt::plan {
namespace {

void build_allgather_bruck(Builder& b) {
  b.schedule.work_blocks = b.ranks;
  b.copy(in(), work(0));
  for (int have = 1; have < b.ranks; have *= 2) {
    const int more = std::min(have, b.ranks - have);
    b.exchange(b.neighbour(-have), work(0, more), b.neighbour(have), work(have, more));
  }
  b.copy(work(0, b.ranks - b.rank), out(b.rank, b.ranks - b.rank));
  if (b.rank > 0) b.copy(work(b.ranks - b.rank, b.rank), out(0, b.rank));
}

}  // namespace

const Algorithm allgather_bruck = {{.name = "allgather_bruck",
                                    .operation = Operation::allgather,
                                    .description = "log2 n rounds for any number of ranks",
                                    .access = {Access::channels}},
                                   build_allgather_bruck};

}  // namespace smelt::plan
