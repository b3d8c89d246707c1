#include "base/futex.hpp"

#include <linux/futex.h>
#include <linux/membarrier.h>
#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#endif
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace smelt {
namespace {

static_assert(sizeof(std::atomic<std::uint32_t>) == 4 && std::atomic<std::uint32_t>::is_always_lock_free);

int membarrier(int command) noexcept { return static_cast<int>(syscall(SYS_membarrier, command, 0, 0)); }

// Registering takes the kernel a grace period of RCU, milliseconds, once the process has several threads; before that,
// less than a microsecond.
bool registered_within() noexcept {
  static const bool result = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;
  return result;
}

bool registered_across() noexcept {
  static const bool result = membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0;
  return result;
}

#if __has_include(<sys/single_threaded.h>)
[[gnu::constructor]] void register_while_it_is_cheap() noexcept {
  if (__libc_single_threaded) enable_heavy_barrier(true);
}
#endif

int operation(int what, FutexScope scope) noexcept {
  return scope == FutexScope::threads ? what | FUTEX_PRIVATE_FLAG : what;
}

}  // namespace

void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected, std::uint64_t timeout_ns,
                FutexScope scope) noexcept {
  timespec timeout = {};
  timeout.tv_sec = static_cast<time_t>(timeout_ns / 1'000'000'000);
  timeout.tv_nsec = static_cast<long>(timeout_ns % 1'000'000'000);
  syscall(SYS_futex, reinterpret_cast<const std::uint32_t*>(&word), operation(FUTEX_WAIT, scope), expected,
          timeout_ns == no_timeout ? nullptr : &timeout, nullptr, 0);
}

void futex_wake(const std::atomic<std::uint32_t>& word, FutexScope scope) noexcept {
  syscall(SYS_futex, reinterpret_cast<const std::uint32_t*>(&word), operation(FUTEX_WAKE, scope), INT_MAX, nullptr,
          nullptr, 0);
}

void enable_heavy_barrier(bool across_processes) noexcept {
  registered_within();
  if (across_processes) registered_across();
}

bool heavy_barrier(bool across_processes) noexcept {
  if (across_processes) return registered_across() && membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED) == 0;
  return registered_within() && membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0;
}

}  // namespace smelt
