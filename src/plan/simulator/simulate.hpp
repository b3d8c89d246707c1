// The simulator on step lists; simulate() of plan.hpp is this with a plan's fields.
#pragma once

#include "plan/schedule/steps.hpp"
#include "plan/trees/costs.hpp"

namespace smelt::plan {

/// The input of a simulation. `leaves_of`: the tree whose leaves take part in the completion message, or null if the
/// operation has none.
struct SimulationInput {
  Operation operation = Operation::broadcast;
  const StepLists* steps = nullptr;
  const Tree* leaves_of = nullptr;
  bool timeline = false;
};

/// Without the fixed cost of a call (RankCosts::call).
Result<Simulation> simulate_steps(const RankCosts& ranks, const SimulationInput& run);

/// Including the fixed cost of a call: all arrivals are later, except those at time 0.
void add_call(double call_ns, std::vector<double>& arrival_ns) noexcept;

/// The tree whose leaves exchange the completion message with the root, or null.
const Tree* completion_tree(const Plan& plan) noexcept;

}  // namespace smelt::plan
