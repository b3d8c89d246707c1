// `smelt simulate log`.
#pragma once

#include <string>

namespace smelt::cli {

struct SimulateLog {
  std::string model;
  std::string replicas;  ///< list; empty: 8, 12, ... as many as leave four PUs
  bool json = false;
};

/// Agreement by messages on a machine: 1Paxos and a plain atomic broadcast, each with the best tree and with one
/// message after the other.
void simulate_log(const SimulateLog& arguments);

}  // namespace smelt::cli
