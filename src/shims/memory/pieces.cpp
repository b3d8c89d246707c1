#include "shims/memory/pieces.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "shims/memory/system.hpp"

namespace smelt::shims::memory {
namespace {

struct Mapping {
  std::uintptr_t begin, end;
  char rights[8];
  bool anonymous;
};

/// visit(mapping) for those of /proc/self/maps, until it returns false. Whether the file could be read.
template <class Visit>
bool each_mapping(const Visit& visit) noexcept {
  const int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  char text[8192];
  std::size_t kept = 0;
  for (bool more = true; more;) {
    const ssize_t got = read(file, text + kept, sizeof text - 1 - kept);
    if (got <= 0) break;
    text[kept + static_cast<std::size_t>(got)] = '\0';
    char* line = text;
    for (char* end = nullptr; more && (end = std::strchr(line, '\n')) != nullptr; line = end + 1) {
      Mapping found = {};
      unsigned long begin = 0, behind = 0, inode = 1;
      *end = '\0';
      std::sscanf(line, "%lx-%lx %7s %*x %*s %lu", &begin, &behind, found.rights, &inode);
      found.begin = begin, found.end = behind, found.anonymous = inode == 0;
      more = visit(found);
    }
    kept = std::strlen(line);
    std::memmove(text, line, kept);
  }
  close(file);
  return true;
}

/// Where the last mapping of the range begins; 0 if it is not whole, or not of one kind.
std::uintptr_t last_piece(std::uintptr_t begin, std::uintptr_t end) noexcept {
  std::uintptr_t reached = begin, last = 0;
  char rights[8] = {};
  each_mapping([&](const Mapping& each) {
    if (each.end <= begin) return true;
    if (reached == begin) std::memcpy(rights, each.rights, sizeof rights);
    const bool same = std::strcmp(each.rights, rights) == 0 && rights[3] == 'p' && each.anonymous;
    if (each.begin > reached || !same) return false;
    last = std::max(each.begin, begin);
    reached = each.end;
    return reached < end;
  });
  return reached >= end ? last : 0;
}

/// Piece by piece, since a piece ends where the kernel says so: the longest part that it moves at once. How much was.
std::size_t move(Remap remap, std::uintptr_t from, std::size_t bytes, std::uintptr_t to) noexcept {
  std::size_t moved = 0;
  while (moved < bytes) {
    std::uintptr_t end = 0;
    each_mapping([&](const Mapping& each) {
      if (each.end > from + moved) end = each.end;
      return end == 0;
    });
    const std::size_t part = std::min(end - (from + moved), bytes - moved);
    void* const at = reinterpret_cast<void*>(from + moved);
    if (remap(at, part, part, MREMAP_MAYMOVE | MREMAP_FIXED, reinterpret_cast<void*>(to + moved)) == MAP_FAILED) break;
    moved += part;
  }
  return moved;
}

std::size_t whole_pages(std::size_t bytes) noexcept { return (bytes + page_bytes() - 1) / page_bytes() * page_bytes(); }

}  // namespace

void* remap_pieces(Remap remap, void* address, std::size_t before, std::size_t after, int flags) noexcept {
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  before = whole_pages(before), after = whole_pages(after);
  if (begin % page_bytes() != 0 || after < before) return nullptr;
  const std::uintptr_t last = last_piece(begin, begin + before);
  if (last == 0) return nullptr;
  const std::size_t rest = begin + before - last, grown = rest + (after - before);
  if (remap(reinterpret_cast<void*>(last), rest, grown, 0) != MAP_FAILED) return address;
  if ((flags & MREMAP_MAYMOVE) == 0) return nullptr;
  constexpr int reserved = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  const long place = syscall(SYS_mmap, nullptr, after, PROT_NONE, reserved, -1, 0);
  if (place == -1) return nullptr;
  const auto to = static_cast<std::uintptr_t>(place);
  // The last piece first: it needs more memory than there was.
  auto* const new_last = reinterpret_cast<void*>(to + (last - begin));
  const bool extended =
      remap(reinterpret_cast<void*>(last), rest, grown, MREMAP_MAYMOVE | MREMAP_FIXED, new_last) != MAP_FAILED;
  const std::size_t moved = extended ? move(remap, begin, last - begin, to) : 0;
  if (extended && moved == last - begin) return reinterpret_cast<void*>(to);
  if (extended) remap(new_last, rest, rest, MREMAP_MAYMOVE | MREMAP_FIXED, reinterpret_cast<void*>(last));
  move(remap, to, moved, begin);
  syscall(SYS_munmap, to, after);
  return nullptr;
}

}  // namespace smelt::shims::memory
