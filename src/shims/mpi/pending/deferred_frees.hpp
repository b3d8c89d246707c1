// Deferred frees of datatypes and operators that pending collectives still need.
//
// MPI allows a program to free them as soon as the collective was started or initialized. The shim's MPI_Type_free and
// MPI_Op_free defer the free: of any handle while a nonblocking collective that needs some is pending, and of the
// handles of a persistent collective while that exists.
#pragma once

#include <vector>

#include "shims/mpi/abi.hpp"

namespace smelt::shims::mpi::inline SMELT_MPI_ABI {

/// The handles that a persistent collective needs.
struct RetainedHandles {
  std::vector<MPI_Datatype> types;
  MPI_Op op = MPI_OP_NULL;
};
/// Throws std::bad_alloc.
void retain_handles(const RetainedHandles& handles);
void release_handles(const RetainedHandles& handles) noexcept;

/// Counts the pending collectives that need handles of the program. Any thread may call them, also within the library's
/// progress.
void hold_handles() noexcept;
void release_handles() noexcept;

/// Frees deferred handles that are not needed any more. Must not be called within the library's progress.
void free_held() noexcept;

}  // namespace smelt::shims::mpi::inline SMELT_MPI_ABI
