// The registry of the MPI functions that the preload library takes over, one row each. These are generated from it: the
// entry points and their symbols, the slots, the table of functions for each ABI, the counters of the report, the
// library's own functions (`original`), the list in docs/reference/drop-in-mpi.md, and a test that compares each row
// with the headers of the installed MPI libraries.
//
// To add a function, write a row here, and define serve_NAME() (original.hpp) in a file of functions/, or in the file
// of its kind.
//
// X gets the name without MPI_ or PMPI_, the parameters and the arguments. For collectives it also gets the name of the
// operation and the expression that translates the arguments to a TranslatedCall. For persistent ones it also gets a
// statement that copies the arrays that each start reads, because a program may free them before: MPI libraries copy
// them. The types in the parameters are those of an ABI (abi.hpp).
#pragma once

// ---- collectives ------------------------------------------------------------------------------
//
// A row defines all forms of an operation: MPI_Bcast, Ibcast, Bcast_init, and the same with the large counts of MPI 4,
// whose names end in _c. `Count` and `Offset` are the types of counts and offsets of a form. A row consists of the
// operation's name with a capital and with a small letter, the parameters before the communicator, the arguments, and
// the statement that copies arrays. Its signature is SMELT_MPI_SIGNATURE_NAME (signatures.hpp). Its translation is the
// method of that name of TranslatedCall.

#define SMELT_MPI_REDUCTION(Count) const void *in, void *out, Count count, MPI_Datatype type, MPI_Op op
#define SMELT_MPI_BLOCKS(Count) \
  const void *in, Count in_count, MPI_Datatype in_type, void *out, Count out_count, MPI_Datatype out_type
// Documented as: blocking; nonblocking (`MPI_Ibcast`, ...); persistent (`MPI_Bcast_init`, `MPIX_Bcast_init` of Open
// MPI 4); all of these with large counts (`MPI_Bcast_c`, ...)
#define SMELT_MPI_COLLECTIVES(FORM, X, Suffix, Count, Offset)                                                         \
  FORM(X, Suffix, Bcast, bcast, (void* data, Count count, MPI_Datatype type, int root), (data, count, type, root), )  \
  FORM(X, Suffix, Reduce, reduce, (SMELT_MPI_REDUCTION(Count), int root), (in, out, count, type, op, root), )         \
  FORM(X, Suffix, Allreduce, allreduce, (SMELT_MPI_REDUCTION(Count)), (in, out, count, type, op), )                   \
  FORM(X, Suffix, Scan, scan, (SMELT_MPI_REDUCTION(Count)), (in, out, count, type, op), )                             \
  FORM(X, Suffix, Exscan, exscan, (SMELT_MPI_REDUCTION(Count)), (in, out, count, type, op), )                         \
  FORM(X, Suffix, Reduce_scatter_block, reduce_scatter_block, (SMELT_MPI_REDUCTION(Count)),                           \
       (in, out, count, type, op), )                                                                                  \
  FORM(X, Suffix, Reduce_scatter, reduce_scatter,                                                                     \
       (const void* in, void* out, const Count* counts, MPI_Datatype type, MPI_Op op), (in, out, counts, type, op),   \
       kept.keep(counts))                                                                                             \
  FORM(X, Suffix, Scatter, scatter, (SMELT_MPI_BLOCKS(Count), int root),                                              \
       (in, in_count, in_type, out, out_count, out_type, root), )                                                     \
  FORM(X, Suffix, Gather, gather, (SMELT_MPI_BLOCKS(Count), int root),                                                \
       (in, in_count, in_type, out, out_count, out_type, root), )                                                     \
  FORM(X, Suffix, Allgather, allgather, (SMELT_MPI_BLOCKS(Count)),                                                    \
       (in, in_count, in_type, out, out_count, out_type), )                                                           \
  FORM(X, Suffix, Alltoall, alltoall, (SMELT_MPI_BLOCKS(Count)), (in, in_count, in_type, out, out_count, out_type), ) \
  FORM(X, Suffix, Scatterv, scatterv,                                                                                 \
       (const void* in, const Count* counts, const Offset* offsets, MPI_Datatype in_type, void* out, Count out_count, \
        MPI_Datatype out_type, int root),                                                                             \
       (in, counts, offsets, in_type, out, out_count, out_type, root),                                                \
       if (team.rank == root) kept.keep(counts, offsets))                                                             \
  FORM(X, Suffix, Gatherv, gatherv,                                                                                   \
       (const void* in, Count in_count, MPI_Datatype in_type, void* out, const Count* counts, const Offset* offsets,  \
        MPI_Datatype out_type, int root),                                                                             \
       (in, in_count, in_type, out, counts, offsets, out_type, root),                                                 \
       if (team.rank == root) kept.keep(counts, offsets))                                                             \
  FORM(X, Suffix, Allgatherv, allgatherv,                                                                             \
       (const void* in, Count in_count, MPI_Datatype in_type, void* out, const Count* counts, const Offset* offsets,  \
        MPI_Datatype out_type),                                                                                       \
       (in, in_count, in_type, out, counts, offsets, out_type), kept.keep(counts, offsets))                           \
  FORM(X, Suffix, Alltoallv, alltoallv,                                                                               \
       (const void* in, const Count* in_counts, const Offset* in_offsets, MPI_Datatype in_type, void* out,            \
        const Count* out_counts, const Offset* out_offsets, MPI_Datatype out_type),                                   \
       (in, in_counts, in_offsets, in_type, out, out_counts, out_offsets, out_type),                                  \
       if (in != MPI_IN_PLACE) kept.keep(in_counts, in_offsets);                                                      \
       kept.keep(out_counts, out_offsets))                                                                            \
  FORM(X, Suffix, Alltoallw, alltoallw,                                                                               \
       (const void* in, const Count* in_counts, const Offset* in_offsets, const MPI_Datatype* in_types, void* out,    \
        const Count* out_counts, const Offset* out_offsets, const MPI_Datatype* out_types),                           \
       (in, in_counts, in_offsets, in_types, out, out_counts, out_offsets, out_types),                                \
       if (in != MPI_IN_PLACE) kept.keep(in_counts, in_offsets, in_types);                                            \
       kept.keep(out_counts, out_offsets, out_types))
