// Ring allreduce: slices go round once, growing by one operand per rank, and once more to be known to all.
// 2 (n - 1) / n vectors per rank, between neighbours only.
//
// Source: Patarasuk and Yuan 2009; the bucket algorithm of MPI libraries.
#include "plan/algorithms/registry.hpp"

namespace smelt::plan {
namespace {

void build_allreduce_ring(Builder& b) {
  if (b.ranks == 1) return b.copy(in(), out());
  b.schedule.slices = b.ranks;
  const auto slice = [&](int back) { return ((b.rank - back) % b.ranks + b.ranks) % b.ranks; };
  for (int step = 0; step + 1 < b.ranks; ++step) {
    const int give = slice(step), take = slice(step + 1);
    b.exchange_combine(b.neighbour(1), step == 0 ? in(give) : out(give), b.neighbour(-1), in(take), out(take), true);
  }
  for (int step = 0; step + 1 < b.ranks; ++step) {
    b.exchange(b.neighbour(1), out(slice(step - 1)), b.neighbour(-1), out(slice(step)));
  }
  b.end();
  b.flush();
}

}  // namespace

const Algorithm allreduce_ring = {{.name = "allreduce_ring",
                                   .operation = Operation::allreduce,
                                   .description = "slices go round a ring twice",
                                   .access = {Access::channels},
                                   .keeps_rank_order = false},
                                  build_allreduce_ring};

}  // namespace smelt::plan
