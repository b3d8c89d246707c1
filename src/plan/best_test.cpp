// `best` and `optimal` against brute force, against each other, and on measured machines.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "plan/plan_test_util.hpp"
#include "plan/trees/bounds.hpp"
#include "plan/trees/hierarchy.hpp"
#include "plan/trees/treestate.hpp"

namespace smelt {
namespace {

Plan planned(const Machine& machine, Operation operation, const std::string& topology, std::optional<int> root,
             double search_ms = 0.0, bool completion = false) {
  PlanOptions options;
  options.topology = topology;
  options.root = root;
  options.search_ms = search_ms;
  options.completion = completion;
  auto plan = make_plan(machine, whole_machine(machine), operation, options);
  EXPECT_TRUE(plan) << plan.error().message;
  return std::move(*plan);
}

TEST(Optimal, EqualsBruteForce) {
  for (int n = 1; n <= 5; ++n) {
    for (std::uint32_t seed = 1; seed <= 6; ++seed) {
      const Machine machine = test::random_machine(n, 100 * seed + static_cast<std::uint32_t>(n));
      const Machine turned = test::transposed(machine);
      for (const int root : {-1, n - 1}) {
        const std::optional<int> given = root < 0 ? std::nullopt : std::optional<int>(root);
        const Plan down = planned(machine, Operation::broadcast, "optimal", given);
        EXPECT_TRUE(down.optimal);
        EXPECT_NEAR(down.predicted_ns, test::brute_force(machine, root), 1e-9);
        const Plan up = planned(machine, Operation::reduce, "optimal", given);
        EXPECT_TRUE(up.optimal);
        EXPECT_NEAR(up.predicted_ns, test::brute_force(turned, root), 1e-9);
        EXPECT_NEAR(*up.lower_bound_ns, up.predicted_ns, 1e-9);
      }
    }
  }
}

TEST(Optimal, BarrierJoinsTheBestRootOfBothDirections) {
  for (std::uint32_t seed = 1; seed <= 5; ++seed) {
    const Machine machine = test::random_machine(4, seed);
    double best = planned(machine, Operation::barrier, "dissemination", {}).predicted_ns;
    for (int root = 0; root < 4; ++root) {
      best = std::min(best, test::brute_force(machine, root) + test::brute_force(test::transposed(machine), root));
    }
    const Plan plan = planned(machine, Operation::barrier, "optimal", {});
    EXPECT_NEAR(plan.predicted_ns, best, 1e-9);
  }
}

TEST(Bound, NeverAboveTheOptimum) {
  for (std::uint32_t seed = 1; seed <= 40; ++seed) {
    const int n = 2 + static_cast<int>(seed % 8);
    const Machine machine = test::random_machine(n, seed, 1 + static_cast<int>(seed % 3));
    for (const auto operation : {Operation::broadcast, Operation::reduce}) {
      for (const std::optional<int> root : {std::optional<int>{}, std::optional<int>{n - 1}}) {
        const Group group = whole_machine(machine);
        const plan::RankCosts costs(machine, group);
        const plan::CostTable table(plan::DirectedCosts(
            costs, operation == Operation::broadcast ? plan::Direction::broadcast : plan::Direction::reduce));
        for (const bool thorough : {false, true}) {
          EXPECT_LE(plan::lower_bound(table, costs, root, thorough),
                    planned(machine, operation, "optimal", root).predicted_ns);
        }
      }
    }
  }
}

TEST(Best, NeverWorseThanAnyRule) {
  for (std::uint32_t seed = 1; seed <= 8; ++seed) {
    const int n = 6 + static_cast<int>(seed) * 4;
    const Machine machine = test::random_machine(n, seed, 1 + static_cast<int>(seed % 4));
    for (const auto operation : {Operation::broadcast, Operation::reduce, Operation::barrier, Operation::allreduce,
                                 Operation::two_phase_commit}) {
      for (const std::optional<int> root : {std::optional<int>{}, std::optional<int>{1}}) {
        for (const bool completion : {false, true}) {
          const Plan best = planned(machine, operation, "best", root, 0.0, completion);
          ASSERT_TRUE(best.lower_bound_ns);
          EXPECT_LE(*best.lower_bound_ns, best.predicted_ns);
          EXPECT_FALSE(best.reason.empty());
          for (const TopologyInfo& info : topologies()) {
            if (info.name == "optimal" || info.name == "best") continue;
            if (info.name == "dissemination" && operation != Operation::barrier && operation != Operation::allreduce) {
              continue;
            }
            EXPECT_LE(best.predicted_ns,
                      planned(machine, operation, info.name, root, 0.0, completion).predicted_ns * (1 + 1e-12))
                << info.name << " " << to_string(operation);
          }
        }
      }
    }
  }
}

TEST(Best, IsTheSameForTheSameInput) {
  const Machine machine = test::random_machine(40, 3, 4);
  for (const auto operation : {Operation::broadcast, Operation::barrier, Operation::two_phase_commit}) {
    EXPECT_EQ(planned(machine, operation, "best", {}).steps, planned(machine, operation, "best", {}).steps);
  }
}

// Every trial must tell what a rebuilt tree takes, and taking it must leave exactly that.
TEST(TreeState, TrialsAgreeWithRebuilding) {
  const Machine machine = test::random_machine(14, 8, 3);
  const Group group = whole_machine(machine);
  const plan::RankCosts ranks(machine, group);
  const plan::CostTable table(plan::DirectedCosts(ranks, plan::Direction::broadcast));
  Tree start = *planned(machine, Operation::broadcast, "binary", 0).broadcast_tree;
  plan::TreeState state(table, start);
  plan::Random random(5);
  for (int i = 0; i < 5000; ++i) {
    const int a = random.below(14), b = random.below(14);
    const int kind = random.below(3);
    float tried = 0.0F;
    if (kind == 0 && a != b) {
      tried = state.try_swap(a, b);
    } else if (kind == 1 && a != state.root()) {
      tried = state.try_lift(a);
    } else if (kind == 2 && a != state.root() && b != state.parent(a) && !state.above(a, b)) {
      tried = state.try_move(a, b);
    } else {
      continue;
    }
    const Tree before = state.tree();
    ASSERT_FLOAT_EQ(state.time(), plan::TreeState(table, before).time());
    if (random.below(2)) {
      state.take();
      ASSERT_FLOAT_EQ(state.time(), tried) << "kind " << kind;
      const Tree after = state.tree();
      bool ok = false;
      test::check_spanning(after, 14, ok);
      ASSERT_TRUE(ok) << "kind " << kind;
      ASSERT_NEAR(tried, test::time_of(machine, after), 1e-3);
    } else {
      ASSERT_EQ(state.tree(), before);
    }
  }
}

TEST(Hierarchy, IsOptimalOnAUniformMachine) {
  for (int n = 2; n <= 9; ++n) {
    const Machine machine = test::uniform_machine(n, 3.0, 7.0);
    const Group group = whole_machine(machine);
    const plan::RankCosts ranks(machine, group);
    const plan::CostTable table(plan::DirectedCosts(ranks, plan::Direction::broadcast));
    Tree tree = plan::HierarchyPlanner(ranks, table).tree(0);
    EXPECT_NEAR(plan::order_sends(table, tree), planned(machine, Operation::broadcast, "optimal", 0).predicted_ns,
                1e-6);
  }
}

std::vector<std::filesystem::path> measured_machines() {
  const char* shared = std::getenv("SMELT_SHARED");
  const std::filesystem::path directory =
      std::filesystem::path(shared ? shared : SMELT_SOURCE_DIR "/../shared") / "machines";
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    if (entry.path().extension() == ".csv") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

TEST(MeasuredMachines, BestBeatsEveryRuleForAnyShareAndSubset) {
  const auto files = measured_machines();
  if (files.empty()) GTEST_SKIP() << "no measured machines: set SMELT_SHARED to a directory with machines/*.csv";
  std::mt19937 random(3);
  for (const auto& file : files) {
    for (const double share : {0.05, 0.25, 0.95}) {
      const auto machine = import_core_to_core(file, share);
      ASSERT_TRUE(machine) << machine.error().message;
      Group group = whole_machine(*machine);
      std::shuffle(group.pus.begin(), group.pus.end(), random);
      if (share != 0.25) group.pus.resize(group.pus.size() / 2);
      for (const auto operation :
           {Operation::broadcast, Operation::reduce, Operation::barrier, Operation::two_phase_commit}) {
        PlanOptions options;
        options.search_ms = share == 0.25 ? 10.0 : 0.0;
        auto all = compare_topologies(*machine, group, operation, options);
        ASSERT_TRUE(all);
        std::erase_if(*all, [](const Comparison& one) { return one.topology == "optimal"; });
        for (const Comparison& one : *all) {
          if (one.topology != "best") continue;
          EXPECT_LE(one.predicted_ns, all->front().predicted_ns * (1 + 1e-12)) << file << " " << to_string(operation);
        }
      }
    }
  }
}

TEST(MeasuredMachines, TenRanksAreProved) {
  const auto files = measured_machines();
  if (files.empty()) GTEST_SKIP() << "no measured machines: set SMELT_SHARED to a directory with machines/*.csv";
  std::mt19937 random(4);
  for (const auto& file : files) {
    const auto machine = import_core_to_core(file);
    ASSERT_TRUE(machine);
    Group group = whole_machine(*machine);
    std::shuffle(group.pus.begin(), group.pus.end(), random);
    group.pus.resize(10);
    PlanOptions options;
    options.topology = "optimal";
    options.search_ms = 0.0;
    for (const auto operation : {Operation::broadcast, Operation::reduce}) {
      const auto plan = make_plan(*machine, group, operation, options);
      ASSERT_TRUE(plan);
      EXPECT_TRUE(plan->optimal);
    }
  }
}

}  // namespace
}  // namespace smelt
