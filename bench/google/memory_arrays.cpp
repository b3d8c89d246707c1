// Question: what do smelt's arrays gain over std::vector and malloc: random reads, dependent, independent, and of a list
// of places; reading in order; filling, copying; allocating and touching?
// Method: one array of SMELT_BENCH_MIB MiB (default 1024) per row; threads: one for reads, as many as there are PUs for
// fill, copy and allocation, and for the peers' threads and OpenMP. bench/memory/arrays.py runs the rows of a group by
// turns, in an order that is drawn each time, and keeps the times. Other allocators (libnuma, hwloc, memkind, mimalloc,
// jemalloc with huge pages) where they are installed: their memory is set by one thread, as their users do.
// Expected shape: random reads gain what huge pages save in TLB misses; reading in order is equal; filling and copying are
// those of the memory; allocating touched memory gains the threads and fewer page faults.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "machine/topology/pages.hpp"
#include "memory_peers.hpp"
#include "smelt/array.hpp"
#include "smelt/machine.hpp"

namespace {

/// Of allocations: one at least. In a virtual machine whose hypervisor takes free memory back, the first one waits for
/// the host ("first/").
constexpr double warm_up_s = 0.01;

std::size_t elements() {
  const char* const mib = std::getenv("SMELT_BENCH_MIB");
  return (mib != nullptr ? std::strtoul(mib, nullptr, 10) : 1024) * (1 << 20) / sizeof(std::uint64_t);
}

smelt::Array<std::uint64_t> new_array() {
  auto array = smelt::Array<std::uint64_t>::create(elements());
  if (!array) std::abort();
  return *std::move(array);
}

std::vector<std::uint64_t> new_vector() { return std::vector<std::uint64_t>(elements()); }

/// The share of pages in runs of four that begin at a multiple of four and follow each other in physical memory, which
/// some processors keep in one TLB entry; -1 without the right to know (CAP_SYS_ADMIN).
double contiguous_percent(const void* data) {
  const std::size_t count = elements() * sizeof(std::uint64_t) / 4096;
  std::ifstream pagemap("/proc/self/pagemap", std::ios::binary);
  std::vector<std::uint64_t> entries(count);
  pagemap.seekg(static_cast<std::streamoff>(reinterpret_cast<std::uintptr_t>(data) / 4096 * 8));
  pagemap.read(reinterpret_cast<char*>(entries.data()), static_cast<std::streamsize>(count * 8));
  constexpr std::uint64_t frame_bits = (std::uint64_t{1} << 55) - 1, run = 4;
  std::size_t runs = 0;
  for (std::size_t i = 0; i + run <= count; i += run) {
    const std::uint64_t first = entries[i] & frame_bits;
    if (first == 0) return -1;
    bool follows = first % run == 0;
    for (std::size_t k = 1; k < run; ++k) follows = follows && (entries[i + k] & frame_bits) == first + k;
    runs += follows;
  }
  return 100.0 * static_cast<double>(runs * run) / static_cast<double>(count);
}

/// In which pages the array lies: what random reads depend on.
void count_pages(benchmark::State& state, const void* data) {
  const std::size_t bytes = elements() * sizeof(std::uint64_t);
  const auto huge = static_cast<double>(smelt::huge_bytes_in(data, bytes));
  state.counters["huge_percent"] = 100 * huge / static_cast<double>(bytes);
  state.counters["contiguous_percent"] = contiguous_percent(data);
}

std::uint64_t next(std::uint64_t state) { return state * 6364136223846793005u + 1442695040888963407u; }

/// The next place depends on what was loaded, which is 0.
void read_dependently(benchmark::State& state, const std::uint64_t* data) {
  const std::size_t mask = elements() - 1;
  std::uint64_t at = 12345;
  constexpr int loads = 200'000;
  for (auto _ : state) {
    for (int i = 0; i < loads; ++i) at = next(at + data[(at >> 30) & mask]);
    benchmark::DoNotOptimize(at);
  }
  count_pages(state, data);
  state.SetItemsProcessed(state.iterations() * loads);
}

template <auto make>
void dependent_reads(benchmark::State& state) {
  const auto array = make();
  read_dependently(state, array.data());
}

void read_independently(benchmark::State& state, const std::uint64_t* data) {
  const std::size_t mask = elements() - 1;
  std::uint64_t at = 12345, sum = 0;
  constexpr int loads = 1'000'000;
  for (auto _ : state) {
    for (int i = 0; i < loads; ++i) {
      sum += data[(at >> 30) & mask];
      at = next(at);
    }
    benchmark::DoNotOptimize(sum);
  }
  count_pages(state, data);
  state.SetItemsProcessed(state.iterations() * loads);
}

template <auto make>
void independent_reads(benchmark::State& state) {
  const auto array = make();
  read_independently(state, array.data());
}

/// Random places, as a list of edges or of rows has them, and where their elements go.
struct Places {
  std::vector<std::uint64_t> at, to;
};

Places new_places() {
  constexpr std::size_t count = 1'000'000;
  Places places{std::vector<std::uint64_t>(count), std::vector<std::uint64_t>(count)};
  std::uint64_t state = 777;
  for (auto& place : places.at) {
    place = (state >> 30) & (elements() - 1);
    state = next(state);
  }
  return places;
}

void take_from_array(benchmark::State& state) {
  const auto array = new_array();
  auto places = new_places();
  for (auto _ : state) {
    array.take(std::span<const std::uint64_t>(places.at), std::span(places.to));
    benchmark::DoNotOptimize(places.to.data());
  }
  count_pages(state, array.data());
}

template <std::size_t ahead>
void take_from_vector(benchmark::State& state) {
  const auto vector = new_vector();
  auto places = new_places();
  const std::size_t count = places.at.size();
  for (auto _ : state) {
    for (std::size_t i = 0; i < count; ++i) {
      if (ahead > 0) __builtin_prefetch(&vector[places.at[std::min(i + ahead, count - 1)]]);
      places.to[i] = vector[places.at[i]];
    }
    benchmark::DoNotOptimize(places.to.data());
  }
  count_pages(state, vector.data());
}

template <auto make>
void sum_in_order(benchmark::State& state) {
  const auto array = make();
  for (auto _ : state) {
    const auto sum = std::accumulate(array.begin(), array.end(), std::uint64_t{0});
    benchmark::DoNotOptimize(sum);
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * elements() * sizeof(std::uint64_t)));
}

