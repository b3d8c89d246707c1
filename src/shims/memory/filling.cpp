#include "shims/memory/filling.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "shims/memory/spare.hpp"

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

std::int64_t timed_populate(std::byte* begin, std::byte* end) noexcept {
  const std::int64_t before = time_of(CLOCK_THREAD_CPUTIME_ID);
  return populate(begin, end) ? std::max<std::int64_t>(1, time_of(CLOCK_THREAD_CPUTIME_ID) - before) : 0;
}

std::int64_t timed_populate_on(int node, std::byte* begin, std::byte* end) noexcept {
  int mode = -1;
  constexpr int most_nodes = 1024, word = sizeof(unsigned long) * CHAR_BIT;
  if (node < 0 || node >= most_nodes || syscall(SYS_get_mempolicy, &mode, nullptr, 0ul, nullptr, 0ul) != 0 ||
      mode != MPOL_DEFAULT)
    return 0;
  unsigned long mask[most_nodes / word] = {};
  mask[node / word] = 1ul << node % word;
  if (syscall(SYS_set_mempolicy, MPOL_PREFERRED, mask, most_nodes + 1ul) != 0) return 0;
  const std::int64_t ns = timed_populate(begin, end);
  syscall(SYS_set_mempolicy, MPOL_DEFAULT, nullptr, 0ul);
  return ns;
}

int node_of(std::byte* begin, std::byte* end, std::size_t huge_bytes) noexcept {
  constexpr int most = 32;
  void* pages[most];
  int nodes[most], count = 0;
  for (std::byte* at = begin; at < end && count < most; at += huge_bytes) pages[count++] = at;
  if (count == 0 || syscall(SYS_move_pages, 0, static_cast<unsigned long>(count), pages, nullptr, nodes, 0) != 0)
    return -1;
  for (int i = 0; i < count; ++i) {
    if (nodes[i] != nodes[0]) return -1;
  }
  return std::max(nodes[0], -1);  // what is not there has a negative error in its place
}

namespace {

/// Memory of this file alone, aligned to huge pages, that holds none in between: a page that is given back is given out
/// next. Null if there is none.
std::byte* scratch(std::size_t huge_bytes) noexcept {
  static std::byte* place = nullptr;
  if (place == nullptr) {
    constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    const long mapped = syscall(SYS_mmap, nullptr, 3 * huge_bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (mapped == -1) return nullptr;
    const auto address = (static_cast<std::uintptr_t>(mapped) + huge_bytes - 1) / huge_bytes * huge_bytes;
    place = reinterpret_cast<std::byte*>(address);
    syscall(SYS_madvise, place, 2 * huge_bytes, MADV_HUGEPAGE);
  }
  return place;
}

}  // namespace

std::int64_t warm_huge_page(std::size_t huge_bytes) noexcept {
  std::byte* const place = scratch(huge_bytes);
  if (place == nullptr) return 0;
  const std::int64_t ns = timed_populate(place, place + huge_bytes);
  if (ns != 0) syscall(SYS_madvise, place, huge_bytes, MADV_DONTNEED);
  return ns;
}

std::int64_t huge_page_ns(std::size_t huge_bytes) noexcept {
  std::byte* const place = scratch(huge_bytes);
  if (place == nullptr) return 0;
  const std::int64_t first = timed_populate(place, place + huge_bytes);
  const std::int64_t second = timed_populate(place + huge_bytes, place + 2 * huge_bytes);
  syscall(SYS_madvise, place, 2 * huge_bytes, MADV_DONTNEED);
  return std::max(first, second);
}

std::int64_t small_pages_ns(std::size_t huge_bytes) noexcept {
  constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  const long mapped = syscall(SYS_mmap, nullptr, huge_bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (mapped == -1) return 0;
  auto* const place = reinterpret_cast<std::byte*>(mapped);
  syscall(SYS_madvise, place, huge_bytes, MADV_NOHUGEPAGE);
  const std::int64_t ns = timed_populate(place, place + huge_bytes);
  syscall(SYS_munmap, place, huge_bytes);
  return ns;
}

}  // namespace smelt::shims::memory
