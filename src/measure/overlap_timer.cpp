// The part of ChannelTimer that times receives of several waiting messages, polls of empty channels, and switches
// between threads of a PU.
//
//   receiver   order 0..T-1  ---> | thread on PU s0    An order of k makes the threads send to channels 0..k-1, each to
//              channel 0    <---  | thread on PU s1    its own (index, index + T, ...), and then say that they are done.
//              channel 1    <---  |   ...              Then all messages wait, and their receives are timed together.
//              done 0..T-1  <---  |
#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <numeric>
#include <system_error>

#include "base/error.hpp"
#include "channel/ump.hpp"
#include "measure/channel_timer.hpp"
#include "measure/forked_child.hpp"
#include "measure/statistics.hpp"
#include "measure/timing_thread.hpp"

namespace smelt::measure {
namespace {

using channel::UmpReceiver;
using channel::UmpSender;

constexpr std::uint64_t last_order = 0;  // ends the sending threads
constexpr int looks_per_sample = 32;
constexpr int switches_per_sample = 16;

/// One sending thread's ends: channels index, index + threads, index + 2 threads, ...
struct OrderedSender {
  std::size_t index = 0;
  std::size_t threads = 1;
  UmpReceiver orders;
  std::vector<UmpSender> channels;
  UmpSender done;

  /// Sends bursts until the last order. False if the deadline has passed.
  bool run(StopFlag& stop) {
    Waiter waiter = stop.make_waiter();
    for (std::uint64_t size = 0;;) {
      if (!orders.recv(&size, sizeof size, waiter)) return false;
      if (size == last_order) return true;
      for (std::size_t c = index, own = 0; c < size; c += threads, ++own) {
        if (!channels[own].send(&size, sizeof size, waiter)) return false;
      }
      if (!done.notify(waiter)) return false;
    }
  }
};

/// The receiving thread's ends.
struct BurstTaker {
  std::vector<UmpSender> orders;  ///< one per sending thread
  std::vector<UmpReceiver> channels, done;

  /// False if the deadline has passed or a message was missing.
  bool burst(std::uint64_t size, Waiter& waiter, double clock_ns, std::vector<double>& samples) {
    for (auto& order : orders) {
      if (!order.send(&size, sizeof size, waiter)) return false;
    }
    for (auto& each : done) {
      if (!each.recv(nullptr, 0, waiter)) return false;
    }
    std::uint64_t word = 0;
    bool all = true;
    const auto start = ticks();
    for (std::uint64_t c = 0; c < size; ++c) all &= channels[c].try_recv(&word, sizeof word);
    const auto end = ticks();
    samples.push_back(elapsed_ns(start, end) - clock_ns);
    return all;
  }

  bool finish(Waiter& waiter) {
    return std::all_of(orders.begin(), orders.end(),
                       [&](UmpSender& order) { return order.send(&last_order, sizeof last_order, waiter); });
  }
};

}  // namespace

Result<std::vector<double>> ChannelTimer::time_receive_burst(int receiver, std::span<const int> senders, int channels,
                                                             double deadline_s) {
  const SavedAffinity saved;
  const auto os_index = [&](int pu) { return machine_.pus[static_cast<std::size_t>(pu)].os_index; };
  if (auto pinned = set_this_thread_affinity({os_index(receiver)}); !pinned) return pinned.error();
  release_all();
  const std::size_t threads = std::min(senders.size(), static_cast<std::size_t>(channels));
  BurstTaker taking;
  std::vector<OrderedSender> sending(threads);
  for (std::size_t t = 0; t < threads; ++t) {
    const auto order = place_channel(senders[t]);
    if (!order) return order.error();
    const auto done = place_channel(receiver);
    if (!done) return done.error();
    taking.orders.emplace_back(*order, channel_lines);
    taking.done.emplace_back(*done, channel_lines);
    sending[t].orders = UmpReceiver(*order, channel_lines);
    sending[t].done = UmpSender(*done, channel_lines);
    sending[t].index = t;
    sending[t].threads = threads;
  }
  for (std::size_t c = 0; c < static_cast<std::size_t>(channels); ++c) {
    const auto memory = place_channel(receiver);
    if (!memory) return memory.error();
    taking.channels.emplace_back(*memory, channel_lines);
    sending[c % threads].channels.emplace_back(*memory, channel_lines);
  }

  StopFlag stop(deadline_s);
  Waiter waiter = stop.make_waiter();
  std::vector<std::vector<double>> samples(static_cast<std::size_t>(channels));
  try {
    std::vector<std::unique_ptr<PinnedThread>> pool;
    for (std::size_t t = 0; t < threads; ++t) {
      pool.push_back(std::make_unique<PinnedThread>(os_index(senders[t]), stop, [&stop, &shared = sending[t]] {
        OrderedSender own = shared;  // a copy on this thread's stack: shares no cache line with the receiver
        return own.run(stop);
      }));
    }
    std::vector<std::uint64_t> sizes(static_cast<std::size_t>(channels));
    std::iota(sizes.begin(), sizes.end(), 1);
    std::vector<double> warm_up;
    const int repetitions = quick_ ? 8 : 24;
    bool going = true;
    for (int i = 0; going && i < static_cast<int>(channel_lines); ++i) {
      going = taking.burst(static_cast<std::uint64_t>(channels), waiter, 0.0, warm_up);
    }
    const double clock_ns = clock_overhead_ns();
    for (int i = 0; going && i < repetitions; ++i) {
      std::shuffle(sizes.begin(), sizes.end(), random_);
      for (const std::uint64_t size : sizes) {
        going = going && taking.burst(size, waiter, clock_ns, samples[size - 1]);
      }
    }
    if (!going || !taking.finish(waiter)) stop.set();
    for (auto& thread : pool) {
      if (auto pinned = thread->join(); !pinned) return pinned.error();
    }
  } catch (const std::system_error& error) {
    return make_error(Status::io_error, "cannot start a thread to measure with: {}", error.what());
  }
  if (stop.stopped()) return out_of_time();
  std::vector<double> totals;
  for (auto& one : samples) totals.push_back(settled_median(std::move(one)));
  return totals;
}

Result<std::vector<double>> ChannelTimer::time_polls(int receiver, int channels) {
  const SavedAffinity saved;
  if (auto pinned = set_this_thread_affinity({machine_.pus[static_cast<std::size_t>(receiver)].os_index}); !pinned) {
    return pinned.error();
  }
  release_all();
  std::vector<UmpReceiver> empty;
  std::vector<double> costs;
  for (int count = 1; count <= channels; count *= 2) {
    while (empty.size() < static_cast<std::size_t>(count)) {
      const auto memory = place_channel(receiver);
      if (!memory) return memory.error();
      empty.emplace_back(*memory, channel_lines);
    }
    std::uint64_t word = 0;
    std::vector<double> samples;
    const double clock_ns = clock_overhead_ns();
    for (int i = 0; i < (quick_ ? 16 : 64); ++i) {
      const auto start = ticks();
      for (int look = 0; look < looks_per_sample; ++look) {
        for (auto& each : empty) (void)each.try_recv(&word, sizeof word);
      }
      samples.push_back(std::max(0.0, elapsed_ns(start, ticks()) - clock_ns) / looks_per_sample);
    }
    costs.push_back(settled_median(std::move(samples)));
  }
  return costs;
}

namespace {

/// A quarter of the samples: another program on the PU only ever adds to them.
double undisturbed(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  return quantile_of_sorted(samples, 0.25);
}

/// One of two sides on a PU that hand a word back and forth and wait like ranks that share a PU. A bare word, as the
/// simulator adds the costs of messages.
struct SwitchSide {
  explicit SwitchSide(std::byte* shared) : word(*reinterpret_cast<std::atomic<std::uint32_t>*>(shared)) {}

