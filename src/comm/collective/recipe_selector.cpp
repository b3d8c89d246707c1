#include "comm/collective/recipe_selector.hpp"

#include <algorithm>
#include <cmath>

#include "channel/line.hpp"

namespace smelt::comm {
namespace {

/// Largest number of blocks in a stage. With more, each block would be too small to be worth its overhead.
constexpr int most_stage_ranks = 128;

std::size_t half_way(std::size_t a, std::size_t b) {
  return static_cast<std::size_t>(std::sqrt(static_cast<double>(a) * static_cast<double>(b)));
}

const AlgorithmInfo* info_of(const Recipe& recipe) {
  for (const auto& info : algorithms()) {
    if (info.name == recipe.algorithm) return &info;
  }
  return nullptr;
}

}  // namespace

/// More than this no buffer has; up to this, sizes can be computed with.
constexpr std::size_t most_bytes = std::size_t{1} << 47;

static bool can_exist(std::size_t count, std::size_t element_bytes, std::size_t blocks = 1) noexcept {
  std::size_t bytes;
  return !__builtin_mul_overflow(count, element_bytes, &bytes) && !__builtin_mul_overflow(bytes, blocks, &bytes) &&
         bytes <= most_bytes;
}

/// Whether the blocks that this rank must know are given, and no blocks if the sizes do not differ; and whether what is
/// given can lie in memory.
static bool sizes_make_sense(const Collective& call, int size, bool top) noexcept {
  const auto any = [](const Blocks& blocks) { return blocks.counts != nullptr || blocks.offsets != nullptr; };
  const auto whole = [&](const Blocks& blocks) {
    return blocks.counts != nullptr && blocks.offsets != nullptr &&
           std::all_of(blocks.counts, blocks.counts + size,
                       [&](auto count) { return can_exist(count, call.element_bytes); });
  };
  if (!call.uneven) {
    const auto blocks = has_rank_blocks(call.operation) ? static_cast<std::size_t>(size) : 1;
    return !any(call.in_blocks) && !any(call.out_blocks) && can_exist(call.count, call.element_bytes, blocks);
  }
  if (call.operation != Operation::alltoall && !can_exist(call.count, call.element_bytes)) return false;
  switch (call.operation) {
    case Operation::scatter: return !top || whole(call.in_blocks);
    case Operation::gather: return !top || whole(call.out_blocks);
    case Operation::allgather: return whole(call.out_blocks);
    case Operation::reduce_scatter: return whole(call.in_blocks);
    case Operation::alltoall: return whole(call.in_blocks) && whole(call.out_blocks);
    default: return false;
  }
}

Status check(const Collective& call, int size, int rank) noexcept {
  const bool top = rank == call.root;
  if (call.root < 0 || call.root >= size || call.element_bytes == 0) return Status::invalid_argument;
  const bool needs_operator = reduces_vectors(call.operation) || call.operation == Operation::reduce_scatter;
  if (needs_operator && (call.reduction.combine == nullptr || call.reduction.element_bytes != call.element_bytes)) {
    return Status::invalid_argument;
  }
  if (!sizes_make_sense(call, size, top)) return Status::invalid_argument;
  bool in = true, out = true;  // used on this rank
  switch (call.operation) {
    case Operation::barrier: return Status::ok;
    case Operation::two_phase_commit:
      if (call.vote == nullptr || call.committed == nullptr) return Status::invalid_argument;
      in = false;
      break;
    case Operation::broadcast: in = false; break;
    case Operation::reduce:
    case Operation::gather: out = top; break;
    case Operation::scatter: in = top; break;
    default: break;
  }
  const auto empty = [&](const Blocks& blocks) {
    const auto* counts = blocks.counts;
    return counts == nullptr ? call.count == 0
                             : std::all_of(counts, counts + size, [](auto each) { return each == 0; });
  };
  const bool lacks_in = in && call.in == nullptr && !empty(call.in_blocks);
  const bool lacks_out = out && call.out == nullptr && !empty(call.out_blocks);
  return lacks_in || lacks_out ? Status::invalid_argument : Status::ok;
}

std::optional<std::size_t> longest_known(const Collective& call, int size, int rank) noexcept {
  const auto longest = [&](const std::size_t* counts) { return *std::max_element(counts, counts + size); };
  switch (call.operation) {
    case Operation::allgather: return longest(call.out_blocks.counts);
    case Operation::reduce_scatter: return longest(call.in_blocks.counts);
    default:
      if (size != 2) return std::nullopt;
  }
  const int other = 1 - rank;
  switch (call.operation) {
    case Operation::scatter: return rank == call.root ? call.in_blocks.counts[other] : call.count;
    case Operation::gather: return rank == call.root ? call.out_blocks.counts[other] : call.count;
    default: return std::max(call.in_blocks.counts[other], call.out_blocks.counts[other]);
  }
}

RecipeSelector::RecipeSelector(SelectorConfig config) : config_(std::move(config)) {}
RecipeSelector::~RecipeSelector() = default;

plan::PlannedTrees RecipeSelector::trees() const {
  return {config_.plans[static_cast<int>(Operation::broadcast)].broadcast_tree,
          config_.plans[static_cast<int>(Operation::reduce)].reduce_tree,
          {}};
}

bool is_along_tree(const Recipe& recipe) noexcept {
  return recipe.access == Access::channels && recipe.chunk_bytes == 0 &&
         (recipe.algorithm == "broadcast_tree" || recipe.algorithm == "reduce_tree");
}

/// The endpoint has its own code for messages along the planned trees, and for the planned allreduce.
bool RecipeSelector::is_planned(const Recipe& recipe) const {
  if (recipe.access != Access::channels || !recipe.tree.empty() || recipe.chunk_bytes != 0) return false;
  const bool exchange = !config_.plans[static_cast<int>(Operation::allreduce)].reduce_tree.has_value();
  if (recipe.algorithm == "allreduce_tree") return !exchange;
  if (recipe.algorithm == "allreduce_recursive_doubling") return exchange;
  return is_along_tree(recipe);
}

const SelectedRecipe* RecipeSelector::choice_of(const Recipe& recipe, Order order) {
  const bool planned = order == Order::any && is_planned(recipe);
  for (const auto& choice : choices_) {
    if (choice.recipe == recipe && choice.planned == planned) return &choice;
  }
  choices_.push_back({recipe, static_cast<int>(choices_.size()), planned});
  return &choices_.back();
}

bool RecipeSelector::takes_uneven(const AlgorithmInfo& info) const {
  return info.irregular || (info.irregular_pairs && config_.group->size() == 2);
}

std::vector<Recipe> RecipeSelector::recipes(const CallKind& kind, std::size_t bytes) const {
  const auto operation = kind.operation;
  const auto order = kind.order;
  const bool staged = kind.staged, irregular = kind.irregular;
  std::vector<Access> access = {Access::channels};
  if (staged) access.push_back(Access::staged);
  if (config_.direct) access.push_back(Access::direct);
  auto all = candidate_recipes(operation, config_.group->size(), bytes, access, order != Order::any);
  std::erase_if(all, [&](const Recipe& recipe) {
    const auto* info = info_of(recipe);
    return (order == Order::canonical && !info->canonical_order) || (irregular && !takes_uneven(*info)) ||
           (info->stages && !staged) || (irregular && recipe.chunk_bytes != 0 && recipe.access != Access::staged);
  });
  if (config_.fixed) {
    const auto* info = info_of(*config_.fixed);
    const bool fits = info->operation == operation && (order == Order::any || info->keeps_rank_order) &&
                      (order != Order::canonical || info->canonical_order) && (!irregular || takes_uneven(*info)) &&
                      (staged || !info->stages) &&
                      std::find(access.begin(), access.end(), config_.fixed->access) != access.end();
    if (fits) return {*config_.fixed};
  }
  return all;
}

/// The recipe of a cell, or the first of its equals, that these ranks can run.
std::optional<Recipe> RecipeSelector::fitting(const ProfileCell& cell) const {
  const auto fits = [&](const Recipe& recipe) {
    return (recipe.access != Access::direct || config_.direct) &&
           plan::make_request(*config_.machine, *config_.group, recipe, 0, trees());
  };
  if (fits(cell.recipe)) return cell.recipe;
  for (const auto& text : cell.equals) {
    if (const auto recipe = parse_recipe(text); recipe && fits(*recipe)) return *recipe;
  }
  return std::nullopt;
}

/// Ranges from a profile have their choices at once; those of the model are decided on first use.
std::unique_ptr<RecipeSelector::Table> RecipeSelector::make_table(const CallKind& kind) {
  auto table = std::make_unique<Table>();
  const auto add = [&](std::size_t from, std::size_t model_bytes, const SelectedRecipe* choice) {
    if (!table->empty()) table->back().below = from;
    auto& range = table->emplace_back();
    range.below = SIZE_MAX;
    range.model_bytes = model_bytes;
    range.choice.store(choice, std::memory_order_relaxed);  // published with the table
  };
  const bool told = config_.fixed && info_of(*config_.fixed)->operation == kind.operation;
  const bool plain = kind.order == Order::any && kind.staged && !kind.irregular && !kind.at_rest;
  // The tuner measures ranks that arrive together, with data just written. In other situations the model decides.
  if (config_.profile && plain && !told && config_.late_ns.empty()) {
    const auto shape = shape_of(*config_.machine, *config_.group, config_.reach.processes);
    for (const auto& cell : config_.profile->cells) {
      if (cell.operation != kind.operation || cell.sync != kind.sync || cell.shape != shape) continue;
      const auto recipe = fitting(cell);
      if (!recipe) continue;
      const SelectedRecipe* const choice = choice_of(*recipe, kind.order);
      const bool goes_on = !table->empty() && table->back().choice.load(std::memory_order_relaxed) == choice;
      if (!goes_on) add(cell.from_bytes, cell.from_bytes, choice);
    }
    if (!table->empty()) return table;
  }
  std::size_t before = 0;
  for (const auto bytes : model_sizes()) {
    add(half_way(before, bytes), bytes, nullptr);
    before = bytes;
  }
  return table;
}

const SelectedRecipe* RecipeSelector::ask_model(const CallKind& kind, std::size_t bytes) {
  auto& planned = planned_[kind.operation == Operation::broadcast];
  if (!planned) planned = trees();
  Reach reach = config_.reach;
  reach.at_rest = kind.at_rest;
  const auto best = plan::best_recipe(*config_.machine, *config_.group, *planned, recipes(kind, bytes), bytes, reach, 0,
                                      config_.late_ns);
  return best && *best ? choice_of((*best)->recipe, kind.order) : &nothing_;
}

RecipeSelector::Table* RecipeSelector::table(const CallKind& kind) noexcept {
  auto& slot = tables_[static_cast<int>(kind.operation)][static_cast<int>(kind.sync)][static_cast<int>(kind.order)]
                      [kind.staged][kind.irregular][kind.at_rest];
  // Pairs with the store below, which publishes the table's ranges.
  if (Table* known = slot.load(std::memory_order_acquire)) [[likely]]
    return known;
  const std::lock_guard lock(mutex_);
  if (Table* known = slot.load(std::memory_order_relaxed)) return known;
  try {
    owned_.push_back(make_table(kind));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  slot.store(owned_.back().get(), std::memory_order_release);
  return owned_.back().get();
}

const SelectedRecipe* RecipeSelector::decided(const CallKind& kind, SizeRange& range) noexcept {
  // Pairs with the store below, which publishes the choice.
  const SelectedRecipe* choice = range.choice.load(std::memory_order_acquire);
  if (choice == nullptr) [[unlikely]] {
    const std::lock_guard lock(mutex_);
    choice = range.choice.load(std::memory_order_relaxed);
    try {
      if (choice == nullptr) choice = ask_model(kind, range.model_bytes);
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
    range.choice.store(choice, std::memory_order_release);
  }
  return choice == &nothing_ ? nullptr : choice;
}

const SelectedRecipe* RecipeSelector::choice(const Recipe& recipe) {
  const std::lock_guard lock(mutex_);
  return choice_of(recipe, Order::any);
}

Result<std::vector<RankedRecipe>> RecipeSelector::ranked(Operation operation, std::size_t bytes) const {
  const bool staged = config_.group->size() <= most_stage_ranks;
  return plan::rank_recipes(*config_.machine, *config_.group, trees(),
                            recipes({.operation = operation, .staged = staged}, bytes), bytes, config_.reach, 0,
                            config_.late_ns);
}

std::optional<RecipeSelector::LocalExpansion> RecipeSelector::expand_recipe(const Recipe& recipe, std::size_t bytes,
                                                                            const plan::PlannedTrees& trees) const {
  auto request = plan::make_request(*config_.machine, *config_.group, recipe, 0, trees);
  if (!request) return std::nullopt;
  const bool own_code = is_planned(recipe) || (is_along_tree(recipe) && bytes <= channel::line_payload);
  return LocalExpansion{plan::expand_recipe(*request, bytes, config_.reach), own_code};
}

std::vector<RankedRecipe> RecipeSelector::distinct(const std::vector<RankedRecipe>& ranked, std::size_t bytes) const {
  std::vector<RankedRecipe> result;
  std::vector<LocalExpansion> seen;
  const auto planned = trees();
  for (const auto& each : ranked) {
    auto expanded = expand_recipe(each.recipe, bytes, planned);
    if (!expanded || std::find(seen.begin(), seen.end(), *expanded) != seen.end()) continue;
    seen.push_back(std::move(*expanded));
    result.push_back(each);
  }
  return result;
}

bool RecipeSelector::same_schedule(const Recipe& a, const Recipe& b, std::size_t bytes) const {
  if (a == b) return true;
  const auto planned = trees();
  const auto expanded = expand_recipe(a, bytes, planned);
  return expanded && expanded == expand_recipe(b, bytes, planned);
}

void RecipeSelector::forget_profile() {
  const std::lock_guard lock(mutex_);
  config_.profile.reset();
  ++generation_;
  for (auto& of_operation : tables_) {
    for (auto& of_sync : of_operation) {
      for (auto& of_order : of_sync) {
        for (auto& of_staged : of_order) {
          for (auto& of_rest : of_staged) {
            // Relaxed: ranks synchronize with the caller before their next lookup. The tables stay owned.
            for (auto& table : of_rest) table.store(nullptr, std::memory_order_relaxed);
          }
        }
      }
    }
  }
}

const SelectedRecipe* RecipeSelector::choose(const Collective& call, int rank) noexcept {
  const auto ranks = static_cast<std::size_t>(config_.group->size());
  const bool irregular = call.uneven;
  const auto blocks = has_rank_blocks(call.operation) ? ranks : 1;
  const bool staged = ranks <= most_stage_ranks && call.element_bytes * blocks <= config_.reach.slot_bytes;
  std::size_t bytes = call.count * call.element_bytes;
  if (irregular) {
    // The size decides only if all ranks know it.
    const auto longest = longest_known(call, config_.group->size(), rank);
    bytes = longest ? *longest * call.element_bytes : 65536;
  }
  const CallKind kind{call.operation, call.sync, order_of(call.reduction), staged, irregular, call.at_rest};
  Table* const ranges = table(kind);
  if (ranges == nullptr) return nullptr;
  for (auto& range : *ranges) {
    if (bytes < range.below) return decided(kind, range);
  }
  return decided(kind, ranges->back());
}

}  // namespace smelt::comm
