// Broadcast in which the root helps: of n slices every rank copies n-1 from the root, while the root writes
// the last one to each of them. Two ranks move half of the data each.
//
// Ticks: 1 = has entered, its buffer may be written; 2 = root only: the last slice is there.
#include "plan/algorithms/registry.hpp"

namespace smelt::plan {
namespace {

void build_broadcast_split(Builder& b) {
  constexpr int entered = 1, pushed = 2, ticks = 3;
  const int last = b.ranks - 1;
  b.schedule.slices = b.ranks;
  b.publish(ticks);
  b.post(entered);
  if (b.ranks == 1) return;
  if (b.rank == b.root) {
    for (int distance = 1; distance < b.ranks; ++distance) {
      b.await(b.at(distance), entered);
      b.put(b.at(distance), out(last), out(last));
    }
    b.post(pushed);
    b.end();
    for (int distance = 1; distance < b.ranks; ++distance) b.await(b.at(distance), ticks);
  } else {
    b.await_root(entered);
    b.get(b.root, out(0, last), out(0, last));
    b.await_root(pushed);
  }
}

}  // namespace

const Algorithm broadcast_split = {{.name = "broadcast_split",
                                    .operation = Operation::broadcast,
                                    .description = "all copy from the root, which writes a part to each itself",
                                    .access = {Access::direct}},
                                   build_broadcast_split};

}  // namespace smelt::plan
