// hwloc, loaded by its first call. It stands in for -lhwloc in `smelt`, of which `smelt run` needs none of it and would
// spend a fifth of its time on loading it and the libraries that it needs in turn; and in the preload library for MPI, as
// programs may bring an hwloc of their own. Has what smelt calls, and no more, as the linker tells.
#include <dlfcn.h>
#include <hwloc.h>

#include <cstdio>
#include <cstdlib>

namespace {

static_assert(HWLOC_API_VERSION >> 16 == 2, "libhwloc.so.15 is hwloc 2");

void* hwloc() {
  static void* const library = dlopen("libhwloc.so.15", RTLD_LAZY | RTLD_LOCAL);
  return library;
}

/// The function of that name in hwloc. The reference to it is there for its type alone.
template <class Function>
Function* later(const char* name, Function&) {
  void* const found = hwloc() != nullptr ? dlsym(hwloc(), name) : nullptr;
  if (found == nullptr) {  // as the dynamic loader would have ended it
    std::fprintf(stderr, "smelt: %s\n", dlerror());
    std::_Exit(127);
  }
  return reinterpret_cast<Function*>(found);
}

}  // namespace

#define SMELT_LATER(function)                              \
  (*[] {                                                   \
    static auto* const found = later(#function, function); \
    return found;                                          \
  }())

extern "C" {

/// Whether there is an hwloc. Without one a program that calls it ends.
[[gnu::visibility("hidden")]] int smelt_hwloc_is_there() { return hwloc() != nullptr ? 1 : 0; }

hwloc_bitmap_t hwloc_bitmap_alloc() { return SMELT_LATER(hwloc_bitmap_alloc)(); }
void hwloc_bitmap_free(hwloc_bitmap_t set) { SMELT_LATER(hwloc_bitmap_free)(set); }
int hwloc_bitmap_isset(hwloc_const_bitmap_t set, unsigned id) { return SMELT_LATER(hwloc_bitmap_isset)(set, id); }
int hwloc_bitmap_next(hwloc_const_bitmap_t set, int before) { return SMELT_LATER(hwloc_bitmap_next)(set, before); }
int hwloc_bitmap_weight(hwloc_const_bitmap_t set) { return SMELT_LATER(hwloc_bitmap_weight)(set); }
int hwloc_cpukinds_get_info(hwloc_topology_t topology, unsigned kind, hwloc_bitmap_t set, int* efficiency,
                            unsigned* infos, hwloc_info_s** info, unsigned long flags) {
  return SMELT_LATER(hwloc_cpukinds_get_info)(topology, kind, set, efficiency, infos, info, flags);
}
int hwloc_cpukinds_get_nr(hwloc_topology_t topology, unsigned long flags) {
  return SMELT_LATER(hwloc_cpukinds_get_nr)(topology, flags);
}
hwloc_obj_t hwloc_get_obj_by_depth(hwloc_topology_t topology, int depth, unsigned index) {
  return SMELT_LATER(hwloc_get_obj_by_depth)(topology, depth, index);
}
int hwloc_get_type_depth(hwloc_topology_t topology, hwloc_obj_type_t type) {
  return SMELT_LATER(hwloc_get_type_depth)(topology, type);
}
void hwloc_topology_destroy(hwloc_topology_t topology) { SMELT_LATER(hwloc_topology_destroy)(topology); }
int hwloc_topology_init(hwloc_topology_t* topology) { return SMELT_LATER(hwloc_topology_init)(topology); }
int hwloc_topology_is_thissystem(hwloc_topology_t topology) {
  return SMELT_LATER(hwloc_topology_is_thissystem)(topology);
}
int hwloc_topology_load(hwloc_topology_t topology) { return SMELT_LATER(hwloc_topology_load)(topology); }
int hwloc_topology_set_flags(hwloc_topology_t topology, unsigned long flags) {
  return SMELT_LATER(hwloc_topology_set_flags)(topology, flags);
}

}  // extern "C"
