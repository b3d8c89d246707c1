#include "shims/memory/system.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "shims/memory/left.hpp"
#include "shims/memory/spare.hpp"

namespace smelt::shims::memory {
namespace {

constexpr char v2_mount[] = "/sys/fs/cgroup", v1_memory_mount[] = "/sys/fs/cgroup/memory";

void find_mode(System& found) noexcept {
  const char* const value = std::getenv("SMELT_MEMORY");
  const auto is = [value](const char* word) { return std::strcmp(value, word) == 0; };
  if (value == nullptr || *value == '\0' || is("auto")) {
    found.mode = Mode::automatic;
  } else if (is("interleave")) {
    found.mode = Mode::interleave;
  } else if (is("local")) {
    found.mode = Mode::local;
  } else if (is("huge")) {
    found.mode = Mode::huge;
  } else {
    found.mode = Mode::off;
    found.why_not = is("off") ? "SMELT_MEMORY=off" : "SMELT_MEMORY is none of auto, interleave, local, huge, off";
  }
}

void find_huge_pages(System& found) noexcept {
  constexpr std::size_t usual_bytes = std::size_t{2} << 20;
  char text[128];
  if (read_file("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", text, sizeof text) > 0) {
    found.huge_bytes = std::strtoul(text, nullptr, 10);
  }
  if (read_file("/sys/kernel/mm/transparent_hugepage/enabled", text, sizeof text) == 0 || found.huge_bytes == 0) {
    found.why_not = "the kernel has no transparent huge pages";
    found.huge_bytes = usual_bytes;
  } else if (found.huge_bytes > usual_bytes && found.mode == Mode::automatic) {
    // With small pages of 16 or 64 KiB it is 32 or 512 MiB: a few, or one alone, are more than may be lost.
    found.why_not = "a huge page has more than 2 MiB";
    found.huge_bytes = usual_bytes;
  } else if (std::strstr(text, "[always]") != nullptr) {
    found.why_not = "all memory gets huge pages already";
  } else if (std::strstr(text, "[madvise]") == nullptr) {
    found.why_not = "transparent huge pages are switched off";
  } else if (found.mode == Mode::local || found.mode == Mode::interleave) {
    found.why_not = "SMELT_MEMORY asks for placement alone";
  } else {
    found.asks_for_huge = true;
  }
}

/// "0-3,8" after Mems_allowed_list, as bits.
void find_nodes(System& found) noexcept {
  static char text[8192];
  if (read_file("/proc/self/status", text, sizeof text) == 0) return;
  const char* at = std::strstr(text, "Mems_allowed_list:");
  if (at == nullptr) return;
  at += std::strcspn(at, "0123456789");
  found.nodes = 0;
  while (*at >= '0' && *at <= '9') {
    char* end = nullptr;
    const unsigned long first = std::strtoul(at, &end, 10);
    unsigned long last = first;
    if (*end == '-') last = std::strtoul(end + 1, &end, 10);
    constexpr unsigned long most = sizeof found.node_mask * CHAR_BIT;
    for (unsigned long node = first; node <= last && node < most; ++node) {
      // Nodes that are not there are in the list, too.
      char name[64];
      std::snprintf(name, sizeof name, "/sys/devices/system/node/node%lu/cpulist", node);
      char pus[64] = {};
      if (read_file(name, pus, sizeof pus) == 0 || pus[0] == '\n') continue;
      constexpr unsigned long word = sizeof(unsigned long) * CHAR_BIT;
      found.node_mask[node / word] |= 1ul << node % word;
      ++found.nodes;
    }
    at = *end == ',' ? end + 1 : end;
  }
  if (found.nodes == 0) found.nodes = 1;
}

/// start_brk, the 47th word of /proc/self/stat; the second one, in parentheses, may have spaces.
std::uintptr_t find_heap() noexcept {
  static char text[1024];
  if (read_file("/proc/self/stat", text, sizeof text) == 0) return 0;
  const char* at = std::strrchr(text, ')');
  for (int word = 2; at != nullptr && word < 47; ++word) {
    at = std::strchr(at, ' ');
    if (at != nullptr) ++at;
  }
  return at != nullptr ? std::strtoull(at, nullptr, 10) : 0;
}

System find() noexcept {
  System found;
  find_mode(found);
  if (found.mode == Mode::off) return found;
  find_huge_pages(found);
  find_nodes(found);
  found.heap_begin = find_heap();
  return found;
}

/// This runs on the program's stacks, some of which are small.
constexpr std::size_t longest_directory = 1024, longest_name = longest_directory + 32;

/// A hierarchy of control groups, and the process's own directory in it, "" without one.
struct Hierarchy {
  const char* mount;
  char directory[longest_directory];
};

/// `line` precedes the group's path in /proc/self/cgroup.
void find_group(Hierarchy& hierarchy, const char* line) noexcept {
  char text[4 * longest_directory];
  if (read_file("/proc/self/cgroup", text, sizeof text) == 0) return;
  char* const path = std::strstr(text, line);
  if (path == nullptr) return;
  path[std::strcspn(path, "\n")] = '\0';
  const int length = std::snprintf(hierarchy.directory, sizeof hierarchy.directory, "%s%s", hierarchy.mount,
                                   path + std::strlen(line) - 1);
  if (length >= static_cast<int>(sizeof hierarchy.directory)) hierarchy.directory[0] = '\0';
}

const Hierarchy& v2_hierarchy() noexcept {
  static Hierarchy hierarchy = {v2_mount, {}};
  static const bool found = (find_group(hierarchy, "0::/"), true);
  (void)found;
  return hierarchy;
}

const Hierarchy& v1_memory_hierarchy() noexcept {
  static Hierarchy hierarchy = {v1_memory_mount, {}};
  static const bool found = (find_group(hierarchy, ":memory:/"), true);
  (void)found;
  return hierarchy;
}

std::size_t bytes_in(const char* directory, const char* file, std::size_t otherwise) noexcept {
  char name[longest_name], text[64];
  std::snprintf(name, sizeof name, "%s/%s", directory, file);
  if (read_file(name, text, sizeof text) == 0 || text[0] < '0' || text[0] > '9') return otherwise;
  return std::strtoul(text, nullptr, 10);
}

/// Bytes of files that the kernel keeps for a group, and gives up when the group needs memory. `prefix` precedes the
/// names in memory.stat.
std::size_t file_cache(const char* directory, const char* prefix) noexcept {
  char name[longest_name], text[2560];
  std::snprintf(name, sizeof name, "%s/memory.stat", directory);
  if (read_file(name, text, sizeof text) == 0) return 0;
  std::size_t bytes = 0;
  for (const char* kind : {"inactive_file ", "active_file "}) {
    char key[32];
    std::snprintf(key, sizeof key, "%s%s", prefix, kind);
    const char* const at = std::strstr(text, key);
    if (at != nullptr) bytes += std::strtoul(at + std::strlen(key), nullptr, 10);
  }
  return bytes;
}

/// The process's group and all above it.
template <class Function>
void for_each_group(const Hierarchy& hierarchy, const Function& look) noexcept {
  char directory[longest_directory];
  std::snprintf(directory, sizeof directory, "%s", hierarchy.directory);
  while (std::strlen(directory) >= std::strlen(hierarchy.mount)) {
    look(directory);
    char* const slash = std::strrchr(directory, '/');
    if (slash == nullptr) break;
    *slash = '\0';
  }
}

/// Looks into the files.
std::size_t look_at_limits(std::size_t enough) noexcept {
  std::size_t least = SIZE_MAX;
  const auto take = [&](const char* directory, std::size_t limit, const char* used_file, const char* prefix) {
    if (limit == SIZE_MAX) return;
    std::size_t used = bytes_in(directory, used_file, 0);
    if (used > limit || limit - used < enough) used -= std::min(used, file_cache(directory, prefix));
    least = std::min(least, limit > used ? limit - used : 0);
  };
  for_each_group(v2_hierarchy(), [&take](const char* directory) {
    const std::size_t most = bytes_in(directory, "memory.max", SIZE_MAX);
    take(directory, std::min(most, bytes_in(directory, "memory.high", SIZE_MAX)), "memory.current", "\n");
  });
  for_each_group(v1_memory_hierarchy(), [&take](const char* directory) {
    take(directory, bytes_in(directory, "memory.limit_in_bytes", SIZE_MAX), "memory.usage_in_bytes", "\ntotal_");
  });
  return least;
}

}  // namespace

std::size_t read_file(const char* name, char* text, std::size_t size) noexcept {
  const int file = open(name, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const ssize_t bytes = read(file, text, size - 1);
  close(file);
  const std::size_t got = bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
  text[got] = '\0';
  return got;
}

const System& system() noexcept {
  static const System found = find();
  return found;
}

std::size_t memory_left(std::size_t enough) noexcept {
  static constinit LeftLater known;
  const std::int64_t now = time_of(CLOCK_MONOTONIC);
  if (const std::size_t left = known.at_least(now); left >= enough) return left;
  const std::size_t left = look_at_limits(enough);
  known.note(left, now);
  return left;
}

std::int64_t granted_millipus() noexcept {
  static const std::int64_t granted = [] {
    std::int64_t least = INT64_MAX;
    for_each_group(v2_hierarchy(), [&least](const char* directory) {
      // "QUOTA PERIOD" in microseconds, or "max PERIOD".
      char name[longest_name], text[64];
      std::snprintf(name, sizeof name, "%s/cpu.max", directory);
      if (read_file(name, text, sizeof text) == 0 || text[0] < '0' || text[0] > '9') return;
      char* end = nullptr;
      const long quota = std::strtol(text, &end, 10), period = std::strtol(end, nullptr, 10);
      if (period > 0) least = std::min<std::int64_t>(least, std::int64_t{quota} * 1000 / period);
    });
    return least;
  }();
  return granted;
}

}  // namespace smelt::shims::memory
