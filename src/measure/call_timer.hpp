// What a call of a collective costs besides its messages.
//
// A barrier of two ranks is one exchange of messages, and so is an allreduce of one number. What they take beyond the
// bare exchange is the cost of the call itself: arguments are checked, steps are looked up, operands are read, combined
// and written. Batches of the three alternate, so that disturbances of the machine affect all alike:
//
//   rank 0   |exchange x 32|  |barrier x 32|  |allreduce x 32|  |exchange x 32|  ...      each timed on rank 0
//   rank 1   |exchange x 32|  |barrier x 32|  |allreduce x 32|  |exchange x 32|
#pragma once

#include <optional>

#include "smelt/machine.hpp"

namespace smelt::measure {

struct CallCosts {
  double call_ns = 0.0;     ///< an allreduce of one number, less an exchange of messages
  double barrier_ns = 0.0;  ///< a barrier, less an exchange of messages
};

/// Costs per call, for two ranks on the two PUs that exchange messages fastest. Empty if there are fewer than two
/// PUs or the deadline came first. Requires a machine with costs. Preserves the caller's affinity.
std::optional<CallCosts> time_calls(const Machine& machine, bool quick, double deadline_s);

}  // namespace smelt::measure
