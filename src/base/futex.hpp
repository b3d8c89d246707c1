// Sleeping on a 32-bit word until somebody changes it (futex(2)), and the process-wide barrier
// (membarrier(2)) that lets the waking side do without one. See docs/memory-ordering.md.
#pragma once

#include <atomic>
#include <cstdint>

namespace smelt {

constexpr std::uint64_t no_timeout = UINT64_MAX;

/// Sleeps while `word` == `expected`, for at most `timeout_ns`; may return early for any reason.
/// Works between processes that map the word at different addresses. Cost: a system call.
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected, std::uint64_t timeout_ns) noexcept;

/// Wakes everybody who sleeps on `word`. Cost: a system call.
void futex_wake(const std::atomic<std::uint32_t>& word) noexcept;

/// Makes this process answer heavy_barrier() of others and able to call it. Called before a
/// thread of this process unparks anybody; idempotent, survives fork. Cost: a system call, once.
void enable_heavy_barrier() noexcept;

/// A full memory barrier on every running thread of this process and, `across_processes`, of
/// every process that called enable_heavy_barrier(). False where the kernel does not offer it:
/// then the caller must not sleep long on the strength of what it has seen.
bool heavy_barrier(bool across_processes) noexcept;

}  // namespace smelt