/// work(first, bytes) by as many threads as there are PUs.
template <class Work>
void by_threads(const Work& work) {
  const std::size_t threads = std::max(1u, std::thread::hardware_concurrency()),
                    bytes = elements() * sizeof(std::uint64_t);
  std::vector<std::thread> all;
  for (std::size_t t = 0; t < threads; ++t) {
    const auto part = smelt::static_part(bytes, t, threads);
    all.emplace_back([&work, part] { work(part.first, part.size()); });
  }
  for (auto& thread : all) thread.join();
}

void fill_array(benchmark::State& state) {
  auto array = new_array();
  for (auto _ : state) array.fill(7);
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * elements() * sizeof(std::uint64_t)));
}

void fill_by_threads(benchmark::State& state) {
  auto vector = new_vector();
  auto* const bytes = reinterpret_cast<char*>(vector.data());
  for (auto _ : state) {
    by_threads([&](std::size_t first, std::size_t size) {
      std::fill_n(reinterpret_cast<std::uint64_t*>(bytes + first), size / sizeof(std::uint64_t), std::uint64_t{7});
    });
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * elements() * sizeof(std::uint64_t)));
}

void fill_alone(benchmark::State& state) {
  auto vector = new_vector();
  for (auto _ : state) {
    std::fill(vector.begin(), vector.end(), std::uint64_t{7});
    benchmark::DoNotOptimize(vector.data());
  }
}

void copy_alone(benchmark::State& state) {
  auto to = new_vector();
  const auto from = new_vector();
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), elements() * sizeof(std::uint64_t));
    benchmark::DoNotOptimize(to.data());
  }
}

#ifdef _OPENMP
/// First touched by the threads that use it later, as users of OpenMP write it.
std::unique_ptr<std::uint64_t[]> new_by_openmp() {
  std::unique_ptr<std::uint64_t[]> made(new std::uint64_t[elements()]);
  const std::size_t count = elements();
#pragma omp parallel for schedule(static)
  for (std::size_t i = 0; i < count; ++i) made[i] = i;
  return made;
}

void fill_by_openmp(benchmark::State& state) {
  const auto to = new_by_openmp();
  const std::size_t count = elements();
  for (auto _ : state) {
#pragma omp parallel for schedule(static)
    for (std::size_t i = 0; i < count; ++i) to[i] = 7;
    benchmark::DoNotOptimize(to.get());
  }
}

void copy_by_openmp(benchmark::State& state) {
  const auto to = new_by_openmp(), from = new_by_openmp();
  const std::size_t count = elements();
  for (auto _ : state) {
#pragma omp parallel for schedule(static)
    for (std::size_t i = 0; i < count; ++i) to[i] = from[i];
    benchmark::DoNotOptimize(to.get());
  }
}

BENCHMARK(fill_by_openmp)->Name("fill/openmp")->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(copy_by_openmp)->Name("copy/openmp")->Unit(benchmark::kMillisecond)->UseRealTime();
#endif

