// The part of ChannelTimer that times a line that several threads wait for.
//
//   writer    line: time of the store ---> | readers 0 .. k-1 wait for it, all at the same time
//             seen 0..k-1             <--- | each, once it has read the clock
//
// The counters of two PUs may differ. A reader alone is timed as well, and only how much later it sees the line beside
// others counts, in which the difference of the counters is not contained.
#include <algorithm>
#include <atomic>
#include <memory>
#include <system_error>

#include "base/error.hpp"
#include "channel/ump.hpp"
#include "measure/channel_timer.hpp"
#include "measure/statistics.hpp"
#include "measure/timing_thread.hpp"

namespace smelt::measure {
namespace {

constexpr double waiting_again_ns = 1000.0;  ///< before a store, so that all readers wait again

constexpr std::size_t most_readers = 16;

struct alignas(separation_bytes) SharedWord {
  std::atomic<std::uint64_t> value;
};

struct FanOutLines {
  SharedWord phase;               ///< the phase that has begun; the readers who take part wait for `line`
  SharedWord line;                ///< when it was written, in ticks()
  SharedWord seen[most_readers];  ///< by reader: the last value that it has seen
};

/// Phase p of 1 .. readers: reader p - 1 alone. Further ones: readers 0 .. 2^k - 1 together, of k = 1, 2, ...
std::size_t participants(std::size_t phase, std::size_t readers) { return std::size_t{2} << (phase - readers - 1); }
bool takes_part(std::size_t reader, std::size_t phase, std::size_t readers) {
  return phase <= readers ? reader + 1 == phase : reader < participants(phase, readers);
}
std::size_t phases(std::size_t readers) {
  std::size_t last = readers;
  while (participants(last + 1, readers) <= readers) ++last;
  return last;
}

using Samples = std::vector<std::vector<double>>;  ///< by phase

bool read_lines(FanOutLines& lines, std::size_t self, std::size_t readers, int repetitions, Waiter waiter,
                Samples& samples) {
  std::uint64_t before = 0;
  for (std::size_t phase = 1; phase <= phases(readers); ++phase) {
    if (!takes_part(self, phase, readers)) continue;
    // Acquire: `before` is what the line holds when the phase begins.
    if (!waiter.wait([&] { return lines.phase.value.load(std::memory_order_acquire) >= phase; })) return false;
    before = lines.line.value.load(std::memory_order_relaxed);
    lines.seen[self].value.store(phase, std::memory_order_release);  // ready
    for (int i = 0; i < repetitions; ++i) {
      std::uint64_t written = before;
      if (!waiter.wait([&] { return (written = lines.line.value.load(std::memory_order_acquire)) != before; }))
        return false;
      samples[phase].push_back(to_ns(1) * static_cast<double>(static_cast<std::int64_t>(ticks() - written)));
      before = written;
      lines.seen[self].value.store(written, std::memory_order_release);
    }
  }
  return true;
}

/// Pairs with the stores of `seen`: every reader that takes part is done with the value.
bool await_readers(FanOutLines& lines, std::uint64_t value, std::size_t phase, std::size_t readers, Waiter& waiter) {
  for (std::size_t reader = 0; reader < readers; ++reader) {
    if (!takes_part(reader, phase, readers)) continue;
    if (!waiter.wait([&] { return lines.seen[reader].value.load(std::memory_order_acquire) == value; })) return false;
  }
  return true;
}

bool write_lines(FanOutLines& lines, std::size_t readers, int repetitions, StopFlag& stop) {
  Waiter waiter = stop.make_waiter();
  for (std::size_t phase = 1; phase <= phases(readers); ++phase) {
    lines.phase.value.store(phase, std::memory_order_release);
    if (!await_readers(lines, phase, phase, readers, waiter)) return false;
    for (int i = 0; i < repetitions; ++i) {
      for (const auto start = ticks(); to_ns(ticks() - start) < waiting_again_ns;) wait_detail::relax();
      const auto now = ticks();
      lines.line.value.store(now, std::memory_order_release);
      if (!await_readers(lines, now, phase, readers, waiter)) return false;
    }
  }
  return true;
}

/// Of the last of the readers 0 .. k-1, beside each other and alone.
double delay_of(const std::vector<Samples>& samples, std::size_t phase) {
  std::vector<double> alone;
  std::vector<std::vector<double>> together;
  for (std::size_t reader = 0; reader < participants(phase, samples.size()); ++reader) {
    alone.push_back(median(samples[reader][reader + 1]));
    together.push_back(samples[reader][phase]);
  }
  return median_excess(together, alone);
}

}  // namespace

Result<std::vector<double>> ChannelTimer::time_fan_out(int writer, std::span<const int> readers, double deadline_s) {
  const SavedAffinity saved;
  const auto os_index = [&](int pu) { return machine_.pus[static_cast<std::size_t>(pu)].os_index; };
  if (auto pinned = set_this_thread_affinity({os_index(writer)}); !pinned) return pinned.error();
  release_all();
  const auto memory = place_channel(writer);
  if (!memory) return memory.error();
  const std::size_t count = std::min(readers.size(), most_readers);
  static_assert(sizeof(FanOutLines) <= channel::ump_bytes(channel_lines));
  auto& lines = *reinterpret_cast<FanOutLines*>(*memory);
  const int repetitions = quick_ ? 16 : 64;
  StopFlag stop(deadline_s);
  std::vector<Samples> samples(count, Samples(phases(count) + 1));
  try {
    std::vector<std::unique_ptr<PinnedThread>> pool;
    for (std::size_t reader = 0; reader < count; ++reader) {
      pool.push_back(std::make_unique<PinnedThread>(os_index(readers[reader]), stop, [&, reader] {
        return read_lines(lines, reader, count, repetitions, stop.make_waiter(threads_per_pu(readers)),
                          samples[reader]);
      }));
    }
    if (!write_lines(lines, count, repetitions, stop)) stop.set();
    for (auto& thread : pool) {
      if (auto pinned = thread->join(); !pinned) return pinned.error();
    }
  } catch (const std::system_error& error) {
    return make_error(Status::io_error, "cannot start a thread to measure with: {}", error.what());
  }
  if (stop.stopped()) return out_of_time();
  std::vector<double> delays{0.0};
  for (std::size_t phase = count + 1; phase <= phases(count); ++phase) {
    delays.push_back(std::max(delays.back(), delay_of(samples, phase)));
  }
  return delays;
}

}  // namespace smelt::measure
