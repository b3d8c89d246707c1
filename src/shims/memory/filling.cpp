#include "shims/memory/filling.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace smelt::shims::memory {
namespace {

#ifdef MADV_POPULATE_WRITE  // of Linux 5.14
constexpr int populate_write = MADV_POPULATE_WRITE;
#else
constexpr int populate_write = 23;
#endif

/// Whole records of a directory, as the kernel writes them.
struct Entry {
  std::uint64_t inode;
  std::int64_t offset;
  unsigned short bytes;
  unsigned char type;
  char name[1];
};

bool is_userfaultfd(int directory, const char* name) noexcept {
  char target[64];
  const ssize_t bytes = readlinkat(directory, name, target, sizeof target);
  constexpr char wanted[] = "anon_inode:[userfaultfd]";
  return bytes >= static_cast<ssize_t>(sizeof wanted - 1) && std::memcmp(target, wanted, sizeof wanted - 1) == 0;
}

}  // namespace

bool has_userfaultfd() noexcept {
  const int directory = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return true;
  bool found = false;
  alignas(Entry) char records[4096];
  for (;;) {
    const long bytes = syscall(SYS_getdents64, directory, records, sizeof records);
    found |= bytes < 0;
    if (bytes <= 0 || found) break;
    for (long at = 0; at < bytes && !found;) {
      const auto* const entry = reinterpret_cast<const Entry*>(records + at);
      found = is_userfaultfd(directory, entry->name);
      at += entry->bytes;
    }
  }
  close(directory);
  return found;
}

bool populate(std::byte* begin, std::byte* end) noexcept {
  return syscall(SYS_madvise, begin, static_cast<std::size_t>(end - begin), populate_write) == 0;
}

void warm_huge_page(std::size_t huge_bytes) noexcept {
  // Address space of its own, with nothing in it in between: a page that is given back is given out next.
  static std::byte* place = nullptr;
  if (place == nullptr) {
    constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    const long mapped = syscall(SYS_mmap, nullptr, 2 * huge_bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (mapped == -1) return;
    const auto address = (static_cast<std::uintptr_t>(mapped) + huge_bytes - 1) / huge_bytes * huge_bytes;
    place = reinterpret_cast<std::byte*>(address);
    syscall(SYS_madvise, place, huge_bytes, MADV_HUGEPAGE);
  }
  if (populate(place, place + huge_bytes)) syscall(SYS_madvise, place, huge_bytes, MADV_DONTNEED);
}

}  // namespace smelt::shims::memory
