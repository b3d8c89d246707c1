// Selects a library of this ABI as the one that is served.
#include "shims/mpi/dispatch.hpp"
#include "shims/mpi/original.hpp"
#include "shims/mpi/pending/persistent.hpp"
#include "shims/mpi/pending/progress_hook.hpp"

namespace smelt::shims::mpi::inline SMELT_MPI_ABI {

constinit Original original;

namespace {

template <class Member>
void find(const Library& library, Member& member, const char* name) noexcept {
  member = reinterpret_cast<Member>(library.find(name));
}

void find_all(const Library& library) noexcept {
#define SMELT_MPI_FIND(name, ...) find(library, original.name, "PMPI_" #name);
  SMELT_MPI_SERVED(SMELT_MPI_FIND)
  SMELT_MPI_CALLED(SMELT_MPI_FIND)
  SMELT_MPI_CALLED_IF_THERE(SMELT_MPI_FIND)
#undef SMELT_MPI_FIND
#define SMELT_MPI_FIND(name, ...) find(library, original.X_##name, "PMPIX_" #name);
  SMELT_MPI_PERSISTENT_OF_OLD(SMELT_MPI_FIND)
#undef SMELT_MPI_FIND
}

/// Whether the functions of MPI 3.1 exist.
bool complete() noexcept {
  bool all = true;
#define SMELT_MPI_IS_THERE(name, ...) all = all && original.name != nullptr;
  SMELT_MPI_CALLED(SMELT_MPI_IS_THERE)
  SMELT_MPI_REQUIRED(SMELT_MPI_IS_THERE)
#undef SMELT_MPI_IS_THERE
  return all;
}

#ifdef SMELT_MPI_OPENMPI_HANDLES
/// False: a required symbol is missing. Types and operators may be missing.
bool find_handles(const Library& library) noexcept {
#define SMELT_MPI_HANDLE(kind, name, symbol) \
  name = static_cast<MPI_##kind>(reinterpret_cast<std::uintptr_t>(library.find_used(#symbol)));
  SMELT_MPI_OPENMPI_HANDLES(SMELT_MPI_HANDLE)
#undef SMELT_MPI_HANDLE
  const auto is_there = [](auto... handle) { return ((number_of(handle) != 0) && ...); };
  return is_there(MPI_COMM_NULL, MPI_COMM_WORLD, MPI_COMM_SELF, MPI_GROUP_NULL, MPI_REQUEST_NULL, MPI_ERRORS_RETURN,
                  MPI_DATATYPE_NULL, MPI_OP_NULL, MPI_INT, MPI_CHAR, MPI_BYTE, MPI_MIN);
}
#else
bool find_handles(const Library&) noexcept { return true; }
#endif

bool take(const Library& library, Direct* direct) noexcept {
  find_all(library);
  if (!complete() || !find_handles(library)) return false;
  prepare_following(library);
  if (!follows_openmpi()) mend_waitall();
  direct_by(direct);
  serve_requests(false);
  return true;
}

/// The shim's versions of functions that initially go to the library; serve_requests() redirects them.
constexpr bool of_requests(Function function) noexcept {
#define SMELT_MPI_IS_IT(name, ...) \
  if (function == Function::name) return true;
  SMELT_MPI_REQUESTS(SMELT_MPI_IS_IT)
#undef SMELT_MPI_IS_IT
  return false;
}

void* const serve[functions] = {
#define SMELT_MPI_SERVE(name, ...) of_requests(Function::name) ? nullptr : reinterpret_cast<void*>(serve_##name),
    SMELT_MPI_SERVED(SMELT_MPI_SERVE) SMELT_MPI_BEGINNING(SMELT_MPI_SERVE)
#undef SMELT_MPI_SERVE
#define SMELT_MPI_SERVE(name, ...) reinterpret_cast<void*>(serve_X_##name),
        SMELT_MPI_PERSISTENT_OF_OLD(SMELT_MPI_SERVE)
#undef SMELT_MPI_SERVE
};

}  // namespace

extern const Abi abi;
const Abi abi{take, serve};

}  // namespace smelt::shims::mpi::inline SMELT_MPI_ABI
