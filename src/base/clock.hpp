// The cycle counter: cheap time stamps, comparable between PUs where the counter is invariant.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace smelt {

/// Ticks of the cycle counter (TSC on x86-64, the virtual counter on AArch64). Reading waits
/// until earlier loads have completed, so that a stamp after a receive is not taken before it.
inline std::uint64_t ticks() noexcept {
#if defined(__x86_64__)
  unsigned aux;
  return __rdtscp(&aux);
#elif defined(__aarch64__)
  std::uint64_t value;
  asm volatile("isb; mrs %0, cntvct_el0" : "=r"(value) : : "memory");
  return value;
#else
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

/// Ticks per nanosecond, calibrated once against the system's monotonic clock (a few ms).
double ticks_per_ns();

/// The same to about a percent, for bounds of waiting; calibrated once within 0.1 ms.
double rough_ticks_per_ns();

/// The date and time, as files have them: "2026-11-29T10:42:00Z".
std::string utc_now();

/// The step in ticks by which the counter advances, found out once; 1 where it is too small to matter.
double clock_step();

/// The step of the counter that `now` reads, from 512 intervals between two readings that follow each other.
double step_of_clock(std::uint64_t (*now)() noexcept);

/// The step of a counter of which short intervals are given: the least one, if the others are multiples of it and not
/// all are alike; otherwise 1.
double step_of_intervals(std::span<const std::uint64_t> intervals);

/// A cycle counter and a clock in nanoseconds.
struct Clocks {
  std::uint64_t (*ticks)() noexcept;
  std::uint64_t (*ns)() noexcept;
};

/// Ticks per nanosecond over a window of that length, whenever the thread is kept from its processor meanwhile.
double rate_of_clocks(Clocks clocks, std::uint64_t window_ns);

/// Nanoseconds of the system's monotonic clock.
inline std::uint64_t monotonic_ns() noexcept {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

}  // namespace smelt
