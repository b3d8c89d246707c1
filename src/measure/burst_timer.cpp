// The burst half of ChannelTimer: one sender, many channels.
//
//   sender   channel 0 ---> | thread on PU r0      Each thread polls its own channels in turn.
//            channel 1 ---> | thread on PU r1      A burst of k uses channels 0..k-1; its messages
//            channel 2 ---> | thread on PU r0      carry k, so that a thread knows how many to
//              ...          |   ...                take before it replies.
//            reply 0..T-1 <-| each thread
//
// Where each channel has a thread of its own, only the thread that gets the last message of a burst replies. How much
// longer this takes than a lone message to that thread and back is what the messages before the last one cost it: the
// sender is done sooner, but its lines leave one after the other.
//
// The clock is read only before and after a burst. Readings between the sends would give the write buffer time to
// drain and so hide its effect.
#include <algorithm>
#include <memory>
#include <numeric>
#include <system_error>

#include "base/error.hpp"
#include "channel/ump.hpp"
#include "measure/channel_timer.hpp"
#include "measure/statistics.hpp"
#include "measure/timing_thread.hpp"

namespace smelt::measure {
namespace {

using channel::UmpReceiver;
using channel::UmpSender;

constexpr std::uint64_t last_burst = 0;  // a message that ends the receiving threads

/// A receiving thread that has one channel alone.
struct RowReceiver {
  std::uint64_t number = 1;
  UmpReceiver channel;
  UmpSender reply;

  /// Receives messages until the last one, and replies to those that say that this channel's is the last of a burst.
  /// False if the deadline has passed.
  bool run(Waiter waiter) {
    for (std::uint64_t last = 0;;) {
      if (!channel.recv(&last, sizeof last, waiter)) return false;
      if (last == last_burst) return true;
      if (last == number && !reply.notify(waiter)) return false;
    }
  }
};

/// One receiving thread's ends: channels index, index + threads, index + 2 threads, ...
struct BurstReceiver {
  std::size_t index = 0;
  std::size_t threads = 1;
  std::vector<UmpReceiver> channels;
  UmpSender reply;

  /// Receives bursts until the last one. False if the deadline has passed.
  bool run(StopFlag& stop) {
    Waiter waiter = stop.make_waiter();
    for (;;) {
      std::uint64_t size = last_burst;
      if (!take_burst(stop, size)) return false;
      if (size == last_burst) return true;
      if (!reply.notify(waiter)) return false;
    }
  }

 private:
  bool take_burst(StopFlag& stop, std::uint64_t& size) {
    PollBackoff empty(stop);
    std::size_t expected = 1;  // until the first message says more
    std::size_t taken = 0;
    std::uint64_t done = 0;  // bit c: channels[c]
    while (taken < expected) {
      for (std::size_t c = 0; c < channels.size(); ++c) {
        if ((done >> c & 1) != 0 || !channels[c].try_recv(&size, sizeof size)) continue;
        done |= std::uint64_t{1} << c;
        ++taken;
        if (size != last_burst) expected = (size - index + threads - 1) / threads;
      }
      if (taken < expected && !empty.again()) return false;
    }
    return true;
  }
};

/// The sending thread's ends.
struct BurstSender {
  std::vector<UmpSender> channels;
  std::vector<UmpReceiver> replies;  ///< one per receiving thread

  bool burst(std::uint64_t size, Waiter& waiter, double clock_ns, std::vector<double>& samples) {
    const auto start = ticks();
    for (std::uint64_t c = 0; c < size; ++c) channels[c].try_send(&size, sizeof size);  // all are empty
    const auto end = ticks();
    samples.push_back(elapsed_ns(start, end) - clock_ns);
    for (std::size_t t = 0; t < std::min<std::size_t>(size, replies.size()); ++t) {
      if (!replies[t].recv(nullptr, 0, waiter)) return false;
    }
    return true;
  }

  /// Sends to channels first + 1 .. last, as collectives send in a row, and waits for the reply of the last one.
  bool row(std::uint64_t first, std::uint64_t last, Waiter& waiter, double& took_ns) {
    const auto start = ticks();
    if (last - first > 1) {
      for (std::uint64_t c = first; c < last; ++c) channels[c].fetch();
    }
    for (std::uint64_t c = first; c < last; ++c) {
      if (!channels[c].send(&last, sizeof last, waiter)) return false;
    }
    if (!replies[last - 1].recv(nullptr, 0, waiter)) return false;
    took_ns = elapsed_ns(start, ticks());
    return true;
  }

