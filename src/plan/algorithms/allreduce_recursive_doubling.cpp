// Recursive doubling: in round k ranks whose numbers differ in bit k exchange what they have and combine it.
// With n not a power of two, the first 2 (n - 2^k) ranks combine in pairs before, and share the result after.
//
//   n = 6:   0-1  2-3  4  5     the odd ones of the pairs carry on:  1 3 4 5 = new 0 1 2 3
//
// Neighbours are paired, so that operands are combined in rank order. Sums alternate between `work` and
// `out`: what a partner may still be reading is not written.
//
// Source: Thakur, Rabenseifner, Gropp 2005, 4.1.
#include "plan/algorithms/registry.hpp"

namespace smelt::plan {
namespace {

void build_allreduce_recursive_doubling(Builder& b) {
  if (b.ranks == 1) return b.copy(in(), out());
  const int power = largest_power_of_two(b.ranks);
  const int pairs = b.ranks - power;
  const bool paired = b.rank < 2 * pairs;
  b.schedule.work_blocks = 1;
  if (paired && b.rank % 2 == 0) {
    b.send(b.rank + 1, in());
    b.recv(b.rank + 1, out());
  } else {
    Area value = in();
    if (paired) {
      b.recv_combine(b.rank - 1, value, work());
      value = work();
    }
    const int number = paired ? b.rank / 2 : b.rank - pairs;
    for (int distance = 1; distance < power; distance *= 2) {
      const int other = number ^ distance;
      const int partner = other < pairs ? 2 * other + 1 : other + pairs;
      const Area next = value == work() ? out() : work();
      b.exchange_combine(partner, value, partner, value, next, partner < b.rank);
      value = next;
    }
    b.copy(value, out());
    if (paired) b.send(b.rank - 1, value);
  }
  b.end();
  b.flush();
}

}  // namespace

const Algorithm allreduce_recursive_doubling = {{.name = "allreduce_recursive_doubling",
                                                 .operation = Operation::allreduce,
                                                 .description = "log2 n exchanges of the whole vector",
                                                 .access = {Access::channels},
                                                 .pipelined = true},
                                                build_allreduce_recursive_doubling};

}  // namespace smelt::plan
