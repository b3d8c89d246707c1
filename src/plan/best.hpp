// Our own planner: `best` and `optimal`.
#pragma once

#include "plan/candidates.hpp"

namespace smelt::plan {

struct SearchResult {
  Solution solution;
  std::string runner_up;  ///< the best topology that is built by a rule
  double runner_up_ns = 0.0;
  double lower_bound_ns = 0.0;
  bool optimal = false;
  double search_ms = 0.0;
};

/// `exact`: run to proof where the group is small enough; search_ms = 0 then means no limit.
SearchResult search(Problem& problem, const PlanOptions& options, bool exact);

}  // namespace smelt::plan
