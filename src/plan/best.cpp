#include "plan/best.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "base/clock.hpp"
#include "plan/trees/anneal.hpp"
#include "plan/trees/bounds.hpp"
#include "plan/trees/exact.hpp"
#include "plan/trees/greedy.hpp"
#include "plan/trees/hierarchy.hpp"

namespace smelt::plan {

namespace {

constexpr double exact_steps_per_ms = 250e3;  // what this planner counts on; only speed depends on it
constexpr double free_exact_steps = 50e3;     // always affordable
constexpr double moves_per_ms = 2000.0;       // as above
constexpr long moves_per_rank_and_round = 300;
constexpr double explore_share = 0.6;
constexpr double trees_share = 0.7;  // of a two-phase commit's budget; the rest is for its votes
constexpr std::array<float, 6> explore_hot = {0.05F, 0.2F, 0.02F, 0.1F, 0.3F, 0.05F};
constexpr int small_ranks = 40, large_ranks = 512;

class Search {
 public:
  Search(Problem& problem, const PlanOptions& options, bool exact)
      : problem_(problem), options_(options), exact_(exact), start_ns_(monotonic_ns()) {
    for (const Direction direction : {Direction::reduce, Direction::broadcast}) {
      if (direction == Direction::reduce ? reduces(problem.operation()) : broadcasts(problem.operation())) {
        directions_.push_back(direction);
      }
    }
  }

  SearchResult run() {
    consider_rules();
    bound();
    if (!solve_exactly()) improve();
    refine_votes();
    exchange_votes();
    if (exchanged_) result_.lower_bound_ns = std::min(result_.lower_bound_ns, best_.time_ns);
    result_.optimal = proved_ || (!exchanged_ && best_.time_ns <= result_.lower_bound_ns * (1.0 + 1e-9));
    if (result_.optimal) result_.lower_bound_ns = best_.time_ns;
    result_.solution = std::move(best_);
    result_.search_ms = elapsed_ms();
    return std::move(result_);
  }

 private:
  double elapsed_ms() const { return static_cast<double>(monotonic_ns() - start_ns_) * 1e-6; }

  void consider(Solution solution) {
    if (!has_best_ || solution.time_ns < best_.time_ns * (1.0 - 1e-12)) best_ = std::move(solution);
    has_best_ = true;
  }

  void consider_rules() {
    result_.runner_up_ns = std::numeric_limits<double>::infinity();
    for (const std::string& name : rule_names(problem_.operation())) {
      Solution solution = build_by_rule(problem_, {name, 2}, options_.root, options_.completion);
      if (name == "dissemination") dissemination_ns_ = solution.time_ns;
      if (solution.time_ns < result_.runner_up_ns) {
        result_.runner_up_ns = solution.time_ns;
        result_.runner_up = solution.topology;
      }
      consider(std::move(solution));
    }
  }

  // Phases follow each other, except for the votes of a two-phase commit, which start while the proposal still spreads.
  // Dissemination is a single plan, so its time is its own bound.
  void bound() {
    double reduce = 0.0, broadcast = 0.0;
    for (const Direction direction : directions_) {
      const double one =
          lower_bound(problem_.table(direction), problem_.ranks(), options_.root, options_.search_ms > 0.0 || exact_);
      (direction == Direction::reduce ? reduce : broadcast) = one;
    }
    result_.lower_bound_ns = problem_.operation() == Operation::two_phase_commit
                                 ? broadcast + std::max(broadcast, reduce)
                                 : broadcast + reduce;
    result_.lower_bound_ns = std::min(result_.lower_bound_ns, dissemination_ns_);
  }

  Solution from_trees(std::vector<Tree> trees) {
    Solution solution;
    solution.topology = exact_ ? "optimal" : "best";
    for (std::size_t i = 0; i < directions_.size(); ++i) {
      (directions_[i] == Direction::reduce ? solution.reduce_tree : solution.broadcast_tree) = std::move(trees[i]);
    }
    finish(problem_, solution, options_.completion);
    return solution;
  }

  // Each direction's optimum from every root, then the root with the least sum.
  bool solve_exactly() {
    const int n = problem_.size();
    if (n == 1) return proved_ = true;
    if (n > ExactTrees::max_ranks) return false;
    const double steps = ExactTrees::steps(n) * static_cast<double>(directions_.size());
    const double budget_ms = exact_ ? (options_.search_ms > 0.0 ? options_.search_ms : 1e12) : options_.search_ms * 0.5;
    if (!exact_ && steps > std::max(free_exact_steps, budget_ms * exact_steps_per_ms)) return false;
    std::vector<ExactTrees> solvers;
    for (const Direction direction : directions_) {
      solvers.emplace_back(problem_.exact(direction));
      if (!solvers.back().solve([&] { return elapsed_ms() > budget_ms; })) return false;
    }
    int best_root = options_.root.value_or(0);
    const auto sum = [&](int root) {
      double total = 0.0;
      for (const ExactTrees& solver : solvers) total += solver.time(root);
      return total;
    };
    for (int root = 0; root < n && !options_.root; ++root) {
      if (sum(root) < sum(best_root)) best_root = root;
    }
    std::vector<Tree> trees;
    for (const ExactTrees& solver : solvers) trees.push_back(solver.tree(best_root));
    consider(from_trees(std::move(trees)));
    proved_ = problem_.operation() != Operation::two_phase_commit && !options_.completion;
    return solved_ = true;
  }