  /// How much later the last message of a burst is there than a lone one.
  bool delay(std::uint64_t size, Waiter& waiter, std::vector<double>& samples) {
    double lone_ns = 0.0, burst_ns = 0.0;
    if (!row(size - 1, size, waiter, lone_ns) || !row(0, size, waiter, burst_ns)) return false;
    samples.push_back(delay_while_all_ran(lone_ns, burst_ns));
    return true;
  }

  void finish() {
    for (std::size_t t = 0; t < replies.size(); ++t) channels[t].try_send(&last_burst, sizeof last_burst);
  }
};

}  // namespace

Result<std::vector<double>> ChannelTimer::time_burst(int sender, std::span<const int> receivers, int channels,
                                                     double deadline_s) {
  const SavedAffinity saved;
  const auto os_index = [&](int pu) { return machine_.pus[static_cast<std::size_t>(pu)].os_index; };
  if (auto pinned = set_this_thread_affinity({os_index(sender)}); !pinned) return pinned.error();
  release_all();
  const std::size_t threads = std::min(receivers.size(), static_cast<std::size_t>(channels));
  const bool rows = channels > 1 && threads == static_cast<std::size_t>(channels);  // a thread for each channel
  BurstSender sending;
  std::vector<BurstReceiver> receiving(threads);
  for (std::size_t c = 0; c < static_cast<std::size_t>(channels); ++c) {
    const auto memory = place_channel(receivers[c % threads]);
    if (!memory) return memory.error();
    sending.channels.emplace_back(*memory, channel_lines);
    receiving[c % threads].channels.emplace_back(*memory, channel_lines);
  }
  for (std::size_t t = 0; t < threads; ++t) {
    const auto memory = place_channel(sender);
    if (!memory) return memory.error();
    sending.replies.emplace_back(*memory, channel_lines);
    receiving[t].reply = UmpSender(*memory, channel_lines);
    receiving[t].index = t;
    receiving[t].threads = threads;
  }

  StopFlag stop(deadline_s);
  Waiter waiter = stop.make_waiter();
  std::vector<std::vector<double>> samples(static_cast<std::size_t>(channels));
  try {
    std::vector<std::unique_ptr<PinnedThread>> pool;
    for (std::size_t t = 0; t < threads; ++t) {
      pool.push_back(std::make_unique<PinnedThread>(os_index(receivers[t]), stop, [&, t] {
        BurstReceiver own = receiving[t];  // a copy on this thread's stack: shares no cache line with the sender
        if (!rows) return own.run(stop);
        return RowReceiver{t + 1, own.channels.front(), own.reply}.run(stop.make_waiter(threads_per_pu(receivers)));
      }));
    }
    // Random order, so that the contents of the caches do not depend on the size.
    std::vector<std::uint64_t> sizes(static_cast<std::size_t>(channels));
    std::iota(sizes.begin(), sizes.end(), 1);
    std::vector<double> warm_up;
    const int repetitions = quick_ ? 8 : 24;
    bool going = true;
    double clock_ns = 0.0;
    const auto take = [&](std::uint64_t size, std::vector<double>& to) {
      return rows && size > 1 ? sending.delay(size, waiter, to) : sending.burst(size, waiter, clock_ns, to);
    };
    for (int i = 0; going && i < static_cast<int>(channel_lines); ++i) {
      going = take(static_cast<std::uint64_t>(channels), warm_up);
    }
    clock_ns = clock_overhead_ns();
    for (int i = 0; going && i < repetitions; ++i) {
      std::shuffle(sizes.begin(), sizes.end(), random_);
      for (std::uint64_t size : sizes) going = going && take(size, samples[size - 1]);
    }
    if (!going) stop.set();
    sending.finish();
    for (auto& thread : pool) {
      if (auto pinned = thread->join(); !pinned) return pinned.error();
    }
  } catch (const std::system_error& error) {
    return make_error(Status::io_error, "cannot start a thread to measure with: {}", error.what());
  }
  if (stop.stopped()) return out_of_time();
  std::vector<double> totals;
  for (auto& one : samples) totals.push_back(settled_median(while_all_ran(std::move(one))));
  for (std::size_t k = 1; rows && k < totals.size(); ++k) totals[k] += totals.front();
  return totals;
}

}  // namespace smelt::measure
