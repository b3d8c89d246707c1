#include "shims/memory/spare.hpp"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "shims/memory/system.hpp"

namespace smelt::shims::memory {
namespace {

constexpr std::int64_t least_interval_ns = 1'000'000;

/// PUs that the calling thread may run on.
int allowed_pus() noexcept {
  unsigned long mask[128] = {};
  const long bytes = syscall(SYS_sched_getaffinity, 0, sizeof mask, mask);
  int count = 0;
  for (long i = 0; i < bytes / static_cast<long>(sizeof mask[0]); ++i) count += __builtin_popcountl(mask[i]);
  return count > 0 ? count : 1;
}

/// Threads of the whole machine that run or are ready to, the calling one among them; 0 if that cannot be known.
long ready_threads() noexcept {
  char text[128];
  if (read_file("/proc/loadavg", text, sizeof text) == 0) return 0;
  // "0.20 0.18 0.12 1/80 11206"
  const char* at = text;
  for (int word = 0; word < 3 && at != nullptr; ++word) {
    at = std::strchr(at, ' ');
    if (at != nullptr) ++at;
  }
  return at != nullptr ? std::strtol(at, nullptr, 10) : 0;
}

}  // namespace

std::int64_t time_of(int clock) noexcept {
  timespec now = {};
  clock_gettime(clock, &now);
  return now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
}

bool SparePus::any() noexcept {
  const std::int64_t wall_ns = time_of(CLOCK_MONOTONIC);
  // The program's own: without what this thread has used.
  const std::int64_t used_ns = time_of(CLOCK_PROCESS_CPUTIME_ID) - time_of(CLOCK_THREAD_CPUTIME_ID);
  const std::int64_t interval = wall_ns - wall_ns_;
  if (interval >= least_interval_ns) {
    const std::int64_t granted = std::min<std::int64_t>(std::int64_t{1000} * allowed_pus(), granted_millipus());
    if (wall_ns_ != 0)
      program_leaves_one_ = (used_ns - used_ns_) * 1000 <= (granted - 500) * interval;
    else
      program_leaves_one_ = granted >= 2000;
    wall_ns_ = wall_ns;
    used_ns_ = used_ns;
  }
  return program_leaves_one_ && ready_threads() <= sysconf(_SC_NPROCESSORS_ONLN);
}

}  // namespace smelt::shims::memory
