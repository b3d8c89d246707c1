// Which copy of a runtime a library is bound to. Wheels bring runtimes of their own, so a process may have several, and
// the shim, being first in the global scope, gets the calls of all libraries. The address of the caller does not tell
// whose call it is: a function that ends in `return omp_get_thread_num();` jumps, and code made at run time is in no
// library. So each library that would have been bound to a copy of its own gets entries of its own: its imports are
// made to point to stubs that name the copy (thunks.S).
//
//   library A --- stub (1, omp_get_thread_num) --+
//   library B --- stub (2, omp_get_thread_num) --+--> omp_get_thread_num of the shim, which is told 1 or 2
//
// A runtime that was in the process from the start serves all libraries. Its callers are left as they are.
//
// A library may be looked at while its constructors, or those of what it needs, have still to run, as they may look
// functions up themselves. So nothing here opens it: its memory is read (../loaded_objects.hpp).
#pragma once

#include <cstdint>

#include "shims/openmp/runtime.hpp"

namespace smelt::shims::openmp {

constexpr int most_copies = 8;       ///< with stubs; the libraries of further ones are bound to them directly
constexpr int most_entries = 640;    ///< of the shim
constexpr int stub_bytes = 16;

/// Binds the libraries that were loaded since the last call. Cost: a short look if there are none.
void bind_new_libraries() noexcept;

/// The main function of the runtime to which the library that contains `inside` would be bound without the shim: that of
/// the global scope, `everybodys` (null: it has none), if it was there before the library, else the one that the library
/// brought. Null: there is neither, or no such library, or it is the shim.
const void* runtime_for(const void* inside, Family family, const void* everybodys) noexcept;

/// Whether a library of the process defines a function, other than the shim.
bool somebody_defines(const char* name) noexcept;

/// The stub of copy number `copy` (1 .. most_copies) for the function `name`; null: the shim has none of that name.
/// `gnu`: whose of the two, if both runtimes have it.
void* stub_of(int copy, const char* name, bool gnu) noexcept;

}  // namespace smelt::shims::openmp
