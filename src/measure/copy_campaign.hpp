// Copy campaign: which copies to time, and what they make of CopyCosts.
//
//   sweeps over the classes of ordered pairs (closest common level, NUMA nodes, kinds of core; own
//   data is a class too), each time with another pair of the class:
//       one line | sizes for a chunk, the writer's cache, the last-level cache, memory | an addition
//   each followed by copies out of a forked process beside plain ones of the same pair
//   after the first of them, for 2, 4, ... and all PUs, a copy among others against the same copy alone
//
// A cost is the median over the sweeps of the median of a visit; a difference, that of two such medians. No threads and
// no clock of its own: both are the CopyTimer's.
#pragma once

#include <cstddef>

#include "measure/copy_timer.hpp"
#include "smelt/machine.hpp"

namespace smelt::measure {

struct CopyEffort {
  std::size_t chunk_bytes = 0;   ///< fits the smallest cache of a core twice
  std::size_t cached_bytes = 0;  ///< fits the cache of a core twice
  std::size_t shared_bytes = 0;  ///< fits the last-level cache twice
  std::size_t memory_bytes = 0;  ///< does not fit the last-level cache
  std::size_t team_bytes = 0;    ///< most that all PUs together copy at once
  int sweeps = 0;
  int comparisons = 0;  ///< of a copy among others with a copy alone
};

/// Sizes by the caches and the memory of this machine.
CopyEffort copy_effort(const Machine& machine, bool quick);

/// The costs of copies between all PUs of `machine`. Errors: timed_out if the deadline comes before
/// everything has been timed once; the timer's own.
Result<CopyCosts> run_copy_campaign(const Machine& machine, CopyTimer& timer, const CopyEffort& effort,
                                    double deadline_s);

/// Whether copies of a line between different PUs cost about what messages between them do. If not, the PUs were not
/// where they seem to be during one of the two measurements, as happens in virtual machines. Requires message costs.
bool agrees_with_messages(const Machine& machine, const CopyCosts& copy);

}  // namespace smelt::measure
