// Other people's allocators for memory_arrays.cpp, opened where they are installed: each as its users get the most of
// it.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cstdlib>
#include <functional>
#include <vector>

namespace peers {

struct Allocator {
  const char* name = "";
  std::function<void*(std::size_t)> allocate{};
  std::function<void(void*, std::size_t)> free{};
};

/// The function of that name, or null.
template <class Function>
Function* find(void* library, const char* name) {
  return reinterpret_cast<Function*>(library != nullptr ? dlsym(library, name) : nullptr);
}

/// Pages of all NUMA nodes in turns.
inline Allocator of_libnuma() {
  void* const library = dlopen("libnuma.so.1", RTLD_NOW | RTLD_LOCAL);
  auto* const available = find<int()>(library, "numa_available");
  auto* const allocate = find<void*(std::size_t)>(library, "numa_alloc_interleaved");
  auto* const free = find<void(void*, std::size_t)>(library, "numa_free");
  if (available == nullptr || allocate == nullptr || free == nullptr || available() < 0) return {};
  return {"libnuma", allocate, free};
}

/// The whole machine's memory, interleaved: hwloc_alloc_membind with HWLOC_MEMBIND_INTERLEAVE.
inline Allocator of_hwloc() {
  void* const library = dlopen("libhwloc.so.15", RTLD_NOW | RTLD_LOCAL);
  auto* const init = find<int(void**)>(library, "hwloc_topology_init");
  auto* const load = find<int(void*)>(library, "hwloc_topology_load");
  auto* const nodes = find<const void*(void*)>(library, "hwloc_topology_get_allowed_nodeset");
  auto* const allocate = find<void*(void*, std::size_t, const void*, int, int)>(library, "hwloc_alloc_membind");
  auto* const free = find<int(void*, void*, std::size_t)>(library, "hwloc_free");
  if (!init || !load || !nodes || !allocate || !free) return {};
  constexpr int interleave = 3, by_nodeset = 1 << 5;  // HWLOC_MEMBIND_INTERLEAVE, HWLOC_MEMBIND_BYNODESET
  void* topology = nullptr;
  if (init(&topology) != 0 || load(topology) != 0) return {};
  return {"hwloc",
          [=](std::size_t bytes) { return allocate(topology, bytes, nodes(topology), interleave, by_nodeset); },
          [=](void* memory, std::size_t bytes) { (void)free(topology, memory, bytes); }};
}

/// MEMKIND_INTERLEAVE.
inline Allocator of_memkind() {
  void* const library = dlopen("libmemkind.so.0", RTLD_NOW | RTLD_LOCAL);
  auto* const kind = find<void*>(library, "MEMKIND_INTERLEAVE");
  auto* const allocate = find<void*(void*, std::size_t)>(library, "memkind_malloc");
  auto* const free = find<void(void*, void*)>(library, "memkind_free");
  if (!kind || !allocate || !free) return {};
  return {"memkind", [=](std::size_t bytes) { return allocate(*kind, bytes); },
          [=](void* memory, std::size_t) { free(*kind, memory); }};
}

/// With large pages allowed (MIMALLOC_ALLOW_LARGE_OS_PAGES=1).
inline Allocator of_mimalloc() {
  setenv("MIMALLOC_ALLOW_LARGE_OS_PAGES", "1", 1);
  void* const library = dlopen("libmimalloc.so.2", RTLD_NOW | RTLD_LOCAL);
  auto* const allocate = find<void*(std::size_t)>(library, "mi_malloc");
  auto* const free = find<void(void*)>(library, "mi_free");
  if (!allocate || !free) return {};
  return {"mimalloc", allocate, [=](void* memory, std::size_t) { free(memory); }};
}

/// With huge pages for everything (MALLOC_CONF=thp:always). Its thread-local memory is reserved when the program
/// starts: GLIBC_TUNABLES=glibc.rtld.optional_static_tls=20000, else it is left out.
inline Allocator of_jemalloc() {
  setenv("MALLOC_CONF", "thp:always", 1);
  void* const library = dlopen("libjemalloc.so.2", RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  auto* const allocate = find<void*(std::size_t, int)>(library, "mallocx");
  auto* const free = find<void(void*, int)>(library, "dallocx");
  if (!allocate || !free) return {};
  return {"jemalloc", [=](std::size_t bytes) { return allocate(bytes, 0); },
          [=](void* memory, std::size_t) { free(memory, 0); }};
}

/// Those that are there.
inline std::vector<Allocator> all() {
  std::vector<Allocator> found;
  for (auto* const make : {of_libnuma, of_hwloc, of_memkind, of_mimalloc, of_jemalloc}) {
    if (auto each = make(); each.allocate) found.push_back(std::move(each));
  }
  return found;
}

}  // namespace peers
