// Reduction by the root alone, in rank order: the first half out of everybody's input, the second, or as much of it as
// the stages hold, out of their stages. The others fill these while the root reads the first half, and go on as soon
// as it has: what they do next is done while it reads the second.
//
// Tick 1: the chunk can be read. Nobody leaves before the root is done with the body, in which alone it reads inputs.
#include "plan/algorithms/registry.hpp"

namespace smelt::plan {
namespace {

void build_reduce_halves(Builder& b) {
  constexpr int readable = 1, ticks = 2;
  constexpr int most_staged = 4;  ///< chunks: the slots of a stage
  const bool top = b.rank == b.root;
  b.publish(ticks);
  b.use_stage(1, ticks, top ? std::vector<int>{} : std::vector<int>{b.root});
  b.use_tail(most_staged);
  if (top) {
    fold_at_root(b, in(), readable);
    b.tail();
    return fold_at_root(b, stage(), readable);
  }
  b.post(readable);
  b.tail();
  b.copy(in(), stage());
  b.post(readable);
  b.end();
  b.await_body(b.root);
}

}  // namespace

const Algorithm reduce_halves = {{.name = "reduce_halves",
                                  .operation = Operation::reduce,
                                  .description = "the root combines inputs, their second halves out of stages",
                                  .access = {Access::direct},
                                  .canonical_order = true,
                                  .stages = true},
                                 build_reduce_halves};

}  // namespace smelt::plan
