// Question: what does a copy take out of memory that another core has just written, by the C library's memcpy, and by
// smelt's fetch_bytes, which asks for lines a page ahead?
// Method: a helper thread writes a word in every line of the source, then this one copies it, timed alone; the first
// two PUs that this process may use. Which way is first alternates, since what the host of a virtual machine does to
// the rate changes by the second: counters are medians over the run, `ratio` that of the two times of each pair.
// Expected shape: on Intel's Xeons ratios of 0.8 to 0.95 from 64 KiB to 1 MiB, and 1 elsewhere and on other CPUs.
#include <benchmark/benchmark.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "base/copy.hpp"

namespace {

bool pin_to_nth(int n) {
  cpu_set_t allowed, one;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return false;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || n-- > 0) continue;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    return pthread_setaffinity_np(pthread_self(), sizeof one, &one) == 0;
  }
  return false;
}

/// Writes `data` on another PU whenever it is asked to.
class Writer {
 public:
  Writer(std::byte* data, std::size_t bytes) : thread_([=, this] { serve(data, bytes); }) {}
  ~Writer() {
    asked_.store(-1, std::memory_order_release);
    thread_.join();
  }
  Writer(const Writer&) = delete;

  void write() {
    asked_.store(++round_, std::memory_order_release);         // pairs with serve's load
    while (done_.load(std::memory_order_acquire) != round_) {  // pairs with serve's store
    }
  }

 private:
  void serve(std::byte* data, std::size_t bytes) {
    (void)pin_to_nth(1);
    for (std::int64_t round = 1;; ++round) {
      std::int64_t asked = 0;
      while ((asked = asked_.load(std::memory_order_acquire)) != round && asked >= 0) {}
      if (asked < 0) return;
      for (std::size_t at = 0; at + sizeof round <= bytes; at += 64) std::memcpy(data + at, &round, sizeof round);
      done_.store(round, std::memory_order_release);
    }
  }

  alignas(128) std::atomic<std::int64_t> asked_{0};
  alignas(128) std::atomic<std::int64_t> done_{0};
  std::int64_t round_ = 0;
  std::thread thread_;
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void fetches(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const std::unique_ptr<void, decltype(&std::free)> memory(std::aligned_alloc(4096, 2 * bytes), &std::free);
  auto* const from = static_cast<std::byte*>(memory.get());
  std::byte* const to = from + bytes;
  std::memset(from, 1, 2 * bytes);
  cpu_set_t before;
  if (sched_getaffinity(0, sizeof before, &before) != 0 || CPU_COUNT(&before) < 2) {
    state.SkipWithError("needs two PUs");
    return;
  }
  Writer writer(from, bytes);
  writer.write();
  (void)pin_to_nth(0);
  const auto timed_us = [&](auto copy) {
    writer.write();
    const auto start = std::chrono::steady_clock::now();
    copy(to, from, bytes);
    benchmark::ClobberMemory();
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
  };
  std::vector<double> plain, early, ratios;
  for (auto _ : state) {
    const bool plain_first = plain.size() % 2 == 0;
    if (plain_first) plain.push_back(timed_us([](void* t, const void* f, std::size_t n) { std::memcpy(t, f, n); }));
    early.push_back(timed_us(smelt::fetch_bytes));
    if (!plain_first) plain.push_back(timed_us([](void* t, const void* f, std::size_t n) { std::memcpy(t, f, n); }));
    ratios.push_back(early.back() / plain.back());
    state.SetIterationTime(early.back() * 1e-6);
  }
  if (std::memcmp(to, from, bytes) != 0) state.SkipWithError("not copied");
  sched_setaffinity(0, sizeof before, &before);
  state.counters["memcpy_us"] = median(plain);
  state.counters["fetch_us"] = median(early);
  state.counters["ratio"] = median(ratios);
}

BENCHMARK(fetches)->ArgName("bytes")->RangeMultiplier(2)->Range(16 << 10, 4 << 20)->UseManualTime();

}  // namespace
