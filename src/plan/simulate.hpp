// The simulator on step lists; simulate() of plan.hpp is this with a plan's fields.
#pragma once

#include "plan/costs.hpp"
#include "plan/steps.hpp"

namespace smelt::plan {

/// What a run needs to know besides the steps. `leaves_of`: the tree whose leaves take part in the
/// completion message, or null where the operation has none.
struct Run {
  Operation operation = Operation::broadcast;
  const StepLists* steps = nullptr;
  const Tree* leaves_of = nullptr;
  bool timeline = false;
};

Result<Simulation> simulate_steps(const RankCosts& ranks, const Run& run);

/// The tree whose leaves exchange the completion message with the root, or null.
const Tree* completion_tree(const Plan& plan) noexcept;

}  // namespace smelt::plan
