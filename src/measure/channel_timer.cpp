#include "measure/channel_timer.hpp"

#include <algorithm>
#include <cstring>
#include <system_error>

#include "base/error.hpp"
#include "channel/ump.hpp"
#include "machine/topology/memory.hpp"
#include "measure/statistics.hpp"
#include "measure/timing_thread.hpp"

namespace smelt::measure {
namespace {

constexpr int batch_size = 8;      // [Kaestle16] 2.4.2.2
constexpr int warm_up_trips = 96;  // more than the lines of a ring
constexpr int trips_per_sample = 16;
constexpr double quiet_ns = 1000;  // longer than any effect of the previous message
constexpr std::size_t arena_bytes = std::size_t{4} << 20;

/// One side of a round. Members return false if the deadline ended the round.
class TimerSide {
 public:
  TimerSide(std::byte* out, std::byte* in, StopFlag& stop)
      : out_(out, channel_lines), in_(in, channel_lines), stop_(stop), waiter_(stop.make_waiter()) {}

  void read_clock_overhead() { clock_ns_ = clock_overhead_ns(); }

  bool send() noexcept { return out_.send(&word_, sizeof word_, waiter_); }
  bool receive() noexcept { return in_.recv(&word_, sizeof word_, waiter_); }

  bool send_batches(int batches, std::vector<double>& samples) {
    for (int i = 0; i < batches; ++i) {
      const auto start = ticks();
      for (int k = 0; k < batch_size; ++k)
        out_.try_send(&word_, sizeof word_);  // the ring has room for several batches
      const auto end = ticks();
      samples.push_back((to_ns(end - start) - clock_ns_) / batch_size);
      if (!receive()) return false;
    }
    return true;
  }

  bool receive_batches(int batches, std::vector<double>& samples) {
    for (int i = 0; i < batches; ++i) {
      PollBackoff empty(stop_);
      auto start = ticks();
      while (!in_.try_recv(&word_, sizeof word_)) {
        if (!empty.again()) return false;
        start = ticks();
      }
      for (int k = 1; k < batch_size; ++k) {
        if (!receive()) return false;
      }
      const auto end = ticks();
      samples.push_back((to_ns(end - start) - clock_ns_) / batch_size);
      if (!send()) return false;
    }
    return true;
  }

  bool trips(int count, bool first) noexcept {
    for (int i = 0; i < count; ++i) {
      if (first ? !(send() && receive()) : !(receive() && send())) return false;
    }
    return true;
  }

  bool exchanges(int count) noexcept {
    for (int i = 0; i < count; ++i) {
      if (!send() || !receive()) return false;
    }
    return true;
  }

  /// Single messages in both directions, each after some silence. Each carries the time at which it was sent.
  bool lone_messages(int count, bool first, std::vector<double>& samples) {
    for (int i = 0; i < count; ++i) {
      if (first && !send_stamped()) return false;
      if (!receive()) return false;
      const auto took = static_cast<std::int64_t>(ticks() - word_);
      samples.push_back(static_cast<double>(took) / ticks_per_ns() - clock_ns_);
      if (!first && !send_stamped()) return false;
    }
    return true;
  }

  /// Times `run(trips_per_sample)` that many times, per trip.
  template <class Run>
  bool repeat(int count, std::vector<double>& samples, Run&& run) {
    for (int i = 0; i < count; ++i) {
      const auto start = ticks();
      if (!run(trips_per_sample)) return false;
      samples.push_back((to_ns(ticks() - start) - clock_ns_) / trips_per_sample);
    }
    return true;
  }

 private:
  bool send_stamped() noexcept {
    const auto quiet_until = ticks() + static_cast<std::uint64_t>(quiet_ns * ticks_per_ns());
    while (ticks() < quiet_until) {}
    word_ = ticks();
    return send();
  }