void copy_array(benchmark::State& state) {
  auto array = new_array();
  const auto values = new_array();
  for (auto _ : state) array.copy_from({values.data(), values.size()});
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * elements() * sizeof(std::uint64_t)));
}

void copy_by_threads(benchmark::State& state) {
  auto to = new_vector();
  const auto from = new_vector();
  for (auto _ : state) {
    by_threads([&](std::size_t first, std::size_t size) {
      std::memcpy(reinterpret_cast<char*>(to.data()) + first, reinterpret_cast<const char*>(from.data()) + first, size);
    });
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * elements() * sizeof(std::uint64_t)));
}

void allocate_array(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(new_array().data());
}

void allocate_malloc_memset(benchmark::State& state) {
  const std::size_t bytes = elements() * sizeof(std::uint64_t);
  for (auto _ : state) {
    void* memory = std::malloc(bytes);
    benchmark::DoNotOptimize(memory);  // else the two become calloc, which touches nothing
    std::memset(memory, 0, bytes);
    benchmark::DoNotOptimize(memory);
    std::free(memory);
  }
}

void* touched(const peers::Allocator& peer, std::size_t bytes) {
  void* const memory = peer.allocate(bytes);
  if (memory == nullptr) std::abort();
  benchmark::DoNotOptimize(memory);
  std::memset(memory, 0, bytes);
  benchmark::DoNotOptimize(memory);
  return memory;
}

void register_peers() {
  static const auto all = peers::all();
  for (const auto& peer : all) {
    const std::size_t bytes = elements() * sizeof(std::uint64_t);
    const std::string name = peer.name;
    benchmark::RegisterBenchmark(("dependent/" + name).c_str(), [&peer, bytes](benchmark::State& state) {
      void* const memory = touched(peer, bytes);
      read_dependently(state, static_cast<const std::uint64_t*>(memory));
      peer.free(memory, bytes);
    })->Unit(benchmark::kMillisecond);
    benchmark::RegisterBenchmark(("independent/" + name).c_str(), [&peer, bytes](benchmark::State& state) {
      void* const memory = touched(peer, bytes);
      read_independently(state, static_cast<const std::uint64_t*>(memory));
      peer.free(memory, bytes);
    })->Unit(benchmark::kMillisecond);
    const auto allocate = [&peer, bytes](benchmark::State& state) {
      for (auto _ : state) peer.free(touched(peer, bytes), bytes);
    };
    benchmark::RegisterBenchmark(("allocate/" + name).c_str(), allocate)
        ->Unit(benchmark::kMillisecond)
        ->MinWarmUpTime(warm_up_s)
        ->UseRealTime();
  }
}

BENCHMARK(dependent_reads<new_array>)->Name("dependent/array")->Unit(benchmark::kMillisecond);
BENCHMARK(dependent_reads<new_vector>)->Name("dependent/vector")->Unit(benchmark::kMillisecond);
BENCHMARK(independent_reads<new_array>)->Name("independent/array")->Unit(benchmark::kMillisecond);
BENCHMARK(independent_reads<new_vector>)->Name("independent/vector")->Unit(benchmark::kMillisecond);
BENCHMARK(take_from_array)->Name("take/array")->Unit(benchmark::kMillisecond);
BENCHMARK(take_from_vector<0>)->Name("take/vector")->Unit(benchmark::kMillisecond);
BENCHMARK(take_from_vector<64>)->Name("take/vector_ahead")->Unit(benchmark::kMillisecond);
BENCHMARK(sum_in_order<new_array>)->Name("sum/array")->Unit(benchmark::kMillisecond);
BENCHMARK(sum_in_order<new_vector>)->Name("sum/vector")->Unit(benchmark::kMillisecond);
BENCHMARK(fill_array)->Name("fill/array")->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(fill_by_threads)->Name("fill/threads")->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(fill_alone)->Name("fill/std_fill")->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(copy_alone)->Name("copy/memcpy")->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(copy_array)->Name("copy/array")->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(copy_by_threads)->Name("copy/threads")->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(allocate_array)
    ->Name("allocate/array")
    ->Unit(benchmark::kMillisecond)
    ->MinWarmUpTime(warm_up_s)
    ->UseRealTime();
BENCHMARK(allocate_array)->Name("first/array")->Unit(benchmark::kMillisecond)->Iterations(1)->UseRealTime();
BENCHMARK(allocate_malloc_memset)
    ->Name("allocate/malloc_memset")
    ->Unit(benchmark::kMillisecond)
    ->MinWarmUpTime(warm_up_s)
    ->UseRealTime();
BENCHMARK(allocate_malloc_memset)
    ->Name("first/malloc_memset")
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1)
    ->UseRealTime();

}  // namespace

int main(int argc, char** argv) {
  register_peers();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
