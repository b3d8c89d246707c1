// Allgather in one step: every rank shows its block, every rank copies all the others'.
//
// Tick 1 = the block can be read.
#include "plan/algorithms/registry.hpp"

namespace smelt::plan {
namespace {

void build_allgather_flat(Builder& b) {
  constexpr int readable = 1, ticks = 2;
  if (b.staged()) {
    b.use_stage(1, ticks, b.everyone_else());
    b.copy(in(), stage());
  } else {
    b.publish(ticks);
  }
  b.post(readable);
  b.copy(in(), out(b.rank));
  for (int distance = 1; distance < b.ranks; ++distance) {
    const int source = b.neighbour(distance);
    b.await(source, readable);
    b.get(source, b.staged() ? stage() : in(), out(source));
  }
  if (b.staged()) return;
  b.end();
  b.await_all(ticks);
}

}  // namespace

const Algorithm allgather_flat = {{.name = "allgather_flat",
                                   .operation = Operation::allgather,
                                   .description = "every rank copies everybody's block",
                                   .access = {Access::staged, Access::direct},
                                   .pipelined = true,
                                   .irregular = true},
                                  build_allgather_flat};

}  // namespace smelt::plan
