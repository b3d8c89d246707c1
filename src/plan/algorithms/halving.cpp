#include "plan/algorithms/halving.hpp"

namespace smelt::plan {

Range halve(Builder& b, int position, int size, int root, Buffer sum) {
  b.schedule.slices = size;
  if (sum == Buffer::work) b.schedule.work_blocks = size;
  Range mine{0, size};
  Buffer value = Buffer::in;
  for (int distance = size / 2; distance >= 1; distance /= 2) {
    const int partner = (root + (position ^ distance)) % b.ranks;
    const bool upper = (position & distance) != 0;
    const Range keep{mine.first + (upper ? distance : 0), distance};
    const Range give{mine.first + (upper ? 0 : distance), distance};
    b.exchange_combine(partner, {value, give.first, give.count}, partner, {value, keep.first, keep.count},
                       {sum, keep.first, keep.count}, partner < b.rank);
    value = sum;
    mine = keep;
  }
  return mine;
}

}  // namespace smelt::plan
