// ChannelTimer: times the real channels between the PUs of this machine.
//
// A round between PUs a and b uses two channels and one thread pinned to each PU. The addresses of the channels are
// random, because the latency of a line depends on its home in the last-level cache. Both threads go through the same
// phases, which are separated by a message in each direction.
//
//       a (calling thread)                  b
//   warm   round trips until every line of both rings has been used
//   batch  8 sends, timed        ---->      receives; clock restarts at each empty poll
//          acknowledged          <----
//   batch  the same in the other direction
//   trips  round trips, timed on a
//   swap   both send, then both receive, timed on a
//
// The channels have the same length, memory placement (receiver's NUMA node) and way of waiting as those of
// communicators. Every wait ends soon after the deadline.
// Source: [Kaestle16] 2.4.2.2, listings 1 and 2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <random>

#include "base/segment.hpp"
#include "measure/pair_timer.hpp"
#include "smelt/machine.hpp"

namespace smelt::measure {

/// Lines of a timed channel; the same as in communicators.
inline constexpr std::uint32_t channel_lines = 64;

/// The error of a round that was ended by its deadline.
Error out_of_time();

class ChannelTimer : public PairTimer {
 public:
  /// Times PUs of `machine`, which must be the machine that this process runs on, and must outlive the timer.
  /// `quick`: fewer samples per round.
  ChannelTimer(const Machine& machine, bool quick);

  double now_s() override;
  Result<Round> time_pair(int a, int b, double deadline_s) override;
  Result<std::vector<double>> time_burst(int sender, std::span<const int> receivers, int channels,
                                         double deadline_s) override;
  Result<std::vector<double>> time_receive_burst(int receiver, std::span<const int> senders, int channels,
                                                 double deadline_s) override;
  Result<std::vector<double>> time_lines(int a, int b, int lines, double deadline_s) override;
  Result<std::vector<double>> time_receive_row(int receiver, std::span<const int> senders, double deadline_s) override;
  Result<std::vector<double>> time_fan_out(int writer, std::span<const int> readers, double deadline_s) override;
  Result<std::vector<double>> time_polls(int receiver, int channels) override;
  Result<double> time_switch(int pu, double deadline_s) override;
  Result<double> time_process_switch(int pu, double deadline_s) override;

 private:
  /// Zeroed memory at a random address for a channel to a receiver on that PU. Freed by release_all().
  Result<std::byte*> place_channel(int receiver);
  /// Runs script(side, first) on both PUs, over two new channels.
  template <class Script>
  Result<void> run_on_two(int a, int b, double deadline_s, Script&& script);
  void release_all() noexcept { placed_.clear(); }

  const Machine& machine_;
  const bool quick_;
  std::map<int, Segment> arenas_;  ///< by NUMA node
  std::vector<std::byte*> placed_;
  std::mt19937_64 random_;
};

}  // namespace smelt::measure
