// Blueprint: what the process that comes first tells the others, so that all ranks of a communicator over
// processes plan alike: machine, group, options and the trees that a timed search has found. JSON.
#pragma once

#include <string>
#include <string_view>

#include "smelt/communicator.hpp"

namespace smelt::comm {

struct Blueprint {
  Machine machine;
  Group group;
  CommunicatorOptions
      options;  ///< topology, barrier, algorithm, profile, search_ms, late_ns; the others are each process's own
  Plan plans[operation_count];
  int parallelism = 1;
  std::string profile;  ///< text of the profile in use; empty: none
};

std::string format_blueprint(const Blueprint& blueprint);
/// Errors: bad_format.
Result<Blueprint> parse_blueprint(std::string_view text);

}  // namespace smelt::comm
