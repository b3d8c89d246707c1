// Which MPI library the program uses, and where each of its calls goes.
//
// The shim depends on no MPI library. Each entry point jumps through a slot:
//
//   MPI_X, PMPI_X ──► slot ──┬─► until the library is known: look for it (dispatch.cpp), then on as below
//                            ├─► what serves the function for the library's ABI (entry.cpp, ...)
//                            └─► the library's own function, or a tool's
//
// Programs without MPI shall not pay: the library that is preloaded, libsmelt_mpi.so, is this file's alone. What serves
// functions is in libsmelt_mpi_serve.so beside it, which is loaded once a library is found whose ABI is known.
//
// The library is what the calls of the program would reach without the shim: in the global scope, or among the
// libraries that the caller came with (dlopen with RTLD_LOCAL). What ABI it has its symbols say (recognise() in
// dispatch.cpp).
#pragma once

#include <dlfcn.h>

#include "shims/loaded_objects.hpp"
#include "shims/mpi/registry.hpp"

namespace smelt::shims::mpi {

/// The functions with entry points; X_Bcast_init is MPIX_Bcast_init.
enum class Function : unsigned {
#define SMELT_MPI_FUNCTION(name, ...) name,
  SMELT_MPI_SERVED(SMELT_MPI_FUNCTION) SMELT_MPI_BEGINNING(SMELT_MPI_FUNCTION)
#undef SMELT_MPI_FUNCTION
#define SMELT_MPI_FUNCTION(name, ...) X_##name,
      SMELT_MPI_PERSISTENT_OF_OLD(SMELT_MPI_FUNCTION)
#undef SMELT_MPI_FUNCTION
          number
};
inline constexpr unsigned functions = static_cast<unsigned>(Function::number);

/// An MPI library that is loaded. It stays loaded.
struct Library {
  LoadedObject object;
  void* handle = nullptr;

  explicit operator bool() const noexcept { return handle != nullptr; }
  /// What it, or a library that it needs, defines; null if nothing is there.
  void* find(const char* name) const noexcept { return dlsym(handle, name); }
  /// What the library itself uses under that name: the program may have a copy (of data), or define it as well.
  void* find_used(const char* name) const noexcept {
    void* const global = dlsym(RTLD_DEFAULT, name);
    return global != nullptr ? global : find(name);
  }
};

/// Has MPI_X and PMPI_X jump to `to` from now on; MPI_X still to a tool where there is one.
using Direct = void(Function function, void* to) noexcept;

/// An ABI that the shim knows.
struct Abi {
  /// Makes the library the one that is served. False: it lacks functions of MPI 3.1.
  bool (*take)(const Library& library, Direct* direct) noexcept;
  /// By Function: what serves it, or null for what is the library's until direct() says otherwise.
  void* const* serve;
};

/// What libsmelt_mpi_serve.so shows, as smelt_mpi_abis.
struct Abis {
  const Abi *mpich, *openmpi, *standard;
};

}  // namespace smelt::shims::mpi
