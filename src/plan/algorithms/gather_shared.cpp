// Gather in which the root helps: every rank writes its block into the root's result, as in gather_put. When the root
// has copied its own, which takes it less time than others need to reach into its memory, it copies parts of theirs.
//
// It helps only those that are at it: a rank that computes between start and wait does the whole later.
//
// Ticks of the root: 1 = its result may be written, 1 + d = it has helped the rank at distance d. Of the others:
// 1 = at it.
#include "plan/algorithms/registry.hpp"

namespace smelt::plan {
namespace {

void build_gather_shared(Builder& b) {
  constexpr int entered = 1, moving = 1;
  b.publish(b.ranks + 1);
  if (b.rank != b.root) {
    b.await_root(entered);
    b.post(moving);
    return b.lead_put(b.root, in(), out(b.rank), entered + b.position());
  }
  b.post(entered);
  b.copy(in(), out(b.rank));
  for (int distance = 1; distance < b.ranks; ++distance) {
    const int source = b.at(distance);
    b.await(source, moving);
    b.help_put(source, in(), out(source));
    b.post(entered + distance);
  }
  b.end();
  b.await_all(b.ranks + 1);
}

}  // namespace

const Algorithm gather_shared = {
    {.name = "gather_shared",
     .operation = Operation::gather,
     .description = "every rank writes its block into the root's result, and the root helps",
     .access = {Access::direct},
     .irregular_pairs = true},
    build_gather_shared};

}  // namespace smelt::plan
