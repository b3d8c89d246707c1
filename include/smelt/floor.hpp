// Floor: what a machine's smallest costs are at this moment, to tell whether it is still the same machine.
//
// Machines are shared: a hypervisor moves the two PUs of a guest from one core's threads to two packages, gives their
// time to others, or lowers the clock. Timings of before and after such a change are of two machines. Benchmarks and
// the tuner look at the floor before and after what they time, and profiles keep the one at which they were made.
#pragma once

#include <span>

#include "smelt/error.hpp"

namespace smelt {

/// Nanoseconds. 0: not known.
struct Floor {
  double line_ns = 0.0;  ///< one way of a cache line between two PUs
  double work_ns = 0.0;  ///< a fixed piece of arithmetic, on the slower of these PUs, while both are at it

  bool operator==(const Floor&) const = default;
  bool known() const noexcept { return line_ns > 0.0 || work_ns > 0.0; }
};

/// A floor that differs by more is another machine's.
inline constexpr double most_floor_change = 1.2;

/// Whether two costs are further apart than that. 0: not known, which tells nothing.
bool floor_moved(double before_ns, double after_ns) noexcept;
/// Whether one of the costs differs by more than 20 %: what was timed at one says little about the other. Costs that
/// one of the two lacks tell nothing.
bool floor_moved(const Floor& before, const Floor& after) noexcept;

/// Looks at the floor now, between the first two different PUs of these (os_index; with one PU its arithmetic alone),
/// for about `time_s`; medians, so interrupts do not show. Threads of its own, pinned; the caller's placement stays.
/// Requirements: the PUs do nothing else meanwhile. Cost: two threads, time_s, a second at most where they are kept from
/// running. Errors: no PU, PUs that may not be used, timed_out.
Result<Floor> probe_floor(std::span<const int> os_indices, double time_s = 0.02);

}  // namespace smelt
