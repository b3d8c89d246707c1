#include "graph/storage/pages.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>

#include "base/error.hpp"

namespace smelt::graph {
namespace {

constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;
constexpr double checked_from_bytes = 256.0 * (1u << 20);
constexpr std::size_t most_bytes = std::size_t{1} << 46;

std::size_t page_bytes() noexcept {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

std::size_t up_to(std::size_t bytes, std::size_t unit) noexcept { return (bytes + unit - 1) / unit * unit; }

/// Memory that is available without swapping; empty if unknown.
std::optional<std::size_t> available_bytes() noexcept {
  std::FILE* file = std::fopen("/proc/meminfo", "re");
  if (file == nullptr) return std::nullopt;
  std::optional<std::size_t> bytes;
  char line[128];
  unsigned long long kib = 0;
  while (!bytes && std::fgets(line, sizeof line, file) != nullptr) {
    if (std::sscanf(line, "MemAvailable: %llu kB", &kib) == 1) bytes = static_cast<std::size_t>(kib) << 10;
  }
  std::fclose(file);
  return bytes;
}

Error no_memory(std::size_t size_bytes, const char* why) {
  return make_error(Status::out_of_memory, "{:.1f} GiB of memory for an array of the graph: {}",
                    static_cast<double>(size_bytes) / (1u << 30), why);
}

}  // namespace

bool fits_into_memory(double size_bytes) noexcept {
  if (size_bytes < checked_from_bytes) return true;
  const auto available = available_bytes();
  return !available || size_bytes <= static_cast<double>(*available);
}

Result<Pages> Pages::allocate(std::size_t size_bytes, Use use) {
  if (size_bytes == 0) return Pages();
  if (size_bytes > most_bytes) return no_memory(size_bytes, "more than 64 TiB");
  // The kernel overcommits memory and kills the process later if it runs out.
  if (!fits_into_memory(static_cast<double>(size_bytes))) {
    return no_memory(size_bytes, "the machine has less than that available");
  }
  const bool huge = use == Use::lasting && size_bytes >= huge_from_bytes;
  const std::size_t unit = huge ? huge_page_bytes : page_bytes();
  const std::size_t mapped = up_to(size_bytes, unit) + (huge ? huge_page_bytes : 0);
  void* address = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) return no_memory(size_bytes, std::strerror(errno));
  if (!huge) return Pages(static_cast<std::byte*>(address), mapped);
  // Aligned to huge pages; the rest is unmapped.
  auto* first = static_cast<std::byte*>(address);
  auto* aligned = reinterpret_cast<std::byte*>(up_to(reinterpret_cast<std::uintptr_t>(first), huge_page_bytes));
  const auto before = static_cast<std::size_t>(aligned - first);
  if (before > 0) munmap(first, before);
  if (before < huge_page_bytes) munmap(aligned + mapped - huge_page_bytes, huge_page_bytes - before);
  madvise(aligned, mapped - huge_page_bytes, MADV_HUGEPAGE);  // optional: if refused, the pages are small
  return Pages(aligned, mapped - huge_page_bytes);
}

Result<Pages> Pages::map(int fd, std::size_t size_bytes) {
  if (size_bytes == 0) return Pages();
  void* address = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, fd, 0);
  if (address == MAP_FAILED) return make_error(Status::io_error, "cannot be mapped: {}", std::strerror(errno));
  return Pages(static_cast<std::byte*>(address), size_bytes);
}

void Pages::discard(std::size_t first, std::size_t last) noexcept {
  first = up_to(first, page_bytes());
  last = last / page_bytes() * page_bytes();
  if (first < last) madvise(data_ + first, last - first, MADV_DONTNEED);
}

void Pages::release() noexcept {
  if (data_ != nullptr) munmap(data_, size_bytes_);
}

}  // namespace smelt::graph
