// Scatter by one message from the root to every rank.
#include "plan/algorithms/registry.hpp"

namespace smelt::plan {

const Algorithm scatter_linear = {{.name = "scatter_linear",
                                   .operation = Operation::scatter,
                                   .description = "the root sends to every rank",
                                   .access = {Access::channels, Access::direct},
                                   .irregular = true},
                                  [](Builder& b) {
                                    if (b.rank != b.root) return b.recv(b.root, out());
                                    for (int distance = 1; distance < b.ranks; ++distance)
                                      b.send(b.at(distance), in(b.at(distance)));
                                    b.copy(in(b.rank), out());
                                    b.flush();
                                  }};

}  // namespace smelt::plan