// Documented as: blocking; nonblocking; persistent
#define SMELT_MPI_COLLECTIVES_WITHOUT_DATA(FORM, X) FORM(X, , Barrier, barrier, (), (), )

// From rows to functions.
#define SMELT_MPI_WITH_NOW(...) (__VA_ARGS__)
#define SMELT_MPI_UNPACK(...) __VA_ARGS__ __VA_OPT__(, )
#define SMELT_MPI_WITH(list, ...) SMELT_MPI_WITH_NOW(SMELT_MPI_UNPACK list __VA_ARGS__)
#define SMELT_MPI_TEAM_AND(...) (team __VA_OPT__(, ) __VA_ARGS__)
#define SMELT_MPI_FORM_BLOCKING(X, Suffix, Name, name, parameters, arguments, ...)                  \
  X(Name##Suffix, SMELT_MPI_WITH(parameters, MPI_Comm comm), SMELT_MPI_WITH(arguments, comm), Name, \
    task.name SMELT_MPI_TEAM_AND arguments)
#define SMELT_MPI_FORM_NONBLOCKING(X, Suffix, Name, name, parameters, arguments, ...) \
  X(I##name##Suffix, SMELT_MPI_WITH(parameters, MPI_Comm comm, MPI_Request* request), \
    SMELT_MPI_WITH(arguments, comm, request), Name, task.name SMELT_MPI_TEAM_AND arguments)
#define SMELT_MPI_FORM_PERSISTENT(X, Suffix, Name, name, parameters, arguments, ...)                     \
  X(Name##_init##Suffix, SMELT_MPI_WITH(parameters, MPI_Comm comm, MPI_Info info, MPI_Request* request), \
    SMELT_MPI_WITH(arguments, comm, info, request), Name, task.name SMELT_MPI_TEAM_AND arguments, __VA_ARGS__)

#define SMELT_MPI_OF_3_1(FORM, X) SMELT_MPI_COLLECTIVES_WITHOUT_DATA(FORM, X) SMELT_MPI_COLLECTIVES(FORM, X, , int, int)
#define SMELT_MPI_OF_4(FORM, X) SMELT_MPI_COLLECTIVES(FORM, X, _c, MPI_Count, MPI_Aint)
#define SMELT_MPI_BLOCKING(X)                  \
  SMELT_MPI_OF_3_1(SMELT_MPI_FORM_BLOCKING, X) \
  SMELT_MPI_OF_4(SMELT_MPI_FORM_BLOCKING, X)
#define SMELT_MPI_NONBLOCKING(X)                  \
  SMELT_MPI_OF_3_1(SMELT_MPI_FORM_NONBLOCKING, X) \
  SMELT_MPI_OF_4(SMELT_MPI_FORM_NONBLOCKING, X)
