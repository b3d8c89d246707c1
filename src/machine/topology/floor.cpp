// The probe: two pinned threads, first a ping-pong on bare lines, then arithmetic on both at once.
//
// Arithmetic: four chains of multiplications keep a core's multiplier busy. Two threads on one core take twice as long
// each, which distinguishes siblings from cores.
#include "smelt/floor.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "base/cacheline.hpp"
#include "base/clock.hpp"
#include "base/comparison.hpp"
#include "base/error.hpp"
#include "machine/topology/affinity.hpp"

namespace smelt {
namespace {

constexpr std::uint64_t patience_ns = 1'000'000'000;
constexpr std::uint64_t ways_on_a_line = 128;  ///< one batch, then the next line
constexpr std::size_t lines = 64;  ///< a line's latency depends on where its home in the last-level cache is
constexpr int multiplications = 4096;
constexpr std::size_t fewest_batches = 16;

struct alignas(separation_bytes) LoneLine {
  std::atomic<std::uint64_t> number{0};
};

inline void pause_polling() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

/// State that the two threads share. When one gives up, so does the other.
struct ProbeShared {
  explicit ProbeShared(double time_s)
      : deadline_ns(monotonic_ns() + patience_ns), part_ns(static_cast<std::uint64_t>(time_s * 0.5e9)) {}

  const std::uint64_t deadline_ns, part_ns;
  std::array<LoneLine, lines> line;
  alignas(separation_bytes) std::atomic<std::uint32_t> arrived{0};
  std::atomic<std::uint32_t> last_batch{UINT32_MAX};  ///< of the ping-pong; set by rank 0 while it has the line
  std::atomic<bool> given_up{false};
};

/// Polls until `there()`. False: the probe was given up.
template <class There>
bool await(ProbeShared& shared, There there) noexcept {
  for (std::uint32_t polls = 1; !there(); ++polls) {
    pause_polling();
    if (polls % 4096 != 0) continue;
    if (polls > 16 * 4096) std::this_thread::yield();
    if (monotonic_ns() > shared.deadline_ns) shared.given_up.store(true, std::memory_order_relaxed);
    if (shared.given_up.load(std::memory_order_relaxed)) return false;
  }
  return true;
}

bool barrier(ProbeShared& shared, std::uint32_t threads, std::uint32_t times) noexcept {
  shared.arrived.fetch_add(1, std::memory_order_acq_rel);  // pairs with the load below, in the other thread
  return await(shared, [&] { return shared.arrived.load(std::memory_order_acquire) >= threads * times; });
}

double ns_since(std::uint64_t start) noexcept { return static_cast<double>(ticks() - start) / ticks_per_ns(); }

/// A number goes back and forth on a line: rank 0 writes odd numbers, rank 1 even ones. Batches follow each other until
/// rank 0's time is over. Rank 0 announces the end before the last number of a batch.
bool ping_pong(ProbeShared& shared, int rank, std::vector<double>& ways_ns) noexcept {
  const std::uint64_t end_ns = monotonic_ns() + shared.part_ns;
  for (std::uint32_t batch = 0; batch <= shared.last_batch.load(std::memory_order_relaxed); ++batch) {
    auto& number = shared.line[batch % lines].number;
    const std::uint64_t from = batch / lines * ways_on_a_line;
    const auto start = ticks();
    for (std::uint64_t way = from; way < from + ways_on_a_line; ++way) {
      if (way % 2 != static_cast<std::uint64_t>(rank)) {
        // Pairs with the other rank's store, which also publishes last_batch.
        if (!await(shared, [&] { return number.load(std::memory_order_acquire) == way + 1; })) return false;
        continue;
      }
      const bool last = rank == 0 && way + 2 == from + ways_on_a_line;
      if (last && batch + 1 >= fewest_batches && monotonic_ns() > end_ns) {
        shared.last_batch.store(batch, std::memory_order_relaxed);
      }
      number.store(way + 1, std::memory_order_release);  // pairs with the other rank's load
    }
    if (rank == 0) ways_ns.push_back(ns_since(start) / static_cast<double>(ways_on_a_line));
  }
  return true;
}

std::uint64_t multiply(std::uint64_t seed) noexcept {
  std::uint64_t a = seed, b = seed + 1, c = seed + 2, d = seed + 3;
  for (int i = 0; i < multiplications / 4; ++i) {
    a = a * 6364136223846793005u + 1;
    b = b * 6364136223846793005u + 3;
    c = c * 6364136223846793005u + 5;
    d = d * 6364136223846793005u + 7;
  }
  return a ^ b ^ c ^ d;
}

void work(ProbeShared& shared, std::vector<double>& batches_ns) noexcept {
  const std::uint64_t end_ns = monotonic_ns() + shared.part_ns;
  std::uint64_t value = end_ns;
  do {
    const auto start = ticks();
    value = multiply(value);
    batches_ns.push_back(ns_since(start));
  } while (batches_ns.size() < fewest_batches || monotonic_ns() < end_ns);
  // Keeps the compiler from removing the unused result.
  shared.arrived.fetch_add(value == 1 ? 0x10000u : 0u, std::memory_order_relaxed);
}

struct Probe {
  ProbeShared shared;
  std::vector<int> pus;  ///< os_index, one or two
  std::array<std::vector<double>, 2> work_ns{};
  std::vector<double> line_ns{};
  std::array<Result<void>, 2> pinned{};

  void run(int rank) {
    const auto threads = static_cast<std::uint32_t>(pus.size());
    pinned[static_cast<std::size_t>(rank)] = set_this_thread_affinity({pus[static_cast<std::size_t>(rank)]});
    if (!pinned[static_cast<std::size_t>(rank)]) shared.given_up.store(true, std::memory_order_relaxed);
    if (!barrier(shared, threads, 1)) return;
    if (threads == 2 && !ping_pong(shared, rank, line_ns)) return;
    if (!barrier(shared, threads, 2)) return;
    work(shared, work_ns[static_cast<std::size_t>(rank)]);
  }
};

}  // namespace

Result<Floor> probe_floor(std::span<const int> os_indices, double time_s) {
  if (os_indices.empty()) return make_error(Status::invalid_argument, "floor: no PU is named");
  (void)ticks_per_ns();  // calibrates the clock before the time counts
  Probe probe{.shared = ProbeShared(time_s), .pus = {os_indices.front()}};
  const auto other =
      std::find_if(os_indices.begin(), os_indices.end(), [&](int pu) { return pu != os_indices.front(); });
  if (other != os_indices.end()) probe.pus.push_back(*other);
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < static_cast<int>(probe.pus.size()); ++rank) {
      threads.emplace_back([&probe, rank] { probe.run(rank); });
    }
  }
  for (const auto& pinned : probe.pinned) {
    if (!pinned) return pinned.error();
  }
  if (probe.shared.given_up.load(std::memory_order_relaxed)) {
    return make_error(Status::timed_out, "floor: the PUs were not available for a second");
  }
  return Floor{median_of(probe.line_ns), std::max(median_of(probe.work_ns[0]), median_of(probe.work_ns[1]))};
}

}  // namespace smelt
