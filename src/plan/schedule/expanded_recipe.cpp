#include "plan/schedule/expanded_recipe.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "plan/schedule/schedule_internal.hpp"

namespace smelt {
namespace plan {
namespace {

/// Messages up to this size are never read in place, between threads and between processes.
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

/// What an expansion holds besides the schedules.
struct Expansion {
  /// From the schedule of rank 0.
  Expansion(const ScheduleRequest& request, const Schedule& first, std::size_t bytes, const Reach& reach)
      : operation(operation_of(request.recipe)),
        most(request.recipe.access != Access::direct ? SIZE_MAX
             : reach.processes                       ? most_process_bytes
                                                     : most_thread_bytes) {
    const Chunking cutting(first, operation, request.recipe.chunk_bytes, reach.slot_bytes, bytes, 1);
    chunk_bytes = cutting.chunk();
    chunks = cutting.chunks();
  }
  /// For every rank.
  void add(const Schedule& schedule) {
    in_place = in_place || (most != SIZE_MAX && longest_message(schedule, operation, chunk_bytes) > most);
  }
  bool operator==(const Expansion& other) const {
    return chunk_bytes == other.chunk_bytes && chunks == other.chunks && in_place == other.in_place;
  }

  Operation operation;
  std::size_t most;  ///< a longer message is read in place; SIZE_MAX: none is
  std::size_t chunk_bytes = 0, chunks = 1;
  bool in_place = false;
};

}  // namespace

ExpandedRecipe expand_recipe(const ScheduleRequest& request, std::size_t bytes, const Reach& reach) {
  ExpandedRecipe expanded;
  for (int rank = 0; rank < request.ranks; ++rank) expanded.schedules.push_back(make_schedule(request, rank));
  Expansion whole(request, expanded.schedules.front(), bytes, reach);
  for (const Schedule& each : expanded.schedules) whole.add(each);
  expanded.chunk_bytes = whole.chunk_bytes;
  expanded.chunks = whole.chunks;
  expanded.in_place = whole.in_place;
  return expanded;
}

}  // namespace plan

/// Rank by rank: most recipes differ at the first one, and large groups have millions of moves.
bool same_schedule(const ScheduleRequest& a, const ScheduleRequest& b, std::size_t bytes, const Reach& reach) {
  if (a.recipe == b.recipe) return true;
  if (a.ranks != b.ranks) return false;
  std::optional<plan::Expansion> whole_a, whole_b;
  for (int rank = 0; rank < a.ranks; ++rank) {
    const Schedule of_a = make_schedule(a, rank), of_b = make_schedule(b, rank);
    if (of_a != of_b) return false;
    if (!whole_a) whole_a.emplace(a, of_a, bytes, reach), whole_b.emplace(b, of_b, bytes, reach);
    whole_a->add(of_a);
    whole_b->add(of_b);
  }
  return !whole_a || *whole_a == *whole_b;
}

}  // namespace smelt
