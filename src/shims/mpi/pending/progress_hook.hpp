// Being called from inside the library's progress, wherever a rank waits in it: in MPI_Recv, MPI_Wait, MPI_Probe,
// MPI_Win_lock, ...
//
// MPI requires that a collective that has been started gets on while its rank waits for something else, so
// smelt's nonblocking collectives need somebody who calls them there. The libraries have a place for that:
//
// - Open MPI: opal_progress() is what every wait of Open MPI loops over. opal_progress_register() adds a function to
//   it, as the library's own nonblocking collectives do. It is added with the first thing awaited: the library calls
//   it at every turn from then on, which a program that only sends messages would pay for.
// - MPICH (ch4 over UCX): every wait loops over ucp_worker_progress(), which it looks up in libucp: the shim puts a
//   function into MPICH's table of imports that calls libucp's and then `advance`. With MPI_THREAD_MULTIPLE MPICH is in it
//   under its one lock, which no function of it takes twice: then `advance` waits until the thread lets go of that
//   lock, which MPICH does at each turn of its waits (progress_hook.cpp).
//
// Whether it works is tried before anybody relies on it.
#pragma once

#include "shims/mpi/dispatch.hpp"

namespace smelt::shims::mpi::inline SMELT_MPI_ABI {

/// Before the library's first call. Other libraries than these two cannot be followed.
void prepare_following(const Library& library) noexcept;
/// Whether it is one with Open MPI's progress.
bool follows_openmpi() noexcept;

/// Has `advance` called by the library while something is awaited. False, now and always: this library cannot be
/// followed. `advance` may call MPI functions that do not wait; no lock of the library is held. Any thread; after
/// prepare_progress().
bool follow_library(void (*advance)() noexcept) noexcept;

/// Turns of the library's progress without any use after which a thread should let others run.
int turns_in_vain() noexcept;

/// Before MPI is finalized.
void stop_following() noexcept;

/// Each thing awaited counts; while there is none, the library's progress costs a load more than without the shim.
void await_one_more() noexcept;
void await_one_less() noexcept;
bool awaiting() noexcept;

}  // namespace smelt::shims::mpi::inline SMELT_MPI_ABI
