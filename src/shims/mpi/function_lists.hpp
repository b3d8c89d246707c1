// The MPI functions that a program of the shim's calls: X(name, parameters, arguments) for each, MPI_ and PMPI_ left
// out. The types in the parameters are those of an ABI (abi.hpp).
#pragma once

// The functions taken over, with their parameters and arguments. Those with counts are lists over the type of these:
// the _c functions of MPI 4 take large ones.
#define SMELT_MPI_REDUCTION(Count) const void *in, void *out, Count count, MPI_Datatype type, MPI_Op op
#define SMELT_MPI_BLOCKS(Count) \
  const void *in, Count in_count, MPI_Datatype in_type, void *out, Count out_count, MPI_Datatype out_type
#define SMELT_MPI_BLOCKING_LIST(X, Suffix, Count, Offset)                                                          \
  X(Bcast##Suffix, (void* data, Count count, MPI_Datatype type, int root, MPI_Comm comm),                          \
    (data, count, type, root, comm))                                                                               \
  X(Reduce##Suffix, (SMELT_MPI_REDUCTION(Count), int root, MPI_Comm comm), (in, out, count, type, op, root, comm)) \
  X(Allreduce##Suffix, (SMELT_MPI_REDUCTION(Count), MPI_Comm comm), (in, out, count, type, op, comm))              \
  X(Scan##Suffix, (SMELT_MPI_REDUCTION(Count), MPI_Comm comm), (in, out, count, type, op, comm))                   \
  X(Exscan##Suffix, (SMELT_MPI_REDUCTION(Count), MPI_Comm comm), (in, out, count, type, op, comm))                 \
  X(Reduce_scatter_block##Suffix, (SMELT_MPI_REDUCTION(Count), MPI_Comm comm), (in, out, count, type, op, comm))   \
  X(Reduce_scatter##Suffix,                                                                                        \
    (const void* in, void* out, const Count* counts, MPI_Datatype type, MPI_Op op, MPI_Comm comm),                 \
    (in, out, counts, type, op, comm))                                                                             \
  X(Scatter##Suffix, (SMELT_MPI_BLOCKS(Count), int root, MPI_Comm comm),                                           \
    (in, in_count, in_type, out, out_count, out_type, root, comm))                                                 \
  X(Gather##Suffix, (SMELT_MPI_BLOCKS(Count), int root, MPI_Comm comm),                                            \
    (in, in_count, in_type, out, out_count, out_type, root, comm))                                                 \
  X(Allgather##Suffix, (SMELT_MPI_BLOCKS(Count), MPI_Comm comm),                                                   \
    (in, in_count, in_type, out, out_count, out_type, comm))                                                       \
  X(Alltoall##Suffix, (SMELT_MPI_BLOCKS(Count), MPI_Comm comm),                                                    \
    (in, in_count, in_type, out, out_count, out_type, comm))                                                       \
  X(Scatterv##Suffix,                                                                                              \
    (const void* in, const Count* counts, const Offset* offsets, MPI_Datatype in_type, void* out, Count out_count, \
     MPI_Datatype out_type, int root, MPI_Comm comm),                                                              \
    (in, counts, offsets, in_type, out, out_count, out_type, root, comm))                                          \
  X(Gatherv##Suffix,                                                                                               \
    (const void* in, Count in_count, MPI_Datatype in_type, void* out, const Count* counts, const Offset* offsets,  \
     MPI_Datatype out_type, int root, MPI_Comm comm),                                                              \
    (in, in_count, in_type, out, counts, offsets, out_type, root, comm))                                           \
  X(Allgatherv##Suffix,                                                                                            \
    (const void* in, Count in_count, MPI_Datatype in_type, void* out, const Count* counts, const Offset* offsets,  \
     MPI_Datatype out_type, MPI_Comm comm),                                                                        \
    (in, in_count, in_type, out, counts, offsets, out_type, comm))                                                 \
  X(Alltoallv##Suffix,                                                                                             \
    (const void* in, const Count* in_counts, const Offset* in_offsets, MPI_Datatype in_type, void* out,            \
     const Count* out_counts, const Offset* out_offsets, MPI_Datatype out_type, MPI_Comm comm),                    \
    (in, in_counts, in_offsets, in_type, out, out_counts, out_offsets, out_type, comm))                            \
  X(Alltoallw##Suffix,                                                                                             \
    (const void* in, const Count* in_counts, const Offset* in_offsets, const MPI_Datatype* in_types, void* out,    \
     const Count* out_counts, const Offset* out_offsets, const MPI_Datatype* out_types, MPI_Comm comm),            \
    (in, in_counts, in_offsets, in_types, out, out_counts, out_offsets, out_types, comm))
#define SMELT_MPI_BLOCKING(X)            \
  X(Barrier, (MPI_Comm comm), (comm))    \
  SMELT_MPI_BLOCKING_LIST(X, , int, int) \
  SMELT_MPI_BLOCKING_LIST(X, _c, MPI_Count, MPI_Aint)

// Nonblocking collectives.
#define SMELT_MPI_NONBLOCKING_LIST(X, Suffix, Count, Offset)                                                          \
  X(Ibcast##Suffix, (void* data, Count count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request* request),      \
    (data, count, type, root, comm, request))                                                                         \
  X(Ireduce##Suffix, (SMELT_MPI_REDUCTION(Count), int root, MPI_Comm comm, MPI_Request* request),                     \
    (in, out, count, type, op, root, comm, request))                                                                  \
  X(Iallreduce##Suffix, (SMELT_MPI_REDUCTION(Count), MPI_Comm comm, MPI_Request * request),                           \
    (in, out, count, type, op, comm, request))                                                                        \
  X(Iscan##Suffix, (SMELT_MPI_REDUCTION(Count), MPI_Comm comm, MPI_Request * request),                                \
    (in, out, count, type, op, comm, request))                                                                        \
  X(Iexscan##Suffix, (SMELT_MPI_REDUCTION(Count), MPI_Comm comm, MPI_Request * request),                              \
    (in, out, count, type, op, comm, request))                                                                        \
  X(Ireduce_scatter_block##Suffix, (SMELT_MPI_REDUCTION(Count), MPI_Comm comm, MPI_Request * request),                \
    (in, out, count, type, op, comm, request))                                                                        \
  X(Ireduce_scatter##Suffix,                                                                                          \
    (const void* in, void* out, const Count* counts, MPI_Datatype type, MPI_Op op, MPI_Comm comm,                     \
     MPI_Request* request),                                                                                           \
    (in, out, counts, type, op, comm, request))                                                                       \
  X(Iscatter##Suffix, (SMELT_MPI_BLOCKS(Count), int root, MPI_Comm comm, MPI_Request* request),                       \
    (in, in_count, in_type, out, out_count, out_type, root, comm, request))                                           \
  X(Igather##Suffix, (SMELT_MPI_BLOCKS(Count), int root, MPI_Comm comm, MPI_Request* request),                        \
    (in, in_count, in_type, out, out_count, out_type, root, comm, request))                                           \
  X(Iallgather##Suffix, (SMELT_MPI_BLOCKS(Count), MPI_Comm comm, MPI_Request * request),                              \
    (in, in_count, in_type, out, out_count, out_type, comm, request))                                                 \
  X(Ialltoall##Suffix, (SMELT_MPI_BLOCKS(Count), MPI_Comm comm, MPI_Request * request),                               \
    (in, in_count, in_type, out, out_count, out_type, comm, request))                                                 \
  X(Iscatterv##Suffix,                                                                                                \
    (const void* in, const Count* counts, const Offset* offsets, MPI_Datatype in_type, void* out, Count out_count,    \
     MPI_Datatype out_type, int root, MPI_Comm comm, MPI_Request* request),                                           \
    (in, counts, offsets, in_type, out, out_count, out_type, root, comm, request))                                    \
  X(Igatherv##Suffix,                                                                                                 \
    (const void* in, Count in_count, MPI_Datatype in_type, void* out, const Count* counts, const Offset* offsets,     \
     MPI_Datatype out_type, int root, MPI_Comm comm, MPI_Request* request),                                           \
    (in, in_count, in_type, out, counts, offsets, out_type, root, comm, request))                                     \
  X(Iallgatherv##Suffix,                                                                                              \
    (const void* in, Count in_count, MPI_Datatype in_type, void* out, const Count* counts, const Offset* offsets,     \
     MPI_Datatype out_type, MPI_Comm comm, MPI_Request* request),                                                     \
    (in, in_count, in_type, out, counts, offsets, out_type, comm, request))                                           \
  X(Ialltoallv##Suffix,                                                                                               \
    (const void* in, const Count* in_counts, const Offset* in_offsets, MPI_Datatype in_type, void* out,               \
     const Count* out_counts, const Offset* out_offsets, MPI_Datatype out_type, MPI_Comm comm, MPI_Request* request), \
    (in, in_counts, in_offsets, in_type, out, out_counts, out_offsets, out_type, comm, request))                      \
  X(Ialltoallw##Suffix,                                                                                               \
    (const void* in, const Count* in_counts, const Offset* in_offsets, const MPI_Datatype* in_types, void* out,       \
     const Count* out_counts, const Offset* out_offsets, const MPI_Datatype* out_types, MPI_Comm comm,                \
     MPI_Request* request),                                                                                           \
    (in, in_counts, in_offsets, in_types, out, out_counts, out_offsets, out_types, comm, request))
#define SMELT_MPI_NONBLOCKING(X)                                       \
  X(Ibarrier, (MPI_Comm comm, MPI_Request * request), (comm, request)) \
  SMELT_MPI_NONBLOCKING_LIST(X, , int, int)                            \
  SMELT_MPI_NONBLOCKING_LIST(X, _c, MPI_Count, MPI_Aint)

// Persistent collectives: MPI_X_init, and MPIX_X_init of Open MPI before MPI 4.
#define SMELT_MPI_BEGIN MPI_Info info, MPI_Request *request
#define SMELT_MPI_PERSISTENT_LIST(X, Suffix, Count, Offset)                                                         \
  X(Bcast_init##Suffix, (void* data, Count count, MPI_Datatype type, int root, MPI_Comm comm, SMELT_MPI_BEGIN),     \
    (data, count, type, root, comm, info, request))                                                                 \
  X(Reduce_init##Suffix, (SMELT_MPI_REDUCTION(Count), int root, MPI_Comm comm, SMELT_MPI_BEGIN),                    \
    (in, out, count, type, op, root, comm, info, request))                                                          \
  X(Allreduce_init##Suffix, (SMELT_MPI_REDUCTION(Count), MPI_Comm comm, SMELT_MPI_BEGIN),                           \
    (in, out, count, type, op, comm, info, request))                                                                \
  X(Scan_init##Suffix, (SMELT_MPI_REDUCTION(Count), MPI_Comm comm, SMELT_MPI_BEGIN),                                \
    (in, out, count, type, op, comm, info, request))                                                                \
  X(Exscan_init##Suffix, (SMELT_MPI_REDUCTION(Count), MPI_Comm comm, SMELT_MPI_BEGIN),                              \
    (in, out, count, type, op, comm, info, request))                                                                \
  X(Reduce_scatter_block_init##Suffix, (SMELT_MPI_REDUCTION(Count), MPI_Comm comm, SMELT_MPI_BEGIN),                \
    (in, out, count, type, op, comm, info, request))                                                                \
  X(Reduce_scatter_init##Suffix,                                                                                    \
    (const void* in, void* out, const Count* counts, MPI_Datatype type, MPI_Op op, MPI_Comm comm, SMELT_MPI_BEGIN), \
    (in, out, counts, type, op, comm, info, request))                                                               \
  X(Scatter_init##Suffix, (SMELT_MPI_BLOCKS(Count), int root, MPI_Comm comm, SMELT_MPI_BEGIN),                      \
    (in, in_count, in_type, out, out_count, out_type, root, comm, info, request))                                   \
  X(Gather_init##Suffix, (SMELT_MPI_BLOCKS(Count), int root, MPI_Comm comm, SMELT_MPI_BEGIN),                       \
    (in, in_count, in_type, out, out_count, out_type, root, comm, info, request))                                   \
  X(Allgather_init##Suffix, (SMELT_MPI_BLOCKS(Count), MPI_Comm comm, SMELT_MPI_BEGIN),                              \
    (in, in_count, in_type, out, out_count, out_type, comm, info, request))                                         \
  X(Alltoall_init##Suffix, (SMELT_MPI_BLOCKS(Count), MPI_Comm comm, SMELT_MPI_BEGIN),                               \
    (in, in_count, in_type, out, out_count, out_type, comm, info, request))                                         \
  X(Scatterv_init##Suffix,                                                                                          \
    (const void* in, const Count* counts, const Offset* offsets, MPI_Datatype in_type, void* out, Count out_count,  \
     MPI_Datatype out_type, int root, MPI_Comm comm, SMELT_MPI_BEGIN),                                              \
    (in, counts, offsets, in_type, out, out_count, out_type, root, comm, info, request))                            \
  X(Gatherv_init##Suffix,                                                                                           \
    (const void* in, Count in_count, MPI_Datatype in_type, void* out, const Count* counts, const Offset* offsets,   \
     MPI_Datatype out_type, int root, MPI_Comm comm, SMELT_MPI_BEGIN),                                              \
    (in, in_count, in_type, out, counts, offsets, out_type, root, comm, info, request))                             \
  X(Allgatherv_init##Suffix,                                                                                        \
    (const void* in, Count in_count, MPI_Datatype in_type, void* out, const Count* counts, const Offset* offsets,   \
     MPI_Datatype out_type, MPI_Comm comm, SMELT_MPI_BEGIN),                                                        \
    (in, in_count, in_type, out, counts, offsets, out_type, comm, info, request))                                   \
  X(Alltoallv_init##Suffix,                                                                                         \
    (const void* in, const Count* in_counts, const Offset* in_offsets, MPI_Datatype in_type, void* out,             \
     const Count* out_counts, const Offset* out_offsets, MPI_Datatype out_type, MPI_Comm comm, SMELT_MPI_BEGIN),    \
    (in, in_counts, in_offsets, in_type, out, out_counts, out_offsets, out_type, comm, info, request))              \
  X(Alltoallw_init##Suffix,                                                                                         \
    (const void* in, const Count* in_counts, const Offset* in_offsets, const MPI_Datatype* in_types, void* out,     \
     const Count* out_counts, const Offset* out_offsets, const MPI_Datatype* out_types, MPI_Comm comm,              \
     SMELT_MPI_BEGIN),                                                                                              \
    (in, in_counts, in_offsets, in_types, out, out_counts, out_offsets, out_types, comm, info, request))
#define SMELT_MPI_PERSISTENT_OF_OLD(X)                                     \
  X(Barrier_init, (MPI_Comm comm, SMELT_MPI_BEGIN), (comm, info, request)) \
  SMELT_MPI_PERSISTENT_LIST(X, , int, int)
#define SMELT_MPI_PERSISTENT(X)  \
  SMELT_MPI_PERSISTENT_OF_OLD(X) \
  SMELT_MPI_PERSISTENT_LIST(X, _c, MPI_Count, MPI_Aint)

// What a rank does alone.
#define SMELT_MPI_LOCAL_LIST(X, Suffix, Count)                                                      \
  X(Reduce_local##Suffix, (const void* in, void* inout, Count count, MPI_Datatype type, MPI_Op op), \
    (in, inout, count, type, op))
#define SMELT_MPI_LOCAL(X)       \
  SMELT_MPI_LOCAL_LIST(X, , int) \
  SMELT_MPI_LOCAL_LIST(X, _c, MPI_Count)

// What starts, completes and frees requests.
#define SMELT_MPI_COMPLETING_ONE(X)                                        \
  X(Wait, (MPI_Request * request, MPI_Status * status), (request, status)) \
  X(Test, (MPI_Request * request, int* flag, MPI_Status* status), (request, flag, status))
#define SMELT_MPI_COMPLETING_MANY(X)                                                                                 \
  X(Waitall, (int count, MPI_Request* requests, MPI_Status* statuses), (count, requests, statuses))                  \
  X(Waitany, (int count, MPI_Request* requests, int* index, MPI_Status* status), (count, requests, index, status))   \
  X(Waitsome, (int count, MPI_Request* requests, int* done, int* indices, MPI_Status* statuses),                     \
    (count, requests, done, indices, statuses))                                                                      \
  X(Testall, (int count, MPI_Request* requests, int* flag, MPI_Status* statuses), (count, requests, flag, statuses)) \
  X(Testany, (int count, MPI_Request* requests, int* index, int* flag, MPI_Status* status),                          \
    (count, requests, index, flag, status))                                                                          \
  X(Testsome, (int count, MPI_Request* requests, int* done, int* indices, MPI_Status* statuses),                     \
    (count, requests, done, indices, statuses))
#define SMELT_MPI_REQUESTS(X)                                                                          \
  X(Start, (MPI_Request * request), (request))                                                         \
  X(Startall, (int count, MPI_Request* requests), (count, requests))                                   \
  X(Request_free, (MPI_Request * request), (request))                                                  \
  X(Request_get_status, (MPI_Request request, int* flag, MPI_Status* status), (request, flag, status)) \
  SMELT_MPI_COMPLETING_ONE(X)                                                                          \
  SMELT_MPI_COMPLETING_MANY(X)

// What the program may free while a collective still needs it.
#define SMELT_MPI_FREEING(X)                  \
  X(Type_free, (MPI_Datatype * type), (type)) \
  X(Op_free, (MPI_Op * op), (op))
#define SMELT_MPI_FREEING_COMM(X)         \
  X(Comm_free, (MPI_Comm * comm), (comm)) \
  X(Comm_disconnect, (MPI_Comm * comm), (comm))

#define SMELT_MPI_ENDING(X) X(Finalize, (), ())

// MPI_T's control variables.
#define SMELT_MPI_VARIABLES(X)                                                                         \
  X(T_cvar_get_num, (int* number), (number))                                                           \
  X(T_cvar_get_info,                                                                                   \
    (int index, char* name, int* name_length, int* verbosity, MPI_Datatype* type, MPI_T_enum* values,  \
     char* description, int* description_length, int* bind, int* scope),                               \
    (index, name, name_length, verbosity, type, values, description, description_length, bind, scope)) \
  X(T_cvar_get_index, (const char* name, int* index), (name, index))                                   \
  X(T_cvar_handle_alloc, (int index, void* object, MPI_T_cvar_handle* handle, int* count),             \
    (index, object, handle, count))                                                                    \
  X(T_cvar_handle_free, (MPI_T_cvar_handle * handle), (handle))                                        \
  X(T_cvar_read, (MPI_T_cvar_handle handle, void* value), (handle, value))                             \
  X(T_cvar_write, (MPI_T_cvar_handle handle, const void* value), (handle, value))                      \
  X(T_category_get_cvars, (int index, int length, int* indices), (index, length, indices))

// What begins MPI: not served, but who calls it tells which library is the program's.
#define SMELT_MPI_BEGINNING(X)                     \
  X(Init, (int* argc, char*** argv), (argc, argv)) \
  X(Init_thread, (int* argc, char*** argv, int required, int* provided), (argc, argv, required, provided))

// All that are served, but for MPIX_X_init.
#define SMELT_MPI_SERVED(X) \
  SMELT_MPI_BLOCKING(X)     \
  SMELT_MPI_NONBLOCKING(X)  \
  SMELT_MPI_PERSISTENT(X)   \
  SMELT_MPI_LOCAL(X)        \
  SMELT_MPI_REQUESTS(X)     \
  SMELT_MPI_FREEING(X)      \
  SMELT_MPI_FREEING_COMM(X) \
  SMELT_MPI_ENDING(X)       \
  SMELT_MPI_VARIABLES(X)
