// Rows of sends and of receives: cases worked out by hand, and planners against all trees.
#include <gtest/gtest.h>

#include "plan/plan_test_util.hpp"

namespace smelt {
namespace {

constexpr Operation with_trees[] = {Operation::broadcast, Operation::reduce, Operation::barrier, Operation::allreduce,
                                    Operation::two_phase_commit};

PlanOptions topology_options(const std::string& topology, std::optional<int> root, bool completion = false) {
  PlanOptions options;
  options.topology = topology;
  options.root = root;
  options.completion = completion;
  options.search_ms = 0.0;
  return options;
}

Plan plan_of(const Machine& machine, Operation operation, const std::string& topology, std::optional<int> root = 0,
             bool completion = false) {
  auto plan = make_plan(machine, whole_machine(machine), operation, topology_options(topology, root, completion));
  EXPECT_TRUE(plan) << plan.error().message;
  return std::move(*plan);
}

/// A message takes 2 + 1 + 5; sends follow each other by 3, receives of messages that wait by 1.
Machine three_with_gaps() {
  Machine machine = test::uniform_machine(3, 2.0, 5.0);
  machine.propagation_ns = Matrix(3, 1.0);
  machine.send_gap_ns = Matrix(3, 3.0);
  machine.recv_gap_ns = Matrix(3, 1.0);
  return machine;
}

TEST(Gaps, ByHand) {
  const Machine machine = three_with_gaps();
  const Plan down = plan_of(machine, Operation::broadcast, "sequential");
  EXPECT_EQ(down.arrival_ns, (std::vector<double>{0.0, 8.0, 11.0}));
  // Both messages are there at 3, taken at 8 and 9.
  const Plan up = plan_of(machine, Operation::reduce, "sequential");
  EXPECT_EQ(up.arrival_ns, (std::vector<double>{9.0, 2.0, 2.0}));
  EXPECT_DOUBLE_EQ(plan_of(machine, Operation::barrier, "sequential").predicted_ns, 9.0 + 11.0);
  // Proposals at 8 and 11, votes there at 11 and 14: taken at 16 and max(16 + 1, 14 + 5); decisions 8 and 11 later.
  EXPECT_DOUBLE_EQ(plan_of(machine, Operation::two_phase_commit, "sequential").predicted_ns, 19.0 + 11.0);
  const auto run = simulate(machine, up);
  ASSERT_TRUE(run);
  for (const TimelineEvent& event : run->timeline) EXPECT_LE(event.start_ns, event.end_ns);
}

// Where one of the two was not measured, each message of that kind costs what a lone one costs.
TEST(Gaps, OfSendsOrOfReceivesAlone) {
  Machine sends = three_with_gaps(), receives = sends;
  sends.recv_gap_ns.reset();
  receives.send_gap_ns.reset();
  EXPECT_EQ(plan_of(sends, Operation::broadcast, "sequential").arrival_ns, (std::vector<double>{0.0, 8.0, 11.0}));
  EXPECT_EQ(plan_of(sends, Operation::reduce, "sequential").arrival_ns, (std::vector<double>{13.0, 2.0, 2.0}));
  EXPECT_EQ(plan_of(receives, Operation::broadcast, "sequential").arrival_ns, (std::vector<double>{0.0, 8.0, 10.0}));
  EXPECT_EQ(plan_of(receives, Operation::reduce, "sequential").arrival_ns, (std::vector<double>{9.0, 2.0, 2.0}));
}

// A message that comes later than the one before it was taken costs a whole receive.
TEST(Gaps, OnlyMessagesThatWaitAreTakenFaster) {
  Machine machine = three_with_gaps();
  machine.send_ns(2, 0) = 20.0;
  EXPECT_DOUBLE_EQ(plan_of(machine, Operation::reduce, "sequential").predicted_ns, 20.0 + 1.0 + 5.0);
  machine.send_ns(2, 0) = 4.0;  // there at 5: the miss is under way while the first message is taken
  EXPECT_DOUBLE_EQ(plan_of(machine, Operation::reduce, "sequential").predicted_ns, 10.0);
}

// The leaf whose message is taken first waits for the other's as well: 8 + 1, and 8 for the notice.
TEST(Gaps, CompletionOfAReductionIsThePathOfOneLeaf) {
  const Machine machine = three_with_gaps();
  EXPECT_DOUBLE_EQ(plan_of(machine, Operation::reduce, "sequential", 0, true).predicted_ns, 17.0);
  EXPECT_DOUBLE_EQ(plan_of(machine, Operation::broadcast, "sequential", 0, true).predicted_ns, 11.0 + 8.0);
  Machine slow = machine;
  slow.send_ns(1, 0) = 50.0;  // has sent in time when leaf 2 is the one that waits
  EXPECT_DOUBLE_EQ(plan_of(slow, Operation::reduce, "sequential", 0, true).predicted_ns, 50.0 + 1.0 + 5.0 + 8.0);
}

TEST(Gaps, ThatAreTheCostsChangeNothing) {
  for (std::uint32_t seed = 1; seed <= 4; ++seed) {
    const Machine machine = test::random_machine(9, seed);
    Machine same = machine;
    same.send_gap_ns = machine.send_ns;
    same.recv_gap_ns = machine.recv_ns;
    for (const Operation operation : with_trees) {
      for (const char* topology : {"sequential", "binary", "mst", "adaptive", "best", "optimal"}) {
        EXPECT_NEAR(plan_of(same, operation, topology).predicted_ns, plan_of(machine, operation, topology).predicted_ns,
                    1e-9)
            << to_string(operation) << " " << topology;
      }
    }
  }
}

// Of all trees and orders, and what is said of it holds.
TEST(Gaps, OptimalIsTheLeastOfAllTrees) {
  for (std::uint32_t seed = 1; seed <= 6; ++seed) {
    const Machine machine = test::with_gaps(test::random_machine(5, seed), seed);
    const Machine turned = test::transposed(machine);
    for (const int root : {0, 3}) {
      const double down = test::brute_force(machine, root), up = test::brute_force(turned, root);
      EXPECT_NEAR(plan_of(machine, Operation::broadcast, "optimal", root).predicted_ns, down, 1e-9);
      // Turned around, gaps of sends may be less than sends.
      EXPECT_NEAR(plan_of(turned, Operation::broadcast, "optimal", root).predicted_ns, up, 1e-9);
      EXPECT_NEAR(plan_of(machine, Operation::reduce, "optimal", root).predicted_ns, up, 1e-9);
      EXPECT_LE(*plan_of(machine, Operation::broadcast, "best", root).lower_bound_ns, down * (1 + 1e-9));
      EXPECT_LE(*plan_of(machine, Operation::reduce, "best", root).lower_bound_ns, up * (1 + 1e-9));
    }
    EXPECT_NEAR(plan_of(machine, Operation::broadcast, "optimal", {}).predicted_ns, test::brute_force(machine, -1),
                1e-9);
  }
}

TEST(Gaps, PlansPredictWhatTheSimulatorSays) {
  for (std::uint32_t seed = 1; seed <= 6; ++seed) {
    const Machine machine = test::with_gaps(test::random_machine(14, seed, 3), seed);
    for (const Operation operation : with_trees) {
      for (const char* topology : {"cluster", "fibonacci", "adaptive", "best"}) {
        const Plan plan = plan_of(machine, operation, topology, {});
        const auto run = simulate(machine, plan);
        ASSERT_TRUE(run);
        EXPECT_NEAR(run->total_ns, plan.predicted_ns, 1e-9);
        if (plan.lower_bound_ns) {
          EXPECT_LE(*plan.lower_bound_ns, plan.predicted_ns);
        }
      }
    }
  }
}

// Wider trees pay where messages that wait are cheap, and deeper ones where a row of sends is dear.
TEST(Gaps, DecideTheShapeOfTrees) {
  Machine machine = test::uniform_machine(12, 2.0, 20.0, 1);
  machine.send_gap_ns = Matrix(12, 2.0);
  machine.recv_gap_ns = Matrix(12, 0.5);
  const auto degree = [](const Plan& plan, const std::optional<Tree>& tree) {
    return tree->children[static_cast<std::size_t>(plan.root)].size();
  };
  const Plan wide = plan_of(machine, Operation::reduce, "best");
  EXPECT_EQ(degree(wide, wide.reduce_tree), 11U);
  machine.recv_gap_ns = Matrix(12, 20.0);
  const Plan deep = plan_of(machine, Operation::reduce, "best");
  EXPECT_LT(degree(deep, deep.reduce_tree), 8U);
  const Plan star = plan_of(machine, Operation::broadcast, "best");
  EXPECT_EQ(degree(star, star.broadcast_tree), 11U);
  machine.send_gap_ns = Matrix(12, 22.0);
  const Plan binomial = plan_of(machine, Operation::broadcast, "best");
  EXPECT_LE(degree(binomial, binomial.broadcast_tree), 5U);
}

}  // namespace
}  // namespace smelt
