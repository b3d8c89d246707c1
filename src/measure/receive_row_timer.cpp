// The part of ChannelTimer that times receives of messages that come at once.
//
//   receiver   order: number, start  ---> | thread on PU s0    At the start, senders 0 .. number - 1 each send a message.
//              channel 0             <--- | thread on PU s1    The receiver waits for that of sender 0, then takes the
//              channel 1             <--- |   ...              others in turn.
//
// Counters of two PUs may differ, which adds the same to all rows. If by least_absence_ns or more, rows stay unknown.
#include <algorithm>
#include <memory>
#include <numeric>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "channel/ump.hpp"
#include "measure/channel_timer.hpp"
#include "measure/statistics.hpp"
#include "measure/timing_thread.hpp"

namespace smelt::measure {
namespace {

using channel::UmpReceiver;
using channel::UmpSender;

constexpr double ahead_ns = 4000.0;  ///< all senders have the order by then

struct Order {
  std::uint64_t number;  ///< of messages; 0 ends the senders
  std::uint64_t start;   ///< in ticks()
};

struct RowSender {
  std::size_t index = 0;
  UmpReceiver orders;
  UmpSender channel;

  /// False if the deadline has passed.
  bool run(Waiter waiter) {
    for (Order order{};;) {
      if (!orders.recv(&order, sizeof order, waiter)) return false;
      if (order.number == 0) return true;
      if (index >= order.number) continue;
      while (ticks() < order.start) {}
      if (!channel.send(&index, sizeof index, waiter)) return false;
    }
  }
};

struct RowTaker {
  std::vector<UmpSender> orders;
  std::vector<UmpReceiver> channels;

  bool send(Order order, Waiter& waiter) {
    return std::all_of(orders.begin(), orders.end(),
                       [&](UmpSender& each) { return each.send(&order, sizeof order, waiter); });
  }

  bool row(std::uint64_t number, Waiter& waiter, std::vector<double>& samples) {
    const std::uint64_t start = ticks() + static_cast<std::uint64_t>(ahead_ns * ticks_per_ns());
    if (!send({number, start}, waiter)) return false;
    std::size_t word = 0;
    for (std::uint64_t k = 0; k < number; ++k) {
      if (!channels[k].recv(&word, sizeof word, waiter)) return false;
    }
    samples.push_back(elapsed_ns(start, ticks()));
    return true;
  }
};

}  // namespace

Result<std::vector<double>> ChannelTimer::time_receive_row(int receiver, std::span<const int> senders,
                                                           double deadline_s) {
  const SavedAffinity saved;
  const auto os_index = [&](int pu) { return machine_.pus[static_cast<std::size_t>(pu)].os_index; };
  if (auto pinned = set_this_thread_affinity({os_index(receiver)}); !pinned) return pinned.error();
  release_all();
  RowTaker taking;
  std::vector<RowSender> sending(senders.size());
  for (std::size_t t = 0; t < senders.size(); ++t) {
    const auto order = place_channel(senders[t]);
    if (!order) return order.error();
    const auto channel = place_channel(receiver);
    if (!channel) return channel.error();
    taking.orders.emplace_back(*order, channel_lines);
    taking.channels.emplace_back(*channel, channel_lines);
    sending[t] = {t, UmpReceiver(*order, channel_lines), UmpSender(*channel, channel_lines)};
  }
  StopFlag stop(deadline_s);
  Waiter waiter = stop.make_waiter();
  std::vector<std::vector<double>> samples(senders.size());
  try {
    std::vector<std::unique_ptr<PinnedThread>> pool;
    for (std::size_t t = 0; t < senders.size(); ++t) {
      pool.push_back(std::make_unique<PinnedThread>(os_index(senders[t]), stop, [&, &shared = sending[t]] {
        RowSender own = shared;  // a copy on this thread's stack: shares no cache line with the receiver
        return own.run(stop.make_waiter(threads_per_pu(senders)));
      }));
    }
    std::vector<std::uint64_t> numbers(senders.size());
    std::iota(numbers.begin(), numbers.end(), 1);
    const int repetitions = quick_ ? 8 : 32;
    bool going = !stop.check();
    std::vector<double> warm_up;
    for (int i = 0; going && i < static_cast<int>(channel_lines); ++i) {
      going = taking.row(senders.size(), waiter, warm_up);
    }
    for (int i = 0; going && i < repetitions && !stop.check(); ++i) {
      std::shuffle(numbers.begin(), numbers.end(), random_);
      for (const std::uint64_t number : numbers) going = going && taking.row(number, waiter, samples[number - 1]);
    }
    if (!going || !taking.send({0, 0}, waiter)) stop.set();
    for (auto& thread : pool) {
      if (auto pinned = thread->join(); !pinned) return pinned.error();
    }
  } catch (const std::system_error& error) {
    return make_error(Status::io_error, "cannot start a thread to measure with: {}", error.what());
  }
  if (stop.stopped()) return out_of_time();
  std::vector<double> totals;
  for (auto& one : samples) totals.push_back(settled_median(while_all_ran(std::move(one))));
  return totals;
}

}  // namespace smelt::measure
