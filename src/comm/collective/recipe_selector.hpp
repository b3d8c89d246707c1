// RecipeSelector: selects the recipe for a call, from a profile if there is one, otherwise by simulation. The decision
// is made once per operation and range of sizes, on first use, and is the same on every rank.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "plan/schedule/expanded_recipe.hpp"
#include "plan/schedule/schedule_internal.hpp"
#include "smelt/collective.hpp"
#include "smelt/profile.hpp"
#include "smelt/schedule.hpp"

namespace smelt::comm {

struct SelectedRecipe {
  Recipe recipe;
  int number = 0;        ///< among all choices of the communicator
  bool planned = false;  ///< the endpoint's own code for the planned trees does it
};

/// Whether a recipe sends whole vectors along the edges of a tree, one message on each: the endpoint's own code does
/// that for vectors of a single line.
bool is_along_tree(const Recipe& recipe) noexcept;

/// The orders of operands that a reduction allows.
enum class Order { any, by_rank, canonical };
inline Order order_of(const Reduction& reduction) noexcept {
  if (reduction.combine == nullptr) return Order::any;
  if (reduction.reproducible) return Order::canonical;
  return reduction.commutative ? Order::any : Order::by_rank;
}

/// Status::ok if the arguments of a call are valid on this rank.
Status check(const Collective& call, int size, int rank) noexcept;

/// Number of elements of the longest block that is sent between ranks in a call with blocks of different sizes, if all
/// ranks know it. Two ranks always do, since each block that is sent concerns both.
std::optional<std::size_t> longest_known(const Collective& call, int size, int rank) noexcept;

class RecipeSelector {
 public:
  struct SelectorConfig {
    const Machine* machine = nullptr;
    const Group* group = nullptr;
    const Plan* plans = nullptr;  ///< by Operation, those that have trees
    Reach reach{};
    bool direct = true;
    std::span<const double> late_ns{};  ///< per rank; empty: nobody is late
    std::optional<Recipe> fixed{};      ///< for its operation
    std::optional<Profile> profile{};
  };

  explicit RecipeSelector(SelectorConfig config);
  ~RecipeSelector();

  /// The choice for a call, the same on all ranks. `rank` matters only for blocks of different sizes. nullptr if no
  /// recipe fits: an operator that demands an order on elements too large for the stages. Cost: a few comparisons; the
  /// first call of an operation in a range of sizes simulates all candidates unless a profile covers it.
  const SelectedRecipe* choose(const Collective& call, int rank = 0) noexcept;

  /// The choice for a given recipe, which must fit the group.
  const SelectedRecipe* choice(const Recipe& recipe);

  /// The candidates of the model for a commutative operator, best first.
  Result<std::vector<RankedRecipe>> ranked(Operation operation, std::size_t bytes) const;

  /// Without recipes that expand to the same schedule for `bytes` as an earlier one
  /// (plan/schedule/expanded_recipe.hpp).
  std::vector<RankedRecipe> distinct(const std::vector<RankedRecipe>& ranked, std::size_t bytes) const;

  /// Whether two recipes expand to the same schedule and are run by the same code.
  bool same_schedule(const Recipe& a, const Recipe& b, std::size_t bytes) const;

  /// From now on the model decides. Requirement: called by one thread while no rank is in a collective.
  void forget_profile();
  /// Increases whenever later results of choose() may differ from earlier ones.
  std::uint32_t generation() const noexcept { return generation_; }

  const SelectorConfig& config() const noexcept { return config_; }
  plan::PlannedTrees trees() const;

 private:
  /// Everything that a decision depends on, except the size.
  struct CallKind {
    Operation operation = Operation::broadcast;
    Sync sync = Sync::loose;
    Order order = Order::any;
    bool staged = false, irregular = false, at_rest = false;
  };
  /// Sizes up to `below` and their choice; the last range ends at SIZE_MAX.
  struct SizeRange {
    std::size_t below = 0;
    std::size_t model_bytes = 0;                         ///< size at which the model is evaluated
    std::atomic<const SelectedRecipe*> choice{nullptr};  ///< nullptr: not asked yet
  };
  using Table = std::deque<SizeRange>;  // ranges stay where they are

  Table* table(const CallKind& kind) noexcept;
  const SelectedRecipe* decided(const CallKind& kind, SizeRange& range) noexcept;
  std::unique_ptr<Table> make_table(const CallKind& kind);
  const SelectedRecipe* ask_model(const CallKind& kind, std::size_t bytes);
  std::vector<Recipe> recipes(const CallKind& kind, std::size_t bytes) const;
  bool takes_uneven(const AlgorithmInfo& info) const;
  struct LocalExpansion {
    plan::ExpandedRecipe expanded;
    bool planned = false;  ///< run by the endpoint's own code, which is faster than the same moves one by one
    bool operator==(const LocalExpansion&) const = default;
  };
  std::optional<LocalExpansion> expand_recipe(const Recipe& recipe, std::size_t bytes,
                                              const plan::PlannedTrees& trees) const;
  const SelectedRecipe* choice_of(const Recipe& recipe, Order order);
  std::optional<Recipe> fitting(const ProfileCell& cell) const;
  bool is_planned(const Recipe& recipe) const;

  SelectorConfig config_;
  std::uint32_t generation_ = 0;
  const SelectedRecipe nothing_{};  ///< in place of a choice where nothing fits
  std::mutex mutex_;                ///< serializes decisions; lookups take no lock
  std::deque<SelectedRecipe> choices_;
  std::optional<plan::PlannedTrees> planned_[2];  ///< with all named ones that were needed; [1]: of broadcasts
  std::vector<std::unique_ptr<Table>> owned_;
  std::atomic<Table*> tables_[operation_count][2][3][2][2][2] = {};
};

}  // namespace smelt::comm
