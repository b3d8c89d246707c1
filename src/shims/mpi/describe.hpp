// How the arguments of each MPI function become a Task: expressions over `task`, `team` and the names that
// original.hpp gives the parameters.
#pragma once

#include "shims/mpi/repeats.hpp"
#include "shims/mpi/task.hpp"
#include "shims/mpi/team.hpp"

// The signatures of those with one count for all ranks.
#define SMELT_MPI_SIGNATURE_Bcast \
  Signature { SMELT_BROADCAST, nullptr, data, count, type, 0, MPI_DATATYPE_NULL, MPI_OP_NULL, root }
#define SMELT_MPI_SIGNATURE_OF_REDUCTION(operation, root) \
  Signature { operation, in, out, count, type, 0, MPI_DATATYPE_NULL, op, root }
#define SMELT_MPI_SIGNATURE_Reduce SMELT_MPI_SIGNATURE_OF_REDUCTION(SMELT_REDUCE, root)
#define SMELT_MPI_SIGNATURE_Allreduce SMELT_MPI_SIGNATURE_OF_REDUCTION(SMELT_ALLREDUCE, 0)
#define SMELT_MPI_SIGNATURE_Scan SMELT_MPI_SIGNATURE_OF_REDUCTION(SMELT_SCAN, 0)
#define SMELT_MPI_SIGNATURE_Exscan SMELT_MPI_SIGNATURE_OF_REDUCTION(SMELT_EXSCAN, 0)
#define SMELT_MPI_SIGNATURE_Reduce_scatter_block SMELT_MPI_SIGNATURE_OF_REDUCTION(SMELT_REDUCE_SCATTER, 0)
#define SMELT_MPI_SIGNATURE_OF_BLOCKS(operation, root) \
  Signature { operation, in, out, in_count, in_type, out_count, out_type, MPI_OP_NULL, root }
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

// The nonblocking and the persistent ones: the same data.
#define SMELT_MPI_DESCRIBE_Ibarrier SMELT_MPI_DESCRIBE_Barrier
#define SMELT_MPI_DESCRIBE_Ibcast SMELT_MPI_DESCRIBE_Bcast
#define SMELT_MPI_DESCRIBE_Ireduce SMELT_MPI_DESCRIBE_Reduce
#define SMELT_MPI_DESCRIBE_Iallreduce SMELT_MPI_DESCRIBE_Allreduce
#define SMELT_MPI_DESCRIBE_Iscan SMELT_MPI_DESCRIBE_Scan
#define SMELT_MPI_DESCRIBE_Iexscan SMELT_MPI_DESCRIBE_Exscan
#define SMELT_MPI_DESCRIBE_Ireduce_scatter_block SMELT_MPI_DESCRIBE_Reduce_scatter_block
#define SMELT_MPI_DESCRIBE_Ireduce_scatter SMELT_MPI_DESCRIBE_Reduce_scatter
#define SMELT_MPI_DESCRIBE_Iscatter SMELT_MPI_DESCRIBE_Scatter
#define SMELT_MPI_DESCRIBE_Igather SMELT_MPI_DESCRIBE_Gather
#define SMELT_MPI_DESCRIBE_Iallgather SMELT_MPI_DESCRIBE_Allgather
#define SMELT_MPI_DESCRIBE_Ialltoall SMELT_MPI_DESCRIBE_Alltoall
#define SMELT_MPI_DESCRIBE_Iscatterv SMELT_MPI_DESCRIBE_Scatterv
#define SMELT_MPI_DESCRIBE_Igatherv SMELT_MPI_DESCRIBE_Gatherv
#define SMELT_MPI_DESCRIBE_Iallgatherv SMELT_MPI_DESCRIBE_Allgatherv
#define SMELT_MPI_DESCRIBE_Ialltoallv SMELT_MPI_DESCRIBE_Alltoallv
#define SMELT_MPI_DESCRIBE_Ialltoallw SMELT_MPI_DESCRIBE_Alltoallw
#define SMELT_MPI_DESCRIBE_Barrier_init SMELT_MPI_DESCRIBE_Barrier
#define SMELT_MPI_DESCRIBE_Bcast_init SMELT_MPI_DESCRIBE_Bcast
#define SMELT_MPI_DESCRIBE_Reduce_init SMELT_MPI_DESCRIBE_Reduce
#define SMELT_MPI_DESCRIBE_Allreduce_init SMELT_MPI_DESCRIBE_Allreduce
#define SMELT_MPI_DESCRIBE_Scan_init SMELT_MPI_DESCRIBE_Scan
#define SMELT_MPI_DESCRIBE_Exscan_init SMELT_MPI_DESCRIBE_Exscan
#define SMELT_MPI_DESCRIBE_Reduce_scatter_block_init SMELT_MPI_DESCRIBE_Reduce_scatter_block
#define SMELT_MPI_DESCRIBE_Reduce_scatter_init SMELT_MPI_DESCRIBE_Reduce_scatter
#define SMELT_MPI_DESCRIBE_Scatter_init SMELT_MPI_DESCRIBE_Scatter
#define SMELT_MPI_DESCRIBE_Gather_init SMELT_MPI_DESCRIBE_Gather
#define SMELT_MPI_DESCRIBE_Allgather_init SMELT_MPI_DESCRIBE_Allgather
#define SMELT_MPI_DESCRIBE_Alltoall_init SMELT_MPI_DESCRIBE_Alltoall
#define SMELT_MPI_DESCRIBE_Scatterv_init SMELT_MPI_DESCRIBE_Scatterv
#define SMELT_MPI_DESCRIBE_Gatherv_init SMELT_MPI_DESCRIBE_Gatherv
#define SMELT_MPI_DESCRIBE_Allgatherv_init SMELT_MPI_DESCRIBE_Allgatherv
#define SMELT_MPI_DESCRIBE_Alltoallv_init SMELT_MPI_DESCRIBE_Alltoallv
#define SMELT_MPI_DESCRIBE_Alltoallw_init SMELT_MPI_DESCRIBE_Alltoallw

