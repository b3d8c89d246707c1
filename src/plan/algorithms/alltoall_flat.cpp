// Alltoall in one step: every rank shows its blocks, every rank copies its own from everybody.
//
// Tick 1 = the blocks can be read. A stage holds the blocks for the others, by how far after its owner they are, less
// 1: the fewer, the more of each has room.
#include <algorithm>

#include "plan/algorithms/registry.hpp"

namespace smelt::plan {
namespace {

void build_alltoall_flat(Builder& b) {
  constexpr int readable = 1, ticks = 2;
  if (b.staged()) {
    b.use_stage(std::max(1, b.ranks - 1), ticks, b.everyone_else());
    for (int distance = 1; distance < b.ranks; ++distance) b.copy(in(b.neighbour(distance)), stage(distance - 1));
  } else {
    b.publish(ticks);
  }
  b.post(readable);
  b.copy(in(b.rank), out(b.rank));
  for (int distance = 1; distance < b.ranks; ++distance) {
    const int source = b.neighbour(distance);
    b.await(source, readable);
    b.get(source, b.staged() ? stage(b.ranks - distance - 1) : in(b.rank), out(source));
  }
  if (b.staged()) return;
  b.end();
  b.await_all(ticks);
}

}  // namespace

const Algorithm alltoall_flat = {{.name = "alltoall_flat",
                                  .operation = Operation::alltoall,
                                  .description = "every rank copies its block from everybody",
                                  .access = {Access::staged, Access::direct},
                                  .pipelined = true,
                                  .irregular_pairs = true},
                                 build_alltoall_flat};

}  // namespace smelt::plan
