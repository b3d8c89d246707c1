#include "shims/report.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <numeric>

namespace smelt::shims {

constinit std::atomic<bool> report_detail::is_verbose{false};

namespace {

constexpr std::uint32_t fewest_samples = 8;  // below that a mean says nothing

constinit std::atomic<InterceptedFunction*> entries{nullptr};
constinit std::atomic<std::uint32_t> threads{0};
constinit thread_local std::uint32_t own_slot = 0;  // plus one; 0: none yet

// Where the cycle counter stood at which time: from here to the exit gives its rate.
constinit std::uint64_t first_cycles = 0;
constinit std::uint64_t first_ns = 0;

std::uint64_t now_ns() noexcept {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(now.tv_nsec);
}

std::uint32_t slot_of_thread() noexcept {
  if (own_slot == 0) own_slot = threads.fetch_add(1, std::memory_order_relaxed) % 16 + 1;
  return own_slot - 1;
}

}  // namespace

// Reads the entries at exit. Others may still count; what they add meanwhile may be missed.
struct Report {
  struct Mean {
    double cycles = 0.0;
    std::size_t count = 0;
  };

  // Not the median: of those who wait for each other the last one hardly waits at all, so there are two heaps. The
  // longest eighth, which may have been switched out under way, does not count.
  static Mean mean(const InterceptedFunction& entry,
                   InterceptedFunction::DurationSamples InterceptedFunction::Slot::*series) noexcept {
    static std::array<std::uint32_t, InterceptedFunction::slots * InterceptedFunction::samples> all;
    std::size_t n = 0;
    for (const auto& slot : entry.slot_) {
      const auto kept = std::min((slot.*series).recorded.load(std::memory_order_relaxed), InterceptedFunction::samples);
      for (std::uint32_t i = 0; i < kept; ++i) {
        all[n++] = (slot.*series).durations[i].load(std::memory_order_relaxed);
      }
    }
    const std::size_t counted = n - n / 8;
    if (counted == 0) return {};
    std::sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(n));
    return {std::accumulate(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(counted), 0.0) /
                static_cast<double>(counted),
            n};
  }

  static std::uint64_t taken(const InterceptedFunction& entry) noexcept {
    std::uint64_t sum = 0;
    for (const auto& slot : entry.slot_) sum += slot.taken.load(std::memory_order_relaxed);
    return sum;
  }

  static void print(const InterceptedFunction& entry, double ns_per_cycle) noexcept {
    const auto calls = taken(entry);
    if (calls > 0) {
      const auto ours = mean(entry, &InterceptedFunction::Slot::ours);
      const auto original = mean(entry, &InterceptedFunction::Slot::original);
      char saved[160] = "time saved: not measured";
      if (entry.untimed_ != nullptr) std::snprintf(saved, sizeof saved, "time saved: not measured, %s", entry.untimed_);
      if (ours.count >= fewest_samples && original.count >= fewest_samples) {
        const double gain = (original.cycles - ours.cycles) * ns_per_cycle;
        std::snprintf(saved, sizeof saved, "%.3f us each, the original %.3f us: %.4g s saved over all threads",
                      ours.cycles * ns_per_cycle * 1e-3, original.cycles * ns_per_cycle * 1e-3,
                      gain * 1e-9 * static_cast<double>(calls));
      }
      std::fprintf(stderr, "  %s: taken over %llu times; %s\n", entry.function_, static_cast<unsigned long long>(calls),
                   saved);
    }
    for (const auto& reason : entry.reason_) {
      const auto count = reason.count.load(std::memory_order_relaxed);
      if (count == 0) continue;
      std::fprintf(stderr, "  %s: passed on %llu times: %s\n", entry.function_, static_cast<unsigned long long>(count),
                   reason.why.load(std::memory_order_relaxed));
    }
    if (const auto count = entry.other_reasons_.load(std::memory_order_relaxed); count > 0) {
      std::fprintf(stderr, "  %s: passed on %llu times for other reasons\n", entry.function_,
                   static_cast<unsigned long long>(count));
    }
  }

