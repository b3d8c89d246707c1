// Costs of messages for one core of a platform, in cycles: [Shahmirzadi14] table 3.2.
#pragma once

#include <functional>
#include <queue>
#include <vector>

#include "smelt/map_model.hpp"

namespace smelt::state {

class MessageCosts {
 public:
  explicit MessageCosts(const MapPlatform& platform) : on_(platform) {}

  double send(double words) const { return on_.send + words * on_.send_word; }
  double receive(double words) const { return on_.receive + words * on_.receive_word; }
  /// Cost of a message for which the receiver is not waiting.
  double interrupted(double words) const { return receive(words) + on_.interrupt; }

  /// T_rtt(send, rcv): until the answer has been received.
  double round_trip(double words, double answer) const {
    return send(words) + receive(words) + send(answer) + receive(answer) + 2.0 * on_.latency;
  }
  /// T_rtt(send, arcv).
  double interrupting_round_trip(double words, double answer) const {
    return round_trip(words, answer) + on_.interrupt;
  }

  /// o_bcast: cost of `receivers` copies for all senders together. A tree divides it among the ranks that forward.
  double broadcast(double words, double receivers) const {
    return (on_.broadcast == MapBroadcast::hardware ? std::min(receivers, 1.0) : receivers) * send(words);
  }
  /// T_rtt(bcast, arcv): until all have answered. In a tree, the answers return along the same path.
  double broadcast_round_trip(double words, double answer, int receivers) const {
    if (receivers < 1) return 0.0;
    if (on_.broadcast == MapBroadcast::tree) return spread(words, receivers) + spread(answer, receivers);
    return broadcast(words, receivers) + interrupted(words) + send(answer) + receive(answer) + 2.0 * on_.latency;
  }

  /// o_mcast: to a list of receivers that differs each time, so there is no tree.
  double multicast(double words, double receivers) const {
    if (receivers <= 0.0) return 0.0;
    return (on_.broadcast == MapBroadcast::hardware ? 1.0 : receivers) * send(words);
  }
  /// T_rtt(mcast, arcv).
  double multicast_round_trip(double words, double answer, double receivers) const {
    if (receivers <= 0.0) return 0.0;
    return multicast(words, receivers) + interrupted(words) + send(answer) + receive(answer) + 2.0 * on_.latency;
  }

  /// Time until the last of `receivers` has a broadcast message.
  double spread(double words, int receivers) const {
    const double arrival = on_.latency + interrupted(words);
    if (receivers < 1) return 0.0;
    if (on_.broadcast != MapBroadcast::tree) return broadcast(words, receivers) + arrival;
    // The first free rank sends next. If all messages cost the same, no tree is faster.
    std::priority_queue<double, std::vector<double>, std::greater<>> free_at;
    free_at.push(0.0);
    double last = 0.0;
    for (int i = 0; i < receivers; ++i) {
      const double sent = free_at.top() + send(words);
      free_at.pop();
      last = sent + arrival;
      free_at.push(sent);
      free_at.push(last);
    }
    return last;
  }

  /// Cost of a broadcast for its root alone.
  double root_sends(double words, int receivers) const {
    if (on_.broadcast != MapBroadcast::tree) return broadcast(words, receivers);
    double sends = 0.0;
    for (const double last = spread(words, receivers); sends < receivers; ++sends) {
      if ((sends + 1.0) * send(words) + on_.latency + interrupted(words) > last) break;
    }
    return sends * send(words);
  }

 private:
  const MapPlatform& on_;
};

}  // namespace smelt::state
