// Measures what access to the memory of each NUMA node costs the PUs of each: latency, bandwidth, page sizes, copies.
#pragma once

#include <string>
#include <vector>

#include "smelt/error.hpp"
#include "smelt/machine.hpp"

namespace smelt::measure {

/// Sizes and numbers of repetitions.
struct MemoryEffort {
  std::size_t buffer_bytes = 0;  ///< per measurement; larger than the caches
  int repetitions = 3;           ///< the best of these counts
  int loads = 0;                 ///< per chase or gather
};

/// Values for this machine: buffers of at least four times the last-level cache.
MemoryEffort memory_effort(bool quick);

struct MeasuredMemory {
  MemoryCosts costs;
  std::vector<std::string> left_out{};  ///< parts for which there was no time; their costs are 0
};

/// Measures the memory of this machine from its PUs, all of which this process must be allowed to use. Two of all pairs
/// of nodes with the same distance by the firmware are measured; the others get their mean. Pairs stay 0 if the node
/// lacks free memory: a tenth of the node and 256 MiB stay free. Errors: timed_out if there was no time for a single
/// pair; out_of_memory; io_error. Cost: about a second per kind of pair. No repetition starts after `deadline_s`.
Result<MeasuredMemory> measure_node_memory(const Machine& machine, const MemoryEffort& effort, double deadline_s);

}  // namespace smelt::measure
