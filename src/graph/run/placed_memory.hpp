// PlacedMemory: where the arrays of a run lie on a machine with several NUMA nodes.
//
//   threads     thread t of n stays on the node t * nodes / n, as the loops' chunks begin in parts of the threads; a single
//               thread, and those of a caller that is bound to some of the nodes, run where they are
//   partitioned a part per node, cut where the threads' parts of a loop over nodes are cut: equally many edges and nodes
//   interleaved page by page over all nodes
//   replicated  a copy per node of what a run only reads; a chunk of a loop takes the copy near to its thread
//
// [Kaestle16] 4.3. On a machine with one NUMA node nothing of this happens, unless asked for.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/csr/structure.hpp"
#include "graph/storage/pages.hpp"
#include "graph/team/team.hpp"
#include "smelt/array.hpp"
#include "smelt/green_marl.hpp"

namespace smelt::graph {

/// Memory of an array, placed or not.
class ArrayMemory {
 public:
  ArrayMemory() = default;
  explicit ArrayMemory(Pages pages) : pages_(std::move(pages)) {}
  ArrayMemory(memory::Block block, std::size_t size_bytes)
      : block_(std::make_unique<memory::Block>(std::move(block))), block_bytes_(size_bytes) {}

  std::byte* data() const noexcept { return block_ ? block_->data() : pages_.data(); }
  std::size_t size_bytes() const noexcept { return block_ ? block_bytes_ : pages_.size_bytes(); }
  template <class T>
  T* as() const noexcept {
    return reinterpret_cast<T*>(data());
  }

 private:
  Pages pages_;
  std::unique_ptr<memory::Block> block_;
  std::size_t block_bytes_ = 0;
};

class PlacedMemory {
 public:
  /// Binds the team's threads if there are several nodes, or with RunOptions::Placement::always; with never, arrays are
  /// plain ones on pages of the usual size.
  PlacedMemory(ThreadTeam& team, RunOptions::Placement wanted);
  /// The calling thread may run again where it could before.
  ~PlacedMemory();
  PlacedMemory(const PlacedMemory&) = delete;
  PlacedMemory& operator=(const PlacedMemory&) = delete;

  /// Whether arrays are placed.
  bool places() const noexcept { return places_; }
  MachineMemory machine() const noexcept { return {static_cast<int>(nodes_.size()), node_bytes_}; }

  /// Of these graphs arrays are made: their nodes decide where parts are cut.
  void add(const Structure& structure);

  /// An array with an element per node or edge of a graph. Zero at first. Errors: out_of_memory.
  Result<ArrayMemory> allocate(std::size_t size_bytes, bool of_nodes, ArrayPlacement::Placement placement,
                               const std::string& name);

  /// One of a graph's own arrays as it is to be read: itself, where it lies as it should, or another one of the same
  /// content, which is made once per graph and stays with it. Copies are behind local().
  const void* place(const Structure& structure, const void* array, std::size_t element_bytes, bool of_nodes,
                    ArrayPlacement::Placement placement, const std::string& name);

  /// The copy near to the calling thread. Any thread, once all are placed.
  void* local(void* array) const noexcept {
    for (const auto& [original, block] : replicated_) {
      if (original == array) return block->local();
    }
    return array;
  }
  bool has_copies() const noexcept { return !replicated_.empty(); }

  /// What was placed, in the order of the requests.
  const std::vector<PlacedArray>& placed() const noexcept { return placed_; }

 private:
  struct Cuts {
    std::uint64_t nodes, edges;
    std::vector<std::size_t> of_nodes, of_edges;
  };

  ArrayOptions options_for(std::size_t size_bytes, bool of_nodes, ArrayPlacement::Placement placement,
                           const std::string& name) const;

  RunOptions::Placement wanted_;
  bool places_ = false;
  std::vector<int> nodes_{0};
  std::uint64_t node_bytes_ = 0;  ///< of the node that has least
  std::vector<int> affinity_;     ///< of the caller, before it was bound; empty: it was not
  std::vector<Cuts> cuts_;
  std::vector<std::pair<const void*, std::shared_ptr<memory::Block>>> replicated_;
  std::vector<PlacedArray> placed_;
};

}  // namespace smelt::graph
