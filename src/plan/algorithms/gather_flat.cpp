// Gather in one step: every rank shows its block, the root copies them.
//
// Tick 1 = the block can be read.
#include "plan/algorithms/registry.hpp"

namespace smelt::plan {
namespace {

void build_gather_flat(Builder& b) {
  constexpr int readable = 1, ticks = 2;
  const bool top = b.rank == b.root;
  if (b.staged()) {
    b.use_stage(1, ticks, top ? std::vector<int>{} : std::vector<int>{b.root});
    if (!top) b.copy(in(), stage());
  } else {
    b.publish(ticks);
  }
  if (!top) {
    b.post(readable);
    if (b.staged()) return;
    b.end();
    return b.await_root(ticks);
  }
  b.copy(in(), out(b.rank));
  for (int distance = 1; distance < b.ranks; ++distance) {
    const int source = b.at(distance);
    b.await(source, readable);
    b.get(source, b.staged() ? stage() : in(), out(source));
  }
}

}  // namespace

const Algorithm gather_flat = {{.name = "gather_flat",
                                .operation = Operation::gather,
                                .description = "the root copies from every rank",
                                .access = {Access::staged, Access::direct},
                                .pipelined = true,
                                .irregular_pairs = true},
                               build_gather_flat};

}  // namespace smelt::plan
