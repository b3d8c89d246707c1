// Reduction along a tree: a rank combines what its children send, in the reverse of the send order, and
// passes the result up, chunk after chunk.
//
// Source: [Smelt16] 3.3; the tree is planned as a broadcast running backwards.
#include "plan/algorithms/registry.hpp"

namespace smelt::plan {
namespace {

void build_reduce_tree(Builder& b) {
  const auto& children = b.children();
  const bool top = b.rank == b.root;
  const Area sum = top ? out() : work();
  b.schedule.work_blocks = top || children.empty() ? 0 : 1;
  if (top && children.empty()) b.copy(in(), out());
  Area value = in();
  for (auto child = children.rbegin(); child != children.rend(); ++child) {
    b.recv_combine(*child, value, sum);
    value = sum;
  }
  if (top) return;
  b.send(b.parent(), value);
  if (value.buffer == Buffer::work) b.flush();  // the next chunk overwrites it
  b.end();
  b.flush();
}

}  // namespace

const Algorithm reduce_tree = {{.name = "reduce_tree",
                                .operation = Operation::reduce,
                                .description = "each rank combines what its children in a tree send",
                                .access = {Access::channels, Access::direct},
                                .keeps_rank_order = false,
                                .uses_tree = true,
                                .pipelined = true},
                               build_reduce_tree};

}  // namespace smelt::plan
