// Reduce-scatter in one step: every rank combines its block out of everybody's input, in rank order.
//
// `out` may lie in this rank's input: without stages nothing is written there before all have read. Ticks:
// 1 = the blocks can be read, 2 = has read everybody's.
#include "plan/algorithms/registry.hpp"

namespace smelt::plan {
namespace {

constexpr int readable = 1, has_read = 2, ticks = 3;

void fold(Builder& b) {
  const Area theirs = b.staged() ? stage(b.rank) : in(b.rank), mine = in(b.rank);
  const auto to = [&](int source) { return b.staged() && source + 1 == b.ranks ? out() : work(); };
  b.schedule.work_blocks = 1;
  for (int source = 0; source < b.ranks; ++source) {
    b.await(source, readable);
    if (source == 0) {
      if (b.rank != 0) b.get(0, theirs, work());
    } else if (source == b.rank) {
      b.combine(work(), mine, to(source));
    } else {
      b.get_combine(source, theirs, b.rank == 0 && source == 1 ? mine : work(), to(source));
    }
  }
}

void build_reduce_scatter_flat(Builder& b) {
  if (b.ranks == 1) return b.copy(in(), out());
  if (b.staged()) {
    b.use_stage(b.ranks, ticks, b.everyone_else());
    for (int distance = 1; distance < b.ranks; ++distance) {
      b.copy(in(b.neighbour(distance)), stage(b.neighbour(distance)));
    }
  } else {
    b.publish(ticks);
  }
  b.post(readable);
  fold(b);
  if (b.staged()) return;
  b.post(has_read);
  b.await_all(has_read);
  b.copy(work(), out());
}

}  // namespace

const Algorithm reduce_scatter_flat = {{.name = "reduce_scatter_flat",
                                        .operation = Operation::reduce_scatter,
                                        .description = "every rank combines its block of everybody's input",
                                        .access = {Access::staged, Access::direct},
                                        .canonical_order = true,
                                        .pipelined = true,
                                        .irregular = true},
                                       build_reduce_scatter_flat};

}  // namespace smelt::plan
