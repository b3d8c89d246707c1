// Reduction by rank slices: rank r reduces slice r out of everybody's input, in rank order. The common first
// half of reduce_slices and allreduce_slices.
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

/// Adds the moves; the own slice of the sum is in `sum` afterwards, which may be a part of `in`'s memory
/// only if nobody else reads that part. Staged inputs are in stage blocks 0 .. ranks-1.
void reduce_own_slice(Builder& builder, Area sum);

}  // namespace smelt::plan
