// PairTimer: the interface through which a campaign times pairs. The real one (channel_timer.hpp) runs two threads over
// channels; tests put a known matrix and a virtual clock in its place.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "smelt/error.hpp"

namespace smelt::measure {

/// What is timed between two PUs a and b, in nanoseconds; forward is a -> b. `lone` is a message after some silence,
/// from before its send to after its receive, by the two PUs' own counters. An offset between the counters affects
/// forward and backward with opposite signs.
enum class Cost : std::size_t {
  send_forward,
  recv_forward,
  send_backward,
  recv_backward,
  lone_forward,
  lone_backward,
  round_trip,
  exchange
};
inline constexpr std::size_t cost_count = 8;

/// One value of T per Cost.
template <class T>
struct PerCost {
  std::array<T, cost_count> values{};

  T& operator[](Cost cost) { return values[static_cast<std::size_t>(cost)]; }
  const T& operator[](Cost cost) const { return values[static_cast<std::size_t>(cost)]; }
};

/// The same with a and b swapped.
template <class T>
PerCost<T> swapped(PerCost<T> costs) {
  std::swap(costs[Cost::send_forward], costs[Cost::send_backward]);
  std::swap(costs[Cost::recv_forward], costs[Cost::recv_backward]);
  std::swap(costs[Cost::lone_forward], costs[Cost::lone_backward]);
  return costs;
}

/// Samples of one round: some tens of each cost, over one newly placed pair of channels.
using Round = PerCost<std::vector<double>>;

class PairTimer {
 public:
  virtual ~PairTimer() = default;

  /// The present time in seconds, on the clock of the deadlines.
  virtual double now_s() = 0;

  /// Times one round between two different PUs (indices into the machine's PUs). Returns timed_out soon after the
  /// deadline. Any other error says why the machine cannot be measured at all.
  virtual Result<Round> time_pair(int a, int b, double deadline_s) = 0;

  /// Times bursts of 1, 2, ... `channels` sends to distinct channels, whose receiving ends are
  /// spread over `receivers` (PUs other than the sender's). Element k, in nanoseconds: where each of several channels
  /// has a receiver of its own, a lone send and how much later the last message of a burst of k + 1 is there than a
  /// lone one; else, how long the sender is busy with k + 1 sends. Errors as time_pair.
  virtual Result<std::vector<double>> time_burst(int sender, std::span<const int> receivers, int channels,
                                                 double deadline_s) = 0;

  /// Times the receives of 1, 2, ... `channels` messages that wait in distinct channels, sent from `senders` (PUs other
  /// than the receiver's). Element k: nanoseconds of k + 1 receives. Errors as time_pair.
  virtual Result<std::vector<double>> time_receive_burst(int receiver, std::span<const int> senders, int channels,
                                                         double deadline_s) = 0;

  /// The same of messages that are sent at once while the receiver waits for the first one. Element k: nanoseconds from
  /// the sends to the end of k + 1 receives.
  virtual Result<std::vector<double>> time_receive_row(int receiver, std::span<const int> senders,
                                                       double deadline_s) = 0;

  /// Times lone messages of 1, 2, 4, ... `lines` lines, sent and received as collectives do, in nanoseconds: from
  /// before the send to after the receive of the last line, the mean of both directions. Errors as time_pair.
  virtual Result<std::vector<double>> time_lines(int a, int b, int lines, double deadline_s) = 0;

  /// Times a line that 1, 2, 4, ... of `readers` (PUs other than the writer's; up to 16) wait for at the same time.
  /// Element k: how much later than a lone reader the last of 2^k has it, in nanoseconds. Never falls. Errors as
  /// time_pair.
  virtual Result<std::vector<double>> time_fan_out(int writer, std::span<const int> readers, double deadline_s) = 0;

  /// Times one look at each of 1, 2, 4, ... `channels` channels without messages, in nanoseconds. Cost: a millisecond.
  virtual Result<std::vector<double>> time_polls(int receiver, int channels) = 0;

  /// Times a switch between two threads of a PU that send each other messages. Errors as time_pair.
  virtual Result<double> time_switch(int pu, double deadline_s) = 0;

  /// The same between two processes. Forks.
  virtual Result<double> time_process_switch(int pu, double deadline_s) = 0;
};

}  // namespace smelt::measure
