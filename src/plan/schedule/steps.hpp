// From trees to step lists.
#pragma once

#include <vector>

#include "smelt/plan.hpp"

namespace smelt::plan {

using StepLists = std::vector<std::vector<Step>>;

/// Whether the operation has a phase in that direction.
bool reduces(Operation operation) noexcept;
bool broadcasts(Operation operation) noexcept;

/// Steps of an operation that runs on trees; the trees that it uses must be there, with one root.
StepLists tree_steps(Operation operation, int ranks, const Tree* reduce_tree, const Tree* broadcast_tree);

/// Steps of a dissemination barrier or of a recursive-doubling allreduce.
StepLists dissemination_steps(Operation operation, int ranks);

}  // namespace smelt::plan
