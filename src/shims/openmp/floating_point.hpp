// How a thread rounds and what it does with denormal numbers, which LLVM's runtime hands to the threads of a region.
#pragma once

#include <cstdint>

namespace smelt::shims::openmp {

/// Control words of the floating-point units. Elsewhere than on x86-64 the runtime leaves them alone; then this does
/// too.
struct FloatingPointControl {
  std::uint32_t sse = 0;  ///< without the exceptions that have occurred
  std::uint16_t x87 = 0;

  bool operator==(const FloatingPointControl& other) const = default;

#if defined(__x86_64__)
  static FloatingPointControl current() noexcept {
    constexpr std::uint32_t occurred = 0x3f;
    FloatingPointControl own;
    asm volatile("fnstcw %0" : "=m"(own.x87));
    asm volatile("stmxcsr %0" : "=m"(own.sse));
    own.sse &= ~occurred;
    return own;
  }

  /// Makes these the thread's. As by the runtime, a unit whose control word changes forgets what has occurred.
  void adopt() const noexcept {
    const FloatingPointControl own = current();
    if (own.x87 != x87) asm volatile("fnclex\n\tfldcw %0" : : "m"(x87));
    if (own.sse != sse) asm volatile("ldmxcsr %0" : : "m"(sse));
  }
#else
  static FloatingPointControl current() noexcept { return {}; }
  void adopt() const noexcept {}
#endif
};

}  // namespace smelt::shims::openmp
