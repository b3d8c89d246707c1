// Scatter in one step: the root shows its blocks, every rank copies its own.
//
// Tick 1 = the root's blocks can be read.
#include "plan/algorithms/registry.hpp"

namespace smelt::plan {
namespace {

void build_scatter_flat(Builder& b) {
  constexpr int readable = 1, ticks = 2;
  const bool top = b.rank == b.root;
  if (b.staged()) {
    b.use_stage(b.ranks, ticks, top ? b.everyone_else() : std::vector<int>{});
    if (top) {
      for (int distance = 1; distance < b.ranks; ++distance) b.copy(in(b.at(distance)), stage(b.at(distance)));
    }
  } else {
    b.publish(ticks);
  }
  if (top) {
    b.post(readable);
    b.copy(in(b.rank), out());
  } else {
    b.await_root(readable);
    b.get(b.root, b.staged() ? stage(b.rank) : in(b.rank), out());
  }
  if (b.staged() || !top) return;
  b.end();
  b.await_all(ticks);
}

}  // namespace

const Algorithm scatter_flat = {{.name = "scatter_flat",
                                 .operation = Operation::scatter,
                                 .description = "every rank copies its block from the root",
                                 .access = {Access::staged, Access::direct},
                                 .pipelined = true,
                                 .irregular_pairs = true},
                                build_scatter_flat};

}  // namespace smelt::plan
