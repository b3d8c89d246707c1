// Shapes of the textbook trees, derived by hand, and properties of all of them.
#include <gtest/gtest.h>

#include "plan/plan_test_util.hpp"

namespace smelt {
namespace {

using Children = std::vector<std::vector<int>>;

Children children_of(const Machine& machine, const std::string& topology, std::optional<int> root = 0) {
  PlanOptions options;
  options.topology = topology;
  options.root = root;
  auto plan = make_plan(machine, whole_machine(machine), Operation::broadcast, options);
  EXPECT_TRUE(plan) << plan.error().message;
  Children children = plan->broadcast_tree->children;
  for (auto& list : children) std::sort(list.begin(), list.end());
  return children;
}

TEST(Shapes, ObliviousTrees) {
  const Machine seven = test::uniform_machine(7, 1.0, 2.0);
  EXPECT_EQ(children_of(seven, "sequential"), (Children{{1, 2, 3, 4, 5, 6}, {}, {}, {}, {}, {}, {}}));
  EXPECT_EQ(children_of(seven, "chain"), (Children{{1}, {2}, {3}, {4}, {5}, {6}, {}}));
  EXPECT_EQ(children_of(seven, "binary"), (Children{{1, 2}, {3, 4}, {5, 6}, {}, {}, {}, {}}));
  EXPECT_EQ(children_of(seven, "fibonacci"), (Children{{1, 2}, {3, 4}, {5}, {6}, {}, {}, {}}));
  EXPECT_EQ(children_of(seven, "k-nomial"), (Children{{1, 2, 4}, {}, {3}, {}, {5, 6}, {}, {}}));
  EXPECT_EQ(children_of(seven, "k-nomial:3"), (Children{{1, 2, 3, 6}, {}, {}, {4, 5}, {}, {}, {}}));
}

TEST(Shapes, RootIsPositionZeroAndTheRestFollows) {
  const Machine five = test::uniform_machine(5, 1.0, 2.0);
  EXPECT_EQ(children_of(five, "chain", 3), (Children{{1}, {2}, {}, {4}, {0}}));
  EXPECT_EQ(children_of(five, "binary", 3), (Children{{}, {}, {}, {0, 4}, {1, 2}}));
}

TEST(Shapes, ClusterTrees) {
  const Machine machine = test::uniform_machine(9, 1.0, 2.0, 3);  // nodes {0,1,2} {3,4,5} {6,7,8}
  EXPECT_EQ(children_of(machine, "cluster"), (Children{{1, 2, 3, 6}, {}, {}, {4, 5}, {}, {}, {7, 8}, {}, {}}));
  EXPECT_EQ(children_of(machine, "cluster", 4), (Children{{1, 2}, {}, {}, {}, {0, 3, 5, 6}, {}, {7, 8}, {}, {}}));
  const Machine ten = test::uniform_machine(10, 1.0, 2.0, 2);
  EXPECT_EQ(children_of(ten, "cluster-binary"), (Children{{1, 2, 5}, {3, 4}, {}, {}, {}, {6, 7}, {8, 9}, {}, {}, {}}));
}

// Costs of a line 0 - 1 - 2 - 3: neighbours 1, others their distance squared.
TEST(Shapes, MinimumSpanningTreeAndItsOpposite) {
  Machine machine = test::uniform_machine(4, 1.0, 0.0);
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 4; ++j) machine.recv_ns(i, j) = (i - j) * (i - j);
  }
  EXPECT_EQ(children_of(machine, "mst", 1), (Children{{}, {0, 2}, {3}, {}}));
  // Dearest first: 0-3 costs 10; then 0-2 and 3-1 cost 5 each, all others less.
  EXPECT_EQ(children_of(machine, "bad", 0), (Children{{2, 3}, {}, {}, {1}}));
}

// Two nodes {0,1} {2,3}; local send 1, recv 2; remote send 4, recv 8. By hand: 0 sends to 2 first
// (remote before local; both cost the same, the lower rank wins), done at 4, then to 1. 2 has it
// at 12 and sends to 3.
TEST(Adaptive, FollowsAlgorithmOne) {
  Machine machine = test::uniform_machine(4, 1.0, 2.0, 2);
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 4; ++j) {
      if (machine.pus[i].numa_node == machine.pus[j].numa_node) continue;
      machine.send_ns(i, j) = 4.0;
      machine.recv_ns(i, j) = 8.0;
    }
  }
  PlanOptions options;
  options.topology = "adaptive";
  options.root = 0;
  const auto plan = make_plan(machine, whole_machine(machine), Operation::broadcast, options);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->broadcast_tree->children, (Children{{2, 1}, {}, {3}, {}}));
  EXPECT_EQ(plan->arrival_ns, (std::vector<double>{0.0, 7.0, 12.0, 15.0}));
}

