// What a call of a collective costs besides its messages.
//
// A barrier of two ranks is one exchange of messages, and so is an allreduce of one number. The difference of their
// times is the cost of the call itself: arguments are checked, operands are read, combined and written. Batches of the
// two alternate on the same channels, so that disturbances of the machine affect both alike:
//
//   rank 0   |barrier x 32|  |allreduce x 32|  |barrier x 32|  ...      each timed on rank 0
//   rank 1   |barrier x 32|  |allreduce x 32|  |barrier x 32|
#pragma once

#include <optional>

#include "smelt/machine.hpp"

namespace smelt::measure {

/// Nanoseconds per call, for two ranks on the two PUs that exchange messages fastest. Empty if there are fewer than two
/// PUs or the deadline came first. Requires a machine with costs. Preserves the caller's affinity.
std::optional<double> time_calls(const Machine& machine, bool quick, double deadline_s);

}  // namespace smelt::measure
