// Allreduce in one step: every rank combines everybody's input by itself, in rank order.
//
// Tick 1: the input can be read.
#include "plan/algorithms/registry.hpp"

namespace smelt::plan {
namespace {

void build_allreduce_flat(Builder& b) {
  constexpr int readable = 1, ticks = 2;
  if (b.ranks == 1) return b.copy(in(), out());
  b.use_stage(1, ticks, b.everyone_else());
  b.copy(in(), stage());
  b.post(readable);
  // Own `out` may be own `in`, of which there is a copy in the stage now. Ranks 0 and 1 read their input instead, as
  // the others read their stages at the same time.
  b.await(0, readable);
  b.await(1, readable);
  if (b.rank == 0) {
    b.get_combine(1, stage(), in(), out());
  } else if (b.rank == 1) {
    b.get_combine(0, stage(), in(), out());
    b.schedule.body.back().theirs_first = true;
  } else {
    b.get(0, stage(), out());
    b.get_combine(1, stage(), out(), out());
  }
  for (int source = 2; source < b.ranks; ++source) {
    b.await(source, readable);
    if (source == b.rank) {
      b.combine(out(), stage(), out());
    } else {
      b.get_combine(source, stage(), out(), out());
    }
  }
}

}  // namespace

const Algorithm allreduce_flat = {{.name = "allreduce_flat",
                                   .operation = Operation::allreduce,
                                   .description = "each rank combines everybody's input by itself",
                                   .access = {Access::staged},
                                   .canonical_order = true,
                                   .pipelined = true},
                                  build_allreduce_flat};

}  // namespace smelt::plan
