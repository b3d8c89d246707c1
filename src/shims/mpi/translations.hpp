// How the arguments of each MPI function become a TranslatedCall: expressions over `task`, `team` and the names that
// original.hpp gives the parameters.
#pragma once

#include "shims/mpi/call_cache.hpp"
#include "shims/mpi/team.hpp"
#include "shims/mpi/translated_call.hpp"

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

#define SMELT_MPI_DESCRIBE_Barrier task.barrier()
#define SMELT_MPI_DESCRIBE_Bcast task.bcast(team, data, count, type, root)
#define SMELT_MPI_DESCRIBE_Reduce task.reduce(team, in, out, count, type, op, root)
#define SMELT_MPI_DESCRIBE_Allreduce task.allreduce(team, in, out, count, type, op)
#define SMELT_MPI_DESCRIBE_Scan task.scan(team, in, out, count, type, op)
#define SMELT_MPI_DESCRIBE_Exscan task.exscan(team, in, out, count, type, op)
#define SMELT_MPI_DESCRIBE_Reduce_scatter_block task.reduce_scatter_block(team, in, out, count, type, op)
#define SMELT_MPI_DESCRIBE_Reduce_scatter task.reduce_scatter(team, in, out, counts, type, op)
#define SMELT_MPI_DESCRIBE_Scatter task.scatter(team, in, in_count, in_type, out, out_count, out_type, root)
#define SMELT_MPI_DESCRIBE_Gather task.gather(team, in, in_count, in_type, out, out_count, out_type, root)
#define SMELT_MPI_DESCRIBE_Allgather task.allgather(team, in, in_count, in_type, out, out_count, out_type)
#define SMELT_MPI_DESCRIBE_Alltoall task.alltoall(team, in, in_count, in_type, out, out_count, out_type)
#define SMELT_MPI_DESCRIBE_Scatterv task.scatterv(team, in, counts, offsets, in_type, out, out_count, out_type, root)
#define SMELT_MPI_DESCRIBE_Gatherv task.gatherv(team, in, in_count, in_type, out, counts, offsets, out_type, root)
#define SMELT_MPI_DESCRIBE_Allgatherv task.allgatherv(team, in, in_count, in_type, out, counts, offsets, out_type)
#define SMELT_MPI_DESCRIBE_Alltoallv \
  task.alltoallv(team, in, in_counts, in_offsets, in_type, out, out_counts, out_offsets, out_type)
#define SMELT_MPI_DESCRIBE_Alltoallw \
  task.alltoallw(team, in, in_counts, in_offsets, in_types, out, out_counts, out_offsets, out_types)

