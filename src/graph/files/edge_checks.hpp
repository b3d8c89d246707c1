// Checks of the edges of rows that come from files: ascending order, repeats and loops, and symmetry.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "graph/csr/symmetry.hpp"

namespace smelt::graph {

/// Checks edges while they are in caches: piece by piece, in any order and by any thread, when their piece has come.
/// Requires offsets that ascend.
template <class NodeId, class Offset>
class EdgeChecks {
 public:
  /// `symmetry`, `simplicity`: what is looked for besides the order.
  EdgeChecks(const Offset* begin, const NodeId* node_idx, std::uint64_t nodes, bool symmetry, bool simplicity = false)
      : begin_(begin), node_idx_(node_idx), nodes_(nodes), symmetry_(symmetry), simplicity_(simplicity) {}

  /// The edges [first, last) have come.
  void add(std::uint64_t first, std::uint64_t last) {
    if (first == last) return;
    std::uint64_t descents = 0, repeats = 0;
    for (auto i = first + 1; i < last; ++i) descents += node_idx_[i] < node_idx_[i - 1];
    if (simplicity_) {
      for (auto i = first + 1; i < last; ++i) repeats += node_idx_[i] == node_idx_[i - 1];
    }
    std::uint64_t sum = 0;
    const SymmetrySum symmetry = SymmetrySum::of_process();
    const auto first_row = static_cast<std::uint64_t>(
        std::upper_bound(begin_, begin_ + nodes_ + 1, static_cast<Offset>(first)) - begin_ - 1);
    auto i = first;
    for (auto from = first_row; i < last; ++from) {
      const auto end = std::min<std::uint64_t>(last, begin_[from + 1]);
      // Where a row begins the numbers may descend or repeat.
      if (i > first && end > i) {
        descents -= node_idx_[i] < node_idx_[i - 1];
        if (simplicity_) repeats -= node_idx_[i] == node_idx_[i - 1];
      }
      if (symmetry_) sum += symmetry.of_row(from, node_idx_ + i, node_idx_ + end);
      if (simplicity_) repeats += static_cast<std::uint64_t>(std::count(node_idx_ + i, node_idx_ + end, from));
      i = end;
    }
    // Read after the team has met.
    if (descents > 0) sorted_.store(false, std::memory_order_relaxed);
    if (repeats > 0) simple_.store(false, std::memory_order_relaxed);
    sum_.fetch_add(sum, std::memory_order_relaxed);
  }

  /// Once all pieces have come: the order across their borders, which are `first` and each `step` edges behind it.
  void add_borders(std::uint64_t first, std::uint64_t step, std::uint64_t edges) {
    for (auto i = first; i < edges && sorted() && simple(); i += step) {
      const bool descends = node_idx_[i] < node_idx_[i - 1];
      const bool repeats = simplicity_ && node_idx_[i] == node_idx_[i - 1];
      if ((!descends && !repeats) || std::binary_search(begin_, begin_ + nodes_ + 1, static_cast<Offset>(i))) continue;
      (descends ? sorted_ : simple_).store(false, std::memory_order_relaxed);
    }
  }

  bool sorted() const { return sorted_.load(std::memory_order_relaxed); }
  /// Of edges that are sorted, if asked for.
  bool simple() const { return simple_.load(std::memory_order_relaxed); }
  bool symmetric() const { return sum_.load(std::memory_order_relaxed) == 0; }

 private:
  const Offset* begin_;
  const NodeId* node_idx_;
  std::uint64_t nodes_;
  bool symmetry_, simplicity_;
  std::atomic<bool> sorted_{true}, simple_{true};
  std::atomic<std::uint64_t> sum_{0};
};

}  // namespace smelt::graph
