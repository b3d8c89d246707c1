// Gather by one message from every rank to the root.
#include "plan/algorithms/registry.hpp"

namespace smelt::plan {

const Algorithm gather_linear = {{.name = "gather_linear",
                                  .operation = Operation::gather,
                                  .description = "every rank sends to the root",
                                  .access = {Access::channels, Access::direct},
                                  .irregular = true},
                                 [](Builder& b) {
                                   if (b.rank != b.root) {
                                     b.send(b.root, in());
                                     return b.flush();
                                   }
                                   b.copy(in(), out(b.rank));
                                   for (int distance = 1; distance < b.ranks; ++distance)
                                     b.recv(b.at(distance), out(b.at(distance)));
                                 }};

}  // namespace smelt::plan
