// Model of agreement by messages: how many commands per second a sequence of replicas agrees on, and how long one
// takes, by the costs of a machine. Pure functions.
//
//   auto tree = smelt::predict_log(*machine, replicas, "1paxos", "best");
//   auto star = smelt::predict_log(*machine, replicas, "1paxos", "sequential");
//   std::printf("%.2f times the throughput\n", tree->per_s / star->per_s);
//
// It is about the protocols of the text, whose replicas have no memory in common. smelt's own log has its commands in
// shared memory, and takes less: `smelt bench log`. Source: [Smelt16] 5.6, figure 12.
#pragma once

#include <string>
#include <vector>

#include "smelt/error.hpp"
#include "smelt/machine.hpp"
#include "smelt/plan.hpp"

namespace smelt {

/// What the model says of a log. Ranks are those of the group of replicas.
struct LogPrediction {
  std::string algorithm{};  ///< 1paxos, broadcast
  std::string topology{};
  int replicas = 0;
  int leader = -1;    ///< the sequencer of `broadcast`
  int acceptor = -1;  ///< -1: none
  double per_s = 0.0;
  double response_ns = 0.0;       ///< from a client's request until it has the answer, without other requests
  int busiest = -1;               ///< the rank that limits the throughput
  double busiest_ns = 0.0;        ///< of its time, per command
  std::vector<double> busy_ns{};  ///< of every rank's time
};

/// Throughput and response time of a failure-free log. Flow:
///
///   1paxos     client -> leader -> acceptor -> broadcast to all; the leader answers when that has reached it
///   broadcast  client -> sequencer -> broadcast to all; the sequencer answers when it has sent it
///
/// A rank is busy with the messages that it receives and sends: the throughput is that of the busiest rank. Requests
/// come from `client`, an index into the machine's PUs that no replica has (else the first such PU; where there is
/// none, a replica's). `algorithm`: 1paxos or broadcast. `topology`: of the broadcast, one of topologies(), planned for
/// the response time. Requirements: two replicas (1paxos) or one, a machine with costs. Cost: that of planning. Errors:
/// invalid_argument.
Result<LogPrediction> predict_log(const Machine& machine, const Group& replicas, const std::string& algorithm,
                                  const std::string& topology = "best");

}  // namespace smelt
