// A tree under local search: changes are tried without touching the tree, then taken or dropped.
//
// Everything is seen from below: need(r) is what rank r needs once it holds the message,
//
//   need(r) = max over k of (sends 1..k) + latency(r, c_k) + need(c_k)     children in best order
//
// so a change at r matters to the ranks between r and the root alone, and only as long as their
// need changes: a move costs O(depth x degree) at worst and usually a few steps.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/trees/costs.hpp"
#include "plan/trees/tree.hpp"

namespace smelt::plan {

/// xorshift64*: small, fast, the same everywhere.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15U + 0x1234567890ABCDEFU) {
    if (state_ == 0) state_ = 1;
  }
  std::uint32_t bits() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return static_cast<std::uint32_t>((state_ * 0x2545F4914F6CDD1DU) >> 32);
  }
  /// Uniform in [0, bound).
  int below(int bound) {
    return static_cast<int>((static_cast<std::uint64_t>(bits()) * static_cast<std::uint64_t>(bound)) >> 32);
  }
  /// Uniform in [0, 1).
  float unit() { return static_cast<float>(bits() >> 8) * 0x1p-24F; }

 private:
  std::uint64_t state_;
};

class TreeState {
 public:
  /// `ready`: when each rank can start to serve its children. Empty: 0 for all.
  TreeState(const CostTable& costs, const Tree& tree, std::vector<float> ready = {});

  void reset(const Tree& tree);
  int size() const noexcept { return costs_->size(); }
  int root() const noexcept { return root_; }
  int parent(int rank) const { return parent_[rank]; }
  const CostTable& costs() const noexcept { return *costs_; }
  float time() const { return need_[root_]; }
  bool above(int rank, int other) const;  ///< `rank` is `other` or lies between it and the root
  Tree tree() const;

  /// The time of the whole tree if `rank` and its subtree hung below `parent`. Requires: rank is not
  /// the root and not above(rank, parent).
  float try_move(int rank, int parent);
  /// The time if two ranks changed places.
  float try_swap(int a, int b);
  /// The time if `rank` took its parent's place and the parent hung below it. Requires: not the root.
  float try_lift(int rank);
  /// Makes the last tried change.
  void take();

  /// A random rank whose place determines the time: it is on the longest path or served before
  /// the next rank on it. -1 if the group is one rank.
  int pick_critical(Random& random) const;

 private:
  struct Served {
    float key, send;
  };
  enum class Change { none, move, swap, lift };
  struct Edge {
    int parent, child;
  };
  float current(int rank) const { return stamp_[rank] == trial_ ? fresh_[rank] : need_[rank]; }
  int label(int rank) const { return rank == swap_a_ ? swap_b_ : rank == swap_b_ ? swap_a_ : rank; }
  void begin(Change change);
  void replace(Edge removed, Edge added);
  void refresh(int rank);
  bool is_removed(int child) const {
    return (edges_ > 0 && removed_[0].child == child) || (edges_ > 1 && removed_[1].child == child);
  }
  void climb(int rank, bool force_parent);
  float fold(int rank);
  void serve_later(int self, int child);
  void settle(int rank, bool force_parent);
  void recompute(int rank);
  void take_edges();
  void take_swap();
  void build(const Tree& tree);

  const CostTable* costs_;
  std::vector<float> ready_;
  int root_ = 0;
  std::vector<int> parent_;
  std::vector<std::vector<int>> children_;  // in send order
  std::vector<float> need_;
  std::vector<Served> served_;  // per rank, as a child: latency + need, and the parent's send

  // The change being tried.
  Change change_ = Change::none;
  int edges_ = 0;
  Edge removed_[2], added_[2];
  int swap_a_ = -1, swap_b_ = -1;
  std::uint32_t trial_ = 0;
  std::vector<std::uint32_t> stamp_;
  std::vector<float> fresh_;
  std::vector<Served> line_, changed_;
};

}  // namespace smelt::plan
