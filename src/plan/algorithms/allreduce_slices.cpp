// Allreduce of long vectors: every rank reduces its slice out of everybody's input; then all copy the slices
// of the sum from each other. Each element is combined once per rank in the group, in rank order.
#include "plan/algorithms/registry.hpp"
#include "plan/algorithms/slices.hpp"

namespace smelt::plan {
namespace {

void build_allreduce_slices(Builder& b) {
  b.schedule.slices = b.ranks;
  if (b.staged()) {
    b.use_stage(b.ranks, slice_ticks, b.everyone_else());
    reduce_own_slice(b, stage(b.rank));
    b.post(slice_reduced);
    b.copy(stage(b.rank), out(b.rank));
  } else {
    b.publish(slice_ticks);
    reduce_own_slice(b, out(b.rank));
    b.post(slice_reduced);
  }
  for (int distance = 1; distance < b.ranks; ++distance) {
    const int source = b.neighbour(distance);
    b.await(source, slice_reduced);
    b.get(source, b.staged() ? stage(source) : out(source), out(source));
  }
  if (b.staged()) return;
  b.end();
  b.await_all(slice_ticks);
}

}  // namespace

const Algorithm allreduce_slices = {{.name = "allreduce_slices",
                                     .operation = Operation::allreduce,
                                     .description = "each rank combines its slice of everybody's input for all",
                                     .access = {Access::staged, Access::direct},
                                     .canonical_order = true,
                                     .pipelined = true},
                                    build_allreduce_slices};

}  // namespace smelt::plan
