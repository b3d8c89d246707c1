// Inference of a topology from latencies alone.
#pragma once

#include <vector>

#include "smelt/machine.hpp"

namespace smelt {

/// A division of PUs into blocks: the block of each PU, numbered by first member.
using Partition = std::vector<int>;

/// The levels at which the PUs fall into clear clusters, finest first, each coarser one a union of
/// blocks of the finer. Neither all PUs alone nor all in one block count as a level.
/// `latency` is symmetric. Cost: O(n^2) time and memory.
std::vector<Partition> find_levels(const Matrix& latency);

/// Fills in core, l2, l3, numa_node and package of machine.pus from latencies in nanoseconds.
void infer_topology(const Matrix& latency_ns, Machine& machine);

}  // namespace smelt
