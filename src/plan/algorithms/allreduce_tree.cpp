// Allreduce along a tree: reduction to the root and broadcast from there, chunk by chunk.
#include "plan/algorithms/registry.hpp"

namespace smelt::plan {
namespace {

void build_allreduce_tree(Builder& b) {
  const auto& children = b.children();
  if (b.ranks == 1) return b.copy(in(), out());
  // Not in `out`, which may be this rank's input and is written on the way down.
  b.schedule.work_blocks = children.empty() ? 0 : 1;
  Area value = in();
  for (auto child = children.rbegin(); child != children.rend(); ++child) {
    b.recv_combine(*child, value, work());
    value = work();
  }
  if (b.rank == b.root) {
    b.copy(work(), out());
  } else {
    b.send(b.parent(), value);
    b.recv(b.parent(), out());
  }
  for (int child : children) b.send(child, out());
  b.end();
  b.flush();
}

}  // namespace

const Algorithm allreduce_tree = {{.name = "allreduce_tree",
                                   .operation = Operation::allreduce,
                                   .description = "reduction to the root of a tree and broadcast from it",
                                   .access = {Access::channels},
                                   .keeps_rank_order = false,
                                   .uses_tree = true,
                                   .pipelined = true},
                                  build_allreduce_tree};

}  // namespace smelt::plan
