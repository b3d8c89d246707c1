// ExpandedRecipe: what a recipe comes to for messages of one size. Recipes with different names often come to the same:
// on two ranks most trees are one tree, a chunk larger than the message cuts nothing, and short messages are copied
// through the channels whether or not longer ones would be read in place.
#pragma once

#include <cstddef>
#include <vector>

#include "smelt/schedule.hpp"

namespace smelt::plan {

struct ExpandedRecipe {
  std::vector<Schedule> schedules;  ///< by rank
  std::size_t chunk_bytes = 0;      ///< of all chunks but the last
  std::size_t chunks = 1;
  bool in_place = false;  ///< messages long enough to be read where they lie, and a recipe that allows it

  bool operator==(const ExpandedRecipe&) const = default;
};

/// Of a request from make_request, for `bytes` as in candidate_recipes.
ExpandedRecipe expand_recipe(const ScheduleRequest& request, std::size_t bytes, const Reach& reach);

}  // namespace smelt::plan
