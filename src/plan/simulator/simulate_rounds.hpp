// Alltoall by pairwise exchange among many ranks, predicted without its n^2 moves.
//
// In round k rank r sends to r + k and receives from r - k. The simulator of schedules keeps all moves of all ranks;
// here a round is two passes over the clocks of the ranks, and what a move costs is known by the class of its pair:
//
//   for each k   for each r   there(r + k) = clock(r) + send + propagation
//                for each r   clock(r)     = max(clock(r), there(r)) + receive
//
// On machines that hold costs by class, without more than one rank on a PU. Residuals do not count. For the rest it is
// the simulator of schedules, move by move. Memory: O(n). Cost: O(n^2), some 10 ns per pair.
#pragma once

#include <optional>
#include <span>

#include "smelt/schedule.hpp"

namespace smelt::plan {

/// Whether simulate_rounds() has an answer.
bool has_rounds(const Machine& machine, const Group& group, const ScheduleRequest& request);

/// As simulate(). Requirement: has_rounds().
ScheduleTimes simulate_rounds(const Machine& machine, const Group& group, const ScheduleRequest& request,
                              std::size_t bytes, std::size_t element_bytes, const Reach& reach,
                              std::span<const double> start_ns);

}  // namespace smelt::plan
