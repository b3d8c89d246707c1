// The definition that a symbol has without the shim.
#pragma once

#include <dlfcn.h>

namespace smelt::shims {

/// The next definition of `name` after the library that this code is in, or null. With `version`: that version of
/// it, where there are several ("GLIBC_2.34"), else the default one. Cost: a look-up by name; keep the result.
template <class Function>
Function* next_definition(const char* name, const char* version = nullptr) noexcept {
  void* found = version != nullptr ? dlvsym(RTLD_NEXT, name, version) : nullptr;
  if (found == nullptr) found = dlsym(RTLD_NEXT, name);
  return reinterpret_cast<Function*>(found);
}

}  // namespace smelt::shims
