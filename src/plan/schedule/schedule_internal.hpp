// Interface between the planning of schedules and the communicator, which has planned its trees already.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "smelt/schedule.hpp"

namespace smelt {

/// Reductions on vectors, whose chunks are ranges of elements.
bool reduces_vectors(Operation operation) noexcept;

}  // namespace smelt

namespace smelt::plan {

/// Longer messages through channels go in parts, except along trees: half of a channel (SharedLayout).
inline constexpr std::size_t longest_whole_message = 1792;

/// The trees for recipes that name no tree.
struct PlannedTrees {
  std::optional<Tree> broadcast, reduce;
  std::map<std::string, Tree> named{};  ///< trees of one operation that were built already, by topology
};

/// The best tree of broadcasts or of reductions. `start_ns`, if not empty, is when each rank enters.
Result<Tree> planned_tree(const Machine& machine, const Group& group, Operation operation, double search_ms,
                          std::span<const double> start_ns = {});

/// Both.
Result<PlannedTrees> planned_trees(const Machine& machine, const Group& group, double search_ms,
                                   std::span<const double> start_ns = {});

/// A tree for ranks that enter at `late_ns`: the given one, or the same with late ranks as leaves, whichever is done
/// earlier with one line from rank 0 (of reductions: to rank 0).
Tree tree_for_late_ranks(const Machine& machine, const Group& group, Operation operation, const Tree& tree,
                         const std::vector<double>& late_ns);

/// As smelt::make_request, with given trees.
Result<ScheduleRequest> make_request(const Machine& machine, const Group& group, const Recipe& recipe, int root,
                                     const PlannedTrees& planned);

/// As smelt::make_schedule, reusing the memory of another schedule.
Schedule make_schedule_in(Schedule memory, const ScheduleRequest& request, int rank);

/// As smelt::rank_recipes, for given recipes.
Result<std::vector<RankedRecipe>> rank_recipes(const Machine& machine, const Group& group, const PlannedTrees& trees,
                                               const std::vector<Recipe>& recipes, std::size_t bytes,
                                               const Reach& reach, int root, std::span<const double> start_ns);

/// As smelt::simulate; empty as soon as a rank is known to finish later than `most_ns`.
Result<std::optional<ScheduleTimes>> simulate_within(double most_ns, const Machine& machine, const Group& group,
                                                     const ScheduleRequest& request, std::size_t bytes,
                                                     std::size_t element_bytes, const Reach& reach,
                                                     std::span<const double> start_ns);

/// The first of rank_recipes(). The simulation of a recipe stops once another one is known to be better. Empty if there
/// are no recipes. Adds named trees that it builds to `trees`.
Result<std::optional<RankedRecipe>> best_recipe(const Machine& machine, const Group& group, PlannedTrees& trees,
                                                const std::vector<Recipe>& recipes, std::size_t bytes,
                                                const Reach& reach, int root, std::span<const double> start_ns);

/// The division of a vector, or of each rank's block, into chunks, and of a vector into slices. All in elements. The
/// simulator and the communicator must use the same division, and so must all ranks.
class Chunking {
 public:
  Chunking() = default;
  /// `length`: elements of the vector or of the largest block.
  Chunking(const smelt::Schedule& schedule, Operation operation, std::size_t chunk_bytes, std::size_t slot_bytes,
           std::size_t length, std::size_t element_bytes)
      : length_(length), slices_(has_rank_blocks(operation) ? 1 : static_cast<std::size_t>(schedule.slices)) {
    std::size_t most = chunk_bytes == 0 ? length * element_bytes : chunk_bytes;
    // Two halves, in whole lines, if the stages have room for the second.
    if (schedule.tail_chunks > 0 && chunk_bytes == 0)
      most = std::min(most, (length * element_bytes / 2 + 63) / 64 * 64);
    if (schedule.stage_blocks > 0) {
      const auto blocks = has_rank_blocks(operation) ? static_cast<std::size_t>(schedule.stage_blocks) : 1;
      most = std::min(most, slot_bytes / blocks / 64 * 64);
    }
    chunk_ = std::min(length, std::max<std::size_t>(1, most / element_bytes));
    // Slices and chunks begin on cache lines if the element size allows it.
    grain_ = element_bytes <= 64 && 64 % element_bytes == 0 ? 64 / element_bytes : 1;
    chunks_ = length == 0 ? 1 : (length + chunk_ - 1) / chunk_;
    // The same number of chunks, but of equal lengths, so that a small remainder does not become a chunk of its own.
    if (chunks_ > 1) chunk_ = std::min(chunk_, rounded_up((length + chunks_ - 1) / chunks_));
    tail_ = std::min(static_cast<std::size_t>(schedule.tail_chunks), chunks_ / 2);
  }

  std::size_t chunks() const { return chunks_; }
  std::size_t body_chunks() const { return chunks_ - tail_; }  ///< before the tail, at least one
  std::size_t tail_chunks() const { return tail_; }
  std::size_t chunk() const { return chunk_; }  ///< elements of all chunks but the last
  std::size_t begin(std::size_t chunk) const { return chunk * chunk_; }
  std::size_t elements(std::size_t chunk) const { return std::min(chunk_, length_ - begin(chunk)); }

  /// First element of a slice within a chunk of `elements` elements.
  std::size_t slice_begin(std::size_t elements, int slice) const {
    const auto even = (elements + slices_ - 1) / slices_;
    return std::min(elements, rounded_up(even) * static_cast<std::size_t>(slice));
  }

 private:
  std::size_t rounded_up(std::size_t elements) const { return (elements + grain_ - 1) / grain_ * grain_; }

  std::size_t length_ = 0, slices_ = 1, chunk_ = 0, chunks_ = 1, tail_ = 0, grain_ = 1;
};

}  // namespace smelt::plan
