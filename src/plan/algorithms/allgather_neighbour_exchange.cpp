// Neighbour exchange: ranks pair up with their neighbours on either side by turns, and pass on the two blocks that they
// have received last. An even number of ranks takes half as many rounds as the ring has; an odd one goes round a ring.
//
//   round 0   0=1 2=3 4=5       own blocks
//   round 1   1=2 3=4 5=0       the pair of blocks of round 0
//   round 2   0=1 2=3 4=5       the pair received in round 1
//
// Source: Chen, Zhang, Sun, Yuan, "Performance evaluation of allgather algorithms on terascale Linux cluster with fast
// Ethernet", HPC Asia 2005.
#include "plan/algorithms/registry.hpp"

namespace smelt::plan {
namespace {

void build_allgather_neighbour_exchange(Builder& b) {
  if (b.ranks % 2 != 0) return allgather_ring.build(b);
  const int side = b.rank % 2 == 0 ? 1 : -1;  // of the first partner
  const auto pair_of = [](int block) { return block - block % 2; };
  b.copy(in(), out(b.rank));
  b.exchange(b.neighbour(side), out(b.rank), b.neighbour(side), out(b.neighbour(side)));
  int sent = pair_of(b.rank);                            // first of the two blocks that are passed on
  int received[2] = {pair_of(b.rank), pair_of(b.rank)};  // the last ones by partner
  for (int round = 1; round < b.ranks / 2; ++round) {
    const bool second = round % 2 == 1;
    const int partner = b.neighbour(second ? -side : side);
    int& got = received[second ? 1 : 0];
    got = (got + (second ? -2 : 2) * side + b.ranks) % b.ranks;
    b.exchange(partner, out(sent, 2), partner, out(got, 2));
    sent = got;
  }
  b.end();
  b.flush();
}

}  // namespace

const Algorithm allgather_neighbour_exchange = {
    {.name = "allgather_neighbour_exchange",
     .operation = Operation::allgather,
     .description = "neighbours on either side by turns exchange two blocks",
     .access = {Access::channels, Access::direct},
     .irregular = true},
    build_allgather_neighbour_exchange};

}  // namespace smelt::plan