  // One starting point: a tree per direction with a common root.
  struct SearchStart {
    std::vector<Tree> trees;
    double time = 0.0;
  };

  double weight(Direction direction) const {
    return problem_.operation() == Operation::two_phase_commit && direction == Direction::broadcast ? 2.0 : 1.0;
  }

  SearchStart timed(std::vector<Tree> trees) {
    SearchStart start{std::move(trees), 0.0};
    for (std::size_t i = 0; i < directions_.size(); ++i) {
      start.time += weight(directions_[i]) * order_sends(problem_.table(directions_[i]), start.trees[i]);
    }
    return start;
  }

  std::vector<int> some_roots(int count) const {
    if (options_.root) return {*options_.root};
    std::vector<int> roots;
    const int n = problem_.size();
    for (int i = 0; i < std::min(count, n); ++i)
      roots.push_back(static_cast<int>(static_cast<long>(i) * n / std::min(count, n)));
    return roots;
  }

  // The best hierarchical, the best greedy and the best textbook trees, best first.
  std::vector<SearchStart> construct() {
    const int n = problem_.size();
    const bool small = n <= small_ranks, large = n > large_ranks;
    std::vector<SearchStart> starts;
    const auto add_best = [&](int roots, auto&& build) {
      SearchStart best;
      for (const int root : some_roots(roots)) {
        std::vector<Tree> trees;
        for (std::size_t i = 0; i < directions_.size(); ++i) trees.push_back(build(i, root));
        if (trees[0].size() != n) return;
        SearchStart start = timed(std::move(trees));
        if (best.trees.empty() || start.time < best.time) best = std::move(start);
      }
      starts.push_back(std::move(best));
    };
    std::vector<HierarchyPlanner> hierarchies;
    for (const Direction direction : directions_) hierarchies.emplace_back(problem_.ranks(), problem_.table(direction));
    add_best(small ? 4 : large ? 6 : 32, [&](std::size_t i, int root) { return hierarchies[i].tree(root); });
    add_best(large   ? 1
             : small ? 2
                     : 8,
             [&](std::size_t i, int root) { return greedy_tree(problem_.table(directions_[i]), root); });
    if (best_.broadcast_tree || best_.reduce_tree) {
      std::vector<Tree> trees;
      for (const Direction direction : directions_) {
        trees.push_back(direction == Direction::reduce ? *best_.reduce_tree : *best_.broadcast_tree);
      }
      starts.push_back(timed(std::move(trees)));
    }
    std::stable_sort(starts.begin(), starts.end(),
                     [](const SearchStart& a, const SearchStart& b) { return a.time < b.time; });
    return starts;
  }

  // One annealing run from a start; returns where it got.
  SearchStart round(const SearchStart& start, float hot, float cold, const std::function<float(long)>& progress) {
    std::vector<AnnealedTree> trees;
    for (std::size_t i = 0; i < directions_.size(); ++i) {
      trees.push_back(
          {TreeState(problem_.table(directions_[i]), start.trees[i]), static_cast<float>(weight(directions_[i]))});
    }
    AnnealOptions options;
    options.free_root = !options_.root;
    options.seed = options_.seed + rounds_++;
    options.hot = hot;
    options.cold = cold;
    options.progress = progress;
    SearchStart end;
    end.time = anneal(trees, options);
    for (const AnnealedTree& tree : trees) end.trees.push_back(tree.state.tree());
    return end;
  }

