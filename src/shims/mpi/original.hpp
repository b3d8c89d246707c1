// The MPI library underneath, and tools above.
//
// The shim defines MPI_X and PMPI_X of every function it takes over (dispatch.cpp):
//
//   program ── MPI_X ──► [tools] ── PMPI_X ──► shim ──► smelt, or the library's PMPI_X
//
// so a PMPI tool is above it wherever it was loaded (MPI_X of the shim hands the call to a tool that was loaded
// later), and Fortran is served, whose wrappers call PMPI_X (Open MPI) or MPI_X (MPICH). All that the shim itself calls
// of the library it calls through `original`.
#pragma once

#include "shims/mpi/abi.hpp"
#include "shims/mpi/registry.hpp"

namespace smelt::shims::mpi::inline SMELT_MPI_ABI {

// What the shim calls and does not take over. Those of MPI 3.1, and a newer one that may be missing.
#define SMELT_MPI_CALLED(X)                                                                                    \
  X(Abort, (MPI_Comm, int))                                                                                    \
  X(Cancel, (MPI_Request*))                                                                                    \
  X(Comm_call_errhandler, (MPI_Comm, int))                                                                     \
  X(Error_class, (int code, int* error_class))                                                                 \
  X(Comm_create, (MPI_Comm, MPI_Group, MPI_Comm*))                                                             \
  X(Comm_create_group, (MPI_Comm, MPI_Group, int tag, MPI_Comm*))                                              \
  X(Comm_create_keyval, (MPI_Comm_copy_attr_function*, MPI_Comm_delete_attr_function*, int*, void*))           \
  X(Comm_delete_attr, (MPI_Comm, int))                                                                         \
  X(Comm_free_keyval, (int*))                                                                                  \
  X(Comm_group, (MPI_Comm, MPI_Group*))                                                                        \
  X(Comm_rank, (MPI_Comm, int*))                                                                               \
  X(Comm_set_attr, (MPI_Comm, int keyval, void*))                                                              \
  X(Comm_set_errhandler, (MPI_Comm, MPI_Errhandler))                                                           \
  X(Comm_size, (MPI_Comm, int*))                                                                               \
  X(Comm_split, (MPI_Comm, int color, int key, MPI_Comm*))                                                     \
  X(Comm_test_inter, (MPI_Comm, int*))                                                                         \
  X(Finalized, (int*))                                                                                         \
  X(Get_address, (const void*, MPI_Aint*))                                                                     \
  X(Grequest_complete, (MPI_Request))                                                                          \
  X(Grequest_start, (MPI_Grequest_query_function*, MPI_Grequest_free_function*, MPI_Grequest_cancel_function*, \
                     void* state, MPI_Request*))                                                               \
  X(Group_free, (MPI_Group*))                                                                                  \
  X(Group_translate_ranks, (MPI_Group, int n, const int* ranks, MPI_Group, int* translated))                   \
  X(Init, (int*, char***))                                                                                     \
  X(Init_thread, (int*, char***, int required, int* provided))                                                 \
  X(Initialized, (int*))                                                                                       \
  X(Op_commutative, (MPI_Op, int*))                                                                            \
  X(Op_create, (MPI_User_function*, int commute, MPI_Op*))                                                     \
  X(Pack, (const void*, int count, MPI_Datatype, void* to, int room, int* position, MPI_Comm))                 \
  X(Query_thread, (int*))                                                                                      \
  X(Recv, (void*, int count, MPI_Datatype, int source, int tag, MPI_Comm, MPI_Status*))                        \
  X(Send, (const void*, int count, MPI_Datatype, int target, int tag, MPI_Comm))                               \
  X(Status_set_cancelled, (MPI_Status*, int))                                                                  \
  X(Status_set_elements, (MPI_Status*, MPI_Datatype, int))                                                     \
  X(Type_commit, (MPI_Datatype*))                                                                              \
  X(Type_contiguous, (int count, MPI_Datatype, MPI_Datatype*))                                                 \
  X(Type_create_hindexed_block, (int count, int length, const MPI_Aint* offsets, MPI_Datatype, MPI_Datatype*)) \
  X(Type_create_keyval, (MPI_Type_copy_attr_function*, MPI_Type_delete_attr_function*, int*, void*))           \
  X(Type_free_keyval, (int*))                                                                                  \
  X(Type_get_attr, (MPI_Datatype, int keyval, void* value, int* flag))                                         \
  X(Type_get_contents, (MPI_Datatype, int integers, int addresses, int types, int* the_integers,               \
                        MPI_Aint* the_addresses, MPI_Datatype* the_types))                                     \
  X(Type_get_envelope, (MPI_Datatype, int* integers, int* addresses, int* types, int* combiner))               \
  X(Type_get_extent, (MPI_Datatype, MPI_Aint * lower, MPI_Aint * extent))                                      \
  X(Type_get_true_extent, (MPI_Datatype, MPI_Aint * lower, MPI_Aint * extent))                                 \
  X(Type_set_attr, (MPI_Datatype, int keyval, void*))                                                          \
  X(Type_size, (MPI_Datatype, int*))                                                                           \
  X(Type_size_x, (MPI_Datatype, MPI_Count*))                                                                   \
  X(Unpack, (const void*, int size, int* position, void* to, int count, MPI_Datatype, MPI_Comm))
#define SMELT_MPI_CALLED_IF_THERE(X) \
  X(Type_get_envelope_c,             \
    (MPI_Datatype, MPI_Count * integers, MPI_Count * addresses, MPI_Count * counts, MPI_Count * types, int* combiner))

/// Functions of MPI. Of `original` those of MPI 3.1 are there once the shim serves a library (take.cpp).
struct Original {
#define SMELT_MPI_MEMBER(name, parameters, ...) int(*name) parameters = nullptr;
  SMELT_MPI_SERVED(SMELT_MPI_MEMBER)
  SMELT_MPI_CALLED(SMELT_MPI_MEMBER)
  SMELT_MPI_CALLED_IF_THERE(SMELT_MPI_MEMBER)
#undef SMELT_MPI_MEMBER
#define SMELT_MPI_MEMBER(name, parameters, ...) int(*X_##name) parameters = nullptr;
  SMELT_MPI_PERSISTENT_OF_OLD(SMELT_MPI_MEMBER)
#undef SMELT_MPI_MEMBER
};

/// The library's.
extern Original original;

// What the shim has in place of each.
#define SMELT_MPI_DECLARE(name, parameters, ...) int serve_##name parameters;
SMELT_MPI_SERVED(SMELT_MPI_DECLARE)
SMELT_MPI_BEGINNING(SMELT_MPI_DECLARE)
#undef SMELT_MPI_DECLARE
#define SMELT_MPI_DECLARE(name, parameters, ...) int serve_X_##name parameters;
SMELT_MPI_PERSISTENT_OF_OLD(SMELT_MPI_DECLARE)
#undef SMELT_MPI_DECLARE

}  // namespace smelt::shims::mpi::inline SMELT_MPI_ABI