  static void reset(InterceptedFunction::DurationSamples& series) noexcept {
    series.recorded.store(0, std::memory_order_relaxed);
  }

  // After fork the child tells of itself alone.
  static void start_anew() noexcept {
    for (InterceptedFunction* entry = entries.load(std::memory_order_relaxed); entry != nullptr; entry = entry->next_) {
      for (auto& slot : entry->slot_) {
        slot.taken.store(0, std::memory_order_relaxed);
        reset(slot.ours);
        reset(slot.original);
      }
      for (auto& reason : entry->reason_) reason.count.store(0, std::memory_order_relaxed);
      entry->other_reasons_.store(0, std::memory_order_relaxed);
    }
  }
};

bool switched_off(const char* variable) noexcept {
  const char* value = std::getenv(variable);
  return value != nullptr && std::strcmp(value, "0") == 0;
}

void InterceptedFunction::enlist() noexcept {
  if (enlisted_.load(std::memory_order_relaxed) || enlisted_.exchange(true, std::memory_order_relaxed)) return;
  next_ = entries.load(std::memory_order_relaxed);
  // Release: whoever walks the list (print_all, acquire) sees next_.
  while (!entries.compare_exchange_weak(next_, this, std::memory_order_release, std::memory_order_relaxed)) {}
}

void InterceptedFunction::count() noexcept {
  enlist();
  slot_[slot_of_thread()].taken.fetch_add(1, std::memory_order_relaxed);
}

void InterceptedFunction::count_passed(const char* why) noexcept {
  enlist();
  for (auto& reason : reason_) {
    const char* known = nullptr;
    reason.why.compare_exchange_strong(known, why, std::memory_order_relaxed);
    if (known == nullptr || known == why || std::strcmp(known, why) == 0) {
      reason.count.fetch_add(1, std::memory_order_relaxed);
      return;
    }
  }
  other_reasons_.fetch_add(1, std::memory_order_relaxed);
}

void InterceptedFunction::record(Sample kind, std::uint64_t duration) noexcept {
  if (kind == Sample::none) return;
  enlist();
  auto& slot = slot_[slot_of_thread()];
  auto& series = kind == Sample::ours ? slot.ours : slot.original;
  const auto at = series.recorded.fetch_add(1, std::memory_order_relaxed) % samples;
  const auto kept = std::min<std::uint64_t>(duration, UINT32_MAX);
  series.durations[at].store(static_cast<std::uint32_t>(kept), std::memory_order_relaxed);
}

void InterceptedFunction::print_all() noexcept {
  const double passed_ns = static_cast<double>(now_ns() - first_ns);
  const double passed_cycles = static_cast<double>(cycles() - first_cycles);
  const double ns_per_cycle = passed_cycles > 0.0 ? passed_ns / passed_cycles : 1.0;
  const InterceptedFunction* entry = entries.load(std::memory_order_acquire);
  if (entry == nullptr) return;
  const int error = errno;
  std::fprintf(stderr, "smelt: %s in process %d (%s)\n", entry->shim_, static_cast<int>(getpid()),
               program_invocation_short_name);
  for (; entry != nullptr; entry = entry->next_) Report::print(*entry, ns_per_cycle);
  std::fflush(stderr);
  errno = error;
}

namespace {

[[gnu::constructor(101)]] void begin() noexcept {
  const char* value = std::getenv("SMELT_VERBOSE");
  if (value == nullptr || std::strcmp(value, "1") != 0) return;
  first_cycles = cycles();
  first_ns = now_ns();
  report_detail::is_verbose.store(true, std::memory_order_relaxed);
  pthread_atfork(nullptr, nullptr, Report::start_anew);
}

[[gnu::destructor(101)]] void end() noexcept {
  if (verbose()) InterceptedFunction::print_all();
}

}  // namespace
}  // namespace smelt::shims
