// Question: what does a copy take whose target lies 16 bytes further in its page than its source, by the C library's
// memcpy and by smelt's copy_bytes, and what one where both lie equally far? What do both take where neither side is in
// the core's caches (memcpy/cold, copy_bytes/cold)?
// Method: one thread, buffers that stay where they are, copied to again and again; bytes per second. Cold: each copy is
// from and to the next place of two regions of 64 MiB.
// Expected shape: four equal numbers for each size. On AMD's Zen 3 with a C library that copies by `rep movsb`
// memcpy at a distance of 16 takes 20 to 40 times as long, from some 2 KiB on until it writes past the caches. Cold
// ones: on Intel's Xeons copy_bytes takes 0.9 to 0.98 of memcpy's time, elsewhere as long.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/copy.hpp"

namespace {

constexpr std::size_t page_bytes = 4096;

void by_c_library(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }

template <void (*copy)(void*, const void*, std::size_t)>
void copies(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0)), distance = static_cast<std::size_t>(state.range(1));
  const auto room = (bytes + 2 * page_bytes) / page_bytes * page_bytes;
  const std::unique_ptr<void, decltype(&std::free)> memory(std::aligned_alloc(page_bytes, 2 * room), &std::free);
  auto* const from = static_cast<std::byte*>(memory.get());
  auto* const to = from + room + distance;
  std::memset(from, 1, 2 * room);
  for (auto _ : state) {
    copy(to, from, bytes);
    benchmark::ClobberMemory();
  }
  if (std::memcmp(to, from, bytes) != 0) state.SkipWithError("not copied");
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * bytes));
}

void sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"bytes", "distance"});
  for (const int bytes : {64, 2048, 4096, 16384, 131072, 4 << 20}) {
    for (const int distance : {0, 16}) benchmark->Args({bytes, distance});
  }
}

template <void (*copy)(void*, const void*, std::size_t)>
void cold_copies(benchmark::State& state) {
  constexpr std::size_t region = 64 << 20;
  const auto bytes = static_cast<std::size_t>(state.range(0)), stride = bytes + 128;
  const std::unique_ptr<void, decltype(&std::free)> memory(std::aligned_alloc(page_bytes, 2 * region), &std::free);
  auto* const from = static_cast<std::byte*>(memory.get());
  auto* const to = from + region;
  std::memset(from, 1, 2 * region);
  std::size_t at = 0;
  for (auto _ : state) {
    copy(to + at, from + at, bytes);
    benchmark::ClobberMemory();
    at = at + 2 * stride <= region ? at + stride : 0;
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * bytes));
}

BENCHMARK(cold_copies<by_c_library>)->Name("memcpy/cold")->ArgName("bytes")->RangeMultiplier(4)->Range(4096, 1 << 20);
BENCHMARK(cold_copies<smelt::copy_bytes>)
    ->Name("copy_bytes/cold")
    ->ArgName("bytes")
    ->RangeMultiplier(4)
    ->Range(4096, 1 << 20);
BENCHMARK(copies<by_c_library>)->Name("memcpy")->Apply(sizes);
BENCHMARK(copies<smelt::copy_bytes>)->Name("copy_bytes")->Apply(sizes);

}  // namespace
