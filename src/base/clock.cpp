#include "base/clock.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>

namespace smelt {
namespace {

struct Instant {
  std::uint64_t ticks, ns;
};

// Both clocks at once: between two readings of the slower one, those that lie closest together of five, as the thread
// may lose its processor between two readings.
Instant instant_of(Clocks clocks) {
  Instant best{};
  auto least = UINT64_MAX;
  for (int attempt = 0; attempt < 5; ++attempt) {
    const auto before = clocks.ns();
    const auto now = clocks.ticks();
    const auto between = clocks.ns() - before;
    if (between < least) best = {now, before + between / 2};
    least = std::min(least, between);
  }
  return best;
}

double calibrate(std::uint64_t window_ns) {
#if defined(__aarch64__)
  std::uint64_t hz;
  asm volatile("mrs %0, cntfrq_el0" : "=r"(hz));
  static_cast<void>(window_ns);
  return static_cast<double>(hz) * 1e-9;
#else
  return rate_of_clocks({ticks, monotonic_ns}, window_ns);
#endif
}

}  // namespace

double step_of_intervals(std::span<const std::uint64_t> intervals) {
  constexpr std::uint64_t jitter = 2;
  constexpr double most_steps = 3.5, tolerance = 0.15, most_odd = 0.1, least_mean_steps = 1.05;
  std::uint64_t least = UINT64_MAX;
  for (const auto interval : intervals) {
    if (interval > jitter) least = std::min(least, interval);
  }
  if (least == UINT64_MAX) return 1.0;
  const auto step = static_cast<double>(least);
  double all = 0.0, steps = 0.0, sum = 0.0, odd = 0.0;
  for (const auto interval : intervals) {
    const double length = static_cast<double>(interval), whole = std::round(length / step);
    if (interval <= jitter || length > most_steps * step) continue;
    ++all;
    sum += length;
    steps += whole;
    if (std::abs(length - whole * step) > tolerance * step) ++odd;
  }
  return odd <= most_odd * all && steps >= least_mean_steps * all ? sum / steps : 1.0;
}

double step_of_clock(std::uint64_t (*now)() noexcept) {
  std::array<std::uint64_t, 512> intervals;
  for (auto& interval : intervals) {
    const auto start = now();
    interval = now() - start;
  }
  return step_of_intervals(intervals);
}

double clock_step() {
  static const double value = step_of_clock(ticks);
  return value;
}

double rate_of_clocks(Clocks clocks, std::uint64_t window_ns) {
  const auto start = instant_of(clocks);
  while (clocks.ns() - start.ns < window_ns) {}
  const auto end = instant_of(clocks);
  return static_cast<double>(end.ticks - start.ticks) / static_cast<double>(end.ns - start.ns);
}

double ticks_per_ns() {
  static const double value = calibrate(5'000'000);
  return value;
}

double rough_ticks_per_ns() {
  static const double value = calibrate(50'000);
  return value;
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace smelt
