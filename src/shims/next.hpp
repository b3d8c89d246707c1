// The definition that a symbol would have without the shim.
#pragma once

#include <dlfcn.h>
#include <link.h>

namespace smelt::shims {

/// The next definition of `name` after the library that this code is in, or null. With `version`: that version of
/// it, where there are several ("GLIBC_2.34"), else the default one. Cost: a look-up by name; keep the result.
template <class Function>
Function* next_definition(const char* name, const char* version = nullptr) noexcept {
  void* found = version != nullptr ? dlvsym(RTLD_NEXT, name, version) : nullptr;
  if (found == nullptr) found = dlsym(RTLD_NEXT, name);
  return reinterpret_cast<Function*>(found);
}

/// The same for a call from `caller`, an address in the calling code: where the global scope has none, the definition
/// in the library that the caller is in and in those that it brought, which may have been loaded out of everybody's
/// sight (RTLD_LOCAL). Null: there is none either, or the caller is in no library.
template <class Function>
Function* next_definition_for(const void* caller, const char* name) noexcept {
  if (auto* const found = next_definition<Function>(name)) return found;
  Dl_info info = {};
  link_map* map = nullptr;
  if (dladdr1(caller, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0 || map == nullptr) return nullptr;
  void* const library = dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  void* const found = dlsym(library, name);
  dlclose(library);
  // The scope of the program itself begins with what is preloaded.
  Dl_info there = {}, here = {};
  const bool shim = found != nullptr && dladdr(found, &there) != 0 &&
                    dladdr(reinterpret_cast<void*>(&next_definition_for<Function>), &here) != 0 &&
                    there.dli_fbase == here.dli_fbase;
  return shim ? nullptr : reinterpret_cast<Function*>(found);
}

}  // namespace smelt::shims
