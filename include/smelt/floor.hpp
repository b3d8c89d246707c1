// Floor: the current smallest costs of a machine, which tell whether it is still in the same state.
//
// Machines are shared: a hypervisor moves the two PUs of a guest from one core's threads to two packages, gives their
// time to other guests, or lowers the clock rate. Timings before and after such a change cannot be compared. Benchmarks
// and the tuner measure the floor before and after their timings, and profiles record it.
#pragma once

#include <span>

#include "smelt/error.hpp"

namespace smelt {

/// Nanoseconds. 0: unknown.
struct Floor {
  double line_ns = 0.0;  ///< one way of a cache line between two PUs
  double work_ns = 0.0;  ///< a fixed computation on the slower of these PUs, while both run it

  bool operator==(const Floor&) const = default;
  bool known() const noexcept { return line_ns > 0.0 || work_ns > 0.0; }
};

/// A floor that differs by more is that of another state of the machine.
inline constexpr double most_floor_change = 1.2;

/// Whether two costs differ by more than that. False if one of them is 0 (unknown).
bool floor_moved(double before_ns, double after_ns) noexcept;
/// Whether one of the costs differs by more than 20 %, so that timings cannot be compared. Costs that one of the two
/// lacks are ignored.
bool floor_moved(const Floor& before, const Floor& after) noexcept;

/// Measures the floor between the first two different PUs of these (os_index; with one PU, its computation only), for
/// about `time_s`. Medians, so that interrupts do not show. Uses pinned threads of its own; the caller's affinity is
/// not changed. Requirements: the PUs are otherwise idle. Cost: two threads and time_s; at most a second if they are
/// not scheduled. Errors: no PU, PUs that may not be used, timed_out.
Result<Floor> probe_floor(std::span<const int> os_indices, double time_s = 0.02);

}  // namespace smelt
