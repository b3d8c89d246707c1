#include "plan/trees/treestate.hpp"

#include <algorithm>

namespace smelt::plan {

TreeState::TreeState(const CostTable& costs, const Tree& tree, std::vector<float> ready)
    : costs_(&costs), ready_(std::move(ready)) {
  const auto n = static_cast<std::size_t>(costs.size());
  if (ready_.empty()) ready_.assign(n, 0.0F);
  stamp_.assign(n, 0);
  fresh_.assign(n, 0.0F);
  reset(tree);
}

void TreeState::reset(const Tree& tree) {
  root_ = tree.root;
  parent_ = tree.parents();
  children_ = tree.children;
  build(tree);
}

void TreeState::build(const Tree& tree) {
  need_.assign(parent_.size(), 0.0F);
  served_.resize(parent_.size());
  const std::vector<int> order = top_down(tree);
  for (auto it = order.rbegin(); it != order.rend(); ++it) recompute(*it);
  trial_ = 0;
  std::fill(stamp_.begin(), stamp_.end(), 0);
}

Tree TreeState::tree() const {
  Tree tree;
  tree.root = root_;
  tree.children = children_;
  return tree;
}

bool TreeState::above(int rank, int other) const {
  while (other >= 0 && other != rank) other = parent_[other];
  return other == rank;
}

void TreeState::begin(Change change) {
  ++trial_;
  change_ = change;
  edges_ = 0;
  swap_a_ = swap_b_ = -1;
}

void TreeState::replace(Edge removed, Edge added) {
  removed_[edges_] = removed;
  added_[edges_++] = added;
}

float TreeState::try_move(int rank, int parent) {
  begin(Change::move);
  replace({parent_[rank], rank}, {parent, rank});
  climb(parent_[rank], false);
  climb(parent, false);
  return current(root_);
}

float TreeState::try_swap(int a, int b) {
  begin(Change::swap);
  swap_a_ = a;
  swap_b_ = b;
  climb(a, true);
  climb(b, true);
  return current(root_);
}

//      above            above
//        |                |
//      below      ->     rank
//      /   \ .          /   \ .
//   rank    ..        ..   below - ..
float TreeState::try_lift(int rank) {
  begin(Change::lift);
  const int below = parent_[rank], above = parent_[below];
  replace({below, rank}, {above, rank});
  replace({above, below}, {rank, below});
  refresh(below);
  refresh(rank);
  if (above < 0) return current(rank);
  climb(above, false);
  return current(root_);
}

void TreeState::refresh(int rank) {
  fresh_[rank] = fold(rank);
  stamp_[rank] = trial_;
}

// Brings the trial's needs up to date from `rank` towards the root, as far as they change.
void TreeState::climb(int rank, bool force_parent) {
  for (;;) {
    const float need = fold(rank);
    const bool same = need == current(rank);
    stamp_[rank] = trial_;
    fresh_[rank] = need;
    if (rank == root_ || (same && !force_parent)) return;
    force_parent = false;
    rank = parent_[rank];
  }
}

// need(rank) in the trial. Children that the trial leaves alone are in order already.
float TreeState::fold(int rank) {
  const int self = label(rank);
  line_.clear();
  changed_.clear();
  for (const int child : children_[rank]) {
    if (is_removed(child)) continue;
    if (self == rank && stamp_[child] != trial_ && label(child) == child) {
      line_.push_back(served_[child]);
    } else {
      serve_later(self, child);
    }
  }
  for (int i = 0; i < edges_; ++i) {
    if (added_[i].parent == rank) serve_later(self, added_[i].child);
  }
  if (line_.empty() && changed_.empty()) return ready_[self];
  for (const Served& one : changed_) {
    std::size_t at = line_.size();
    line_.push_back(one);
    for (; at > 0 && line_[at - 1].key < one.key; --at) line_[at] = line_[at - 1];
    line_[at] = one;
  }
  float sent = 0.0F, need = 0.0F;
  for (const Served& one : line_) {
    sent += one.send;
    need = std::max(need, sent + one.key);
  }
  return std::max(need, ready_[self] + sent);
}

void TreeState::serve_later(int self, int child) {
  const int other = label(child);
  changed_.push_back({costs_->latency(self, other) + current(child), costs_->send(self, other)});
}

void TreeState::take() {
  if (change_ == Change::swap) {
    take_swap();
  } else if (change_ != Change::none) {
    take_edges();
  }
  begin(Change::none);
}

void TreeState::take_edges() {
  for (int i = 0; i < edges_; ++i) {
    if (removed_[i].parent >= 0) std::erase(children_[removed_[i].parent], removed_[i].child);
  }
  for (int i = 0; i < edges_; ++i) {
    parent_[added_[i].child] = added_[i].parent;
    if (added_[i].parent >= 0) children_[added_[i].parent].push_back(added_[i].child);
  }
  if (change_ == Change::lift) {
    recompute(removed_[0].parent);
    if (added_[0].parent < 0) root_ = added_[0].child;
    settle(added_[0].child, true);
  } else {
    settle(removed_[0].parent, false);
    settle(added_[0].parent, false);
  }
}

void TreeState::take_swap() {
  const int a = swap_a_, b = swap_b_;
  const int above_a = parent_[a] < 0 ? -1 : label(parent_[a]), above_b = parent_[b] < 0 ? -1 : label(parent_[b]);
  std::swap(children_[a], children_[b]);
  const int owners[] = {a, b, above_a, above_b};
  for (int i = 0; i < 4; ++i) {
    if (owners[i] < 0 || std::find(owners, owners + i, owners[i]) != owners + i) continue;
    for (int& child : children_[owners[i]]) child = label(child);
  }
  for (const int owner : {a, b}) {
    for (const int child : children_[owner]) parent_[child] = owner;
  }
  parent_[b] = above_a;
  parent_[a] = above_b;
  root_ = label(root_);
  settle(a, true);
  settle(b, true);
}

void TreeState::settle(int rank, bool force_parent) {
  for (;;) {
    const float before = need_[rank];
    recompute(rank);
    if (rank == root_ || (need_[rank] == before && !force_parent)) return;
    force_parent = false;
    rank = parent_[rank];
  }
}

void TreeState::recompute(int rank) {
  auto& children = children_[rank];
  for (const int child : children) {
    served_[child] = {costs_->latency(rank, child) + need_[child], costs_->send(rank, child)};
  }
  // Insertion sort: the order is nearly right.
  for (std::size_t i = 1; i < children.size(); ++i) {
    const int child = children[i];
    std::size_t at = i;
    for (; at > 0 && served_[children[at - 1]].key < served_[child].key; --at) children[at] = children[at - 1];
    children[at] = child;
  }
  float sent = 0.0F, need = 0.0F;
  for (const int child : children) {
    sent += served_[child].send;
    need = std::max(need, sent + served_[child].key);
  }
  need_[rank] = children.empty() ? ready_[rank] : std::max(need, ready_[rank] + sent);
}

int TreeState::pick_critical(Random& random) const {
  int rank = root_;
  while (!children_[rank].empty()) {
    const auto& children = children_[rank];
    float sent = 0.0F, longest = -1.0F;
    int last = 0;
    for (int i = 0; i < static_cast<int>(children.size()); ++i) {
      sent += served_[children[i]].send;
      if (sent + served_[children[i]].key > longest) {
        longest = sent + served_[children[i]].key;
        last = i;
      }
    }
    if (ready_[rank] + sent > longest) last = static_cast<int>(children.size()) - 1;
    const int pick = random.below(last + 1);
    if (pick < last || random.below(8) < 3) return children[pick];
    rank = children[last];
  }
  return rank == root_ ? -1 : rank;
}

}  // namespace smelt::plan
