// What allocates and gives back memory: malloc and its relatives, and mmap. Every call goes to the original, and its
// result to the program as it is; of large ones the watcher is told.
#include <dlfcn.h>
#include <link.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <type_traits>

#include "shims/kept_state.hpp"
#include "shims/memory/pieces.hpp"
#include "shims/memory/system.hpp"
#include "shims/memory/watcher.hpp"
#include "shims/next.hpp"

namespace smelt::shims::memory {
namespace {

struct Originals {
  std::atomic<void* (*)(std::size_t)> malloc{nullptr};
  std::atomic<void*(*)(std::size_t, std::size_t)> calloc{nullptr}, memalign{nullptr}, aligned_alloc{nullptr};
  std::atomic<void* (*)(void*, std::size_t)> realloc{nullptr};
  std::atomic<void (*)(void*)> free{nullptr};
  std::atomic<int (*)(void**, std::size_t, std::size_t)> posix_memalign{nullptr};
  std::atomic<void* (*)(void*, std::size_t, int, int, int, off_t)> mmap{nullptr};
  std::atomic<int (*)(void*, std::size_t)> munmap{nullptr};
  std::atomic<void* (*)(void*, std::size_t, std::size_t, int, ...)> mremap{nullptr};
  std::atomic<int (*)(void*, std::size_t, int)> mprotect{nullptr}, madvise{nullptr};
  std::atomic<int (*)(void*, std::size_t, int, int)> pkey_mprotect{nullptr};
  std::atomic<int (*)(int)> unshare{nullptr};
  std::atomic<int (*)(int, int)> setns{nullptr};
};
constinit Originals originals;

/// Look-ups that succeed do not allocate. Relaxed: all threads find the same.
template <class Function>
Function original(std::atomic<Function>& kept, const char* name) noexcept {
  Function found = kept.load(std::memory_order_relaxed);
  if (found == nullptr) [[unlikely]] {
    found = next_definition<std::remove_pointer_t<Function>>(name);
    kept.store(found, std::memory_order_relaxed);
  }
  return found;
}

#define SMELT_ORIGINAL(name) original(originals.name, #name)

#ifndef MREMAP_DONTUNMAP  // of Linux 5.7
#define MREMAP_DONTUNMAP 4
#endif

/// Fresh, private, anonymous, writable memory with nothing special about it.
bool is_plain(int protection, int flags) noexcept {
  constexpr int special =
      MAP_NORESERVE | MAP_FIXED | MAP_FIXED_NOREPLACE | MAP_GROWSDOWN | MAP_STACK | MAP_HUGETLB | MAP_LOCKED;
  return (flags & (MAP_PRIVATE | MAP_ANONYMOUS)) == (MAP_PRIVATE | MAP_ANONYMOUS) && (flags & special) == 0 &&
         (protection & (PROT_READ | PROT_WRITE)) == (PROT_READ | PROT_WRITE) && (protection & PROT_EXEC) == 0;
}

/// The object that defines the function at this address. Null if it is but a stub: programs at fixed addresses that
/// take the address of a function have one under its name.
void* object_of(void* function) noexcept {
  Dl_info found = {};
  void* entry = nullptr;
  if (function == nullptr || dladdr1(function, &found, &entry, RTLD_DL_SYMENT) == 0) return nullptr;
  const auto* const symbol = static_cast<const ElfW(Sym)*>(entry);
  return symbol != nullptr && symbol->st_shndx == SHN_UNDEF ? nullptr : found.dli_fbase;
}

/// Whether the program's allocations come here, as far as the functions are not stubs.
bool serves_program() noexcept {
  const void* const own = object_of(reinterpret_cast<void*>(&is_plain));
  bool known = false;
  for (const char* name : {"malloc", "calloc", "realloc", "memalign", "aligned_alloc", "posix_memalign"}) {
    const void* const object = object_of(dlsym(RTLD_DEFAULT, name));
    if (object != nullptr && object != own) return false;
    known |= object != nullptr;
  }
  return known;
}

/// Whether malloc is the C library's. Other allocators manage their pages themselves: nothing is to be changed then,
/// not of their mappings either.
bool own_allocator() noexcept {
  static constinit std::atomic<int> known{0};  // 1: yes, 2: no
  int value = known.load(std::memory_order_relaxed);
  if (value != 0) return value == 1;
  const void* const next = object_of(dlsym(RTLD_NEXT, "malloc"));
  const bool of_libc = next != nullptr && next == object_of(dlsym(RTLD_NEXT, "gnu_get_libc_version"));
  value = of_libc && serves_program() ? 1 : 2;
  known.store(value, std::memory_order_relaxed);
  return value == 1;
}

/// Look-ups end what dlerror would say, and wait for a thread that is in dlopen: all of them are made at the start.
[[gnu::constructor(101)]] void look_up() noexcept {
  SMELT_ORIGINAL(malloc), SMELT_ORIGINAL(calloc), SMELT_ORIGINAL(realloc), SMELT_ORIGINAL(free);
  SMELT_ORIGINAL(memalign), SMELT_ORIGINAL(aligned_alloc), SMELT_ORIGINAL(posix_memalign);
  SMELT_ORIGINAL(mmap), SMELT_ORIGINAL(munmap), SMELT_ORIGINAL(mremap), SMELT_ORIGINAL(mprotect);
  SMELT_ORIGINAL(madvise), SMELT_ORIGINAL(pkey_mprotect), SMELT_ORIGINAL(unshare), SMELT_ORIGINAL(setns);
  own_allocator();
}

void* with_watcher(void* memory, std::size_t bytes, bool refused = false) noexcept {
  if (bytes >= least_bytes && memory != nullptr && own_allocator()) added(memory, bytes, refused);
  return memory;
}

/// Small allocations of this thread since the heaps were looked at last.
[[gnu::tls_model("initial-exec")]] constinit thread_local std::size_t bytes_in_heaps = 0;

void* counted(void* memory, std::size_t bytes) noexcept {
  bytes_in_heaps += bytes;
  if (bytes_in_heaps < least_bytes) [[likely]]
    return memory;
  bytes_in_heaps = 0;
  if (memory != nullptr && own_allocator()) grown(memory);
  return memory;
}

}  // namespace
}  // namespace smelt::shims::memory

