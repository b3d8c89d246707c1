// Places each rank's part of a memory region on the NUMA node of the rank's PU.
#pragma once

#include <cstddef>

#include "comm/collective/communicator_state.hpp"

namespace smelt::state {

/// begin_of(rank) and bytes_of(rank): address and size of the part. A part that cannot be placed stays where it is.
template <class BeginOf, class BytesOf>
void place_parts(const comm::CommunicatorState& state, comm::Placement bind, BeginOf begin_of, BytesOf bytes_of) {
  const Machine& machine = state.machine;
  if (machine.numa_nodes.size() < 2) return;
  for (int rank = 0; rank < state.group.size(); ++rank) {
    const auto& pu = machine.pus[static_cast<std::size_t>(state.group.pus[static_cast<std::size_t>(rank)])];
    const auto node = static_cast<std::size_t>(pu.numa_node);
    if (node >= machine.numa_nodes.size()) continue;
    // A model of another machine may name NUMA nodes that do not exist here. The kernel chooses then.
    (void)bind(begin_of(rank), bytes_of(rank), machine.numa_nodes[node].os_index);
  }
}

}  // namespace smelt::state
