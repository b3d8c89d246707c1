// Ring allgather: blocks go round; every rank passes on what it received in the step before.
#include "plan/algorithms/registry.hpp"

namespace smelt::plan {
namespace {

void build_allgather_ring(Builder& b) {
  b.copy(in(), out(b.rank));
  for (int step = 0; step + 1 < b.ranks; ++step) {
    b.exchange(b.neighbour(1), out(b.neighbour(-step)), b.neighbour(-1), out(b.neighbour(-step - 1)));
  }
  b.end();
  b.flush();
}

}  // namespace

const Algorithm allgather_ring = {{.name = "allgather_ring",
                                   .operation = Operation::allgather,
                                   .description = "blocks go round a ring",
                                   .access = {Access::channels, Access::direct},
                                   .irregular = true},
                                  build_allgather_ring};

}  // namespace smelt::plan
