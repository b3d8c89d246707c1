// Alltoall in one step: every rank writes its blocks into all results itself. A long block that its owner has just
// written lies in the owner's caches; who reads it from elsewhere has to have it handed over line by line.
//
// Tick 1 = has entered, its result may be written.
#include "plan/algorithms/registry.hpp"

namespace smelt::plan {
namespace {

void build_alltoall_put(Builder& b) {
  constexpr int entered = 1, ticks = 2;
  b.publish(ticks);
  b.post(entered);
  b.copy(in(b.rank), out(b.rank));
  for (int distance = 1; distance < b.ranks; ++distance) {
    const int peer = b.neighbour(distance);
    b.await(peer, entered);
    b.put(peer, in(peer), out(b.rank));
  }
  b.end();
  b.await_all(ticks);
}

}  // namespace

const Algorithm alltoall_put = {{.name = "alltoall_put",
                                 .operation = Operation::alltoall,
                                 .description = "every rank writes its blocks into all results",
                                 .access = {Access::direct},
                                 .irregular_pairs = true},
                                build_alltoall_put};

}  // namespace smelt::plan
