// Storage: the memory of an array, without the type of its elements.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/segment.hpp"
#include "machine/topology/numa.hpp"
#include "machine/topology/pages.hpp"
#include "memory/pages/cuts.hpp"
#include "memory/pages/sizes.hpp"
#include "smelt/array.hpp"

namespace smelt::memory {

/// Address space whose contents are mapped explicitly; unmapped on destruction.
class FixedMapping {
 public:
  FixedMapping() = default;
  FixedMapping(std::byte* data, std::size_t size) noexcept : data_(data), size_(size) {}
  FixedMapping(FixedMapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  FixedMapping& operator=(FixedMapping&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~FixedMapping();

  std::byte* data() const noexcept { return data_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// One copy of the elements. Private memory is in `pages`; shared memory in `segment`.
struct Copy {
  std::byte* data = nullptr;
  std::vector<PageRun> runs{};  ///< the nodes of its pages; empty: any
  PageMapping pages{};
  Segment segment{};
};

/// The layout of an array, in which `best` has been replaced by a placement.
struct Layout {
  std::size_t count = 0;
  std::size_t element_bytes = 0;
  Placement placement = Placement::single_node;
  Pages pages{};
  bool strict = false;
  std::string name{};
  std::vector<int> nodes{};       ///< that take part; never empty
  std::vector<int> copy_nodes{};  ///< of replicas per cache: the node of each; empty: one copy on each of `nodes`
  std::vector<int> copy_of_pu{};  ///< of replicas per cache: index = os_index of a PU, -1 where it has none
  std::vector<std::size_t> cuts{};
  std::vector<int> part_nodes{};
  std::vector<std::string> notes{};  ///< options that could not be honoured

  std::size_t size_bytes() const noexcept { return count * element_bytes; }
  bool has_replicas() const noexcept {
    return placement == Placement::replicated || placement == Placement::writable_replicas;
  }
  const std::vector<int>& nodes_of_copies() const noexcept { return copy_nodes.empty() ? nodes : copy_nodes; }
  std::size_t copies() const noexcept { return has_replicas() ? nodes_of_copies().size() : 1; }
  /// The runs of copy `index`.
  std::vector<PageRun> runs_of(std::size_t index) const;
};

class Storage {
 public:
  /// Private memory. Errors: see Array::create().
  static Result<std::unique_ptr<Storage>> create(Layout layout, const MemoryView& view);

  Layout layout;
  std::vector<Copy> copies;
  std::vector<int> copy_of_node;  ///< by os_index of a node; nodes beyond the end use copy 0
  FixedMapping near_copy;         ///< shared replicas: this process's near copy at the common address
  int near_index = -1;            ///< index of that copy
  bool same_address = true;       ///< in all processes

  std::byte* data() const noexcept {
    return near_copy.data() != nullptr ? near_copy.data()
                                       : copies[static_cast<std::size_t>(std::max(near_index, 0))].data;
  }
  /// The copy for threads on that node.
  int near(int node) const noexcept;
  /// The copy for the calling thread. Cost: no system call.
  int near_here() const noexcept;
};

/// The layout for these options. `part_nodes`: empty, or the node of each part. Reads the system's NUMA nodes and page
/// sizes.
/// Errors: invalid_argument, and those of decide_pages().
Result<Layout> plan_layout(std::size_t count, std::size_t element_bytes, const ArrayOptions& options,
                           std::vector<int> part_nodes, const MemoryView& view);

/// Replicas become one per last-level cache of these PUs (indices into machine.pus) that lie on the layout's nodes, or
/// have no memory of their own.
void replicate_by_cache(Layout& layout, const Machine& machine, const std::vector<int>& pus, const MemoryView& view);

/// Whether there is room: on each node for what it is to hold, and within the cgroup's limit for all.
Result<void> check_room(const Layout& layout, const MemoryView& view);

/// Tells the kernel where to place which pages. If it refuses, that is a note, or an error in strict layouts.
Result<void> apply_policy(Layout& layout, Copy& copy, bool move);

/// Pages that take turns on `nodes`: the first node that has not as many of them as any other, or one more.
std::optional<int> node_without_its_share(std::span<const int> nodes, std::span<const int> nodes_of_pages);

/// Whether the pages of a copy are where they should be. Errors: io_error if not, and those of nodes_of_pages().
Result<void> check_pages(const Layout& layout, const Copy& copy);

/// The same of new pages, `view` from before they were there: an error in strict layouts, else a note.
Result<void> verify_pages(Layout& layout, const Copy& copy, const MemoryView& view);

/// For each node (by os_index), the nearest copy according to the firmware's distances.
std::vector<int> nearest_copies(const MemoryView& view, const std::vector<int>& nodes_of_copies);

}  // namespace smelt::memory
