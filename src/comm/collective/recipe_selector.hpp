// RecipeSelector: which recipe runs a call. From a profile where there is one, else by the simulator; decided per
// operation and class of sizes when it is first used, the same on every rank.
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

/// What the order of operands may be.
enum class Order { any, by_rank, canonical };
inline Order order_of(const Reduction& reduction) noexcept {
  if (reduction.combine == nullptr) return Order::any;
  if (reduction.reproducible) return Order::canonical;
  return reduction.commutative ? Order::any : Order::by_rank;
}

/// Status::ok if the arguments of a call make sense on this rank.
Status check(const Collective& call, int size, int rank) noexcept;

/// Elements of the longest block of different ones that travels between ranks, where all ranks know it: always between
/// two ranks, which both see whatever travels.
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

  /// For a call of that rank, which is asked about blocks of different sizes only; the same for all ranks.
  /// nullptr if nothing fits: an operator that demands an order on elements too large for the stages.
  /// Cost: a few comparisons; for the first call of an operation at a size of its class, a simulation of all
  /// candidates where no profile knows better.
  const SelectedRecipe* choose(const Collective& call, int rank = 0) noexcept;

  /// What runs a recipe, whatever choose() would decide on. The recipe must fit the group.
  const SelectedRecipe* choice(const Recipe& recipe);

  /// The recipes that the model has to choose from for a commutative operator, best first.
  Result<std::vector<RankedRecipe>> ranked(Operation operation, std::size_t bytes) const;

  /// Without those that come to the same for `bytes` as one before them (plan/course.hpp).
  std::vector<RankedRecipe> distinct(const std::vector<RankedRecipe>& ranked, std::size_t bytes) const;

  /// Whether two recipes come to the same, carried out by the same code.
  bool same_schedule(const Recipe& a, const Recipe& b, std::size_t bytes) const;

  /// From now on the model decides. Called by one thread while no rank is in a collective.
  void forget_profile();
  /// Grows whenever choose() may come to other answers than before.
  std::uint32_t generation() const noexcept { return generation_; }

  const SelectorConfig& config() const noexcept { return config_; }
  plan::PlannedTrees trees() const;

 private:
  /// What a decision depends on, but for the size.
  struct CallKind {
    Operation operation = Operation::broadcast;
    Sync sync = Sync::loose;
    Order order = Order::any;
    bool staged = false, irregular = false, at_rest = false;
  };
  /// Sizes up to `below` and what runs for them; the last range ends at SIZE_MAX.
  struct SizeRange {
    std::size_t below = 0;
    std::size_t model_bytes = 0;                 ///< what the model is asked for
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
    bool planned = false;  ///< the endpoint's own code is another thing than the same moves one by one
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
  std::mutex mutex_;        ///< of deciding, not of looking up
  std::deque<SelectedRecipe> choices_;
  std::optional<plan::PlannedTrees> planned_[2];  ///< with all named ones that were needed; [1]: of broadcasts
  std::vector<std::unique_ptr<Table>> owned_;
  std::atomic<Table*> tables_[operation_count][2][3][2][2][2] = {};
};

}  // namespace smelt::comm