// Those with large counts.
#define SMELT_MPI_DESCRIBE_Bcast_c SMELT_MPI_DESCRIBE_Bcast
#define SMELT_MPI_DESCRIBE_Reduce_c SMELT_MPI_DESCRIBE_Reduce
#define SMELT_MPI_DESCRIBE_Allreduce_c SMELT_MPI_DESCRIBE_Allreduce
#define SMELT_MPI_DESCRIBE_Scan_c SMELT_MPI_DESCRIBE_Scan
#define SMELT_MPI_DESCRIBE_Exscan_c SMELT_MPI_DESCRIBE_Exscan
#define SMELT_MPI_DESCRIBE_Reduce_scatter_block_c SMELT_MPI_DESCRIBE_Reduce_scatter_block
#define SMELT_MPI_DESCRIBE_Reduce_scatter_c SMELT_MPI_DESCRIBE_Reduce_scatter
#define SMELT_MPI_DESCRIBE_Scatter_c SMELT_MPI_DESCRIBE_Scatter
#define SMELT_MPI_DESCRIBE_Gather_c SMELT_MPI_DESCRIBE_Gather
#define SMELT_MPI_DESCRIBE_Allgather_c SMELT_MPI_DESCRIBE_Allgather
#define SMELT_MPI_DESCRIBE_Alltoall_c SMELT_MPI_DESCRIBE_Alltoall
#define SMELT_MPI_DESCRIBE_Scatterv_c SMELT_MPI_DESCRIBE_Scatterv
#define SMELT_MPI_DESCRIBE_Gatherv_c SMELT_MPI_DESCRIBE_Gatherv
#define SMELT_MPI_DESCRIBE_Allgatherv_c SMELT_MPI_DESCRIBE_Allgatherv
#define SMELT_MPI_DESCRIBE_Alltoallv_c SMELT_MPI_DESCRIBE_Alltoallv
#define SMELT_MPI_DESCRIBE_Alltoallw_c SMELT_MPI_DESCRIBE_Alltoallw
#define SMELT_MPI_DESCRIBE_Ibcast_c SMELT_MPI_DESCRIBE_Bcast
#define SMELT_MPI_DESCRIBE_Ireduce_c SMELT_MPI_DESCRIBE_Reduce
#define SMELT_MPI_DESCRIBE_Iallreduce_c SMELT_MPI_DESCRIBE_Allreduce
#define SMELT_MPI_DESCRIBE_Iscan_c SMELT_MPI_DESCRIBE_Scan
#define SMELT_MPI_DESCRIBE_Iexscan_c SMELT_MPI_DESCRIBE_Exscan
#define SMELT_MPI_DESCRIBE_Ireduce_scatter_block_c SMELT_MPI_DESCRIBE_Reduce_scatter_block
#define SMELT_MPI_DESCRIBE_Ireduce_scatter_c SMELT_MPI_DESCRIBE_Reduce_scatter
#define SMELT_MPI_DESCRIBE_Iscatter_c SMELT_MPI_DESCRIBE_Scatter
#define SMELT_MPI_DESCRIBE_Igather_c SMELT_MPI_DESCRIBE_Gather
#define SMELT_MPI_DESCRIBE_Iallgather_c SMELT_MPI_DESCRIBE_Allgather
#define SMELT_MPI_DESCRIBE_Ialltoall_c SMELT_MPI_DESCRIBE_Alltoall
#define SMELT_MPI_DESCRIBE_Iscatterv_c SMELT_MPI_DESCRIBE_Scatterv
#define SMELT_MPI_DESCRIBE_Igatherv_c SMELT_MPI_DESCRIBE_Gatherv
#define SMELT_MPI_DESCRIBE_Iallgatherv_c SMELT_MPI_DESCRIBE_Allgatherv
#define SMELT_MPI_DESCRIBE_Ialltoallv_c SMELT_MPI_DESCRIBE_Alltoallv
#define SMELT_MPI_DESCRIBE_Ialltoallw_c SMELT_MPI_DESCRIBE_Alltoallw
#define SMELT_MPI_DESCRIBE_Bcast_init_c SMELT_MPI_DESCRIBE_Bcast
#define SMELT_MPI_DESCRIBE_Reduce_init_c SMELT_MPI_DESCRIBE_Reduce
#define SMELT_MPI_DESCRIBE_Allreduce_init_c SMELT_MPI_DESCRIBE_Allreduce
#define SMELT_MPI_DESCRIBE_Scan_init_c SMELT_MPI_DESCRIBE_Scan
#define SMELT_MPI_DESCRIBE_Exscan_init_c SMELT_MPI_DESCRIBE_Exscan
#define SMELT_MPI_DESCRIBE_Reduce_scatter_block_init_c SMELT_MPI_DESCRIBE_Reduce_scatter_block
#define SMELT_MPI_DESCRIBE_Reduce_scatter_init_c SMELT_MPI_DESCRIBE_Reduce_scatter
#define SMELT_MPI_DESCRIBE_Scatter_init_c SMELT_MPI_DESCRIBE_Scatter
#define SMELT_MPI_DESCRIBE_Gather_init_c SMELT_MPI_DESCRIBE_Gather
#define SMELT_MPI_DESCRIBE_Allgather_init_c SMELT_MPI_DESCRIBE_Allgather
#define SMELT_MPI_DESCRIBE_Alltoall_init_c SMELT_MPI_DESCRIBE_Alltoall
#define SMELT_MPI_DESCRIBE_Scatterv_init_c SMELT_MPI_DESCRIBE_Scatterv
#define SMELT_MPI_DESCRIBE_Gatherv_init_c SMELT_MPI_DESCRIBE_Gatherv
#define SMELT_MPI_DESCRIBE_Allgatherv_init_c SMELT_MPI_DESCRIBE_Allgatherv
#define SMELT_MPI_DESCRIBE_Alltoallv_init_c SMELT_MPI_DESCRIBE_Alltoallv
#define SMELT_MPI_DESCRIBE_Alltoallw_init_c SMELT_MPI_DESCRIBE_Alltoallw

