#include "memory/copies/thread_nodes.hpp"

#include "memory/copies/node_workers.hpp"

namespace smelt::memory {

std::vector<ThreadNode> thread_nodes() {
  const auto view = read_memory_view();
  std::vector<ThreadNode> nodes;
  for (const int node : view.home_nodes()) {
    const auto& memory = view.nodes[static_cast<std::size_t>(view.index_of(node))];
    nodes.push_back({node, workers_of(view, node), memory.total_bytes});
  }
  return nodes;
}

}  // namespace smelt::memory
