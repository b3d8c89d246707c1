// Pairwise exchange: in step k every rank sends to the rank k after it and receives from the rank k before it.
#include "plan/algorithms/registry.hpp"

namespace smelt::plan {
namespace {

void build_alltoall_pairwise(Builder& b) {
  b.copy(in(b.rank), out(b.rank));
  for (int step = 1; step < b.ranks; ++step) {
    const int to = b.neighbour(step), from = b.neighbour(-step);
    b.exchange(to, in(to), from, out(from));
  }
  b.end();
  b.flush();
}

}  // namespace

const Algorithm alltoall_pairwise = {{.name = "alltoall_pairwise",
                                      .operation = Operation::alltoall,
                                      .description = "n - 1 exchanges with one partner after the other",
                                      .access = {Access::channels, Access::direct},
                                      .irregular = true},
                                     build_alltoall_pairwise};

}  // namespace smelt::plan
