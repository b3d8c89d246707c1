// Collectives of several machines: smelt on each, the library between their leaders.
#pragma once

#include "shims/mpi/task.hpp"
#include "shims/mpi/team.hpp"

namespace smelt::shims::mpi {

/// Whether the operation can be done that way at a sensible cost; the same on all ranks.
bool spans_machines(const Team& team, const Task& task) noexcept;

/// Runs it. Returns an MPI error code; MPI_ERR_OTHER after smelt has failed, whose status is then in *status.
int run_across(Team& team, Task& task, int* status) noexcept;

}  // namespace smelt::shims::mpi
