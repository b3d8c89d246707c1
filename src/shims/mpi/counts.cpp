#include "shims/mpi/counts.hpp"

#include "shims/mpi/dispatch.hpp"
#include "shims/mpi/known.hpp"

namespace smelt::shims::mpi {

inline namespace mpich {
extern const Abi abi;
}
inline namespace openmpi {
extern const Abi abi;
}
inline namespace standard {
extern const Abi abi;
}

constinit thread_local Known known_team[known_teams] = {};
constinit thread_local Known known_type[known_types] = {};

namespace {

constexpr const char* untimed = "as it passes beside the program's own work and in whichever calls complete it";

}  // namespace

#define SMELT_MPI_COUNTED(name, parameters, arguments) constinit Entry entry_##name{"mpi", "MPI_" #name};
SMELT_MPI_BLOCKING(SMELT_MPI_COUNTED)
#undef SMELT_MPI_COUNTED
#define SMELT_MPI_COUNTED(name, parameters, arguments) constinit Entry entry_##name{"mpi", "MPI_" #name, untimed};
SMELT_MPI_NONBLOCKING(SMELT_MPI_COUNTED)
SMELT_MPI_PERSISTENT(SMELT_MPI_COUNTED)
#undef SMELT_MPI_COUNTED
#define SMELT_MPI_COUNTED(name, parameters, arguments) constinit Entry entry_X_##name{"mpi", "MPIX_" #name, untimed};
SMELT_MPI_PERSISTENT_OF_OLD(SMELT_MPI_COUNTED)
#undef SMELT_MPI_COUNTED

}  // namespace smelt::shims::mpi

extern "C" {
using namespace smelt::shims::mpi;
[[gnu::visibility("default")]] extern const Abis smelt_mpi_abis;
const Abis smelt_mpi_abis{&mpich::abi, &openmpi::abi, &standard::abi};
}
