#include "shims/memory/counters.hpp"

#include <fcntl.h>
#include <linux/perf_event.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "shims/report.hpp"

namespace smelt::shims::memory {
namespace {

constexpr int least_file = 500;  ///< programs may expect their files to have the smallest numbers

struct Counter {
  int file = -1;
  int error = 0;      ///< errno of what failed; 0: it was never tried
  pid_t process = 0;  ///< that opened it
};
constinit Counter load_misses = {};

Counter open_counter() noexcept {
  perf_event_attr wanted = {};
  wanted.type = PERF_TYPE_HW_CACHE;
  wanted.size = sizeof wanted;
  wanted.config = PERF_COUNT_HW_CACHE_DTLB | PERF_COUNT_HW_CACHE_OP_READ << 8 | PERF_COUNT_HW_CACHE_RESULT_MISS << 16;
  wanted.inherit = 1;
  wanted.exclude_kernel = wanted.exclude_hv = 1;
  Counter counter = {.process = getpid()};
  const auto opened =
      static_cast<int>(syscall(SYS_perf_event_open, &wanted, 0, -1, -1, std::uint64_t{PERF_FLAG_FD_CLOEXEC}));
  if (opened < 0) {
    counter.error = errno;
    return counter;
  }
  counter.file = fcntl(opened, F_DUPFD_CLOEXEC, least_file);
  if (counter.file >= 0) {
    close(opened);
  } else {
    counter.file = opened;
  }
  return counter;
}

/// After report.cpp has found out whether anything is to be reported.
[[gnu::constructor(103)]] void start_counting() noexcept {
  if (!verbose()) return;
  const int kept = errno;
  load_misses = open_counter();
  errno = kept;
}

/// Whether the counter could be read. Not a file that the program has opened since under that number.
bool read_counter(const Counter& counter, std::uint64_t* count) noexcept {
  char target[64], name[64];
  std::snprintf(name, sizeof name, "/proc/self/fd/%d", counter.file);
  const ssize_t bytes = readlink(name, target, sizeof target);
  constexpr char wanted[] = "anon_inode:[perf_event]";
  if (bytes < static_cast<ssize_t>(sizeof wanted - 1) || std::memcmp(target, wanted, sizeof wanted - 1) != 0)
    return false;
  return read(counter.file, count, sizeof *count) == sizeof *count;
}

}  // namespace

void print_counters(std::FILE* to) noexcept {
  std::uint64_t misses = 0;
  if (load_misses.file >= 0 && load_misses.process == getpid() && read_counter(load_misses, &misses)) {
    std::fprintf(to, "  dTLB misses of loads: %llu\n", static_cast<unsigned long long>(misses));
  } else if (load_misses.error != 0) {
    std::fprintf(to, "  dTLB misses cannot be counted here: perf_event_open: %s\n", std::strerror(load_misses.error));
  } else if (load_misses.process != 0 && load_misses.process != getpid()) {
    std::fprintf(to, "  dTLB misses are counted in process %d, which has forked this one\n",
                 static_cast<int>(load_misses.process));
  } else {
    std::fprintf(to, "  dTLB misses: the program has closed the counter\n");
  }
  rusage used = {};
  if (getrusage(RUSAGE_SELF, &used) == 0) std::fprintf(to, "  page faults: %ld\n", used.ru_minflt + used.ru_majflt);
}

}  // namespace smelt::shims::memory
