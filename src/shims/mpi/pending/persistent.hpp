// Persistent collectives through smelt.
//
// The program's handle is the library's own persistent request, which is never started: what MPI_Start starts is a
// nonblocking operation of smelt (nonblocking_operation.hpp), or the library's, where smelt does not do this one. While
// one of smelt's is under way, its request stands in for the handle in whatever completes requests. Programs without
// persistent collectives pay one jump for that.
#pragma once

#include "shims/mpi/abi.hpp"
#include "shims/mpi/dispatch.hpp"
#include "shims/mpi/pending/nonblocking_operation.hpp"
#include "shims/report.hpp"

namespace smelt::shims::mpi::inline SMELT_MPI_ABI {

struct MpiTeam;

/// Takes over a persistent request that the library has just made on a team that smelt serves. Returns an MPI error
/// code. Throws std::bad_alloc.
int make_persistent(InterceptedFunction& entry, MpiTeam& team, Description describe, MPI_Request* request);

/// MPICH 4.0 ends the program (an assertion) where MPI_Waitall gets null requests beside a generalized one that is not
/// complete. Makes original.Waitall a function that does not. Once, before serve_requests().
void mend_waitall() noexcept;

/// How functions are directed. Once, before serve_requests().
void direct_by(Direct* direct) noexcept;

/// Whether MPI_X and PMPI_X of requests look for persistent collectives or are the library's. `original` is filled.
/// From the first persistent collective on they look.
void serve_requests(bool here) noexcept;

}  // namespace smelt::shims::mpi::inline SMELT_MPI_ABI
