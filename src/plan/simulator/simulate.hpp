// The simulator on step lists; simulate() of plan.hpp is this with a plan's fields.
#pragma once

#include "plan/schedule/steps.hpp"
#include "plan/trees/costs.hpp"

namespace smelt::plan {

/// What a run needs to know besides the steps. `leaves_of`: the tree whose leaves take part in the
/// completion message, or null where the operation has none.
struct SimulationInput {
  Operation operation = Operation::broadcast;
  const StepLists* steps = nullptr;
  const Tree* leaves_of = nullptr;
  bool timeline = false;
};

/// Without what the call costs besides (RankCosts::call).
Result<Simulation> simulate_steps(const RankCosts& ranks, const SimulationInput& run);

/// The same with it: all is later, but for who has had it from the start.
void add_call(double call_ns, std::vector<double>& arrival_ns) noexcept;

/// The tree whose leaves exchange the completion message with the root, or null.
const Tree* completion_tree(const Plan& plan) noexcept;

}  // namespace smelt::plan
