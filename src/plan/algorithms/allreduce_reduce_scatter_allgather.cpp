// Rabenseifner's allreduce: recursive halving leaves every rank with the sum of one slice, recursive doubling
// brings the slices to all.
//
// Source: Rabenseifner 2004. For groups of a power of two.
#include "plan/algorithms/halving.hpp"
#include "plan/algorithms/registry.hpp"

namespace smelt::plan {
namespace {

void build_allreduce_reduce_scatter_allgather(Builder& b) {
  if (b.ranks == 1) return b.copy(in(), out());
  Range mine = halve(b, b.rank, b.ranks, 0, Buffer::out);
  for (int distance = 1; distance < b.ranks; distance *= 2) {
    const int partner = b.rank ^ distance;
    const int theirs = mine.first ^ distance;
    b.exchange(partner, out(mine.first, distance), partner, out(theirs, distance));
    mine = {mine.first & ~distance, 2 * distance};
  }
  b.end();
  b.flush();
}

}  // namespace

const Algorithm allreduce_reduce_scatter_allgather = {
    {.name = "allreduce_reduce_scatter_allgather",
     .operation = Operation::allreduce,
     .description = "recursive halving, then recursive doubling (Rabenseifner)",
     .access = {Access::channels},
     .keeps_rank_order = false,
     .power_of_two = true},
    build_allreduce_reduce_scatter_allgather};

}  // namespace smelt::plan
