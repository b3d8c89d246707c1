// What the system offers and forbids, read without the heap: this code runs inside of the program's malloc.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

namespace smelt::shims::memory {

#ifdef MADV_COLLAPSE  // of Linux 6.1
constexpr int collapse = MADV_COLLAPSE;
#else
constexpr int collapse = 25;
#endif

/// Size of a small page: 4 KiB on x86-64, 4, 16 or 64 KiB on AArch64.
inline std::size_t page_bytes() noexcept { return static_cast<std::size_t>(getpagesize()); }

/// What `smelt run --memory=...` asks for (SMELT_MEMORY).
enum class Mode { off, automatic, interleave, local, huge };

struct System {
  Mode mode = Mode::off;
  bool asks_for_huge = false;  ///< huge pages are there and have to be asked for (THP "madvise")
  std::size_t huge_bytes = 0;  ///< size of a huge page
  const char* why_not = "";    ///< it does not ask for huge pages
  int nodes = 1;               ///< NUMA nodes with memory that this process may use
  unsigned long node_mask[16] = {};
  std::uintptr_t heap_begin = 0;  ///< where the program break began; 0 if unknown
};

/// Read once, by the first caller. Cost then: some small files.
const System& system() noexcept;

/// Bytes that the process's cgroups still grant (memory.max and memory.high of v2, memory.limit_in_bytes of v1),
/// 1 PiB or more without a limit. Below `enough` it is exact; above, what the kernel keeps of files counts as used, and
/// it may be a lower bound by what the last look found, up to 0.1 s ago. Cost: that of a clock; of a look, three small
/// files per directory, and a larger one where less than `enough` is left.
std::size_t memory_left(std::size_t enough) noexcept;

/// Thousandths of a PU that the process's cgroups grant it (cpu.max, v2) as they were when first asked, INT64_MAX
/// without a limit.
std::int64_t granted_millipus() noexcept;

/// Reads a file into `text`, zero-terminated; bytes read, 0 if it cannot be read.
std::size_t read_file(const char* name, char* text, std::size_t size) noexcept;

}  // namespace smelt::shims::memory
