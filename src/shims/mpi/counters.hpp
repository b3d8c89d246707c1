// What is counted of each function that is served: one InterceptedFunction for all ABIs, as a process uses one MPI.
#pragma once

#include "shims/mpi/registry.hpp"
#include "shims/report.hpp"

namespace smelt::shims::mpi {

#define SMELT_MPI_COUNTED(name, ...) extern constinit InterceptedFunction entry_##name;
SMELT_MPI_BLOCKING(SMELT_MPI_COUNTED)
SMELT_MPI_LOCAL(SMELT_MPI_COUNTED)
SMELT_MPI_NONBLOCKING(SMELT_MPI_COUNTED)
SMELT_MPI_PERSISTENT(SMELT_MPI_COUNTED)
#undef SMELT_MPI_COUNTED
#define SMELT_MPI_COUNTED(name, ...) extern constinit InterceptedFunction entry_X_##name;
SMELT_MPI_PERSISTENT_OF_OLD(SMELT_MPI_COUNTED)
#undef SMELT_MPI_COUNTED

}  // namespace smelt::shims::mpi
