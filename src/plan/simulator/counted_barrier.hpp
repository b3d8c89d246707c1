// What a barrier costs that counts its ranks: the one of groups with more ranks than PUs (comm/group/flat_barrier.hpp).
#pragma once

#include "smelt/machine.hpp"
#include "smelt/plan.hpp"

namespace smelt::plan {

/// A barrier for which every rank of the fullest PU has a turn. In a loop some go on without one, and it takes less
/// (ScheduleSimulator::run_barriers). Requirement: the machine has costs.
///
///     PU a   |switch rank add|switch rank add|              open |switch ...
///     PU b   |switch rank add|switch rank add|..............^ the last one opens it
double counted_barrier_ns(const Machine& machine, const Group& group, bool processes = false);

}  // namespace smelt::plan
