// Recursive doubling: in round k partners exchange the 2^k blocks that they have. Groups of a power of two.
#include "plan/algorithms/registry.hpp"

namespace smelt::plan {
namespace {

void build_allgather_recursive_doubling(Builder& b) {
  b.copy(in(), out(b.rank));
  for (int distance = 1; distance < b.ranks; distance *= 2) {
    const int mine = b.rank & ~(distance - 1);
    b.exchange(b.rank ^ distance, out(mine, distance), b.rank ^ distance, out(mine ^ distance, distance));
  }
  b.end();
  b.flush();
}

}  // namespace

const Algorithm allgather_recursive_doubling = {{.name = "allgather_recursive_doubling",
                                                 .operation = Operation::allgather,
                                                 .description = "partners exchange twice as many blocks each round",
                                                 .access = {Access::channels, Access::direct},
                                                 .power_of_two = true,
                                                 .irregular = true},
                                                build_allgather_recursive_doubling};

}  // namespace smelt::plan
