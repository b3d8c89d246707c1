// Moves, all aimed at ranks that determine the time (TreeState::pick_critical) most of the time:
//
//   move   a subtree below another rank, half of the time one that is near to it
//   swap   two ranks; with the root among them if it is free (in all trees at once)
//
// Accepted when not worse, or with probability exp(-loss / temperature); the temperature falls
// exponentially with the budget used. Children stay in best send order throughout.
#include "plan/trees/anneal.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace smelt::plan {

namespace {

constexpr int near_ranks = 12;
constexpr int moves_between_checks = 32;

// The ranks nearest to each rank; found when first asked for, as few ranks are on large machines.
class Neighbours {
 public:
  explicit Neighbours(const CostTable& costs)
      : costs_(costs), count_(std::min(near_ranks, costs.size() - 1)), lists_(static_cast<std::size_t>(costs.size())) {}

  int pick(int rank, Random& random) {
    if (lists_[rank].empty()) find(rank);
    return lists_[rank][random.below(count_)];
  }

 private:
  // By the costs from `rank`: those towards it are a column of the table; near is near both ways.
  void find(int rank) {
    edges_.clear();
    for (int other = 0; other < costs_.size(); ++other) {
      if (other != rank) edges_.emplace_back(costs_.edge(rank, other), other);
    }
    std::nth_element(edges_.begin(), edges_.begin() + (count_ - 1), edges_.end());
    for (int i = 0; i < count_; ++i) lists_[rank].push_back(edges_[i].second);
  }

  const CostTable& costs_;
  int count_;
  std::vector<std::vector<int>> lists_;
  std::vector<std::pair<float, int>> edges_;
};

class Annealer {
 public:
  Annealer(std::vector<AnnealedTree>& trees, const AnnealOptions& options)
      : trees_(trees), options_(options), random_(options.seed) {
    for (AnnealedTree& tree : trees_) near_.emplace_back(tree.state.costs());
    value_ = best_ = objective();
    save();
  }

  float run() {
    const float hot = options_.hot * value_, cooling = std::log(options_.cold / options_.hot);
    float temperature = hot;
    for (long moves = 0; best_ > 0.0F; ++moves) {
      if (moves % moves_between_checks == 0) {
        const float used = options_.progress(moves);
        if (used >= 1.0F) break;
        temperature = hot * std::exp(cooling * used);
      }
      step(temperature);
      if (value_ < best_) {
        best_ = value_;
        save();
      }
    }
    for (std::size_t i = 0; i < trees_.size(); ++i) trees_[i].state.reset(saved_[i]);
    return best_;
  }

 private:
  float objective() const {
    float sum = 0.0F;
    for (const AnnealedTree& tree : trees_) sum += tree.weight * tree.state.time();
    return sum;
  }

  void save() {
    saved_.clear();
    for (const AnnealedTree& tree : trees_) saved_.push_back(tree.state.tree());
  }

  void step(float temperature) {
    const int n = trees_[0].state.size();
    const int index = trees_.size() == 1 ? 0 : random_.below(static_cast<int>(trees_.size()));
    TreeState& state = trees_[index].state;
    const int kind = random_.below(16);
    int rank = random_.below(8) < 7 ? state.pick_critical(random_) : random_.below(n);
    if (kind < 2) {
      try_lift(index, rank, temperature);
      return;
    }
    if (options_.free_root && kind == 2) rank = state.root();
    const int other = random_.below(2) ? near_[index].pick(rank, random_) : random_.below(n);
    if (other == rank) return;
    if (kind < 6) {
      try_swap(index, rank, other, temperature);
    } else if (rank != state.root() && other != state.parent(rank) && !state.above(rank, other)) {
      if (accept(trees_[index].weight * (state.try_move(rank, other) - state.time()), temperature)) take(index);
    }
  }

  void take(int index) {
    trees_[index].state.take();
    value_ = objective();
  }

  // The root is lifted over only where there is one tree: several must keep theirs in common.
  void try_lift(int index, int rank, float temperature) {
    TreeState& state = trees_[index].state;
    if (rank == state.root()) return;
    if (state.parent(rank) == state.root() && (!options_.free_root || trees_.size() > 1)) return;
    if (accept(trees_[index].weight * (state.try_lift(rank) - state.time()), temperature)) take(index);
  }

  void try_swap(int index, int a, int b, float temperature) {
    const int root = trees_[index].state.root();
    const bool moves_root = a == root || b == root;
    if (moves_root && !options_.free_root) return;
    float loss = 0.0F;
    for (std::size_t i = 0; i < trees_.size(); ++i) {
      if (!moves_root && static_cast<int>(i) != index) continue;
      loss += trees_[i].weight * (trees_[i].state.try_swap(a, b) - trees_[i].state.time());
    }
    if (!accept(loss, temperature)) return;
    for (std::size_t i = 0; i < trees_.size(); ++i) {
      if (moves_root || static_cast<int>(i) == index) trees_[i].state.take();
    }
    value_ = objective();
  }

  bool accept(float loss, float temperature) {
    return loss <= 0.0F || (temperature > 0.0F && random_.unit() < std::exp(-loss / temperature));
  }

  std::vector<AnnealedTree>& trees_;
  const AnnealOptions& options_;
  Random random_;
  std::vector<Neighbours> near_;
  float value_ = 0.0F, best_ = 0.0F;
  std::vector<Tree> saved_;
};

}  // namespace

float anneal(std::vector<AnnealedTree>& trees, const AnnealOptions& options) {
  if (trees.empty() || trees[0].state.size() < 2) return 0.0F;
  return Annealer(trees, options).run();
}

}  // namespace smelt::plan
