// Prefix reductions of long vectors by rank slices: rank s sums slice s up, rank after rank, and writes every partial
// sum into the result of the rank that it belongs to. All ranks work all the time, in one step, however many there are;
// of two ranks' exscan each moves half.
//
//            slice 0     slice 1
//   rank 0   [   |    ]  [   |    ]       Tick 1 = has entered: the input can be read, the result be written.
//   rank 1   [   v    ]  [   v    ]
//   rank 2   [   :    ]  [   :    ]
//             rank 0      rank 1
//
// A result may be its input: nobody but rank s touches slice s, and it reads a rank's before it writes it. So an
// exclusive sum waits until the next one is made, in the other of two vectors.
#include "plan/algorithms/registry.hpp"

namespace smelt::plan {
namespace {

constexpr int entered = 1, ticks = 2;

void put_sum(Builder& b, int rank, Area sum) {
  const int slice = b.rank;
  if (rank == b.rank) return b.copy(sum, out(slice));
  b.await(rank, entered);
  b.put(rank, sum, out(slice));
}

/// sum (op) the input of `source`, in `to`.
void add(Builder& b, int source, Area sum, Area to) {
  const int slice = b.rank;
  if (source == b.rank) return b.combine(sum, in(slice), to);
  b.await(source, entered);
  b.get_combine(source, in(slice), sum, to);
}

template <bool inclusive>
void build_scan_slices(Builder& b) {
  const int slice = b.rank, last = b.ranks - 1;
  if (b.ranks == 1) {
    if (inclusive) b.copy(in(), out());
    return;
  }
  b.schedule.slices = b.ranks;
  b.schedule.work_blocks = 2 * b.ranks;
  b.publish(ticks);
  b.post(entered);
  // Where the sum for that rank is made. The last rank's own result is the last sum: it needs no other place.
  const auto place = [&](int owner) {
    return owner == last && b.rank == last ? out(slice) : work(slice + owner % 2 * b.ranks);
  };
  Area sum = in(slice);
  if (b.rank != 0) {
    sum = place(inclusive ? 0 : 1);
    b.await(0, entered);
    b.get(0, in(slice), sum);
  }
  if (inclusive) put_sum(b, 0, sum);
  for (int rank = 1; rank <= last; ++rank) {
    const int next = inclusive ? rank : rank + 1;
    const Area with = next <= last ? place(next) : sum;
    if (next <= last) add(b, rank, sum, with);
    put_sum(b, rank, inclusive ? with : sum);
    sum = with;
  }
  b.end();
  b.await_all(ticks);
}

AlgorithmInfo info_of(const char* name, Operation operation) {
  return {.name = name,
          .operation = operation,
          .description = "each rank sums its slice up and writes every partial sum where it belongs",
          .access = {Access::direct},
          .canonical_order = true,
          .pipelined = true};
}

}  // namespace

const Algorithm scan_slices = {info_of("scan_slices", Operation::scan), build_scan_slices<true>};
const Algorithm exscan_slices = {info_of("exscan_slices", Operation::exscan), build_scan_slices<false>};

}  // namespace smelt::plan
