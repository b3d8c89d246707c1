// The copy of a runtime that a library is bound to. Wheels bring their own runtimes, so a process may have several. The
// shim is first in the global scope and gets the calls of all libraries. The caller's address does not identify the
// library: a function that ends in `return omp_get_thread_num();` makes a tail call, and code generated at run time is
// in no library. So each library that would have been bound to a copy of its own gets its own entry points: its imports
// are redirected to stubs that pass the number of the copy (thunks.S).
//
//   library A --- stub (1, omp_get_thread_num) --+
//   library B --- stub (2, omp_get_thread_num) --+--> omp_get_thread_num of the shim, which gets 1 or 2
//
// A runtime that was in the process from the start serves all libraries. Its callers are not redirected, but for those
// that were opened with RTLD_DEEPBIND: these find it before they find the shim, and must not, since it has the calling
// thread in a region that the program does not know of.
//
// A library may be inspected before its constructors, or those of its dependencies, have run, as constructors may look
// up functions themselves. So nothing here opens a library; its memory is read instead (../loaded_objects.hpp).
#pragma once

#include <cstdint>

#include "shims/openmp/runtime.hpp"

namespace smelt::shims::openmp {

constexpr int most_copies = 8;     ///< copies with stubs; libraries of further copies are bound to them directly
constexpr int most_entries = 640;  ///< of the shim
constexpr int stub_bytes = 16;

/// Binds the libraries that were loaded since the last call. Cost: small if there are none.
void bind_new_libraries() noexcept;

/// The calling thread opens a library with RTLD_DEEPBIND, whose references the loader binds past the shim.
void expect_library_past_shim() noexcept;

/// Binds what the calling thread opened so. Only its own: the loader may still be at work on what others open.
void bind_libraries_past_shim() noexcept;

/// The main function of the runtime to which the library that contains `inside` would be bound without the shim. This
/// is the runtime of the global scope, `everybodys` (null: none), if it was loaded before the library, otherwise the
/// one that the library brought. Null if there is neither, or no such library, or the library is the shim.
const void* runtime_for(const void* inside, Family family, const void* everybodys) noexcept;

/// Whether a library of the process other than the shim defines a function.
bool somebody_defines(const char* name) noexcept;

/// The stub of copy number `copy` (1 .. most_copies) for the function `name`; null if the shim has no such function.
/// `gnu`: which of the two to take if both runtimes have it.
void* stub_of(int copy, const char* name, bool gnu) noexcept;

}  // namespace smelt::shims::openmp
