// Datatypes and operators of the program that collectives under way still need.
//
// MPI lets a program free them as soon as the collective has been started, or prepared. While they are needed the
// shim's MPI_Type_free and MPI_Op_free put off what the library's would do: all of them while a collective is under way
// that needs any, as that is soon over; those of persistent collectives one by one.
#pragma once


#include <vector>

#include "shims/mpi/abi.hpp"

namespace smelt::shims::mpi::inline SMELT_MPI_ABI {

/// What a persistent collective needs as long as it exists.
struct RetainedHandles {
  std::vector<MPI_Datatype> types;
  MPI_Op op = MPI_OP_NULL;
};
/// Throws std::bad_alloc.
void retain_handles(const RetainedHandles& handles);
void release_handles(const RetainedHandles& handles) noexcept;

/// One more, or one less, collective under way that needs the program's handles, whichever. Any thread, also inside of
/// the library's progress.
void hold_handles() noexcept;
void release_handles() noexcept;

/// Frees what was put off and is not needed any more. Outside of the library's progress.
void free_held() noexcept;

}  // namespace smelt::shims::mpi::inline SMELT_MPI_ABI
