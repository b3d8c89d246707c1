// Dissemination barrier: in round k every rank tells the rank 2^k after it and waits for the one 2^k before it.
// Tick k + 1 = is in round k.
//
// Source: Hensgen, Finkel, Manber 1988; [Smelt16] 5.2.
#include "plan/algorithms/registry.hpp"

namespace smelt::plan {

const Algorithm barrier_dissemination = {{.name = "barrier_dissemination",
                                          .operation = Operation::barrier,
                                          .description = "log2 n rounds of signals",
                                          .access = {Access::staged}},
                                         [](Builder& b) {
                                           int rounds = 0;
                                           for (int distance = 1; distance < b.ranks; distance *= 2) {
                                             b.post(++rounds);
                                             b.await(b.neighbour(-distance), rounds);
                                           }
                                           b.schedule.ticks = rounds + 1;
                                         }};

}  // namespace smelt::plan