#define SMELT_MPI_SIGNATURE_Bcast_c SMELT_MPI_SIGNATURE_Bcast
#define SMELT_MPI_SIGNATURE_Reduce_c SMELT_MPI_SIGNATURE_Reduce
#define SMELT_MPI_SIGNATURE_Allreduce_c SMELT_MPI_SIGNATURE_Allreduce
#define SMELT_MPI_SIGNATURE_Scan_c SMELT_MPI_SIGNATURE_Scan
#define SMELT_MPI_SIGNATURE_Exscan_c SMELT_MPI_SIGNATURE_Exscan
#define SMELT_MPI_SIGNATURE_Reduce_scatter_block_c SMELT_MPI_SIGNATURE_Reduce_scatter_block
#define SMELT_MPI_SIGNATURE_Reduce_scatter_c SMELT_MPI_SIGNATURE_Reduce_scatter
#define SMELT_MPI_SIGNATURE_Scatter_c SMELT_MPI_SIGNATURE_Scatter
#define SMELT_MPI_SIGNATURE_Gather_c SMELT_MPI_SIGNATURE_Gather
#define SMELT_MPI_SIGNATURE_Allgather_c SMELT_MPI_SIGNATURE_Allgather
#define SMELT_MPI_SIGNATURE_Alltoall_c SMELT_MPI_SIGNATURE_Alltoall
#define SMELT_MPI_SIGNATURE_Scatterv_c SMELT_MPI_SIGNATURE_Scatterv
#define SMELT_MPI_SIGNATURE_Gatherv_c SMELT_MPI_SIGNATURE_Gatherv
#define SMELT_MPI_SIGNATURE_Allgatherv_c SMELT_MPI_SIGNATURE_Allgatherv
#define SMELT_MPI_SIGNATURE_Alltoallv_c SMELT_MPI_SIGNATURE_Alltoallv
#define SMELT_MPI_SIGNATURE_Alltoallw_c SMELT_MPI_SIGNATURE_Alltoallw

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
#define SMELT_MPI_KEEP_Scatterv_init if (team.rank == root) kept.keep(counts, offsets);
#define SMELT_MPI_KEEP_Scatterv_init_c SMELT_MPI_KEEP_Scatterv_init
#define SMELT_MPI_KEEP_Gatherv_init if (team.rank == root) kept.keep(counts, offsets);
#define SMELT_MPI_KEEP_Gatherv_init_c SMELT_MPI_KEEP_Gatherv_init
#define SMELT_MPI_KEEP_Allgatherv_init kept.keep(counts, offsets);
#define SMELT_MPI_KEEP_Allgatherv_init_c SMELT_MPI_KEEP_Allgatherv_init
#define SMELT_MPI_KEEP_Alltoallv_init SMELT_MPI_KEEP_BOTH(in_counts, in_offsets) kept.keep(out_counts, out_offsets);
#define SMELT_MPI_KEEP_Alltoallv_init_c SMELT_MPI_KEEP_Alltoallv_init
#define SMELT_MPI_KEEP_Alltoallw_init SMELT_MPI_KEEP_BOTH(in_counts, in_offsets, in_types) kept.keep(out_counts, out_offsets, out_types);
#define SMELT_MPI_KEEP_Alltoallw_init_c SMELT_MPI_KEEP_Alltoallw_init
