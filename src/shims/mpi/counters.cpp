#include "shims/mpi/counters.hpp"

#include "shims/mpi/calls/lookup_cache.hpp"
#include "shims/mpi/dispatch.hpp"

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

constinit thread_local LookupCacheEntry cached_teams[team_cache_size] = {};
constinit thread_local LookupCacheEntry cached_types[type_cache_size] = {};

namespace {

constexpr const char* untimed = "as it passes beside the program's own work and in whichever calls complete it";

}  // namespace

#define SMELT_MPI_COUNTED(name, ...) constinit InterceptedFunction entry_##name{"mpi", "MPI_" #name};
SMELT_MPI_BLOCKING(SMELT_MPI_COUNTED)
SMELT_MPI_LOCAL(SMELT_MPI_COUNTED)
#undef SMELT_MPI_COUNTED
#define SMELT_MPI_COUNTED(name, ...) constinit InterceptedFunction entry_##name{"mpi", "MPI_" #name, untimed};
SMELT_MPI_NONBLOCKING(SMELT_MPI_COUNTED)
SMELT_MPI_PERSISTENT(SMELT_MPI_COUNTED)
#undef SMELT_MPI_COUNTED
#define SMELT_MPI_COUNTED(name, ...) constinit InterceptedFunction entry_X_##name{"mpi", "MPIX_" #name, untimed};
SMELT_MPI_PERSISTENT_OF_OLD(SMELT_MPI_COUNTED)
#undef SMELT_MPI_COUNTED

}  // namespace smelt::shims::mpi

extern "C" {
using namespace smelt::shims::mpi;
[[gnu::visibility("default")]] extern const Abis smelt_mpi_abis;
const Abis smelt_mpi_abis{&mpich::abi, &openmpi::abi, &standard::abi};
}
