// The signature of each collective: an expression over the names that registry.hpp gives the parameters.
#pragma once

#include "shims/mpi/calls/call_cache.hpp"

// The signatures of those with one count for all ranks.
#define SMELT_MPI_SIGNATURE_Bcast \
  CallSignature { SMELT_BROADCAST, nullptr, data, count, type, 0, MPI_DATATYPE_NULL, MPI_OP_NULL, root }
#define SMELT_MPI_SIGNATURE_OF_REDUCTION(operation, root) \
  CallSignature { operation, in, out, count, type, 0, MPI_DATATYPE_NULL, op, root }
#define SMELT_MPI_SIGNATURE_Reduce SMELT_MPI_SIGNATURE_OF_REDUCTION(SMELT_REDUCE, root)
#define SMELT_MPI_SIGNATURE_Allreduce SMELT_MPI_SIGNATURE_OF_REDUCTION(SMELT_ALLREDUCE, 0)
#define SMELT_MPI_SIGNATURE_Scan SMELT_MPI_SIGNATURE_OF_REDUCTION(SMELT_SCAN, 0)
#define SMELT_MPI_SIGNATURE_Exscan SMELT_MPI_SIGNATURE_OF_REDUCTION(SMELT_EXSCAN, 0)
#define SMELT_MPI_SIGNATURE_Reduce_scatter_block SMELT_MPI_SIGNATURE_OF_REDUCTION(SMELT_REDUCE_SCATTER, 0)
#define SMELT_MPI_SIGNATURE_OF_BLOCKS(operation, root) \
  CallSignature { operation, in, out, in_count, in_type, out_count, out_type, MPI_OP_NULL, root }
#define SMELT_MPI_SIGNATURE_Scatter SMELT_MPI_SIGNATURE_OF_BLOCKS(SMELT_SCATTER, root)
#define SMELT_MPI_SIGNATURE_Gather SMELT_MPI_SIGNATURE_OF_BLOCKS(SMELT_GATHER, root)
#define SMELT_MPI_SIGNATURE_Allgather SMELT_MPI_SIGNATURE_OF_BLOCKS(SMELT_ALLGATHER, 0)
#define SMELT_MPI_SIGNATURE_Alltoall SMELT_MPI_SIGNATURE_OF_BLOCKS(SMELT_ALLTOALL, 0)
// Those with a count for each.
#define SMELT_MPI_SIGNATURE_Reduce_scatter \
  UnevenSignature { .one = {SMELT_REDUCE_SCATTERV, in, out, 0, type, 0, MPI_DATATYPE_NULL, op, 0}, .in_counts = counts }
#define SMELT_MPI_SIGNATURE_Scatterv                                                                           \
  UnevenSignature {                                                                                            \
    .one = {SMELT_SCATTERV, in, out, 0, in_type, out_count, out_type, MPI_OP_NULL, root}, .in_counts = counts, \
    .in_offsets = offsets, .only_rank = root                                                                   \
  }
#define SMELT_MPI_SIGNATURE_Gatherv                                                                           \
  UnevenSignature {                                                                                           \
    .one = {SMELT_GATHERV, in, out, in_count, in_type, 0, out_type, MPI_OP_NULL, root}, .out_counts = counts, \
    .out_offsets = offsets, .only_rank = root                                                                 \
  }
#define SMELT_MPI_SIGNATURE_Allgatherv                                                                        \
  UnevenSignature {                                                                                           \
    .one = {SMELT_ALLGATHERV, in, out, in_count, in_type, 0, out_type, MPI_OP_NULL, 0}, .out_counts = counts, \
    .out_offsets = offsets                                                                                    \
  }
// MPI ignores what is said of `in` in a call in place.
#define SMELT_MPI_UNLESS_IN_PLACE(array) (in == MPI_IN_PLACE ? nullptr : (array))
#define SMELT_MPI_SIGNATURE_Alltoallv                                                                       \
  UnevenSignature {                                                                                         \
    .one = {SMELT_ALLTOALLV, in, out, 0, in_type, 0, out_type, MPI_OP_NULL, 0},                             \
    .in_counts = SMELT_MPI_UNLESS_IN_PLACE(in_counts), .in_offsets = SMELT_MPI_UNLESS_IN_PLACE(in_offsets), \
    .out_counts = out_counts, .out_offsets = out_offsets                                                    \
  }
#define SMELT_MPI_SIGNATURE_Alltoallw                                                                       \
  UnevenSignature {                                                                                         \
    .one = {SMELT_ALLTOALLV, in, out, 0, MPI_DATATYPE_NULL, 0, MPI_DATATYPE_NULL, MPI_OP_NULL, 0},          \
    .in_counts = SMELT_MPI_UNLESS_IN_PLACE(in_counts), .in_offsets = SMELT_MPI_UNLESS_IN_PLACE(in_offsets), \
    .out_counts = out_counts, .out_offsets = out_offsets, .in_types = SMELT_MPI_UNLESS_IN_PLACE(in_types),  \
    .out_types = out_types                                                                                  \
  }
#define SMELT_MPI_SIGNATURE_Barrier \
  BarrierSignature {}
