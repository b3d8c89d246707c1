#include "graph/run/placed_memory.hpp"

#include <sched.h>

#include <algorithm>
#include <iterator>

#include "memory/copies/thread_nodes.hpp"

namespace smelt::graph {
namespace {

using Where = ArrayPlacement::Placement;

/// Smaller arrays are left to their first touch: a page per node would be most of them.
constexpr std::size_t placed_from_bytes = std::size_t{64} << 10;

std::vector<int> this_affinity() {
  cpu_set_t mask;
  std::vector<int> pus;
  if (sched_getaffinity(0, sizeof mask, &mask) != 0) return pus;
  for (int pu = 0; pu < CPU_SETSIZE; ++pu) {
    if (CPU_ISSET(pu, &mask)) pus.push_back(pu);
  }
  return pus;
}

void set_affinity(const std::vector<int>& pus) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  for (const int pu : pus) CPU_SET(pu, &mask);
  sched_setaffinity(0, sizeof mask, &mask);  // where it fails the thread goes on where it is
}

std::string placement_name(const memory::Block& block) { return to_string(block.placement()); }

}  // namespace

PlacedMemory::PlacedMemory(ThreadTeam& team, RunOptions::Placement wanted) : wanted_(wanted) {
  static const bool several = memory::home_nodes().size() > 1;
  if (wanted == RunOptions::Placement::never || (!several && wanted != RunOptions::Placement::always)) return;
  places_ = true;
  nodes_.clear();
  std::vector<std::vector<int>> pus;
  const auto allowed = this_affinity();
  for (const auto& node : memory::thread_nodes()) {
    nodes_.push_back(node.os_index);
    node_bytes_ = node_bytes_ == 0 ? node.total_bytes : std::min(node_bytes_, node.total_bytes);
    auto& own = pus.emplace_back();
    std::set_intersection(node.pus.begin(), node.pus.end(), allowed.begin(), allowed.end(), std::back_inserter(own));
  }
  // A caller that is bound to part of the machine itself stays as it is, and so do its threads.
  const bool everywhere = std::none_of(pus.begin(), pus.end(), [](const auto& own) { return own.empty(); });
  const auto threads = static_cast<std::size_t>(team.size());
  if (threads == 1 || !everywhere) return;
  affinity_ = allowed;
  team.run([&](int thread) { set_affinity(pus[static_cast<std::size_t>(thread) * nodes_.size() / threads]); });
}

PlacedMemory::~PlacedMemory() {
  if (!affinity_.empty()) set_affinity(affinity_);
}

void PlacedMemory::add(const Structure& structure) {
  if (!places_) return;
  Cuts cuts{structure.nodes, structure.edges, {}, {}};
  with_ids(structure, [&](auto, auto edge) {
    using EdgeId = decltype(edge);
    const auto* begin = static_cast<const EdgeId*>(structure.out_view.begin);
    for (std::size_t part = 0; part < nodes_.size(); ++part) {
      const auto node = first_node_of_part(begin, structure.nodes, part, nodes_.size());
      cuts.of_nodes.push_back(node);
      cuts.of_edges.push_back(static_cast<std::size_t>(begin[node]));
    }
  });
  cuts_.push_back(std::move(cuts));
}

/// Sizes are in bytes, as elements of many types come.
ArrayOptions PlacedMemory::options_for(std::size_t size_bytes, bool of_nodes, Where placement,
                                       const std::string& name) const {
  ArrayOptions options;
  options.name = name;
  options.numa_nodes = nodes_;
  options.placement = placement == Where::partitioned  ? Placement::partitioned
                      : placement == Where::replicated ? Placement::replicated
                                                       : Placement::interleaved;
  if (placement != Where::partitioned) return options;
  for (const auto& each : cuts_) {
    const auto count = of_nodes ? each.nodes : each.edges;
    const bool offsets = of_nodes && count > 0 && size_bytes % (count + 1) == 0;  // with one more behind the last node
    if (count == 0 || (size_bytes % count != 0 && !offsets)) continue;
    const auto element_bytes = size_bytes / (offsets ? count + 1 : count);
    for (const auto cut : of_nodes ? each.of_nodes : each.of_edges) options.cuts.push_back(cut * element_bytes);
    return options;
  }
  options.parts = static_cast<int>(nodes_.size());
  return options;
}

Result<ArrayMemory> PlacedMemory::allocate(std::size_t size_bytes, bool of_nodes, Where placement,
                                           const std::string& name) {
  if (places_ && placement != Where::any && size_bytes >= placed_from_bytes) {
    auto block = memory::Block::create(size_bytes, 1, options_for(size_bytes, of_nodes, placement, name));
    if (block) {
      placed_.push_back({name, size_bytes, placement_name(*block), block->copies()});
      return ArrayMemory(*std::move(block), size_bytes);
    }
  }
  const bool plain = wanted_ == RunOptions::Placement::never;
  auto pages = Pages::allocate(size_bytes, plain ? Pages::Use::passing : Pages::Use::lasting);
  if (!pages) return pages.error();
  return ArrayMemory(*std::move(pages));
}

const void* PlacedMemory::place(const Structure& structure, const void* array, std::size_t element_bytes, bool of_nodes,
                                Where placement, const std::string& name) {
  const std::size_t count = of_nodes ? structure.nodes + 1 : structure.edges;
  const auto size_bytes = count * element_bytes;
  if (!places_ || array == nullptr || placement == Where::any || size_bytes < placed_from_bytes) return array;
  const auto known = [&](const auto& each) { return each.first == array; };
  if (std::any_of(replicated_.begin(), replicated_.end(), known)) return array;
  const std::lock_guard lock(structure.mutex);
  auto& kept = structure.placed[{array, static_cast<int>(placement)}];
  if (kept == nullptr) {
    auto block = memory::Block::create(size_bytes, 1, options_for(size_bytes, of_nodes, placement, name));
    if (!block) return array;  // no room: it stays where it is
    block->start_copy(array).wait();
    kept = std::make_shared<memory::Block>(*std::move(block));
  }
  const auto block = std::static_pointer_cast<memory::Block>(kept);
  placed_.push_back({name, size_bytes, placement_name(*block), block->copies()});
  if (placement != Where::replicated) return block->data();
  replicated_.emplace_back(array, block);
  return array;
}

}  // namespace smelt::graph
