// OC-Bcast: a pipelined tree in which children copy each chunk from their parent, while a parent's children
// tell each other, along a binary tree of their own, that the chunk is there.
//
//   data, k = 4          p                  notification      p
//                    / /   \ \.                              / \.
//                   a b     c d                             a   b
//                                                          / \.
//                                                         c   d
//
// staged: a chunk goes from stage to stage; a slot is used again once the children are done with it.
// direct: children copy out of the parent's data; the parent waits at the end until they are done.
// Ticks: 1 = knows that the parent has the chunk, 2 = has it, where children can read it.
//
// Source: [Shahmirzadi14] 2.4, algorithm 1.
#include "plan/algorithms/registry.hpp"

namespace smelt::plan {
namespace {

constexpr int knows = 1, has = 2, ticks = 3;

std::size_t index_among(const std::vector<int>& siblings, int rank) {
  std::size_t index = 0;
  while (siblings[index] != rank) ++index;
  return index;
}

void await_chunk(Builder& b) {
  const auto& siblings = b.request.tree.children[static_cast<std::size_t>(b.parent())];
  const auto index = index_among(siblings, b.rank);
  const int readers = (index ^ 1) < siblings.size() ? 2 : 1;  // it and the other child of its notifier
  if (index < 2) {
    b.await(b.parent(), has, readers);
  } else {
    b.await(siblings[index / 2 - 1], knows, readers);
  }
  if (2 * index + 2 < siblings.size()) b.post(knows);
}

void build_broadcast_pipeline(Builder& b) {
  const bool inner = !b.children().empty();
  if (b.staged()) {
    b.use_stage(1, ticks, b.children());
    if (b.rank == b.root) {
      if (inner) b.copy(out(), stage());
    } else {
      await_chunk(b);
      b.get(b.parent(), stage(), inner ? stage() : out());
    }
    if (inner) b.post(has);
    if (inner && b.rank != b.root) b.copy(stage(), out());
    return;
  }
  b.publish(ticks);
  if (b.rank != b.root) {
    await_chunk(b);
    b.get(b.parent(), out(), out());
  }
  if (inner) b.post(has);
  b.end();
  for (int child : b.children()) b.await(child, ticks);
}

}  // namespace

// The third child's notifier is the first: index / 2 - 1 of the heap 2, 3 | 4, 5 | ... is 0, 0, 1, 1, ...
const Algorithm broadcast_pipeline = {{.name = "broadcast_pipeline",
                                       .operation = Operation::broadcast,
                                       .description = "children copy chunks from their parent (OC-Bcast)",
                                       .access = {Access::staged, Access::direct},
                                       .uses_tree = true,
                                       .pipelined = true},
                                      build_broadcast_pipeline};

}  // namespace smelt::plan
