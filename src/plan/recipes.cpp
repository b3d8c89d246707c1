// From recipes to schedules: names, trees, and the candidates for an operation.
#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <utility>

#include "base/error.hpp"
#include "plan/algorithms/registry.hpp"
#include "plan/candidates.hpp"
#include "plan/schedule/schedule_internal.hpp"
#include "plan/simulator/simulate_rounds.hpp"
#include "plan/simulator/simulate_schedule.hpp"
#include "plan/trees/builders.hpp"
#include "plan/trees/tree.hpp"
#include "smelt/schedule.hpp"

namespace smelt {
namespace {

constexpr const char* access_names[] = {"channels", "staged", "direct"};

/// The recipe's text after the algorithm's name: "+staged", "+tree=chain", "+chunk=4096".
Result<void> take_parameter(Recipe& recipe, std::string_view part) {
  for (int i = 0; i < 3; ++i) {
    if (part == access_names[i]) {
      recipe.access = static_cast<Access>(i);
      return {};
    }
  }
  if (part.starts_with("tree=")) {
    recipe.tree = part.substr(5);
    if (auto tree = plan::parse_topology(recipe.tree); !tree) return tree.error();
    return {};
  }
  if (part.starts_with("chunk=")) {
    const char* const end = part.data() + part.size();
    const auto [last, status] = std::from_chars(part.data() + 6, end, recipe.chunk_bytes);
    if (status == std::errc() && last == end) return {};
  }
  return make_error(Status::invalid_argument,
                    "recipe: '{}' must be channels, staged, direct, tree=TOPOLOGY or chunk=BYTES", shown(part));
}

const plan::Algorithm& algorithm_of(const Recipe& recipe) { return *plan::find_algorithm(recipe.algorithm); }

std::vector<std::string> tree_choices(int ranks) {
  if (ranks <= 2) return {""};
  std::vector<std::string> trees = {"", "stream", "k-nomial:2", "chain"};
  if (ranks > 3) trees.push_back("sequential");
  if (ranks > 4) trees.push_back("k-nomial:4");
  if (ranks > 8) trees.push_back("k-nomial:8");
  return trees;
}

/// Chunk sizes worth trying; 0 stands for uncut, or for as much as a stage takes.
std::vector<std::size_t> chunk_choices(const AlgorithmInfo& info, Access access, std::size_t bytes, int ranks) {
  std::vector<std::size_t> chunks = {0};
  if (!info.pipelined) return chunks;
  const bool relays = info.uses_tree || info.name.ends_with("_chain");
  if (access == Access::staged) {
    if (bytes > 8192) chunks.push_back(8192);
  } else if (relays && ranks > 2) {
    for (std::size_t chunk = access == Access::channels ? 1024 : 16384; chunk < bytes && chunk <= (1u << 20);
         chunk *= 4) {
      chunks.push_back(chunk);
    }
  } else if (access == Access::direct && reduces_vectors(info.operation) && bytes > 65536) {
    chunks.push_back(32768);  // operands stay in the cache between two passes over them
  } else if (info.name.ends_with("_put") && bytes > 262144) {
    chunks.push_back(262144);  // is written to all while it is in the cache
  }
  return chunks;
}

}  // namespace

bool reduces_vectors(Operation operation) noexcept {
  return operation == Operation::reduce || operation == Operation::allreduce || operation == Operation::scan ||
         operation == Operation::exscan;
}

bool has_rank_blocks(Operation operation) noexcept {
  switch (operation) {
    case Operation::scatter:
    case Operation::gather:
    case Operation::allgather:
    case Operation::alltoall:
    case Operation::reduce_scatter: return true;
    default: return false;
  }
}

const char* to_string(Access access) noexcept { return access_names[static_cast<std::size_t>(access)]; }

std::string to_string(const Recipe& recipe) {
  std::string text = recipe.algorithm;
  text += fmt::format("+{}", to_string(recipe.access));
  if (!recipe.tree.empty()) text += "+tree=" + recipe.tree;
  if (recipe.chunk_bytes != 0) text += fmt::format("+chunk={}", recipe.chunk_bytes);
  return text;
}

Result<Recipe> parse_recipe(std::string_view text) {
  const auto name = text.substr(0, text.find('+'));
  const auto* algorithm = plan::find_algorithm(name);
  if (algorithm == nullptr) {
    return make_error(Status::invalid_argument, "unknown algorithm '{}': `smelt explain --algorithms` lists them",
                      shown(name));
  }
  Recipe recipe{.algorithm = std::string(name), .access = algorithm->info.access.front()};
  for (auto rest = text.substr(name.size()); !rest.empty();) {
    rest.remove_prefix(1);
    const auto part = rest.substr(0, rest.find('+'));
    if (auto taken = take_parameter(recipe, part); !taken) return taken.error();
    rest.remove_prefix(part.size());
  }
  const auto& info = algorithm->info;
  if (std::find(info.access.begin(), info.access.end(), recipe.access) == info.access.end()) {
    return make_error(Status::invalid_argument, "{} has no {} access", name, to_string(recipe.access));
  }
  if (!recipe.tree.empty() && !info.uses_tree) {
    return make_error(Status::invalid_argument, "{} uses no tree", name);
  }
  if (recipe.chunk_bytes != 0 && !info.pipelined) {
    return make_error(Status::invalid_argument, "{} does not cut its messages into chunks", name);
  }
  return recipe;
}

Result<ScheduleRequest> plan::make_request(const Machine& machine, const Group& group, const Recipe& recipe, int root,
                                           const PlannedTrees& planned) {
  const int ranks = group.size();
  const auto* algorithm = find_algorithm(recipe.algorithm);
  if (algorithm == nullptr) return make_error(Status::invalid_argument, "unknown algorithm '{}'", recipe.algorithm);
  const auto& info = algorithm->info;
  if (std::find(info.access.begin(), info.access.end(), recipe.access) == info.access.end()) {
    return make_error(Status::invalid_argument, "{} has no {} access", info.name, to_string(recipe.access));
  }
  if (info.power_of_two && (ranks & (ranks - 1)) != 0) {
    return make_error(Status::invalid_argument, "{} needs a power of two of ranks, not {}", info.name, ranks);
  }
  if (root < 0 || root >= ranks) {
    return make_error(Status::invalid_argument, "root {} is not in 0..{}", root, ranks - 1);
  }
  ScheduleRequest request{.recipe = recipe, .ranks = ranks, .root = root};
  for (int pu : group.pus) request.domains.push_back(machine.pus[static_cast<std::size_t>(pu)].l3);
  if (!info.uses_tree) return request;
  const bool down = info.operation == Operation::broadcast;
  if (recipe.tree.empty()) {
    const auto& tree = down ? planned.broadcast : planned.reduce;
    request.tree = reroot(machine, group, *tree, root);
  } else if (const auto built = planned.named.find(recipe.tree); built != planned.named.end()) {
    request.tree = built->second;
  } else {
    PlanOptions options;
    options.topology = recipe.tree;
    options.root = root;
    options.search_ms = 0.0;
    auto plan = make_plan(machine, group, down ? Operation::broadcast : Operation::reduce, options);
    if (!plan) return plan.error();
    request.tree = down ? *plan->broadcast_tree : *plan->reduce_tree;
  }
  request.parents = request.tree.parents();
  return request;
}

Tree plan::tree_for_late_ranks(const Machine& machine, const Group& group, Operation operation, const Tree& tree,
                               const std::vector<double>& late_ns) {
  const Recipe recipe{.algorithm = operation == Operation::broadcast ? "broadcast_tree" : "reduce_tree"};
  const Tree choices[] = {tree, with_late_leaves(tree, late_ns),
                          with_late_leaves(reroot(machine, group, tree, 0), late_ns)};
  const Tree* best = &choices[0];
  double best_ns = std::numeric_limits<double>::infinity();
  for (const Tree& choice : choices) {
    const auto request = make_request(machine, group, recipe, 0, PlannedTrees{choice, choice, {}});
    if (!request) continue;
    const auto times = simulate(machine, group, *request, 8, 1, {}, late_ns);
    if (!times || times->total_ns >= best_ns) continue;
    best = &choice;
    best_ns = times->total_ns;
  }
  return *best;
}

Result<Tree> plan::planned_tree(const Machine& machine, const Group& group, Operation operation, double search_ms,
                                std::span<const double> start_ns) {
  PlanOptions options;
  options.search_ms = search_ms;
  auto plan = make_plan(machine, group, operation, options);
  if (!plan) return plan.error();
  const Tree& tree = operation == Operation::broadcast ? *plan->broadcast_tree : *plan->reduce_tree;
  if (start_ns.empty()) return tree;
  return tree_for_late_ranks(machine, group, operation, tree, {start_ns.begin(), start_ns.end()});
}

Result<plan::PlannedTrees> plan::planned_trees(const Machine& machine, const Group& group, double search_ms,
                                               std::span<const double> start_ns) {
  PlannedTrees trees;
  for (const Operation operation : {Operation::broadcast, Operation::reduce}) {
    auto tree = planned_tree(machine, group, operation, search_ms, start_ns);
    if (!tree) return tree.error();
    (operation == Operation::broadcast ? trees.broadcast : trees.reduce) = std::move(*tree);
  }
  return trees;
}

namespace {

/// The tree that recipes of that operation need, if any of them needs one.
Result<plan::PlannedTrees> needed_trees(const Machine& machine, const Group& group, Operation operation,
                                        std::span<const Recipe> recipes, std::span<const double> start_ns) {
  plan::PlannedTrees trees;
  const bool needed = std::any_of(recipes.begin(), recipes.end(), [](const Recipe& recipe) {
    return recipe.tree.empty() && algorithm_of(recipe).info.uses_tree;
  });
  if (!needed) return trees;
  const bool down = operation == Operation::broadcast;
  auto tree = plan::planned_tree(machine, group, down ? Operation::broadcast : Operation::reduce, 0.0, start_ns);
  if (!tree) return tree.error();
  (down ? trees.broadcast : trees.reduce) = std::move(*tree);
  return trees;
}

}  // namespace

Result<ScheduleRequest> make_request(const Machine& machine, const Group& group, const Recipe& recipe, int root,
                                     std::span<const double> start_ns) {
  const auto* algorithm = plan::find_algorithm(recipe.algorithm);
  if (algorithm == nullptr) return make_error(Status::invalid_argument, "unknown algorithm '{}'", recipe.algorithm);
  const auto trees = needed_trees(machine, group, algorithm->info.operation, {&recipe, 1}, start_ns);
  if (!trees) return trees.error();
  return plan::make_request(machine, group, recipe, root, *trees);
}

Schedule make_schedule(const ScheduleRequest& request, int rank) { return plan::make_schedule_in({}, request, rank); }

Schedule plan::make_schedule_in(Schedule memory, const ScheduleRequest& request, int rank) {
  for (auto* part : {&memory.begin, &memory.body, &memory.tail, &memory.end}) part->clear();
  Builder builder(request, rank);
  builder.schedule.begin = std::move(memory.begin);
  builder.schedule.body = std::move(memory.body);
  builder.schedule.tail = std::move(memory.tail);
  builder.schedule.end = std::move(memory.end);
  algorithm_of(request.recipe).build(builder);
  // The end of a chunk posts more than that: one store instead of two, each of which may find the line at a reader.
  for (auto* part : {&builder.schedule.body, &builder.schedule.tail}) {
    if (builder.schedule.ticks > 0 && !part->empty() && part->back().kind == Move::Kind::post) part->pop_back();
  }
  return std::move(builder.schedule);
}

std::vector<Recipe> candidate_recipes(Operation operation, int ranks, std::size_t bytes, std::span<const Access> access,
                                      bool in_rank_order) {
  std::vector<Recipe> recipes;
  for (const auto& info : algorithms()) {
    if (info.operation != operation || (in_rank_order && !info.keeps_rank_order)) continue;
    if (info.power_of_two && (ranks & (ranks - 1)) != 0) continue;
    for (Access each : info.access) {
      if (std::find(access.begin(), access.end(), each) == access.end()) continue;
      const auto trees = info.uses_tree ? tree_choices(ranks) : std::vector<std::string>{""};
      for (const auto& tree : trees) {
        for (const auto chunk : chunk_choices(info, each, bytes, ranks))
          recipes.push_back({info.name, each, tree, chunk});
      }
    }
  }
  return recipes;
}

Result<std::vector<RankedRecipe>> rank_recipes(const Machine& machine, const Group& group, Operation operation,
                                               std::size_t bytes, std::span<const Access> access, const Reach& reach,
                                               int root, std::span<const double> start_ns) {
  const auto recipes = candidate_recipes(operation, group.size(), bytes, access);
  const auto trees = needed_trees(machine, group, operation, recipes, start_ns);
  if (!trees) return trees.error();
  return plan::rank_recipes(machine, group, *trees, recipes, bytes, reach, root, start_ns);
}

namespace plan {
namespace {

/// By how much longer than predicted a recipe is taken to be. Ranks that wait for each other in every chunk have to
/// keep pace, as those of the model do: that has to be worth it. Ranks that go on early, when only the tail is left to
/// do, use that time for what comes next, the writing of their next input above all, which no prediction of a single
/// call shows. The rate of long messages in lines depends on how long a line takes, and that changes where a host moves
/// its guests; with data in no cache it is a fraction of that of copies. Other messages in lines that are longer than
/// half of a channel go in parts, except along trees, which have code of their own. A gather of 2 KiB by two processes
/// took 1.6 times its prediction, one through stages 1.1.
double caution(const Recipe& recipe, const LoweredProgram& program, std::size_t bytes) {
  constexpr std::size_t long_bytes = 512 * 1024;
  if (recipe.access == Access::channels && bytes >= long_bytes) return 2.0;
  const bool along_tree =
      recipe.algorithm == "broadcast_tree" || recipe.algorithm == "reduce_tree" || recipe.algorithm == "allreduce_tree";
  if (recipe.access == Access::channels && bytes > longest_whole_message && !along_tree) return 1.5;
  const Algorithm& algorithm = *find_algorithm(recipe.algorithm);
  if (recipe.chunk_bytes != 0 && algorithm.in_step) return 1.05;
  return 1.0 - 0.1 * static_cast<double>(program.tail_chunks) / static_cast<double>(program.chunks);
}

/// Of the tree with those parents; 0 without one.
int height(const std::vector<int>& parents) {
  int most = 0;
  for (int rank = 0; rank < static_cast<int>(parents.size()); ++rank) {
    int steps = 0;
    for (int at = rank; parents[static_cast<std::size_t>(at)] >= 0; at = parents[static_cast<std::size_t>(at)]) ++steps;
    most = std::max(most, steps);
  }
  return most;
}

/// Requests for recipes of one operation, which differ in access and chunks: what else there is to them is made once.
class RequestBuilder {
 public:
  /// Named trees that have to be built are added to `trees`.
  RequestBuilder(const Machine& machine, const Group& group, PlannedTrees& trees, int root)
      : machine_(machine), group_(group), trees_(trees), root_(root) {}