  // The votes of a two-phase commit are gathered while the proposal still spreads: search the reduction
  // again with every rank's actual start.
  void refine_votes() {
    if (problem_.operation() != Operation::two_phase_commit || problem_.size() < 3 || !best_.reduce_tree) return;
    const auto idle = schedule(problem_.exact(Direction::broadcast), *best_.broadcast_tree).idle;
    std::vector<AnnealedTree> trees;
    trees.push_back(
        {TreeState(problem_.table(Direction::reduce), *best_.reduce_tree, std::vector<float>(idle.begin(), idle.end())),
         1.0F});
    const long moves = problem_.size() > large_ranks ? problem_.size() / 4 : 6L * problem_.size();
    AnnealOptions options;
    options.free_root = false;
    options.seed = options_.seed;
    options.cold = 0.0003F;
    const bool searches = options_.search_ms > elapsed_ms() && !solved_;
    options.hot = searches ? 0.02F : 0.001F;
    options.progress = [moves](long done) { return static_cast<float>(done) / static_cast<float>(moves); };
    if (searches) options.progress = until(options_.search_ms);
    anneal(trees, options);
    Solution solution;
    solution.topology = best_.topology;
    solution.broadcast_tree = best_.broadcast_tree;
    solution.reduce_tree = trees[0].state.tree();
    finish(problem_, solution, options_.completion);
    consider(std::move(solution));
  }

  // Votes by recursive doubling, which all ranks know the outcome of at once: fewer messages in a row in small groups.
  // The bound is that of trees.
  void exchange_votes() {
    if (problem_.operation() != Operation::two_phase_commit || problem_.size() < 2) return;
    Solution solution;
    solution.topology = best_.topology;
    solution.broadcast_tree = best_.broadcast_tree;
    finish(problem_, solution, options_.completion);
    exchanged_ = solution.time_ns < best_.time_ns;
    consider(std::move(solution));
  }

  std::function<float(long)> until(double end_ms) const {
    const double begin_ms = elapsed_ms();
    return [=, this](long) {
      const double now = elapsed_ms();
      return now >= end_ms ? 1.0F : static_cast<float>((now - begin_ms) / (end_ms - begin_ms));
    };
  }

  // The best start, polished by a fixed number of moves. With a budget, rounds from different starts at different
  // temperatures explore then; the best of them gets the rest, each of its trees a half. So a search is never worse
  // than none, however little it gets of a processor.
  void improve() {
    const std::vector<SearchStart> starts = construct();
    consider(from_trees(starts[0].trees));
    const int n = problem_.size();
    const long moves = n <= small_ranks ? 8L * n : n <= large_ranks ? 60L * n : n;
    const auto progress = [moves](long done) { return static_cast<float>(done) / static_cast<float>(moves); };
    consider(from_trees(round(starts[0], 0.005F, 0.0005F, progress).trees));
    if (options_.search_ms <= 0.0) return;
    const double until_ms =
        options_.search_ms * (problem_.operation() == Operation::two_phase_commit ? trees_share : 1.0);
    const double begin = elapsed_ms(), left = std::max(0.0, until_ms - begin);
    const double affordable = left * moves_per_ms / (static_cast<double>(moves_per_rank_and_round) * n);
    const int rounds =
        std::clamp(static_cast<int>(affordable * explore_share), 0, static_cast<int>(explore_hot.size()));
    SearchStart best = starts[0];
    for (int i = 0; i < rounds; ++i) {
      const double end = begin + left * explore_share * (i + 1) / rounds;
      SearchStart found = round(starts[i % starts.size()], explore_hot[i], 0.0005F, until(end));
      if (found.time < best.time) best = std::move(found);
    }
    if (directions_.size() == 1 || rounds == 0) {
      best = round(best, rounds ? 0.02F : 0.03F, 0.0003F, until(until_ms));
    } else {
      refine_apart(best.trees, until_ms);
    }
    consider(from_trees(best.trees));
  }

  // Once the common root is found, the trees do not depend on each other: each alone is cooled by its own time.
  void refine_apart(std::vector<Tree>& trees, double until_ms) {
    const double begin = elapsed_ms(), share = std::max(0.0, until_ms - begin) / static_cast<double>(trees.size());
    for (std::size_t i = 0; i < trees.size(); ++i) {
      std::vector<AnnealedTree> one;
      one.push_back({TreeState(problem_.table(directions_[i]), trees[i])});
      AnnealOptions options;
      options.free_root = false;
      options.seed = options_.seed + rounds_++;
      options.hot = 0.01F;
      options.cold = 0.0003F;
      options.progress = until(begin + share * static_cast<double>(i + 1));
      anneal(one, options);
      trees[i] = one[0].state.tree();
    }
  }

  Problem& problem_;
  const PlanOptions& options_;
  bool exact_;
  std::uint64_t start_ns_;
  std::vector<Direction> directions_;
  Solution best_;
  bool has_best_ = false;
  bool proved_ = false, solved_ = false;
  bool exchanged_ = false;  ///< the votes of a two-phase commit, by recursive doubling
  double dissemination_ns_ = std::numeric_limits<double>::infinity();
  std::uint64_t rounds_ = 0;
  SearchResult result_;
};

}  // namespace

SearchResult search(Problem& problem, const PlanOptions& options, bool exact) {
  return Search(problem, options, exact).run();
}

}  // namespace smelt::plan
