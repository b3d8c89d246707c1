// What the PUs of each NUMA node pay for the memory of each: latency, bandwidth, page sizes, copies.
#pragma once

#include "smelt/error.hpp"
#include "smelt/machine.hpp"

namespace smelt::measure {

/// How long and how much.
struct MemoryEffort {
  std::size_t buffer_bytes = 0;  ///< of one measurement: beyond the caches
  int repetitions = 3;           ///< the best of so many
  int loads = 0;                 ///< of a chase or a gather
};

/// For this machine: buffers of at least four times the last-level cache.
MemoryEffort memory_effort(bool quick);

/// Measures the machine, whose PUs are those that may be used, on its own memory. Of the pairs of nodes that firmware
/// says are equally far apart two are measured; the others get their mean. Pairs without memory for it (a tenth of the
/// node and 256 MiB stay free) are left 0. Errors: timed_out, with nothing measured; out_of_memory; io_error.
/// Cost: about a second per kind of pair, and at most until `deadline_s`.
Result<MemoryCosts> measure_node_memory(const Machine& machine, const MemoryEffort& effort, double deadline_s);

}  // namespace smelt::measure
