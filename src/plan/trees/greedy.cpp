// Earliest-completion greedy with a heap of senders. Each sender in the heap carries its best
// target; a target that somebody else has taken is replaced when its sender comes up. As costs of
// a sender only grow while it waits, the top of the heap is then the best of all pairs.
#include "plan/trees/greedy.hpp"

#include <limits>
#include <queue>

namespace smelt::plan {

namespace {

struct CandidateEdge {
  float value;
  int sender, target;
  bool operator>(const CandidateEdge& other) const {
    return value != other.value ? value > other.value : sender > other.sender;
  }
};

class Greedy {
 public:
  Greedy(const CostTable& costs, int root) : costs_(costs) {
    const auto n = static_cast<std::size_t>(costs.size());
    idle_.assign(n, 0.0F);
    place_.assign(n, -1);
    tree_.root = root;
    tree_.children.resize(n);
    for (int rank = 0; rank < costs.size(); ++rank) {
      if (rank == root) continue;
      place_[rank] = static_cast<int>(outside_.size());
      outside_.push_back(rank);
    }
  }

  Tree run() {
    offer(tree_.root);
    while (!outside_.empty()) {
      const CandidateEdge best = offers_.top();
      offers_.pop();
      if (place_[best.target] < 0) {
        offer(best.sender);
        continue;
      }
      take(best);
      if (outside_.empty()) break;
      offer(best.sender);
      offer(best.target);
    }
    return std::move(tree_);
  }

 private:
  void take(const CandidateEdge& offer) {
    tree_.children[offer.sender].push_back(offer.target);
    idle_[offer.sender] += costs_.send(offer.sender, offer.target);
    idle_[offer.target] = idle_[offer.sender] + costs_.latency(offer.sender, offer.target);
    const int hole = place_[offer.target];
    outside_[hole] = outside_.back();
    place_[outside_[hole]] = hole;
    outside_.pop_back();
    place_[offer.target] = -1;
  }

  void offer(int sender) {
    const float* edges = costs_.edge_row(sender, row_);
    int target = -1;
    float least = std::numeric_limits<float>::infinity();
    for (const int rank : outside_) {
      const float edge = edges[rank];
      if (edge < least || (edge == least && rank < target)) {
        least = edge;
        target = rank;
      }
    }
    offers_.push({idle_[sender] + least, sender, target});
  }

  const CostTable& costs_;
  std::vector<float> row_;  // room for the costs of a sender
  std::vector<float> idle_;
  std::vector<int> outside_, place_;  // ranks without the message, and where they stand in that list
  std::priority_queue<CandidateEdge, std::vector<CandidateEdge>, std::greater<>> offers_;
  Tree tree_;
};

}  // namespace

Tree greedy_tree(const CostTable& costs, int root) { return Greedy(costs, root).run(); }

}  // namespace smelt::plan
