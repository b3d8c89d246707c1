// Bruck's alltoall: log2 n rounds in which blocks travel by the binary digits of their distance. Fewer, larger
// messages; each block is sent about log2(n) / 2 times.
//
//   1  work[d] = block for rank + d      2  for each digit: all d with that digit set go that far on
//   3  work[d] has come from rank - d
//
// The blocks of a round are gathered behind the n blocks of `work`, received behind those.
//
// Source: Bruck et al. 1997.
#include "plan/algorithms/registry.hpp"

namespace smelt::plan {
namespace {

void build_alltoall_bruck(Builder& b) {
  const int n = b.ranks, most = n / 2 + 1;
  b.schedule.work_blocks = n + 2 * most;
  for (int d = 0; d < n; ++d) b.copy(in(b.neighbour(d)), work(d));
  for (int digit = 1; digit < n; digit *= 2) {
    std::vector<int> moving;
    for (int d = 1; d < n; ++d) {
      if ((d & digit) != 0) moving.push_back(d);
    }
    const int count = static_cast<int>(moving.size());
    for (int k = 0; k < count; ++k) b.copy(work(moving[static_cast<std::size_t>(k)]), work(n + k));
    b.exchange(b.neighbour(digit), work(n, count), b.neighbour(-digit), work(n + most, count));
    for (int k = 0; k < count; ++k) b.copy(work(n + most + k), work(moving[static_cast<std::size_t>(k)]));
  }
  for (int d = 0; d < n; ++d) b.copy(work(d), out(b.neighbour(-d)));
}

}  // namespace

const Algorithm alltoall_bruck = {{.name = "alltoall_bruck",
                                   .operation = Operation::alltoall,
                                   .description = "log2 n rounds of gathered blocks",
                                   .access = {Access::channels}},
                                  build_alltoall_bruck};

}  // namespace smelt::plan