// The function that one has its data and its arguments in common with, but for a request: nonblocking, persistent and
// with large counts.
#define SMELT_MPI_BASE_Barrier Barrier
#define SMELT_MPI_BASE_Ibarrier Barrier
#define SMELT_MPI_BASE_Barrier_init Barrier
#define SMELT_MPI_BASE_Bcast Bcast
#define SMELT_MPI_BASE_Bcast_c Bcast
#define SMELT_MPI_BASE_Ibcast Bcast
#define SMELT_MPI_BASE_Ibcast_c Bcast
#define SMELT_MPI_BASE_Bcast_init Bcast
#define SMELT_MPI_BASE_Bcast_init_c Bcast
#define SMELT_MPI_BASE_Reduce Reduce
#define SMELT_MPI_BASE_Reduce_c Reduce
#define SMELT_MPI_BASE_Ireduce Reduce
#define SMELT_MPI_BASE_Ireduce_c Reduce
#define SMELT_MPI_BASE_Reduce_init Reduce
#define SMELT_MPI_BASE_Reduce_init_c Reduce
#define SMELT_MPI_BASE_Allreduce Allreduce
#define SMELT_MPI_BASE_Allreduce_c Allreduce
#define SMELT_MPI_BASE_Iallreduce Allreduce
#define SMELT_MPI_BASE_Iallreduce_c Allreduce
#define SMELT_MPI_BASE_Allreduce_init Allreduce
#define SMELT_MPI_BASE_Allreduce_init_c Allreduce
#define SMELT_MPI_BASE_Scan Scan
#define SMELT_MPI_BASE_Scan_c Scan
#define SMELT_MPI_BASE_Iscan Scan
#define SMELT_MPI_BASE_Iscan_c Scan
#define SMELT_MPI_BASE_Scan_init Scan
#define SMELT_MPI_BASE_Scan_init_c Scan
#define SMELT_MPI_BASE_Exscan Exscan
#define SMELT_MPI_BASE_Exscan_c Exscan
#define SMELT_MPI_BASE_Iexscan Exscan
#define SMELT_MPI_BASE_Iexscan_c Exscan
#define SMELT_MPI_BASE_Exscan_init Exscan
#define SMELT_MPI_BASE_Exscan_init_c Exscan
#define SMELT_MPI_BASE_Reduce_scatter_block Reduce_scatter_block
#define SMELT_MPI_BASE_Reduce_scatter_block_c Reduce_scatter_block
#define SMELT_MPI_BASE_Ireduce_scatter_block Reduce_scatter_block
#define SMELT_MPI_BASE_Ireduce_scatter_block_c Reduce_scatter_block
#define SMELT_MPI_BASE_Reduce_scatter_block_init Reduce_scatter_block
#define SMELT_MPI_BASE_Reduce_scatter_block_init_c Reduce_scatter_block
#define SMELT_MPI_BASE_Reduce_scatter Reduce_scatter
#define SMELT_MPI_BASE_Reduce_scatter_c Reduce_scatter
#define SMELT_MPI_BASE_Ireduce_scatter Reduce_scatter
#define SMELT_MPI_BASE_Ireduce_scatter_c Reduce_scatter
#define SMELT_MPI_BASE_Reduce_scatter_init Reduce_scatter
#define SMELT_MPI_BASE_Reduce_scatter_init_c Reduce_scatter
#define SMELT_MPI_BASE_Scatter Scatter
#define SMELT_MPI_BASE_Scatter_c Scatter
#define SMELT_MPI_BASE_Iscatter Scatter
#define SMELT_MPI_BASE_Iscatter_c Scatter
#define SMELT_MPI_BASE_Scatter_init Scatter
#define SMELT_MPI_BASE_Scatter_init_c Scatter
#define SMELT_MPI_BASE_Gather Gather
#define SMELT_MPI_BASE_Gather_c Gather
#define SMELT_MPI_BASE_Igather Gather
#define SMELT_MPI_BASE_Igather_c Gather
#define SMELT_MPI_BASE_Gather_init Gather
#define SMELT_MPI_BASE_Gather_init_c Gather
#define SMELT_MPI_BASE_Allgather Allgather
#define SMELT_MPI_BASE_Allgather_c Allgather
#define SMELT_MPI_BASE_Iallgather Allgather
#define SMELT_MPI_BASE_Iallgather_c Allgather
#define SMELT_MPI_BASE_Allgather_init Allgather
#define SMELT_MPI_BASE_Allgather_init_c Allgather
#define SMELT_MPI_BASE_Alltoall Alltoall
#define SMELT_MPI_BASE_Alltoall_c Alltoall
#define SMELT_MPI_BASE_Ialltoall Alltoall
#define SMELT_MPI_BASE_Ialltoall_c Alltoall
#define SMELT_MPI_BASE_Alltoall_init Alltoall
#define SMELT_MPI_BASE_Alltoall_init_c Alltoall
#define SMELT_MPI_BASE_Scatterv Scatterv
#define SMELT_MPI_BASE_Scatterv_c Scatterv
#define SMELT_MPI_BASE_Iscatterv Scatterv
#define SMELT_MPI_BASE_Iscatterv_c Scatterv
#define SMELT_MPI_BASE_Scatterv_init Scatterv
#define SMELT_MPI_BASE_Scatterv_init_c Scatterv
#define SMELT_MPI_BASE_Gatherv Gatherv
#define SMELT_MPI_BASE_Gatherv_c Gatherv
#define SMELT_MPI_BASE_Igatherv Gatherv
#define SMELT_MPI_BASE_Igatherv_c Gatherv
#define SMELT_MPI_BASE_Gatherv_init Gatherv
#define SMELT_MPI_BASE_Gatherv_init_c Gatherv
#define SMELT_MPI_BASE_Allgatherv Allgatherv
#define SMELT_MPI_BASE_Allgatherv_c Allgatherv
#define SMELT_MPI_BASE_Iallgatherv Allgatherv
#define SMELT_MPI_BASE_Iallgatherv_c Allgatherv
#define SMELT_MPI_BASE_Allgatherv_init Allgatherv
#define SMELT_MPI_BASE_Allgatherv_init_c Allgatherv
#define SMELT_MPI_BASE_Alltoallv Alltoallv
#define SMELT_MPI_BASE_Alltoallv_c Alltoallv
#define SMELT_MPI_BASE_Ialltoallv Alltoallv
#define SMELT_MPI_BASE_Ialltoallv_c Alltoallv
#define SMELT_MPI_BASE_Alltoallv_init Alltoallv
#define SMELT_MPI_BASE_Alltoallv_init_c Alltoallv
#define SMELT_MPI_BASE_Alltoallw Alltoallw
#define SMELT_MPI_BASE_Alltoallw_c Alltoallw
#define SMELT_MPI_BASE_Ialltoallw Alltoallw
#define SMELT_MPI_BASE_Ialltoallw_c Alltoallw
#define SMELT_MPI_BASE_Alltoallw_init Alltoallw
#define SMELT_MPI_BASE_Alltoallw_init_c Alltoallw
#define SMELT_MPI_JOIN_NOW(a, b) a##b
#define SMELT_MPI_JOIN(a, b) SMELT_MPI_JOIN_NOW(a, b)
#define SMELT_MPI_SIGNATURE(name) SMELT_MPI_JOIN(SMELT_MPI_SIGNATURE_, SMELT_MPI_BASE_##name)
#define SMELT_MPI_DESCRIBE(name) SMELT_MPI_JOIN(SMELT_MPI_DESCRIBE_, SMELT_MPI_BASE_##name)

