#include "plan/algorithms/slices.hpp"

namespace smelt::plan {

void reduce_own_slice(Builder& b, Area sum) {
  const bool staged = b.staged();
  const auto theirs = staged ? stage(b.rank) : in(b.rank);
  if (staged) {
    // The own slice of the own input is read by nobody else.
    if (b.rank > 0) b.copy(in(0, b.rank), stage(0, b.rank));
    if (b.rank + 1 < b.ranks) b.copy(in(b.rank + 1, b.ranks - b.rank - 1), stage(b.rank + 1, b.ranks - b.rank - 1));
  }
  b.post(slice_readable);
  // Rank 0's slice of rank 0 stands first already; the others begin with a copy of rank 0's in scratch.
  const Area partial = b.rank == 0 ? sum : work(b.rank);
  if (b.rank != 0) b.schedule.work_blocks = b.ranks;
  for (int source = 0; source < b.ranks; ++source) {
    b.await(source, slice_readable);
    const bool last = source + 1 == b.ranks;
    const Area to = last ? sum : partial;
    if (source == 0) {
      if (b.rank != 0) continue;
      if (b.ranks == 1) b.copy(in(0), sum);
    } else if (source == 1 && b.rank == 1) {
      // work = 0 (op) 1 with the own input standing second
      b.get_combine(0, theirs, in(1), to);
      b.schedule.body.back().theirs_first = true;
    } else if (source == 1) {
      if (b.rank == 0) {
        b.get_combine(1, theirs, in(0), to);
      } else {
        b.get(0, theirs, partial);
        b.get_combine(1, theirs, partial, to);
      }
    } else if (source == b.rank) {
      b.combine(partial, in(b.rank), to);
    } else {
      b.get_combine(source, theirs, partial, to);
    }
  }
}

}  // namespace smelt::plan
