// Rabenseifner's reduction: recursive halving leaves every rank with the sum of a slice, which a binomial
// tree gathers at the root. Every rank sends about two vectors' worth, whatever their number.
//
// Source: Rabenseifner 2004, as MPI libraries have it. For groups of a power of two.
#include "plan/algorithms/halving.hpp"
#include "plan/algorithms/registry.hpp"

namespace smelt::plan {
namespace {

/// Positions are counted from the root, so that the halves come together there.
void build_reduce_scatter_gather(Builder& b) {
  if (b.ranks == 1) return b.copy(in(), out());
  const bool top = b.rank == b.root;
  const Buffer sum = top ? Buffer::out : Buffer::work;
  Range mine = halve(b, b.position(), b.ranks, b.root, sum);
  for (int distance = 1; distance < b.ranks; distance *= 2) {
    if ((b.position() & distance) != 0) {
      b.send(b.at(b.position() - distance), {sum, mine.first, mine.count});
      break;
    }
    b.recv(b.at(b.position() + distance), {sum, mine.first + mine.count, mine.count});
    mine.count *= 2;
  }
  b.end();
  b.flush();
}

}  // namespace

const Algorithm reduce_scatter_gather = {{.name = "reduce_scatter_gather",
                                          .operation = Operation::reduce,
                                          .description = "recursive halving, then a binomial gather (Rabenseifner)",
                                          .access = {Access::channels},
                                          .keeps_rank_order = false,
                                          .power_of_two = true},
                                         build_reduce_scatter_gather};

}  // namespace smelt::plan
