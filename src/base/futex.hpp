// Sleeping on a 32-bit word until somebody changes it (futex(2)), and the process-wide barrier
// (membarrier(2)) that lets the waking side do without one. See docs/explanation/memory-ordering.md.
#pragma once

#include <atomic>
#include <cstdint>

namespace smelt {

constexpr std::uint64_t no_timeout = UINT64_MAX;

/// Who sleeps on a word and who wakes them; all have to say the same. Threads of one process are found by the address
/// alone, processes by the page that they may map anywhere, which takes the kernel longer.
enum class FutexScope : bool { processes, threads };

/// Sleeps while `word` == `expected`, for at most `timeout_ns`; may return early for any reason. Cost: a system call.
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected, std::uint64_t timeout_ns,
                FutexScope scope = FutexScope::processes) noexcept;

/// Wakes everybody who sleeps on `word`. Cost: a system call.
void futex_wake(const std::atomic<std::uint32_t>& word, FutexScope scope = FutexScope::processes) noexcept;

/// Makes this process able to call heavy_barrier() and, `across_processes`, answer that of others. Called before a thread
/// of this process unparks anybody; idempotent, survives fork. Cost: none where the library was loaded before the process
/// had a second thread; else up to 8 ms for each of the two, once: the kernel waits for all processors.
void enable_heavy_barrier(bool across_processes = true) noexcept;

/// A full memory barrier on every running thread of this process and, `across_processes`, of
/// every process that called enable_heavy_barrier(). False where the kernel does not offer it:
/// then the caller must not sleep long on the strength of what it has seen.
bool heavy_barrier(bool across_processes) noexcept;

}  // namespace smelt
