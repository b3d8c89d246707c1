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
      samples.push_back((elapsed_ns(start, end) - clock_ns_) / batch_size);
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
      samples.push_back((elapsed_ns(start, end) - clock_ns_) / batch_size);
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
      samples.push_back(elapsed_ns(word_, ticks()) - clock_ns_);
      if (!first && !send_stamped()) return false;
    }
    return true;
  }

  /// The same, of several lines.
  bool lone_messages_of(std::uint32_t lines, int count, bool first, std::vector<double>& samples) {
    for (int i = 0; i < count; ++i) {
      if (first && !send_lines(lines)) return false;
      if (!receive_lines(lines)) return false;
      samples.push_back(elapsed_ns(word_, ticks()) - clock_ns_);
      if (!first && !send_lines(lines)) return false;
    }
    return true;
  }

  /// Times `run(trips_per_sample)` that many times, per trip.
  template <class Run>
  bool repeat(int count, std::vector<double>& samples, Run&& run) {
    for (int i = 0; i < count; ++i) {
      const auto start = ticks();
      if (!run(trips_per_sample)) return false;
      samples.push_back((elapsed_ns(start, ticks()) - clock_ns_) / trips_per_sample);
    }
    return true;
  }

 private:
  bool send_stamped() noexcept {
    keep_quiet();
    word_ = ticks();
    return send();
  }

  bool send_lines(std::uint32_t lines) noexcept {
    keep_quiet();
    word_ = ticks();
    std::memcpy(line_, &word_, sizeof word_);
    out_.expect(lines * channel::line_payload);
    for (std::uint32_t line = 0; line < lines; ++line) {
      if (!out_.send(line_, channel::line_payload, waiter_)) return false;
    }
    return true;
  }

  bool receive_lines(std::uint32_t lines) noexcept {
    if (!in_.recv(line_, channel::line_payload, waiter_, lines)) return false;
    std::memcpy(&word_, line_, sizeof word_);
    for (std::uint32_t line = 1; line < lines; ++line) {
      if (!in_.recv_rest(line_, channel::line_payload, waiter_)) return false;
    }
    return true;
  }

  static void keep_quiet() noexcept {
    const auto quiet_until = ticks() + static_cast<std::uint64_t>(quiet_ns * ticks_per_ns());
    while (ticks() < quiet_until) {}
  }

  channel::UmpSender out_;
  channel::UmpReceiver in_;
  StopFlag& stop_;
  Waiter waiter_;
  double clock_ns_ = 0.0;
  std::uint64_t word_ = 0;
  alignas(line_bytes) std::byte line_[line_bytes] = {};
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

template <class Script>
Result<void> ChannelTimer::run_on_two(int a, int b, double deadline_s, Script&& script) {
  const SavedAffinity saved;
  if (auto pinned = set_this_thread_affinity({machine_.pus[static_cast<std::size_t>(a)].os_index}); !pinned) {
    return pinned.error();
  }
  release_all();
  const auto forward = place_channel(b);
  if (!forward) return forward.error();
  const auto backward = place_channel(a);
  if (!backward) return backward.error();
  StopFlag stop(deadline_s);
  try {
    PinnedThread other(machine_.pus[static_cast<std::size_t>(b)].os_index, stop, [&] {
      TimerSide side(*backward, *forward, stop);
      return script(side, false);
    });
    TimerSide side(*forward, *backward, stop);
    if (!script(side, true)) stop.set();
    if (auto pinned = other.join(); !pinned) return pinned.error();
  } catch (const std::system_error& error) {
    return make_error(Status::io_error, "cannot start a thread to measure with: {}", error.what());
  }
  if (stop.stopped()) return out_of_time();
  return {};
}

Result<Round> ChannelTimer::time_pair(int a, int b, double deadline_s) {
  const Counts counts = quick_ ? Counts{32, 6} : Counts{96, 16};
  Round round;
  Round other_round;  // what the other thread writes; merged after it has ended
  for (auto& samples : round.values) samples.reserve(128);
  for (auto& samples : other_round.values) samples.reserve(128);
  auto timed = run_on_two(a, b, deadline_s, [&](TimerSide& side, bool first) {
    return run_script(side, first, counts, first ? round : other_round);
  });
  if (!timed) return timed.error();
  round[Cost::recv_forward] = std::move(other_round[Cost::recv_forward]);
  round[Cost::send_backward] = std::move(other_round[Cost::send_backward]);
  round[Cost::lone_forward] = std::move(other_round[Cost::lone_forward]);
  return round;
}

Result<std::vector<double>> ChannelTimer::time_lines(int a, int b, int lines, double deadline_s) {
  std::vector<std::uint32_t> lengths;
  for (int length = 1; length <= lines; length *= 2) lengths.push_back(static_cast<std::uint32_t>(length));
  using Samples = std::vector<std::vector<double>>;
  Samples there(lengths.size()), back(lengths.size());
  const int count = quick_ ? 16 : 48;
  for (auto* samples : {&there, &back}) {
    for (auto& each : *samples) each.reserve(static_cast<std::size_t>(count));
  }
  auto timed = run_on_two(a, b, deadline_s, [&](TimerSide& side, bool first) {
    if (!side.trips(warm_up_trips, first)) return false;
    side.read_clock_overhead();
    Samples& samples = first ? back : there;
    for (std::size_t k = 0; k < lengths.size(); ++k) {
      if (!side.lone_messages_of(lengths[k], count, first, samples[k])) return false;
    }
    return true;
  });
  if (!timed) return timed.error();
  std::vector<double> costs;
  for (std::size_t k = 0; k < lengths.size(); ++k) {
    const double sum = settled_median(std::move(there[k])) + settled_median(std::move(back[k]));
    costs.push_back(std::max(0.0, sum / 2.0));
  }
  return costs;
}

}  // namespace smelt::measure
