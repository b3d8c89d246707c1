// Sleeping on a 32-bit word until another thread changes it (futex(2)), and the process-wide memory barrier
// (membarrier(2)) that spares the waking side a barrier of its own. See docs/explanation/memory-ordering.md.
#pragma once

#include <atomic>
#include <cstdint>

namespace smelt {

constexpr std::uint64_t no_timeout = UINT64_MAX;

/// Whether sleepers and wakers of a word are threads of one process. All must use the same value. Within a process the
/// kernel identifies the word by its address, else by its page, which takes longer.
enum class FutexScope : bool { processes, threads };

/// Sleeps while `word` == `expected`, for at most `timeout_ns`; may return early for any reason. Cost: a system call.
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected, std::uint64_t timeout_ns,
                FutexScope scope = FutexScope::processes) noexcept;

/// Wakes all sleepers of `word`. Cost: a system call.
void futex_wake(const std::atomic<std::uint32_t>& word, FutexScope scope = FutexScope::processes) noexcept;

/// Registers this process for heavy_barrier(): its own and, `across_processes`, those of other processes. Must be
/// called before a thread of this process calls unpark(). Idempotent; survives fork. Cost: none if the library was
/// loaded before the process had a second thread; else up to 8 ms for each of the two, once, as the kernel waits for
/// all processors, and more than a second where these are busy.
void enable_heavy_barrier(bool across_processes = true) noexcept;

/// A full memory barrier on every running thread of this process and, `across_processes`, of
/// every process that called enable_heavy_barrier(). False if the kernel does not support it; then the caller must
/// limit its sleep, as it may miss a wake-up.
bool heavy_barrier(bool across_processes) noexcept;

}  // namespace smelt
