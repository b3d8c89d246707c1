#include "plan/best.hpp"

#include <algorithm>
#include <limits>

#include "base/clock.hpp"
#include "plan/anneal.hpp"
#include "plan/bounds.hpp"
#include "plan/exact.hpp"
#include "plan/greedy.hpp"

namespace smelt::plan {

namespace {

constexpr double exact_steps_per_ms = 250e3;   // what this planner counts on; only speed depends on it
constexpr double free_exact_steps = 50e3;      // always affordable
constexpr long construction_moves_per_rank = 100;

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

  Searched run() {
    consider_rules();
    bound();
    if (!solve_exactly()) improve();
    result_.optimal = proved_ || best_.time_ns <= result_.lower_bound_ns * (1.0 + 1e-9);
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
      if (solution.time_ns < result_.runner_up_ns) {
        result_.runner_up_ns = solution.time_ns;
        result_.runner_up = solution.topology;
      }
      consider(std::move(solution));
    }
  }

  // A two-phase commit broadcasts once more after at least one broadcast and the last hop back.
  void bound() {
    for (const Direction direction : directions_) {
      const double one = lower_bound(problem_.table(direction), problem_.ranks(), options_.root);
      result_.lower_bound_ns += problem_.operation() == Operation::two_phase_commit
                                    ? (direction == Direction::broadcast ? 2.0 * one : 0.0)
                                    : one;
    }
    if (has_dissemination(problem_.operation())) {
      result_.lower_bound_ns = 0.0;
      for (const Direction direction : directions_) {
        result_.lower_bound_ns = std::max(
            result_.lower_bound_ns, lower_bound(problem_.table(direction), problem_.ranks(), std::nullopt));
      }
      if (problem_.ranks().has_exchange()) result_.lower_bound_ns = 0.0;
    }
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
    return true;
  }

  void improve() {
    std::vector<AnnealedTree> trees;
    std::vector<Tree> start = construct();
    consider(from_trees(start));
    const bool phases = problem_.operation() == Operation::two_phase_commit;
    for (std::size_t i = 0; i < directions_.size(); ++i) {
      const float weight = phases && directions_[i] == Direction::broadcast ? 2.0F : 1.0F;
      trees.push_back({TreeState(problem_.table(directions_[i]), start[i]), weight});
    }
    AnnealOptions options;
    options.free_root = !options_.root;
    options.seed = options_.seed;
    options.floor = static_cast<float>(result_.lower_bound_ns);
    if (options_.search_ms > 0.0) {
      options.progress = [this](long) { return static_cast<float>(elapsed_ms() / options_.search_ms); };
    } else {
      const long limit = construction_moves_per_rank * problem_.size();
      options.hot = options.cold = 1e-9F;
      options.progress = [limit](long moves) { return static_cast<float>(moves) / static_cast<float>(limit); };
    }
    anneal(trees, options);
    std::vector<Tree> improved;
    for (const AnnealedTree& tree : trees) improved.push_back(tree.state.tree());
    consider(from_trees(std::move(improved)));
  }

  // The best of greedy trees over roots, in sum over the directions.
  std::vector<Tree> construct() {
    const int n = problem_.size();
    const int stride = std::max(1, n / 32);
    std::vector<Tree> best;
    double best_time = std::numeric_limits<double>::infinity();
    for (int root = options_.root.value_or(0); root < n; root += stride) {
      std::vector<Tree> trees;
      double time = 0.0;
      for (const Direction direction : directions_) {
        Tree tree = greedy_tree(problem_.table(direction), root, 1.0F);
        time += order_sends(problem_.table(direction), tree);
        trees.push_back(std::move(tree));
      }
      if (time < best_time) {
        best_time = time;
        best = std::move(trees);
      }
      if (options_.root) break;
    }
    return best;
  }

  Problem& problem_;
  const PlanOptions& options_;
  bool exact_;
  std::uint64_t start_ns_;
  std::vector<Direction> directions_;
  Solution best_;
  bool has_best_ = false;
  bool proved_ = false;
  Searched result_;
};

}  // namespace

Searched search(Problem& problem, const PlanOptions& options, bool exact) { return Search(problem, options, exact).run(); }

}  // namespace smelt::plan
