// ExpandedRecipe: the schedule that a recipe expands to for messages of one size. Different recipes often expand to the
// same schedule: on two ranks most trees are the same, a chunk larger than the message has no effect, and short
// messages are copied through channels even if longer ones would be read in place.
#pragma once

#include <cstddef>
#include <vector>

#include "smelt/schedule.hpp"

namespace smelt::plan {

struct ExpandedRecipe {
  std::vector<Schedule> schedules;  ///< by rank
  std::size_t chunk_bytes = 0;      ///< of all chunks except the last
  std::size_t chunks = 1;
  bool in_place = false;  ///< messages are read in place: the recipe allows it, and they are long enough

  bool operator==(const ExpandedRecipe&) const = default;
};

/// Expands a request from make_request, for `bytes` as in candidate_recipes.
ExpandedRecipe expand_recipe(const ScheduleRequest& request, std::size_t bytes, const Reach& reach);

}  // namespace smelt::plan
