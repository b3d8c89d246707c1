// Private memory: checks for room, maps, sets policies, touches pages on their nodes, and verifies their places.
#include "memory/array/storage.hpp"

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "base/error.hpp"
#include "memory/copies/copies.hpp"

namespace smelt::memory {
namespace {

constexpr std::uint64_t spare_bytes = std::uint64_t{16} << 20;  ///< left free on each node for other programs

Error about(const Layout& layout, const Error& error) {
  return make_error(error.status, "{}: {}", layout.name, error.message);
}

/// Bytes that each node will hold, as far as known.
std::map<int, std::uint64_t> bytes_by_node(const Layout& layout) {
  std::map<int, std::uint64_t> bytes;
  if (layout.placement == Placement::interleaved) {
    for (const int node : layout.nodes) bytes[node] = layout.size_bytes() / layout.nodes.size();
  }
  for (std::size_t copy = 0; copy < layout.copies(); ++copy) {
    for (const auto& run : layout.runs_of(copy)) bytes[run.node] += run.last_byte - run.first_byte;
  }
  return bytes;
}

/// Touches all pages of a copy, by threads on the pages' nodes.
Result<void> touch(const Layout& layout, const Copy& copy, const MemoryView& view) {
  auto runs = copy.runs;
  if (runs.empty()) {  // interleaved: the threads of all nodes share the work
    const auto cuts = static_cuts(layout.size_bytes(), layout.nodes.size());
    runs = page_runs(cuts, layout.nodes, layout.size_bytes(), 1, layout.pages.bytes);
  }
  std::mutex mutex;
  Result<void> result;
  std::vector<NodeTask> tasks;
  for (const auto& piece : pieces_of(runs, view, 1, layout.pages.bytes)) {
    tasks.push_back({piece.node, [&, piece] {
                       auto there = populate(copy.data + piece.first_byte, piece.last_byte - piece.first_byte);
                       if (there) return;
                       const std::scoped_lock lock(mutex);
                       result = std::move(there);
                     }});
  }
  run_tasks(view, std::move(tasks));
  return result ? Result<void>() : about(layout, result.error());
}

/// Whether each node has room for what it is to hold.
Result<void> check_room_on_nodes(const Layout& layout, const MemoryView& view) {
  for (const auto& [node, bytes] : bytes_by_node(layout)) {
    const auto available = view.available_bytes(node);
    if (bytes + spare_bytes <= available) continue;
    return make_error(Status::out_of_memory,
                      "{}: {} bytes on NUMA node {}, which has {} free; free some, or do not ask for strict placement",
                      layout.name, bytes, node, available);
  }
  return {};
}

/// Once.
void note(Layout& layout, const std::string& text) {
  if (std::find(layout.notes.begin(), layout.notes.end(), text) == layout.notes.end()) layout.notes.push_back(text);
}

}  // namespace

FixedMapping::~FixedMapping() {
  if (data_ != nullptr) munmap(data_, size_);
}

Result<void> check_room(const Layout& layout, const MemoryView& view) {
  const std::uint64_t total = layout.size_bytes() * layout.copies();
  if (layout.placement == Placement::first_touch) return {};
  if (total > view.limit_bytes) {
    return make_error(Status::out_of_memory, "{}: {} bytes, but the cgroup's memory limit leaves {}", layout.name,
                      total, view.limit_bytes);
  }
  std::uint64_t everywhere = 0;
  for (const auto& node : view.nodes) everywhere += node.usable() ? view.available_bytes(node.os_index) : 0;
  if (total > everywhere && everywhere > 0) {
    return make_error(Status::out_of_memory, "{}: {} bytes, but all NUMA nodes have {} free", layout.name, total,
                      everywhere);
  }
  if (!layout.strict || view.nodes.size() == 1) return {};
  return check_room_on_nodes(layout, view);
}

Result<void> apply_policy(Layout& layout, Copy& copy, bool move) {
  const auto whole = [&](std::size_t bytes) {
    return (bytes + layout.pages.bytes - 1) / layout.pages.bytes * layout.pages.bytes;
  };
  Result<void> set;
  if (layout.placement == Placement::interleaved) {
    set = set_interleave_policy(copy.data, whole(layout.size_bytes()), layout.nodes, move);
  }
  for (const auto& run : copy.runs) {
    if (!set) break;
    set = set_node_policy(copy.data + run.first_byte, whole(run.last_byte - run.first_byte), run.node, move);
  }
  if (set) return {};
  if (layout.strict) return about(layout, set.error());
  note(layout, fmt::format("placed by the threads that touch it first: {}", set.error().message));
  return {};
}

std::optional<int> node_without_its_share(std::span<const int> nodes, std::span<const int> nodes_of_pages) {
  const auto fewest = static_cast<std::ptrdiff_t>(nodes_of_pages.size() / nodes.size());
  for (const int node : nodes) {
    const auto pages = std::count(nodes_of_pages.begin(), nodes_of_pages.end(), node);
    if (pages < fewest || pages > fewest + 1) return node;
  }
  return {};
}

Result<void> check_pages(const Layout& layout, const Copy& copy) {
  const auto nodes = nodes_of_pages(copy.data, layout.size_bytes(), layout.pages.bytes);
  if (!nodes) return about(layout, nodes.error());
  if (layout.placement == Placement::interleaved) {
    if (const auto node = node_without_its_share(layout.nodes, *nodes)) {
      return make_error(Status::io_error, "{}: NUMA node {} holds {} of {} pages; it has no memory for its share",
                        layout.name, *node, std::count(nodes->begin(), nodes->end(), *node), nodes->size());
    }
  }
  for (const auto& run : copy.runs) {
    for (std::size_t at = run.first_byte; at < run.last_byte; at += layout.pages.bytes) {
      const int node = (*nodes)[at / layout.pages.bytes];
      if (node == run.node) continue;
      return make_error(
          Status::io_error,
          "{}: a page for NUMA node {} lies on node {}; free memory there, or do not ask for strict placement",
          layout.name, run.node, node);
    }
  }
  return {};
}

Result<void> verify_pages(Layout& layout, const Copy& copy, const MemoryView& view) {
  if (layout.strict) return check_pages(layout, copy);
  if (view.nodes.size() == 1) return {};
  // To ask for every page takes time, so that is done only where a node may have had too little.
  if (layout.pages.kind != PageKind::reserved && check_room_on_nodes(layout, view)) return {};
  const auto checked = check_pages(layout, copy);
  if (!checked && checked.error().status == Status::io_error) {
    note(layout, "some pages lie on other NUMA nodes, because too little was free (where() counts them)");
  }
  return {};
}

Result<std::unique_ptr<Storage>> Storage::create(Layout layout, const MemoryView& view) {
  if (auto room = check_room(layout, view); !room) return room.error();
  auto storage = std::make_unique<Storage>();
  for (std::size_t index = 0; index < layout.copies(); ++index) {
    auto pages = PageMapping::map(layout.size_bytes(), layout.pages.kind, layout.pages.bytes);
    if (!pages) return about(layout, pages.error());
    Copy copy{.data = pages->data(), .runs = layout.runs_of(index), .pages = *std::move(pages)};
    if (view.nodes.size() > 1) {
      if (auto set = apply_policy(layout, copy, false); !set) return set.error();
    }
    if (layout.placement != Placement::first_touch) {
      if (auto there = touch(layout, copy, view); !there) return there.error();
      if (auto checked = verify_pages(layout, copy, view); !checked) return checked.error();
    }
    storage->copies.push_back(std::move(copy));
  }
  if (layout.copies() > 1) storage->copy_of_node = nearest_copies(view, layout.nodes_of_copies());
  storage->layout = std::move(layout);
  return storage;
}

int Storage::near(int node) const noexcept {
  if (near_index >= 0) return near_index;
  const auto index = static_cast<std::size_t>(std::max(node, 0));
  return index < copy_of_node.size() ? copy_of_node[index] : 0;
}

int Storage::near_here() const noexcept {
  const auto& by_pu = layout.copy_of_pu;
  if (near_index >= 0 || by_pu.empty()) return near(current_numa_node());
  const auto pu = static_cast<std::size_t>(std::max(0, sched_getcpu()));
  return pu < by_pu.size() && by_pu[pu] >= 0 ? by_pu[pu] : near(current_numa_node());
}

}  // namespace smelt::memory
