// Gather in which every rank writes its block into the root's result itself, all at the same time. The root copies
// its own block only, where in gather_flat it copies everybody's.
//
// Tick 1 = the root has entered, its result may be written.
#include "plan/algorithms/registry.hpp"

namespace smelt::plan {
namespace {

void build_gather_put(Builder& b) {
  constexpr int entered = 1, ticks = 2;
  b.publish(ticks);
  b.post(entered);
  if (b.rank == b.root) {
    b.copy(in(), out(b.rank));
    b.end();
    b.await_all(ticks);
  } else {
    b.await_root(entered);
    b.put(b.root, in(), out(b.rank));
  }
}

}  // namespace

const Algorithm gather_put = {{.name = "gather_put",
                               .operation = Operation::gather,
                               .description = "every rank writes its block into the root's result",
                               .access = {Access::direct},
                               .irregular_pairs = true},
                              build_gather_put};

}  // namespace smelt::plan
