// Recursive halving of the blocks. Groups of a power of two.
//
// Source: Thakur, Rabenseifner, Gropp 2005, 4.2.
#include "plan/algorithms/registry.hpp"

namespace smelt::plan {
namespace {

void build_reduce_scatter_recursive_halving(Builder& b) {
  if (b.ranks == 1) return b.copy(in(), out());
  b.schedule.work_blocks = b.ranks;
  int first = 0;
  Buffer value = Buffer::in;
  for (int distance = b.ranks / 2; distance >= 1; distance /= 2) {
    const int partner = b.rank ^ distance;
    const bool upper = (b.rank & distance) != 0;
    const int keep = first + (upper ? distance : 0), give = first + (upper ? 0 : distance);
    b.exchange_combine(partner, {value, give, distance}, partner, {value, keep, distance}, work(keep, distance),
                       partner < b.rank);
    value = Buffer::work;
    first = keep;
  }
  b.copy(work(b.rank), out());
}

}  // namespace

const Algorithm reduce_scatter_recursive_halving = {{.name = "reduce_scatter_recursive_halving",
                                                     .operation = Operation::reduce_scatter,
                                                     .description = "partners exchange halves of their blocks",
                                                     .access = {Access::channels},
                                                     .keeps_rank_order = false,
                                                     .power_of_two = true},
                                                    build_reduce_scatter_recursive_halving};

}  // namespace smelt::plan