  /// The request as it is until the next call.
  Result<const ScheduleRequest*> operator()(const Recipe& recipe) {
    auto known = made_.find({recipe.algorithm, recipe.tree});
    if (known == made_.end()) {
      auto request = make_request(machine_, group_, recipe, root_, trees_);
      if (!request) return request.error();
      if (!recipe.tree.empty()) trees_.named.emplace(recipe.tree, request->tree);
      known = made_.emplace(std::pair(recipe.algorithm, recipe.tree), std::move(*request)).first;
    }
    known->second.recipe = recipe;
    return &known->second;
  }

 private:
  const Machine& machine_;
  const Group& group_;
  PlannedTrees& trees_;
  int root_;
  std::map<std::pair<std::string, std::string>, ScheduleRequest> made_;
};

// Simulating a schedule takes time and memory by its moves: in large groups only recipes with few of them are compared.
constexpr std::size_t most_moves = 300'000;

/// How many moves all ranks make, by those of a few.
std::size_t moves_of(const ScheduleRequest& request) {
  std::size_t most = 0;
  for (const int rank : {0, 1, request.ranks / 2, request.ranks - 1}) {
    const Schedule schedule = make_schedule(request, rank);
    most = std::max(most, schedule.begin.size() + schedule.body.size() + schedule.tail.size() + schedule.end.size());
  }
  // One rank alone, such as a root, may make most of them.
  const Schedule other = make_schedule(request, request.ranks / 3 + 1);
  const std::size_t usual = other.begin.size() + other.body.size() + other.tail.size() + other.end.size();
  return most + usual * static_cast<std::size_t>(request.ranks);
}

}  // namespace
}  // namespace plan

Result<std::vector<RankedRecipe>> plan::rank_recipes(const Machine& machine, const Group& group,
                                                     const PlannedTrees& trees, const std::vector<Recipe>& recipes,
                                                     std::size_t bytes, const Reach& reach, int root,
                                                     std::span<const double> start_ns) {
  if (auto checked = check_simulation(machine, group, start_ns); !checked) return checked.error();
  std::vector<std::pair<RankedRecipe, double>> weighed;
  PlannedTrees more_trees = trees;
  RequestBuilder request_for(machine, group, more_trees, root);
  ScheduleSimulator simulator(machine, group, reach);
  // The simpler recipes of a large group; at least the simplest.
  std::vector<std::size_t> moves(recipes.size(), 0);
  for (std::size_t i = 0; i < recipes.size() && group.size() > most_kept_ranks; ++i) {
    auto request = request_for(recipes[i]);
    if (!request) return request.error();
    if (!has_rounds(machine, group, **request)) moves[i] = moves_of(**request);
  }
  const std::size_t limit = std::max(most_moves, moves.empty() ? 0 : *std::min_element(moves.begin(), moves.end()));
  for (const auto& recipe : recipes) {
    if (moves[static_cast<std::size_t>(&recipe - recipes.data())] > limit) continue;
    auto request = request_for(recipe);
    if (!request) return request.error();
    const double weight = caution(recipe, simulator.program_of(**request, bytes, 1, root), bytes);
    auto times = simulator.run(**request, bytes, 1, start_ns, std::numeric_limits<double>::infinity());
    if (!times) return times.error();
    weighed.push_back({{recipe, (*times)->total_ns}, weight * (*times)->total_ns});
  }
  std::stable_sort(weighed.begin(), weighed.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  std::vector<RankedRecipe> ranked;
  for (auto& [each, weight] : weighed) ranked.push_back(std::move(each));
  return ranked;
}

Result<std::optional<RankedRecipe>> plan::best_recipe(const Machine& machine, const Group& group, PlannedTrees& trees,
                                                      const std::vector<Recipe>& recipes, std::size_t bytes,
                                                      const Reach& reach, int root, std::span<const double> start_ns) {
  if (auto checked = check_simulation(machine, group, start_ns); !checked) return checked.error();
  struct TreeCandidate {
    std::size_t number;
    double weight;
    double least_ns;   ///< weighed: its root is busy for so long, at least
    double likely_ns;  ///< a guess
  };
  std::vector<TreeCandidate> candidates;
  RequestBuilder request_for(machine, group, trees, root);
  ScheduleSimulator simulator(machine, group, reach);
  for (std::size_t i = 0; i < recipes.size(); ++i) {
    auto request = request_for(recipes[i]);
    if (!request) return request.error();
    const LoweredProgram& program = simulator.program_of(**request, bytes, 1, root);
    const double weight = caution(recipes[i], program, bytes);
    const double least_ns = weight * program.least_ns();
    // The last ones in a tree begin as many chunks later as they are away from the root.
    const double likely_ns = least_ns + height((*request)->parents) * program.body_ns;
    candidates.push_back({i, weight, least_ns, likely_ns});
  }
  // What is likely to be fast first: the others then end early.
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const TreeCandidate& a, const TreeCandidate& b) { return a.likely_ns < b.likely_ns; });
  std::optional<std::size_t> best;
  double best_ns = std::numeric_limits<double>::infinity();  // weighed
  double predicted_ns = 0.0;
  for (const auto& [number, weight, least_ns, likely_ns] : candidates) {
    if (least_ns > best_ns) continue;
    auto request = request_for(recipes[number]);
    if (!request) return request.error();
    auto times = simulator.run(**request, bytes, 1, start_ns, best_ns / weight);
    if (!times) return times.error();
    if (!*times) continue;
    const double weighed = (*times)->total_ns * weight;
    if (weighed > best_ns || (weighed == best_ns && number > *best)) continue;
    best = number;
    best_ns = weighed;
    predicted_ns = (*times)->total_ns;
  }
  if (!best) return std::optional<RankedRecipe>();
  return std::optional(RankedRecipe{recipes[*best], predicted_ns});
}

}  // namespace smelt
