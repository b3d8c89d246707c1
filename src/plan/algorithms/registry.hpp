// The algorithms by name, in the order in which they are tried.
#pragma once

#include <string_view>

#include "plan/algorithms/builder.hpp"

namespace smelt::plan {

extern const Algorithm barrier_dissemination;
extern const Algorithm broadcast_tree, broadcast_scatter_allgather, broadcast_pipeline, broadcast_split;
extern const Algorithm reduce_tree, reduce_flat, reduce_halves, reduce_slices, reduce_scatter_gather;
extern const Algorithm allreduce_recursive_doubling, allreduce_tree, allreduce_reduce_scatter_allgather, allreduce_ring,
    allreduce_flat, allreduce_slices, allreduce_hybrid;
extern const Algorithm scatter_flat, scatter_shared, scatter_linear, scatter_binomial;
extern const Algorithm gather_flat, gather_put, gather_shared, gather_linear, gather_binomial;
extern const Algorithm allgather_flat, allgather_put, allgather_ring, allgather_bruck, allgather_recursive_doubling;
extern const Algorithm alltoall_flat, alltoall_put, alltoall_pairwise, alltoall_bruck;
extern const Algorithm reduce_scatter_flat, reduce_scatter_pairwise, reduce_scatter_recursive_halving;
extern const Algorithm scan_flat, scan_chain, scan_recursive_doubling, scan_slices;
extern const Algorithm exscan_flat, exscan_chain, exscan_recursive_doubling, exscan_slices;

/// The root's moves for a chunk of a flat reduction: combines `theirs` of every rank, once it is readable.
void fold_at_root(Builder& builder, Area theirs, int readable);

/// nullptr if there is no algorithm of that name.
const Algorithm* find_algorithm(std::string_view name);

}  // namespace smelt::plan
