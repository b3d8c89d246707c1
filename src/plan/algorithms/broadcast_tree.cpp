// Broadcast along a tree: who has a chunk passes it on to its children, in the tree's send order. Chunks
// follow each other, so that every level works at the same time. Sequential, chain, k-nomial and the trees
// planned from the model are all this one rule.
//
// Source: [Smelt16] 3.3 (model trees), [Kaestle16] 5.2.
#include "plan/algorithms/registry.hpp"

namespace smelt::plan {

const Algorithm broadcast_tree = {{.name = "broadcast_tree",
                                   .operation = Operation::broadcast,
                                   .description = "each rank passes every chunk on to its children in a tree",
                                   .access = {Access::channels, Access::direct},
                                   .uses_tree = true,
                                   .pipelined = true},
                                  [](Builder& b) {
                                    if (b.rank != b.root) b.recv(b.parent(), out());
                                    for (int child : b.children()) b.send(child, out());
                                    b.end();
                                    b.flush();
                                  }};

}  // namespace smelt::plan
