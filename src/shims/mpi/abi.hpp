// MPI as far as the shim knows it, without any library's headers: SMELT_MPI_ABI is one of the three ABIs that the room
// is compiled for, each in a namespace of its own. What is not in the ABI's header is the same in all.
//
// Handles are types of their own, as wide as the ABI's.
#pragma once

#include SMELT_MPI_ABI_HEADER

namespace smelt::shims::mpi::inline SMELT_MPI_ABI {

using MPI_Aint = long;
using MPI_Count = long long;
using MPI_T_enum = struct OpaqueEnum*;
using MPI_T_cvar_handle = struct OpaqueVariable*;

using MPI_User_function = void(void* in, void* inout, int* count, MPI_Datatype* type);
using MPI_Grequest_query_function = int(void* state, MPI_Status* status);
using MPI_Grequest_free_function = int(void* state);
using MPI_Grequest_cancel_function = int(void* state, int complete);
using MPI_Comm_copy_attr_function = int(MPI_Comm comm, int keyval, void* state, void* value, void* copy, int* flag);
using MPI_Comm_delete_attr_function = int(MPI_Comm comm, int keyval, void* value, void* state);
using MPI_Type_copy_attr_function = int(MPI_Datatype type, int keyval, void* state, void* value, void* copy, int* flag);
using MPI_Type_delete_attr_function = int(MPI_Datatype type, int keyval, void* value, void* state);

/// An MPI_X_copy_attr_function: a copy does not get the attribute.
template <class Handle>
int copy_nothing(Handle, int, void*, void*, void*, int* flag) {
  *flag = 0;
  return MPI_SUCCESS;
}

/// A handle as a number.
template <class Handle>
constexpr std::uintptr_t number_of(Handle handle) noexcept {
  return static_cast<std::uintptr_t>(handle);
}

/// The same such that handles that are made one after the other fall into different places of a small table.
template <class Handle>
constexpr std::uintptr_t spread(Handle handle) noexcept {
  return number_of(handle) >> handle_shift;
}

}  // namespace smelt::shims::mpi::inline SMELT_MPI_ABI
