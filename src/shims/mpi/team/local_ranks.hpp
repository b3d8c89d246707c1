// Whether all ranks of this machine have the preload library: one that lacks it does not take part in an agreement, and
// the others would wait for it for ever. It is found out without a message of MPI, which such a rank would have to
// answer: before MPI_Init, each rank with the library counts itself in memory that those of its job share.
//
//   launcher ──┬── rank 0  LD_PRELOAD       the first to come: holds the memory, and listens to a name of the job
//              ├── rank 1  LD_PRELOAD       finds the holder's pid by that name, and the memory among its files
//              └── rank 2  a static program
//
// The first rank that asks decides by the count, for all: MPI_Init waits for the other ranks as a rule, so all that
// will count themselves have. Where a rank cannot count itself, the others find it missing. Nothing is left behind: the
// name and the memory are gone with the descriptors.
#pragma once

namespace smelt::shims::mpi {

/// The job's ranks on this machine, as its launcher tells them: that of Open MPI, of MPICH and Intel MPI, of MVAPICH,
/// or Slurm's. 0: it does not.
int local_ranks() noexcept;

/// Before MPI is initialized: counts this process.
void join_local_ranks() noexcept;

/// Whether as many as local_ranks() have joined. The same answer on all of them, at any time. Requires that they are of
/// one job on one machine, and local_ranks() > 0.
bool all_local_ranks_joined() noexcept;

/// Lets go of what later ranks would need. Before MPI is finalized.
void leave_local_ranks() noexcept;

}  // namespace smelt::shims::mpi
