// Reduction by rank slices: rank r reduces slice r of all inputs, in rank order. The first half of reduce_slices and
// allreduce_slices.
//
//            slice 0  slice 1  slice 2            Ticks: 1 = the input can be read,
//   rank 0   [  x  ]  [     ]  [     ]                   2 = the own slice of the sum can be read.
//   rank 1   [  x  ]  [     ]  [     ]
//   rank 2   [  x  ]  [     ]  [     ]
//               |
//            rank 0 combines
#pragma once

#include "plan/algorithms/builder.hpp"

namespace smelt::plan {

inline constexpr int slice_readable = 1, slice_reduced = 2, slice_ticks = 3;

/// Adds the moves. Afterwards the rank's slice of the sum is in `sum`, which may be part of `in` only if no other rank
/// reads that part. Staged inputs are in stage blocks 0 .. ranks-1.
void reduce_own_slice(Builder& builder, Area sum);

}  // namespace smelt::plan