// MPI_X_init, and MPIX_X_init of Open MPI before MPI 4.
#define SMELT_MPI_PERSISTENT_OF_OLD(X) SMELT_MPI_OF_3_1(SMELT_MPI_FORM_PERSISTENT, X)
#define SMELT_MPI_PERSISTENT(X)  \
  SMELT_MPI_PERSISTENT_OF_OLD(X) \
  SMELT_MPI_OF_4(SMELT_MPI_FORM_PERSISTENT, X)

// ---- all others -------------------------------------------------------------------------------

// What a rank does alone. The function's file in functions/ says which calls are served.
// Documented as: on any rank from `MPI_Init` on, without a communicator of smelt; also with large counts
#define SMELT_MPI_LOCAL_LIST(X, Suffix, Count)                                                      \
  X(Reduce_local##Suffix, (const void* in, void* inout, Count count, MPI_Datatype type, MPI_Op op), \
    (in, inout, count, type, op))
#define SMELT_MPI_LOCAL(X)       \
  SMELT_MPI_LOCAL_LIST(X, , int) \
  SMELT_MPI_LOCAL_LIST(X, _c, MPI_Count)

// What starts, completes and frees requests.
// Documented as: for persistent collectives of smelt; otherwise the library's
#define SMELT_MPI_COMPLETING_ONE(X)                                        \
  X(Wait, (MPI_Request * request, MPI_Status * status), (request, status)) \
  X(Test, (MPI_Request * request, int* flag, MPI_Status* status), (request, flag, status))
// Documented as: the same, for each request of the array
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
// Those that read an array of requests and leave it as it is; of MPI 4.1.
// Documented as: the same, where the library has them (MPI 4.1)
#define SMELT_MPI_LOOKING_AT_MANY(X)                                                                                  \
  X(Request_get_status_all, (int count, const MPI_Request* requests, int* flag, MPI_Status* statuses),                \
    (count, requests, flag, statuses))                                                                                \
  X(Request_get_status_any, (int count, const MPI_Request* requests, int* index, int* flag, MPI_Status* status),      \
    (count, requests, index, flag, status))                                                                           \
  X(Request_get_status_some, (int count, const MPI_Request* requests, int* done, int* indices, MPI_Status* statuses), \
    (count, requests, done, indices, statuses))
// Documented as: the same
#define SMELT_MPI_REQUESTS_OF_3_1(X)                                                                   \
  X(Start, (MPI_Request * request), (request))                                                         \
  X(Startall, (int count, MPI_Request* requests), (count, requests))                                   \
  X(Request_free, (MPI_Request * request), (request))                                                  \
  X(Request_get_status, (MPI_Request request, int* flag, MPI_Status* status), (request, flag, status)) \
  SMELT_MPI_COMPLETING_ONE(X)                                                                          \
  SMELT_MPI_COMPLETING_MANY(X)
#define SMELT_MPI_REQUESTS(X) SMELT_MPI_REQUESTS_OF_3_1(X) SMELT_MPI_LOOKING_AT_MANY(X)

