// Copy campaign: decides which copies to time, and turns the samples into CopyCosts.
//
//   sweeps over the classes of ordered pairs (closest common level, NUMA nodes, kinds of core; copies
//   of a PU's own data are a class too), each with another pair of the class:
//       one line | sizes for a chunk, the writer's cache, the last-level cache, memory | an addition
//   after each sweep: copies out of a forked process, and plain ones of the same pair
//   after the first sweep: for 2, 4, ... and all PUs, a copy among others, and the same copy alone
//
// A cost is the median over the sweeps of the medians of the visits. A difference is that of two such medians. Uses
// neither threads nor a clock itself. The CopyTimer has both.
#pragma once

#include <cstddef>
#include <limits>

#include "measure/copy_timer.hpp"
#include "smelt/machine.hpp"

namespace smelt::measure {

struct CopyEffort {
  std::size_t chunk_bytes = 0;   ///< two buffers of this size fit the smallest cache of a core
  std::size_t cached_bytes = 0;  ///< two buffers fit the L2 cache of a core
  std::size_t shared_bytes = 0;  ///< two buffers fit the last-level cache
  std::size_t memory_bytes = 0;  ///< exceeds the last-level cache
  std::size_t team_bytes = 0;    ///< most bytes that all PUs together copy at once
  int sweeps = 0;
  int comparisons = 0;  ///< comparisons of a copy among others with a copy alone
  double more_until_s = std::numeric_limits<double>::infinity();  ///< sweeps after the first begin no later
};

/// Chooses sizes according to the caches and the memory of this machine.
CopyEffort copy_effort(const Machine& machine, bool quick);

/// The costs of copies between all PUs of `machine`. Errors: timed_out if the deadline comes before everything has been
/// timed once; errors of the timer.
Result<CopyCosts> run_copy_campaign(const Machine& machine, CopyTimer& timer, const CopyEffort& effort,
                                    double deadline_s);

/// By how much copies of that many bytes slow down when 1, 2, 4, ... all PUs copy at once. Errors as above.
Result<std::vector<double>> chunk_contention(const Machine& machine, CopyTimer& timer, std::size_t chunk_bytes,
                                             int count, double deadline_s);

/// Whether copies of a line between different PUs cost about as much as messages between them. If not, a hypervisor has
/// probably moved the PUs between the two measurements. Requires message costs.
bool agrees_with_messages(const Machine& machine, const CopyCosts& copy);

}  // namespace smelt::measure
