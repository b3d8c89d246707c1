// Placement of arrays by their access patterns: [Kaestle16] 4.5.1, figures 4.4 and 4.5.
#include <fmt/format.h>

#include <algorithm>

#include "graph/storage/pages.hpp"
#include "smelt/green_marl.hpp"

namespace smelt::graph {
namespace {

/// Part of a NUMA node's memory that stays free.
constexpr double reserve = 0.2;

std::uint64_t element_bytes(const ArrayUse& use, const Graph& graph) {
  if (use.element_bytes > 0) return static_cast<std::uint64_t>(use.element_bytes);
  const bool of_edges = use.name == "begin" || use.name == "r_begin" || use.name == "r_edge";
  return static_cast<std::uint64_t>(of_edges ? graph.edge_id_bytes() : graph.node_id_bytes());
}

}  // namespace

const char* to_string(ArrayPlacement::Placement placement) noexcept {
  switch (placement) {
    case ArrayPlacement::Placement::any: return "any";
    case ArrayPlacement::Placement::partitioned: return "partitioned";
    case ArrayPlacement::Placement::replicated: return "replicated";
    case ArrayPlacement::Placement::interleaved: return "interleaved";
  }
  return "?";
}

std::vector<ArrayPlacement> place_arrays(const std::vector<ArrayUse>& arrays, const Graph& graph,
                                         const MachineMemory& memory, bool also_alone) {
  using enum ArrayPlacement::Placement;
  std::vector<ArrayPlacement> placements;
  std::vector<std::pair<double, std::size_t>> candidates;  // for replicas: accesses per byte, index
  for (const auto& use : arrays) {
    if (!use.used) continue;
    ArrayPlacement array;
    array.name = use.name;
    array.size_bytes = element_bytes(use, graph) * (use.node ? graph.num_nodes() : graph.num_edges());
    array.huge_pages = array.size_bytes >= Pages::huge_from_bytes;
    if (memory.numa_nodes <= 1 && !also_alone) {
      array.because = "one NUMA node: all placements are the same";
    } else if (use.indexed) {
      array.placement = partitioned;
      array.because = "always accessed by the index of a loop: each thread's part is near to it";
    } else if (use.read_only) {
      array.because = "read-only";
      const auto accesses = use.reads_per_element / static_cast<double>(element_bytes(use, graph));
      candidates.emplace_back(-accesses, placements.size());
    } else {
      array.placement = interleaved;
      array.because = "written, and accessed at random: spread over all NUMA nodes";
    }
    placements.push_back(std::move(array));
  }
  std::sort(candidates.begin(), candidates.end());
  auto room = static_cast<double>(memory.bytes_per_numa_node) * (1 - reserve);
  for (const auto& [accesses, index] : candidates) {
    auto& array = placements[index];
    const auto size = static_cast<double>(array.size_bytes);
    const bool fits = memory.bytes_per_numa_node == 0 || size <= room;
    array.placement = fits ? replicated : interleaved;
    array.because = fits ? "read-only, and a copy fits into every NUMA node"
                         : "read-only, but no copy fits into every NUMA node beside those of more use";
    if (fits) room -= size;
  }
  return placements;
}

}  // namespace smelt::graph
