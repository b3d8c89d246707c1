// What the tests of the MPI shim share: the library's own functions, and checks that name the rank.
#pragma once

#include <dlfcn.h>
#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

/// What makes a persistent collective: the library's own name of it.
#if defined(OPEN_MPI) && OMPI_MAJOR_VERSION < 5
#include <mpi-ext.h>
#define INIT(name) MPIX_##name##_init
#else
#define INIT(name) MPI_##name##_init
#endif

namespace shim_test {

/// The library's function itself: the shim stands before PMPI_X, too.
inline void* library_symbol(const char* name) {
  static void* const library = [] {
    Dl_info where = {};
    dladdr(reinterpret_cast<const void*>(&PMPI_Send), &where);
    // The executable may hold the address of its own stub: then the loader is asked.
    void* real = dlsym(RTLD_DEFAULT, "PMPI_Send");
    dladdr(real, &where);
    return dlopen(where.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  }();
  return dlsym(library, name);
}

template <class Function>
Function* plain(Function*, const char* name) {
  return reinterpret_cast<Function*>(library_symbol(name));
}
/// The plain library's MPI_X.
#define PLAIN(name) (::shim_test::plain(&PMPI_##name, "PMPI_" #name))

inline int world_rank() {
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

inline int size_of(MPI_Comm comm) {
  int size = 0;
  PMPI_Comm_size(comm, &size);
  return size;
}

[[noreturn]] inline void fail(const std::string& what) {
  std::fprintf(stderr, "rank %d: %s\n", world_rank(), what.c_str());
  std::fflush(stderr);
  PMPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

inline void require(bool holds, const std::string& what) {
  if (!holds) fail(what);
}

/// Associative, not commutative: (a, b) stands for x -> a x + b, on 32-bit numbers that wrap.
inline void compose(void* in, void* inout, int* count, MPI_Datatype*) {
  auto* f = static_cast<std::uint32_t*>(in);
  auto* g = static_cast<std::uint32_t*>(inout);
  for (int i = 0; i < *count; ++i, f += 2, g += 2) {
    g[1] = g[0] * f[1] + g[1];
    g[0] = g[0] * f[0];
  }
}

}  // namespace shim_test
