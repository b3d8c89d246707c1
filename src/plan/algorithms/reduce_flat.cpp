// Reduction by the root alone, out of everybody's input, in rank order: one synchronization each way.
//
// Tick 1: the input can be read.
#include "plan/algorithms/registry.hpp"

namespace smelt::plan {

/// The root's own turn comes in rank order, too; unless it is the first, the sum grows in `work`, because
/// `out` may be the root's input.
void fold_at_root(Builder& b, Area theirs, int readable) {
  const Area sum = b.rank == 0 ? out() : work();
  b.schedule.work_blocks = b.rank == 0 ? 0 : 1;
  for (int source = 0; source < b.ranks; ++source) {
    b.await(source, readable);
    if (source == 0) {
      if (b.rank == 0 && b.ranks == 1) b.copy(in(), sum);
      if (b.rank != 0) b.get(0, theirs, sum);
    } else if (source == b.rank) {
      b.combine(sum, in(), sum);
    } else {
      b.get_combine(source, theirs, b.rank == 0 && source == 1 ? in() : sum, sum);
    }
  }
  b.copy(sum, out());
}

namespace {

void build_reduce_flat(Builder& b) {
  constexpr int readable = 1, ticks = 2;
  const bool top = b.rank == b.root;
  if (b.staged()) {
    b.use_stage(1, ticks, top ? std::vector<int>{} : std::vector<int>{b.root});
  } else {
    b.publish(ticks);
  }
  if (top) return fold_at_root(b, b.staged() ? stage() : in(), readable);
  if (b.staged()) b.copy(in(), stage());
  b.post(readable);
  if (b.staged()) return;
  b.end();
  b.await_root(ticks);
}

}  // namespace

const Algorithm reduce_flat = {{.name = "reduce_flat",
                                .operation = Operation::reduce,
                                .description = "the root combines everybody's input",
                                .access = {Access::staged, Access::direct},
                                .canonical_order = true,
                                .pipelined = true},
                               build_reduce_flat};

}  // namespace smelt::plan