using namespace smelt::shims::memory;

#define SMELT_PUBLIC extern "C" [[gnu::visibility("default")]]

SMELT_PUBLIC void* malloc(std::size_t bytes) noexcept {
  const auto next = SMELT_ORIGINAL(malloc);
  void* const memory = next(bytes);
  return bytes < least_bytes ? counted(memory, bytes) : with_watcher(memory, bytes);
}

SMELT_PUBLIC void* calloc(std::size_t count, std::size_t bytes) noexcept {
  const auto next = SMELT_ORIGINAL(calloc);
  void* const memory = next(count, bytes);
  std::size_t all = 0;
  if (__builtin_mul_overflow(count, bytes, &all)) return memory;
  return all < least_bytes ? counted(memory, all) : with_watcher(memory, all);
}

SMELT_PUBLIC void* realloc(void* memory, std::size_t bytes) noexcept {
  const auto next = SMELT_ORIGINAL(realloc);
  const bool refused = moves(memory);
  void* const moved = next(memory, bytes);
  return bytes < least_bytes ? counted(moved, bytes) : with_watcher(moved, bytes, refused);
}

SMELT_PUBLIC void free(void* memory) noexcept {
  const auto next = SMELT_ORIGINAL(free);
  removed(memory);
  next(memory);
}

SMELT_PUBLIC void* memalign(std::size_t alignment, std::size_t bytes) noexcept {
  const auto next = SMELT_ORIGINAL(memalign);
  return with_watcher(next(alignment, bytes), bytes);
}

SMELT_PUBLIC void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  const auto next = SMELT_ORIGINAL(aligned_alloc);
  return with_watcher(next(alignment, bytes), bytes);
}

