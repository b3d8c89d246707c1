// What a call of a collective costs besides its messages.
//
// A barrier of two ranks is one exchange of messages, and so is an allreduce of one number; what the allreduce takes
// longer is the call's own: arguments and operands that are looked at, combined and handed over. Batches of the two
// take turns, on the same channels, so that whatever the machine does in that moment concerns both alike:
//
//   rank 0   |barrier x 32|  |allreduce x 32|  |barrier x 32|  ...      each timed on rank 0
//   rank 1   |barrier x 32|  |allreduce x 32|  |barrier x 32|
#pragma once

#include <optional>

#include "smelt/machine.hpp"

namespace smelt::measure {

/// Nanoseconds, of two ranks on the two PUs that exchange messages fastest; nothing without two PUs, or if the time
/// was up before. Requires a machine with costs. Leaves the caller's affinity as it was.
std::optional<double> time_calls(const Machine& machine, bool quick, double deadline_s);

}  // namespace smelt::measure