TEST(Adaptive, RemoteNodeGetsItsCheapestRankAndFreeRootIsTheCheapestSender) {
  Machine machine = test::uniform_machine(4, 2.0, 2.0, 2);
  for (int i : {0, 1}) {
    for (int j : {2, 3}) {
      machine.send_ns(i, j) = machine.send_ns(j, i) = j == 2 ? 9.0 : 8.0;  // 3 is cheaper to send to ...
      machine.recv_ns(i, j) = machine.recv_ns(j, i) = j == 2 ? 9.0 : 8.0;  // ... but 2 the most expensive
    }
  }
  machine.send_ns(1, 0) = 1.0;  // rank 1 has the lowest average
  PlanOptions options;
  options.topology = "adaptive";
  const auto plan = make_plan(machine, whole_machine(machine), Operation::broadcast, options);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->root, 1);
  EXPECT_EQ(plan->broadcast_tree->children, (Children{{}, {3, 0}, {}, {2}}));
}

TEST(Properties, EveryTopologySpansAndAgreesWithTheFormula) {
  for (std::uint32_t seed = 1; seed <= 12; ++seed) {
    const int n = 1 + static_cast<int>(seed * 7 % 23);
    Machine machine = test::random_machine(n, seed, 1 + static_cast<int>(seed % 3));
    if (seed % 2 == 0) machine = test::with_gaps(std::move(machine), seed);
    const Machine turned = test::transposed(machine);
    const Group group = whole_machine(machine);
    for (const TopologyInfo& info : topologies()) {
      if (info.name == "dissemination" || (info.name == "optimal" && n > 9)) continue;
      for (const std::optional<int> root : {std::optional<int>{}, std::optional<int>{n / 2}}) {
        PlanOptions options;
        options.topology = info.name;
        options.root = root;
        options.search_ms = 0.0;
        bool ok = false;
        const auto down = make_plan(machine, group, Operation::broadcast, options);
        ASSERT_TRUE(down) << info.name;
        test::check_spanning(*down->broadcast_tree, n, ok);
        ASSERT_TRUE(ok) << info.name << " n " << n;
        EXPECT_EQ(down->root, root.value_or(down->root));
        const auto at = test::arrivals(machine, *down->broadcast_tree);
        for (int rank = 0; rank < n; ++rank) ASSERT_NEAR(down->arrival_ns[rank], at[rank], 1e-9) << info.name;
        EXPECT_NEAR(down->predicted_ns, *std::max_element(at.begin(), at.end()), 1e-9);

        const auto up = make_plan(machine, group, Operation::reduce, options);
        ASSERT_TRUE(up);
        EXPECT_NEAR(up->predicted_ns, test::time_of(turned, *up->reduce_tree), 1e-9) << info.name;
        const bool published = info.name == "mst" || info.name == "bad" || info.name == "adaptive";
        const auto same = make_plan(published ? machine : turned, group, Operation::broadcast, options);
        ASSERT_TRUE(same);
        if (published) {  // one tree for both directions
          EXPECT_EQ(up->reduce_tree->parents(), same->broadcast_tree->parents()) << info.name;
        } else if (info.name != "best") {  // whose search may start from these
          EXPECT_EQ(up->reduce_tree->children, same->broadcast_tree->children) << info.name;
        }

        const auto both = make_plan(machine, group, Operation::barrier, options);
        ASSERT_TRUE(both);
        if (both->broadcast_tree) {
          EXPECT_NEAR(both->predicted_ns,
                      test::time_of(machine, *both->broadcast_tree) + test::time_of(turned, *both->reduce_tree), 1e-9);
        }
      }
    }
  }
}

// Exchanging any two children never makes a tree faster, but for the name that keeps its own order.
TEST(Properties, SendOrderIsTheBest) {
  for (std::uint32_t seed = 1; seed <= 10; ++seed) {
    const Machine machine = test::random_machine(9, seed, 3);
    for (const char* name : {"sequential", "binary", "mst", "cluster", "adaptive-optimized", "k-nomial", "best"}) {
      PlanOptions options;
      options.topology = name;
      options.search_ms = 0.0;
      const auto plan = make_plan(machine, whole_machine(machine), Operation::broadcast, options);
      ASSERT_TRUE(plan);
      Tree tree = *plan->broadcast_tree;
      for (auto& list : tree.children) {
        std::vector<int> kept = list;
        if (list.size() > 6) continue;
        std::sort(list.begin(), list.end());
        do {
          EXPECT_GE(test::time_of(machine, tree), plan->predicted_ns - 1e-9) << name;
        } while (std::next_permutation(list.begin(), list.end()));
        list = kept;
      }
    }
  }
}

TEST(Properties, RerootKeepsEdgesAndOrdersSends) {
  const Machine machine = test::random_machine(11, 5);
  PlanOptions options;
  options.topology = "binary";
  const auto plan = make_plan(machine, whole_machine(machine), Operation::broadcast, options);
  ASSERT_TRUE(plan);
  const Tree turned = reroot(machine, whole_machine(machine), *plan->broadcast_tree, 7);
  bool ok = false;
  test::check_spanning(turned, 11, ok);
  EXPECT_TRUE(ok);
  EXPECT_EQ(turned.root, 7);
  const auto before = plan->broadcast_tree->parents(), after = turned.parents();
  for (int rank = 0; rank < 11; ++rank) {
    if (before[rank] < 0) continue;
    EXPECT_TRUE(after[rank] == before[rank] || after[before[rank]] == rank);
  }
}

}  // namespace
}  // namespace smelt