SMELT_PUBLIC int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) noexcept {
  const auto next = SMELT_ORIGINAL(posix_memalign);
  const int result = next(memory, alignment, bytes);
  if (result == 0) with_watcher(*memory, bytes);
  return result;
}

SMELT_PUBLIC void* mmap(void* address, std::size_t bytes, int protection, int flags, int file, off_t offset) noexcept {
  const auto next = SMELT_ORIGINAL(mmap);
  // What is mapped over is no longer what it was.
  if ((flags & MAP_FIXED) != 0) removed(address, bytes);
  void* const memory = next(address, bytes, protection, flags, file, offset);
  if (memory == MAP_FAILED || bytes < least_bytes || !is_plain(protection, flags)) return memory;
  return with_watcher(memory, bytes);
}

SMELT_PUBLIC void* mmap64(void* address, std::size_t bytes, int protection, int flags, int file,
                          off_t offset) noexcept {
  return mmap(address, bytes, protection, flags, file, offset);
}

SMELT_PUBLIC int munmap(void* address, std::size_t bytes) noexcept {
  const auto next = SMELT_ORIGINAL(munmap);
  removed(address, bytes);
  return next(address, bytes);
}

SMELT_PUBLIC void* mremap(void* address, std::size_t before, std::size_t after, int flags, ...) noexcept {
  const auto next = SMELT_ORIGINAL(mremap);
  va_list rest;
  va_start(rest, flags);
  void* const target = (flags & (MREMAP_FIXED | MREMAP_DONTUNMAP)) != 0 ? va_arg(rest, void*) : nullptr;
  va_end(rest);
  removed(address, before);
  if ((flags & MREMAP_FIXED) != 0) removed(target, after);
  const int error = errno;
  void* const moved = next(address, before, after, flags, target);
  if (moved != MAP_FAILED || errno != EFAULT || flags > MREMAP_MAYMOVE || !has_divided()) return moved;
  smelt::shims::KeptState kept;
  void* const in_pieces = remap_pieces(next, address, before, after, flags);
  if (in_pieces == nullptr) return moved;
  kept.set_errno(error);
  return in_pieces;
}

SMELT_PUBLIC int mprotect(void* address, std::size_t bytes, int protection) noexcept {
  const auto next = SMELT_ORIGINAL(mprotect);
  removed(address, bytes);
  return next(address, bytes, protection);
}

SMELT_PUBLIC int madvise(void* address, std::size_t bytes, int advice) noexcept {
  const auto next = SMELT_ORIGINAL(madvise);
  // The program knows better.
  removed(address, bytes);
  const int error = errno;
  const int result = next(address, bytes, advice);
  if (result == 0 || errno != EINVAL || advice != collapse || !has_divided()) return result;
  // Memory that the library has taken back from huge pages: the kernel does not make it them now, unless asked again.
  if (next(address, bytes, MADV_HUGEPAGE) != 0) {
    errno = EINVAL;
    return result;
  }
  errno = error;
  const int again = next(address, bytes, advice);
  const smelt::shims::KeptState kept;
  next(address, bytes, MADV_NOHUGEPAGE);
  return again;
}

SMELT_PUBLIC int pkey_mprotect(void* address, std::size_t bytes, int protection, int key) noexcept {
  const auto next = SMELT_ORIGINAL(pkey_mprotect);
  removed(address, bytes);
  if (next != nullptr) return next(address, bytes, protection, key);
  errno = ENOSYS;
  return -1;
}

// The kernel refuses these to processes of several threads: the library's is not to be the second one.
SMELT_PUBLIC int unshare(int flags) noexcept {
  const auto next = SMELT_ORIGINAL(unshare);
  if ((flags & (CLONE_NEWUSER | CLONE_THREAD | CLONE_SIGHAND | CLONE_VM)) != 0) pause_watching();
  return next(flags);
}

SMELT_PUBLIC int setns(int file, int kind) noexcept {
  const auto next = SMELT_ORIGINAL(setns);
  pause_watching();
  return next(file, kind);
}
