// Scatter in which the root helps: every rank copies its block from the root, as in scatter_flat. When the root has
// copied its own, which takes it less time than others need to reach into its memory, it writes parts of theirs.
//
// It helps only those that are at it: a rank that computes between start and wait does the whole later.
//
// Ticks of the root: 1 = its blocks can be read, 1 + d = it has helped the rank at distance d. Of the others: 1 = at
// it.
#include "plan/algorithms/registry.hpp"

namespace smelt::plan {
namespace {

void build_scatter_shared(Builder& b) {
  constexpr int readable = 1, moving = 1;
  b.publish(b.ranks + 1);
  if (b.rank != b.root) {
    b.await_root(readable);
    b.post(moving);
    return b.lead_get(b.root, in(b.rank), out(), readable + b.position());
  }
  b.post(readable);
  b.copy(in(b.rank), out());
  for (int distance = 1; distance < b.ranks; ++distance) {
    const int peer = b.at(distance);
    b.await(peer, moving);
    b.help_get(peer, in(peer), out());
    b.post(readable + distance);
  }
  b.end();
  b.await_all(b.ranks + 1);
}

}  // namespace

const Algorithm scatter_shared = {{.name = "scatter_shared",
                                   .operation = Operation::scatter,
                                   .description = "every rank copies its block from the root, which helps",
                                   .access = {Access::direct},
                                   .irregular_pairs = true},
                                  build_scatter_shared};

}  // namespace smelt::plan
