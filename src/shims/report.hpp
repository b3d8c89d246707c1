// What a shim took over and what it passed on, told at process exit on stderr if SMELT_VERBOSE=1.
//
// Every intercepted function has one InterceptedFunction, a constant-initialised static object that is never destroyed:
// it may be used before the first constructor and after the last destructor. Without SMELT_VERBOSE=1 counting costs one
// load of a flag that nobody writes. With it, a thread counts in a slot of its own cache lines.
//
// Time saved is measured, never assumed: when verbose, a shim gives 16 of 512 rounds to the original (the same
// rounds on all participants) and times them, and times 16 of its own in between:
//
//   switch (shims::sample_kind(round)) {                       // round: a number all participants agree on
//     case Sample::original: { Stopwatch watch(entry, Sample::original); original(...); } ...
//     case Sample::ours:     { Stopwatch watch(entry, Sample::ours); ours(...); } ...
//     case Sample::none:     ours(...);
//   }
//
// saved = (mean original - mean ours) x calls taken over, summed over all threads of the process.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace smelt::shims {

enum class Sample { none, ours, original };

namespace report_detail {
extern constinit std::atomic<bool> is_verbose;  ///< written once, by the first constructor
}

/// Whether SMELT_VERBOSE=1. Known from the first constructor of the shim on; false before.
inline bool verbose() noexcept { return report_detail::is_verbose.load(std::memory_order_relaxed); }

/// Whether the shim with the switch `variable` ("SMELT_PTHREAD") is to pass everything on.
bool switched_off(const char* variable) noexcept;

/// Stamps of the cycle counter (the system's clock where there is none).
inline std::uint64_t cycles() noexcept {
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

/// One intercepted function. Any thread may call anything at any time.
class InterceptedFunction {
 public:
  /// The texts are literals: "pthread", "pthread_barrier_wait"; `untimed`: why time is never compared, or null.
  constexpr InterceptedFunction(const char* shim, const char* function, const char* untimed = nullptr)
      : shim_(shim), function_(function), untimed_(untimed) {}

  /// Counts a call that was taken over.
  void took() noexcept {
    if (verbose()) count();
  }

  /// Counts a call that the original got. `why`: a literal that completes "passed on: ...".
  void passed(const char* why) noexcept {
    if (verbose()) count_passed(why);
  }

  /// Keeps a measured duration in cycles. Only the last `samples` per slot and kind are kept.
  void record(Sample kind, std::uint64_t duration) noexcept;

  /// The shim named `shim` prints its entries at exit, once, if anything was counted. For report.cpp and its tests.
  static void print_all() noexcept;

 private:
  friend struct Report;
  static constexpr std::size_t slots = 16;
  static constexpr std::uint32_t samples = 64;
  static constexpr std::size_t reasons = 16;

  struct DurationSamples {
    std::atomic<std::uint32_t> recorded{0};
    std::atomic<std::uint32_t> durations[samples] = {};
  };
  // Threads beyond `slots` share one; hence the atomic increments.
  struct alignas(128) Slot {
    std::atomic<std::uint64_t> taken{0};
    DurationSamples ours, original;
  };
  struct PassReason {
    std::atomic<const char*> why{nullptr};
    std::atomic<std::uint64_t> count{0};
  };

  void count() noexcept;
  void count_passed(const char* why) noexcept;
  void enlist() noexcept;

  const char* shim_;
  const char* function_;
  const char* untimed_;
  Slot slot_[slots] = {};
  PassReason reason_[reasons] = {};
  std::atomic<std::uint64_t> other_reasons_{0};
  std::atomic<bool> enlisted_{false};
  InterceptedFunction* next_ = nullptr;
};

/// How a round is to be treated when time is compared; always `none` unless verbose. The kind depends on the
/// round's number alone, so that all participants of a round come to the same answer. Rounds come in bursts: a
/// lone one would find the participants in step from the rounds before it, and so flatter the original.
inline Sample sample_kind(std::uint64_t round) noexcept {
  constexpr std::uint64_t period = 512;
  constexpr std::uint64_t burst = 16;
  if (!verbose()) return Sample::none;
  const auto phase = round % period;
  if (phase >= period - burst) return Sample::original;
  return phase >= period / 2 - burst && phase < period / 2 ? Sample::ours : Sample::none;
}

/// Times its own life and records it, unless `kind` is none.
class Stopwatch {
 public:
  Stopwatch(InterceptedFunction& entry, Sample kind) noexcept : entry_(entry), kind_(kind) {
    if (kind_ != Sample::none) start_ = cycles();
  }
  ~Stopwatch() {
    if (kind_ != Sample::none) entry_.record(kind_, cycles() - start_);
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  InterceptedFunction& entry_;
  Sample kind_;
  std::uint64_t start_ = 0;
};

}  // namespace smelt::shims
