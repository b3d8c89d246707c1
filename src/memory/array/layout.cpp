// Turns options into a layout: nodes, parts, pages, and the placement that `best` stands for.
#include <algorithm>
#include <numeric>

#include "base/error.hpp"
#include "memory/array/storage.hpp"
#include "memory/pages/clusters.hpp"

namespace smelt::memory {
namespace {

Result<void> check_options(std::size_t count, std::size_t element_bytes, const ArrayOptions& options) {
  const auto complain = [&](const std::string& what) {
    return make_error(Status::invalid_argument, "{}: {}", options.name, what);
  };
  if (count == 0 || element_bytes == 0) return complain("an array has at least one element");
  if (count > (std::size_t{1} << 46) / element_bytes) return complain("larger than 2^46 bytes");
  if (options.parts < 0) return complain(fmt::format("{} parts: must be 0 or more", options.parts));
  const auto& cuts = options.cuts;
  if (cuts.empty()) return {};
  if (cuts.front() != 0 || !std::is_sorted(cuts.begin(), cuts.end()) || cuts.back() > count) {
    return complain(fmt::format("cuts: must ascend from 0 to at most {}", count));
  }
  return {};
}

/// The participating nodes, validated.
Result<std::vector<int>> decide_nodes(const ArrayOptions& options, std::vector<int> wished, const MemoryView& view) {
  const auto usable = view.usable_nodes();
  if (usable.empty()) {
    return make_error(Status::not_found, "{}: the cpuset allows the memory of no NUMA node", options.name);
  }
  std::vector<int> nodes;
  for (const int node : wished) {
    if (std::find(usable.begin(), usable.end(), node) == usable.end()) {
      if (!options.numa_nodes.empty()) {
        return make_error(Status::invalid_argument, "{}: NUMA node {} has no memory that this process may use",
                          options.name, node);
      }
      continue;  // ranks may be on a node without memory
    }
    if (std::find(nodes.begin(), nodes.end(), node) == nodes.end()) nodes.push_back(node);
  }
  return nodes.empty() ? view.home_nodes() : nodes;
}

/// The nearest usable node to `node`; `node` itself if it has memory.
int nearest_usable(const MemoryView& view, int node) {
  const auto usable = view.usable_nodes();
  const int index = view.index_of(node);
  if (index < 0 || usable.empty()) return usable.empty() ? node : usable.front();
  const auto& distances = view.nodes[static_cast<std::size_t>(index)].distances;
  return *std::min_element(usable.begin(), usable.end(), [&](int a, int b) {
    const auto distance = [&](int other) {
      const auto at = static_cast<std::size_t>(view.index_of(other));
      return other == node ? 0 : at < distances.size() ? distances[at] : 255;
    };
    return distance(a) < distance(b);
  });
}

/// The placement that `best` stands for. Only arrays that are declared read-only after their initialization become
/// replicas, because writes through a pointer into one copy would not reach the others.
Placement decide_best(std::size_t count, std::size_t element_bytes, const ArrayOptions& options, std::size_t nodes) {
  if (nodes == 1) return Placement::single_node;
  static const Machine machine = [] {
    if (auto cached = load_cached_machine()) return *std::move(cached);
    auto discovered = discover_machine();
    return discovered ? *std::move(discovered) : Machine{};
  }();
  if (machine.pus.empty()) return Placement::interleaved;
  const ArrayUse use = use_of(options.name, count, element_bytes, options.hints);
  const auto plan = choose_placements(machine, {&use, 1});
  if (!plan) return Placement::interleaved;
  const auto& chosen = plan->arrays.front();
  if (chosen.chosen.placement != Placement::replicated || use.read_only) return chosen.chosen.placement;
  for (const auto& other : chosen.others) {
    if (other.placement != Placement::replicated) return other.placement;
  }
  return Placement::interleaved;
}

/// The parts and their nodes, for any placement; loops over the array use them as well.
void decide_parts(Layout& layout, const ArrayOptions& options, std::vector<int> part_nodes, const MemoryView& view) {
  if (!options.cuts.empty()) {
    layout.cuts = options.cuts;
    const auto& turns = options.numa_nodes.empty() ? layout.nodes : options.numa_nodes;  // may name a node repeatedly
    for (std::size_t part = 0; part < layout.cuts.size(); ++part) {
      layout.part_nodes.push_back(turns[part % turns.size()]);
    }
    return;
  }
  std::size_t parts = part_nodes.size();
  if (options.parts > 0) parts = static_cast<std::size_t>(options.parts);
  if (parts == 0) {
    for (const int node : layout.nodes) parts += view.nodes[static_cast<std::size_t>(view.index_of(node))].pus.size();
    parts = std::max(parts, layout.nodes.size());
  }
  layout.cuts = static_cuts(layout.count, parts);
  // Nodes that were named are those of the parts, too; the one of a single_node array is but that of its memory.
  const bool of_ranks =
      part_nodes.size() == parts && (options.numa_nodes.empty() || layout.placement == Placement::single_node);
  for (std::size_t part = 0; part < parts; ++part) {
    layout.part_nodes.push_back(of_ranks ? nearest_usable(view, part_nodes[part])
                                         : layout.nodes[part * layout.nodes.size() / parts]);
  }
}

}  // namespace

std::vector<PageRun> Layout::runs_of(std::size_t index) const {
  if (placement == Placement::first_touch || placement == Placement::interleaved) return {};
  if (placement == Placement::partitioned) return page_runs(cuts, part_nodes, count, element_bytes, pages.bytes);
  return {{0, size_bytes(), has_replicas() ? nodes_of_copies()[index] : nodes.front()}};
}

Result<Layout> plan_layout(std::size_t count, std::size_t element_bytes, const ArrayOptions& options,
                           std::vector<int> part_nodes, const MemoryView& view) {
  if (auto checked = check_options(count, element_bytes, options); !checked) return checked.error();
  Layout layout{.count = count,
                .element_bytes = element_bytes,
                .placement = options.placement,
                .strict = options.strict,
                .name = options.name};
  auto nodes = decide_nodes(options, options.numa_nodes.empty() ? part_nodes : options.numa_nodes, view);
  if (!nodes) return nodes.error();
  layout.nodes = *std::move(nodes);
  if (layout.placement == Placement::best) {
    layout.placement = decide_best(count, element_bytes, options, layout.nodes.size());
  }
  if (layout.placement == Placement::single_node) {
    const int here = nearest_usable(view, current_numa_node());
    layout.nodes = {options.numa_nodes.empty() ? here : layout.nodes.front()};
  }
  decide_parts(layout, options, std::move(part_nodes), view);
  const std::size_t spread = layout.placement == Placement::interleaved || layout.placement == Placement::partitioned
                                 ? layout.nodes.size()
                                 : 1;
  auto pages = decide_pages(options.pages, {.bytes = layout.size_bytes(), .copies = layout.copies(), .nodes = spread},
                            options.strict, read_page_support(), layout.notes);
  if (!pages) return make_error(pages.error().status, "{}: {}", options.name, pages.error().message);
  layout.pages = *pages;
  return layout;
}

void replicate_by_cache(Layout& layout, const Machine& machine, const std::vector<int>& pus, const MemoryView& view) {
  std::vector<int> copy_nodes, copy_of_pu;
  for (const auto& cluster : cache_clusters(machine, pus, view)) {
    const int node = nearest_usable(view, cluster.numa_node);
    if (std::find(layout.nodes.begin(), layout.nodes.end(), node) == layout.nodes.end()) continue;
    for (const int pu : cluster.pus) {
      const auto index = static_cast<std::size_t>(pu);
      if (index >= copy_of_pu.size()) copy_of_pu.resize(index + 1, -1);
      copy_of_pu[index] = static_cast<int>(copy_nodes.size());
    }
    copy_nodes.push_back(node);
  }
  // Nodes without such PUs keep their copy.
  for (const int node : layout.nodes) {
    if (std::find(copy_nodes.begin(), copy_nodes.end(), node) == copy_nodes.end()) copy_nodes.push_back(node);
  }
  layout.copy_nodes = std::move(copy_nodes);
  layout.copy_of_pu = std::move(copy_of_pu);
}

std::vector<int> nearest_copies(const MemoryView& view, const std::vector<int>& nodes_of_copies) {
  std::vector<int> nearest;
  for (const auto& node : view.nodes) {
    int best = 0, best_distance = 1 << 20;
    for (std::size_t copy = 0; copy < nodes_of_copies.size(); ++copy) {
      const auto index = static_cast<std::size_t>(std::max(0, view.index_of(nodes_of_copies[copy])));
      const int known = index < node.distances.size() ? node.distances[index] : 255;
      const int distance = nodes_of_copies[copy] == node.os_index ? 0 : known;
      if (distance >= best_distance) continue;
      best = static_cast<int>(copy);
      best_distance = distance;
    }
    nearest.resize(static_cast<std::size_t>(node.os_index) + 1);
    nearest.back() = best;
  }
  return nearest;
}

}  // namespace smelt::memory
