// Recursive halving: in every round a rank gives one half of its slices to a partner and combines the
// partner's other half with its own, until it has the sum of one slice.
//
//   n = 4, slices left with rank 1:   0 1 2 3  ->  0 1  ->  1
#pragma once

#include "plan/algorithms/builder.hpp"

namespace smelt::plan {

struct Range {
  int first = 0;
  int count = 0;
};

/// For `size` (a power of two) positions, position p being rank (root + p) mod ranks; `slices` of them. Input
/// from `in` in the first round, sums in `sum`. Returns the slice that is left: number `position`.
Range halve(Builder& builder, int position, int size, int root, Buffer sum);

}  // namespace smelt::plan
