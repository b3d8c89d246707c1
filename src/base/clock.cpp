#include "base/clock.hpp"

namespace smelt {
namespace {

double calibrate() {
#if defined(__aarch64__)
  std::uint64_t hz;
  asm volatile("mrs %0, cntfrq_el0" : "=r"(hz));
  return static_cast<double>(hz) * 1e-9;
#else
  const auto start_ns = monotonic_ns();
  const auto start = ticks();
  while (monotonic_ns() - start_ns < 5'000'000) {
  }
  const auto end = ticks();
  const auto end_ns = monotonic_ns();
  return static_cast<double>(end - start) / static_cast<double>(end_ns - start_ns);
#endif
}

}  // namespace

double ticks_per_ns() {
  static const double value = calibrate();
  return value;
}

}  // namespace smelt
