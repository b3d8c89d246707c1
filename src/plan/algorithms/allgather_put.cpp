// Allgather in which every rank writes its block into all results itself, chunk by chunk: what it has read for its own
// result is in its cache when it writes the same into the others', where in allgather_flat every copy of a long block
// is read from far away.
//
// Tick 1 = has entered, its result may be written.
#include "plan/algorithms/registry.hpp"

namespace smelt::plan {
namespace {

void build_allgather_put(Builder& b) {
  constexpr int entered = 1, ticks = 2;
  b.publish(ticks);
  b.begin();
  b.post(entered);
  b.await_all(entered);
  b.body();
  b.copy(in(), out(b.rank));
  for (int distance = 1; distance < b.ranks; ++distance) b.put(b.neighbour(distance), in(), out(b.rank));
  b.end();
  b.await_all(ticks);
}

}  // namespace

const Algorithm allgather_put = {{.name = "allgather_put",
                                  .operation = Operation::allgather,
                                  .description = "every rank writes its block into all results",
                                  .access = {Access::direct},
                                  .pipelined = true},
                                 build_allgather_put,
                                 /*in_step=*/false};

}  // namespace smelt::plan
