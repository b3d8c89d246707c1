// Reduction of long vectors: every rank reduces its slice out of everybody's input and hands it to the root.
#include "plan/algorithms/registry.hpp"
#include "plan/algorithms/slices.hpp"

namespace smelt::plan {
namespace {

void build_reduce_slices(Builder& b) {
  b.schedule.slices = b.ranks;
  const bool top = b.rank == b.root;
  if (b.staged()) {
    b.use_stage(b.ranks, slice_ticks, b.everyone_else());
    reduce_own_slice(b, top ? out(b.rank) : stage(b.rank));
    b.post(slice_reduced);
    if (!top) return;
    for (int distance = 1; distance < b.ranks; ++distance) {
      const int source = b.neighbour(distance);
      b.await(source, slice_reduced);
      b.get(source, stage(source), out(source));
    }
    return;
  }
  b.publish(slice_ticks);
  reduce_own_slice(b, top ? out(b.rank) : work(b.rank));
  if (!top) {
    b.schedule.work_blocks = b.ranks;
    b.put(b.root, work(b.rank), out(b.rank));
  }
  b.end();
  b.await_all(slice_ticks);
}

}  // namespace

const Algorithm reduce_slices = {{.name = "reduce_slices",
                                  .operation = Operation::reduce,
                                  .description = "each rank combines its slice of everybody's input for the root",
                                  .access = {Access::staged, Access::direct},
                                  .canonical_order = true,
                                  .pipelined = true},
                                 build_reduce_slices};

}  // namespace smelt::plan