// The arrays of persistent ones, which are looked at again at each start: programs may have freed them by then, as the
// libraries have copies, too. Those that count on this rank.
#define SMELT_MPI_KEEP_BOTH(...) \
  if (in != MPI_IN_PLACE) kept.keep(__VA_ARGS__);
#define SMELT_MPI_KEEP_Barrier_init
#define SMELT_MPI_KEEP_Bcast_init
#define SMELT_MPI_KEEP_Bcast_init_c
#define SMELT_MPI_KEEP_Reduce_init
#define SMELT_MPI_KEEP_Reduce_init_c
#define SMELT_MPI_KEEP_Allreduce_init
#define SMELT_MPI_KEEP_Allreduce_init_c
#define SMELT_MPI_KEEP_Scan_init
#define SMELT_MPI_KEEP_Scan_init_c
#define SMELT_MPI_KEEP_Exscan_init
#define SMELT_MPI_KEEP_Exscan_init_c
#define SMELT_MPI_KEEP_Reduce_scatter_block_init
#define SMELT_MPI_KEEP_Reduce_scatter_block_init_c
#define SMELT_MPI_KEEP_Scatter_init
#define SMELT_MPI_KEEP_Scatter_init_c
#define SMELT_MPI_KEEP_Gather_init
#define SMELT_MPI_KEEP_Gather_init_c
#define SMELT_MPI_KEEP_Allgather_init
#define SMELT_MPI_KEEP_Allgather_init_c
#define SMELT_MPI_KEEP_Alltoall_init
#define SMELT_MPI_KEEP_Alltoall_init_c
#define SMELT_MPI_KEEP_Reduce_scatter_init kept.keep(counts);
#define SMELT_MPI_KEEP_Reduce_scatter_init_c SMELT_MPI_KEEP_Reduce_scatter_init
#define SMELT_MPI_KEEP_Scatterv_init \
  if (team.rank == root) kept.keep(counts, offsets);
#define SMELT_MPI_KEEP_Scatterv_init_c SMELT_MPI_KEEP_Scatterv_init
#define SMELT_MPI_KEEP_Gatherv_init \
  if (team.rank == root) kept.keep(counts, offsets);
#define SMELT_MPI_KEEP_Gatherv_init_c SMELT_MPI_KEEP_Gatherv_init
#define SMELT_MPI_KEEP_Allgatherv_init kept.keep(counts, offsets);
#define SMELT_MPI_KEEP_Allgatherv_init_c SMELT_MPI_KEEP_Allgatherv_init
#define SMELT_MPI_KEEP_Alltoallv_init SMELT_MPI_KEEP_BOTH(in_counts, in_offsets) kept.keep(out_counts, out_offsets);
#define SMELT_MPI_KEEP_Alltoallv_init_c SMELT_MPI_KEEP_Alltoallv_init
#define SMELT_MPI_KEEP_Alltoallw_init \
  SMELT_MPI_KEEP_BOTH(in_counts, in_offsets, in_types) kept.keep(out_counts, out_offsets, out_types);
#define SMELT_MPI_KEEP_Alltoallw_init_c SMELT_MPI_KEEP_Alltoallw_init
