#include "base/clock.hpp"

namespace smelt {
namespace {

double calibrate(std::uint64_t window_ns) {
#if defined(__aarch64__)
  std::uint64_t hz;
  asm volatile("mrs %0, cntfrq_el0" : "=r"(hz));
  static_cast<void>(window_ns);
  return static_cast<double>(hz) * 1e-9;
#else
  const auto start_ns = monotonic_ns();
  const auto start = ticks();
  while (monotonic_ns() - start_ns < window_ns) {}
  const auto end = ticks();
  const auto end_ns = monotonic_ns();
  return static_cast<double>(end - start) / static_cast<double>(end_ns - start_ns);
#endif
}

}  // namespace

double ticks_per_ns() {
  static const double value = calibrate(5'000'000);
  return value;
}

double rough_ticks_per_ns() {
  // A switch between the two stamps of a window spoils it; the median of three survives one.
  static const double value = median_of_three(calibrate(20'000), calibrate(20'000), calibrate(20'000));
  return value;
}

}  // namespace smelt
