// SharedConfig: the configuration that the creator of a communicator over processes publishes, so that all ranks plan
// alike: machine, group, options, and the trees that a timed search has found. Stored as the machine's JSON, followed
// by a line with all else.
#pragma once

#include <string>
#include <string_view>

#include "smelt/communicator.hpp"

namespace smelt::comm {

struct SharedConfig {
  Machine machine;
  Group group;
  CommunicatorOptions
      options;  ///< only topology, barrier, algorithm, profile, search_ms, late_ns; the others are per process
  Plan plans[operation_count];
  int parallelism = 1;
  std::string profile;  ///< text of the profile; empty: none
};

std::string format_shared_config(const SharedConfig& shared_config);
/// Errors: bad_format.
Result<SharedConfig> parse_shared_config(std::string_view text);

}  // namespace smelt::comm