  channel::UmpSender out_;
  channel::UmpReceiver in_;
  StopFlag& stop_;
  Waiter waiter_;
  double clock_ns_ = 0.0;
  std::uint64_t word_ = 0;
};

struct Counts {
  int batches;
  int samples;  ///< number of samples of round trips and of exchanges
};

bool run_script(TimerSide& side, bool first, Counts counts, Round& round) {
  std::vector<double> unused;
  auto& trips = first ? round[Cost::round_trip] : unused;
  auto& exchanges = first ? round[Cost::exchange] : unused;
  if (!side.trips(warm_up_trips, first)) return false;
  side.read_clock_overhead();  // measured here because it depends on the PU's present clock rate
  if (!side.trips(1, first)) return false;
  if (first) {
    if (!side.send_batches(counts.batches, round[Cost::send_forward])) return false;
    if (!side.receive_batches(counts.batches, round[Cost::recv_backward])) return false;
  } else {
    if (!side.receive_batches(counts.batches, round[Cost::recv_forward])) return false;
    if (!side.send_batches(counts.batches, round[Cost::send_backward])) return false;
  }
  if (!side.trips(1, first)) return false;
  if (!side.lone_messages(counts.batches, first, round[first ? Cost::lone_backward : Cost::lone_forward])) return false;
  if (!side.repeat(counts.samples, trips, [&](int count) { return side.trips(count, first); })) return false;
  return side.repeat(counts.samples, exchanges, [&](int count) { return side.exchanges(count); });
}

}  // namespace

Error out_of_time() { return make_error(Status::timed_out, "the time to measure was up before a round was complete"); }

ChannelTimer::ChannelTimer(const Machine& machine, bool quick) : machine_(machine), quick_(quick), random_(1) {}

double ChannelTimer::now_s() { return monotonic_s(); }

Result<std::byte*> ChannelTimer::place_channel(int receiver) {
  const int node = machine_.pus[static_cast<std::size_t>(receiver)].numa_node;
  auto found = arenas_.find(node);
  if (found == arenas_.end()) {
    auto segment = Segment::anonymous(arena_bytes);
    if (!segment) return segment.error();
    if (node >= 0 && static_cast<std::size_t>(node) < machine_.numa_nodes.size()) {
      // Without the permission to place memory, the kernel chooses, as it does for communicators.
      (void)bind_to_numa_node(segment->data(), arena_bytes,
                              machine_.numa_nodes[static_cast<std::size_t>(node)].os_index);
    }
    found = arenas_.emplace(node, std::move(*segment)).first;
  }
  constexpr std::size_t bytes = channel::ump_bytes(channel_lines);
  constexpr std::size_t places = (arena_bytes - bytes) / separation_bytes;
  for (;;) {
    std::byte* const memory = found->second.data() + random_() % places * separation_bytes;
    const bool taken = std::any_of(placed_.begin(), placed_.end(), [&](const std::byte* other) {
      return memory < other + bytes && other < memory + bytes;
    });
    if (taken) continue;
    std::memset(memory, 0, bytes);
    placed_.push_back(memory);
    return memory;
  }
}

Result<Round> ChannelTimer::time_pair(int a, int b, double deadline_s) {
  const SavedAffinity saved;
  if (auto pinned = set_this_thread_affinity({machine_.pus[static_cast<std::size_t>(a)].os_index}); !pinned) {
    return pinned.error();
  }
  release_all();
  const auto forward = place_channel(b);
  if (!forward) return forward.error();
  const auto backward = place_channel(a);
  if (!backward) return backward.error();

  const Counts counts = quick_ ? Counts{32, 6} : Counts{96, 16};
  StopFlag stop(deadline_s);
  Round round;
  Round other_round;  // what the other thread writes; merged after it has ended
  for (auto& samples : round.values) samples.reserve(128);
  for (auto& samples : other_round.values) samples.reserve(128);
  try {
    PinnedThread other(machine_.pus[static_cast<std::size_t>(b)].os_index, stop, [&] {
      TimerSide side(*backward, *forward, stop);
      return run_script(side, false, counts, other_round);
    });
    TimerSide side(*forward, *backward, stop);
    if (!run_script(side, true, counts, round)) stop.set();
    if (auto pinned = other.join(); !pinned) return pinned.error();
  } catch (const std::system_error& error) {
    return make_error(Status::io_error, "cannot start a thread to measure with: {}", error.what());
  }
  if (stop.stopped()) return out_of_time();
  round[Cost::recv_forward] = std::move(other_round[Cost::recv_forward]);
  round[Cost::send_backward] = std::move(other_round[Cost::send_backward]);
  round[Cost::lone_forward] = std::move(other_round[Cost::lone_forward]);
  return round;
}

}  // namespace smelt::measure
