// Datatypes and operators of the program that collectives under way still need.
//
// MPI lets a program free them as soon as the collective has been started. While any is needed the shim's
// MPI_Type_free and MPI_Op_free put off what the library's would do.
#pragma once

namespace smelt::shims::mpi {

/// One more, or one less, collective that needs the program's handles. Any thread, also inside of the library's progress.
void hold_handles() noexcept;
void release_handles() noexcept;

/// Frees what was put off. Outside of the library's progress, when nothing is needed any more.
void free_held() noexcept;

}  // namespace smelt::shims::mpi
