// Broadcast in one step: the root shows its data, and all others read it there. Every rank waits for the same line.
//
// Tick 1 = the data can be read.
#include "plan/algorithms/registry.hpp"

namespace smelt::plan {
namespace {

void build_broadcast_flat(Builder& b) {
  constexpr int readable = 1, ticks = 2;
  const bool top = b.rank == b.root;
  if (b.staged()) {
    b.use_stage(1, ticks, top ? b.everyone_else() : std::vector<int>{});
    if (top) b.copy(out(), stage());
  } else {
    b.publish(ticks);
  }
  if (!top) {
    b.await_root(readable);
    b.get(b.root, b.staged() ? stage() : out(), out());
    return;
  }
  b.post(readable);
  if (b.staged()) return;
  b.end();
  b.await_all(ticks);
}

}  // namespace

const Algorithm broadcast_flat = {{.name = "broadcast_flat",
                                   .operation = Operation::broadcast,
                                   .description = "all copy from the root, and wait for the same line",
                                   .access = {Access::staged, Access::direct},
                                   .pipelined = true},
                                  build_broadcast_flat};

}  // namespace smelt::plan
