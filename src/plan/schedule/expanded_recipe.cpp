#include "plan/schedule/expanded_recipe.hpp"

#include <algorithm>

#include "plan/schedule/schedule_internal.hpp"

namespace smelt {
namespace plan {
namespace {

/// Messages up to that are never read in place, between threads and between processes.
constexpr std::size_t most_thread_bytes = 2048, most_process_bytes = 8192;

Operation operation_of(const Recipe& recipe) {
  for (const auto& info : algorithms()) {
    if (info.name == recipe.algorithm) return info.operation;
  }
  return Operation::broadcast;
}

/// The longest message of a schedule; slices may be longer than an even share by a cache line.
std::size_t longest_message(const Schedule& schedule, Operation operation, std::size_t chunk_bytes) {
  std::size_t longest = 0;
  for (const auto* section : {&schedule.begin, &schedule.body, &schedule.tail, &schedule.end}) {
    for (const Move& move : *section) {
      if (move.peer < 0 && move.source < 0) continue;
      const int blocks = std::max(move.from.count, move.to.count);
      std::size_t bytes = chunk_bytes;
      if (has_rank_blocks(operation)) {
        bytes = chunk_bytes * static_cast<std::size_t>(blocks);
      } else if (schedule.slices > 1) {
        const auto slices = static_cast<std::size_t>(schedule.slices);
        bytes = std::min(chunk_bytes, ((chunk_bytes + slices - 1) / slices + 64) * static_cast<std::size_t>(blocks));
      }
      longest = std::max(longest, bytes);
    }
  }
  return longest;
}

}  // namespace

ExpandedRecipe expand_recipe(const ScheduleRequest& request, std::size_t bytes, const Reach& reach) {
  ExpandedRecipe expanded;
  const auto operation = operation_of(request.recipe);
  for (int rank = 0; rank < request.ranks; ++rank) expanded.schedules.push_back(make_schedule(request, rank));
  const Chunking cutting(expanded.schedules.front(), operation, request.recipe.chunk_bytes, reach.slot_bytes, bytes, 1);
  expanded.chunk_bytes = cutting.chunk();
  expanded.chunks = cutting.chunks();
  if (request.recipe.access != Access::direct) return expanded;
  const auto most = reach.processes ? most_process_bytes : most_thread_bytes;
  expanded.in_place = std::any_of(expanded.schedules.begin(), expanded.schedules.end(), [&](const Schedule& each) {
    return longest_message(each, operation, expanded.chunk_bytes) > most;
  });
  return expanded;
}

}  // namespace plan

bool same_schedule(const ScheduleRequest& a, const ScheduleRequest& b, std::size_t bytes, const Reach& reach) {
  return a.recipe == b.recipe || plan::expand_recipe(a, bytes, reach) == plan::expand_recipe(b, bytes, reach);
}

}  // namespace smelt
