// Pairwise reduce-scatter: in step k every rank gives the rank k after it that rank's block, and combines its
// own block from the rank k before it.
#include "plan/algorithms/registry.hpp"

namespace smelt::plan {
namespace {

void build_reduce_scatter_pairwise(Builder& b) {
  if (b.ranks == 1) return b.copy(in(), out());
  b.schedule.work_blocks = 1;
  Area sum = in(b.rank);
  for (int step = 1; step < b.ranks; ++step) {
    const int to = b.neighbour(step), from = b.neighbour(-step);
    b.exchange_combine(to, in(to), from, sum, work(), from < b.rank);
    sum = work();
  }
  b.copy(work(), out());
}

}  // namespace

const Algorithm reduce_scatter_pairwise = {{.name = "reduce_scatter_pairwise",
                                            .operation = Operation::reduce_scatter,
                                            .description = "n - 1 exchanges with one partner after the other",
                                            .access = {Access::channels},
                                            .keeps_rank_order = false,
                                            .irregular = true},
                                           build_reduce_scatter_pairwise};

}  // namespace smelt::plan