  bool trips(bool quick, bool first, StopFlag& stop, std::vector<double>* samples) {
    Waiter waiter = stop.make_yielding_waiter();
    const int repetitions = quick ? 16 : 64;
    std::uint32_t next = first ? 0 : 1;  // the number with which it is this side's turn
    for (int i = 0; i < repetitions; ++i) {
      const auto start = ticks();
      for (int k = 0; k < switches_per_sample / 2; ++k, next += 2) {
        // Pairs with the other side's store.
        if (!waiter.wait([&] { return word.load(std::memory_order_acquire) == next; })) return false;
        word.store(next + 1, std::memory_order_release);  // pairs with the other side's load
      }
      if (samples != nullptr) samples->push_back(elapsed_ns(start, ticks()) / switches_per_sample);
    }
    return true;
  }

  std::atomic<std::uint32_t>& word;
};

}  // namespace

// Two threads on one PU. Each change of the word is a switch.
Result<double> ChannelTimer::time_switch(int pu, double deadline_s) {
  const SavedAffinity saved;
  const int os_index = machine_.pus[static_cast<std::size_t>(pu)].os_index;
  if (auto pinned = set_this_thread_affinity({os_index}); !pinned) return pinned.error();
  release_all();
  const auto shared = place_channel(pu);
  if (!shared) return shared.error();
  StopFlag stop(deadline_s);
  std::vector<double> samples;
  try {
    PinnedThread other(os_index, stop, [&] { return SwitchSide(*shared).trips(quick_, false, stop, nullptr); });
    if (!SwitchSide(*shared).trips(quick_, true, stop, &samples)) stop.set();
    if (auto pinned = other.join(); !pinned) return pinned.error();
  } catch (const std::system_error& error) {
    return make_error(Status::io_error, "cannot start a thread to measure with: {}", error.what());
  }
  if (stop.stopped()) return out_of_time();
  return undisturbed(std::move(samples));
}

Result<double> ChannelTimer::time_process_switch(int pu, double deadline_s) {
  const SavedAffinity saved;
  const int os_index = machine_.pus[static_cast<std::size_t>(pu)].os_index;
  if (auto pinned = set_this_thread_affinity({os_index}); !pinned) return pinned.error();
  auto memory = Segment::anonymous(separation_bytes);
  if (!memory) return memory.error();
  std::byte* const shared = memory->data();
  StopFlag stop(deadline_s);
  if (stop.check()) return out_of_time();
  std::vector<double> samples;
  // The child may not calibrate the clock or allocate memory.
  (void)stop.make_waiter(2.0);
  (void)ticks_per_ns();
  ForkedChild child(os_index, [&] { SwitchSide(shared).trips(quick_, false, stop, nullptr); });
  if (child.pid() < 0) return make_error(Status::io_error, "cannot fork to measure with: {}", std::strerror(errno));
  if (!SwitchSide(shared).trips(quick_, true, stop, &samples)) return out_of_time();
  return undisturbed(std::move(samples));
}

}  // namespace smelt::measure
