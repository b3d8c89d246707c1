// SharedConfig: what the process that comes first tells the others, so that all ranks of a communicator over
// processes plan alike: machine, group, options and the trees that a timed search has found. JSON.
#pragma once

#include <string>
#include <string_view>

#include "smelt/communicator.hpp"

namespace smelt::comm {

struct SharedConfig {
  Machine machine;
  Group group;
  CommunicatorOptions
      options;  ///< topology, barrier, algorithm, profile, search_ms, late_ns; the others are each process's own
  Plan plans[operation_count];
  int parallelism = 1;
  std::string profile;  ///< text of the profile in use; empty: none
};

std::string format_shared_config(const SharedConfig& shared_config);
/// Errors: bad_format.
Result<SharedConfig> parse_shared_config(std::string_view text);

}  // namespace smelt::comm
