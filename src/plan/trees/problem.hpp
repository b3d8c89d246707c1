// Problem: what planners and tree rules work on.
#pragma once

#include <optional>

#include "plan/trees/costs.hpp"

namespace smelt::plan {

/// The input of one planning: ranks, their costs, and the operation. Tables are made when first used.
class Problem {
 public:
  Problem(const Machine& machine, const Group& group, Operation operation)
      : ranks_(machine, group), published_(machine, group, CostTerms::published), operation_(operation) {}
  Problem(const Problem&) = delete;
  Problem& operator=(const Problem&) = delete;

  int size() const noexcept { return ranks_.size(); }
  Operation operation() const noexcept { return operation_; }
  const RankCosts& ranks() const noexcept { return ranks_; }
  DirectedCosts exact(Direction direction) const { return {ranks_, direction}; }
  const CostTable& table(Direction direction);
  /// The costs of a broadcast by send_ns and recv_ns alone, from which published rules build trees.
  const CostTable& published_table();
  /// The root of a topology that chooses one by cost: the cheapest sender of the broadcast, or of the reduction if
  /// there is no broadcast.
  int cheapest_root();
  /// The same by the costs that published rules use.
  int published_root();

 private:
  RankCosts ranks_, published_;
  Operation operation_;
  std::optional<CostTable> tables_[2], published_table_;
  std::optional<int> cheapest_root_, published_root_;
};

}  // namespace smelt::plan