// What the library must get on with while the program calls nothing but collectives of smelt (functions/messages.cpp).
// Documented as: the library's, also with large counts; noted, so that smelt's collectives let the library get on
#define SMELT_MPI_MESSAGES_LIST(X, Suffix, Count)                                                                  \
  X(Isend##Suffix, (SMELT_MPI_SENT(Count), MPI_Request * request), (data, count, type, peer, tag, comm, request))  \
  X(Issend##Suffix, (SMELT_MPI_SENT(Count), MPI_Request * request), (data, count, type, peer, tag, comm, request)) \
  X(Irsend##Suffix, (SMELT_MPI_SENT(Count), MPI_Request * request), (data, count, type, peer, tag, comm, request)) \
  X(Irecv##Suffix, (SMELT_MPI_RECEIVED(Count), MPI_Request * request), (data, count, type, peer, tag, comm, request))
// Documented as: the same, for all collectives from then on
#define SMELT_MPI_MESSAGES_AGAIN_LIST(X, Suffix, Count)                                                                \
  X(Send_init##Suffix, (SMELT_MPI_SENT(Count), MPI_Request * request), (data, count, type, peer, tag, comm, request))  \
  X(Ssend_init##Suffix, (SMELT_MPI_SENT(Count), MPI_Request * request), (data, count, type, peer, tag, comm, request)) \
  X(Rsend_init##Suffix, (SMELT_MPI_SENT(Count), MPI_Request * request), (data, count, type, peer, tag, comm, request)) \
  X(Recv_init##Suffix, (SMELT_MPI_RECEIVED(Count), MPI_Request * request),                                             \
    (data, count, type, peer, tag, comm, request))
// Documented as: the same, for all collectives while there is a window
#define SMELT_MPI_WINDOWS_LIST(X, Suffix, Unit)                                                                  \
  X(Win_create##Suffix, (void* data, MPI_Aint size, Unit unit, MPI_Info info, MPI_Comm comm, MPI_Win* window),   \
    (data, size, unit, info, comm, window))                                                                      \
  X(Win_allocate##Suffix, (MPI_Aint size, Unit unit, MPI_Info info, MPI_Comm comm, void* data, MPI_Win* window), \
    (size, unit, info, comm, data, window))                                                                      \
  X(Win_allocate_shared##Suffix,                                                                                 \
    (MPI_Aint size, Unit unit, MPI_Info info, MPI_Comm comm, void* data, MPI_Win* window),                       \
    (size, unit, info, comm, data, window))
// Documented as: the same
#define SMELT_MPI_DYNAMIC_WINDOWS(X) \
  X(Win_create_dynamic, (MPI_Info info, MPI_Comm comm, MPI_Win * window), (info, comm, window))
// Documented as: the library's; the window is no longer noted
#define SMELT_MPI_WINDOWS_END(X) X(Win_free, (MPI_Win * window), (window))
#define SMELT_MPI_SENT(Count) const void *data, Count count, MPI_Datatype type, int peer, int tag, MPI_Comm comm
#define SMELT_MPI_RECEIVED(Count) void *data, Count count, MPI_Datatype type, int peer, int tag, MPI_Comm comm
#define SMELT_MPI_MESSAGES(X)       \
  SMELT_MPI_MESSAGES_LIST(X, , int) \
  SMELT_MPI_MESSAGES_LIST(X, _c, MPI_Count)
#define SMELT_MPI_MESSAGES_AGAIN(X)       \
  SMELT_MPI_MESSAGES_AGAIN_LIST(X, , int) \
  SMELT_MPI_MESSAGES_AGAIN_LIST(X, _c, MPI_Count)
#define SMELT_MPI_WINDOWS_BEGIN(X)        \
  SMELT_MPI_WINDOWS_LIST(X, , int)        \
  SMELT_MPI_WINDOWS_LIST(X, _c, MPI_Aint) \
  SMELT_MPI_DYNAMIC_WINDOWS(X)
#define SMELT_MPI_UNDER_WAY(X) \
  SMELT_MPI_MESSAGES(X)        \
  SMELT_MPI_MESSAGES_AGAIN(X)  \
  SMELT_MPI_WINDOWS_BEGIN(X)   \
  SMELT_MPI_WINDOWS_END(X)

// What the program may free while a collective still needs it.
// Documented as: deferred while a collective needs the object
#define SMELT_MPI_FREEING(X)                  \
  X(Type_free, (MPI_Datatype * type), (type)) \
  X(Op_free, (MPI_Op * op), (op))             \
  X(Comm_free, (MPI_Comm * comm), (comm))     \
  X(Comm_disconnect, (MPI_Comm * comm), (comm))

// Documented as: smelt releases what it has first
#define SMELT_MPI_ENDING(X) X(Finalize, (), ())

// MPI_T's control variables.
// Documented as: smelt's settings follow the library's variables ([below](#when-it-begins))
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

// What begins MPI. Who calls it tells which library is the program's.
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
  SMELT_MPI_UNDER_WAY(X)    \
  SMELT_MPI_FREEING(X)      \
  SMELT_MPI_ENDING(X)       \
  SMELT_MPI_VARIABLES(X)

// Those of MPI 3.1: a library that lacks one is left alone.
#define SMELT_MPI_REQUIRED(X)                     \
  SMELT_MPI_OF_3_1(SMELT_MPI_FORM_BLOCKING, X)    \
  SMELT_MPI_OF_3_1(SMELT_MPI_FORM_NONBLOCKING, X) \
  SMELT_MPI_LOCAL_LIST(X, , int)                  \
  SMELT_MPI_REQUESTS_OF_3_1(X)                    \
  SMELT_MPI_MESSAGES_LIST(X, , int)               \
  SMELT_MPI_MESSAGES_AGAIN_LIST(X, , int)         \
  SMELT_MPI_WINDOWS_LIST(X, , int)                \
  SMELT_MPI_DYNAMIC_WINDOWS(X)                    \
  SMELT_MPI_WINDOWS_END(X)                        \
  SMELT_MPI_FREEING(X)                            \
  SMELT_MPI_ENDING(X)
