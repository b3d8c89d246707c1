// The choice on the machines of the thesis, whose memory figures it does not give: plausible ones, of which only signs
// and orders are asserted ([Kaestle16] tables 4.1 to 4.3, figures 4.4 and 4.5).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "memory/choice/costs.hpp"
#include "smelt/placement.hpp"

namespace smelt {
namespace {

constexpr std::uint64_t kib4 = 4 << 10, mib2 = 2 << 20, gib1 = 1 << 30;

/// `nodes` NUMA nodes of 4 cores and 32 GiB.
Machine thesis_machine(int nodes) {
  Machine machine;
  for (int node = 0; node < nodes; ++node) {
    machine.numa_nodes.push_back({node, 32ull << 30});
    for (int core = 0; core < 4; ++core) {
      const int id = node * 4 + core;
      machine.pus.push_back({.os_index = id, .core = id, .package = node / 2, .numa_node = node, .l2 = id, .l3 = node});
    }
  }
  machine.page_sizes_bytes = {kib4, mib2, gib1};
  MemoryCosts costs;
  const auto n = static_cast<std::size_t>(nodes);
  const auto set = [&](Matrix& matrix, double local, double remote) {
    matrix = Matrix(n, remote);
    for (std::size_t a = 0; a < n; ++a) matrix(a, a) = local;
  };
  set(costs.latency_ns, 90, 140);
  set(costs.gather_ns, 24, 34);
  set(costs.read_gbs, 4.0, 2.2);
  set(costs.write_gbs, 4.0, 2.2);
  set(costs.read_all_gbs, 12.0, 5.0);
  set(costs.write_all_gbs, 12.0, 5.0);
  costs.page_bytes = {kib4, mib2, gib1};
  costs.walk_ns = {30, 8, 2};
  costs.gather_walk_ns = {14, 2, 0.5};
  costs.reach_bytes = {0, 0, 0};
  costs.touch_ns_per_mib = {1, 1, 1};
  machine.memory = costs;
  return machine;
}

constexpr double graph_nodes = 41e6, graph_edges = 1468e6, iterations = 10;

/// PageRank on the Twitter graph: what its arrays are, and how they are used in ten iterations.
std::vector<ArrayUse> pagerank() {
  const auto node_bytes = static_cast<std::uint64_t>(8 * graph_nodes);
  std::vector<ArrayUse> arrays = {
      {.name = "begin", .size_bytes = node_bytes, .random_accesses = 0.1 * iterations * graph_edges, .read_only = true},
      {.name = "r_begin",
       .size_bytes = node_bytes,
       .sequential_bytes = 8 * iterations * graph_nodes,
       .read_only = true},
      {.name = "r_node_idx",
       .size_bytes = static_cast<std::uint64_t>(8 * graph_edges),
       .sequential_bytes = 8 * iterations * graph_edges,
       .read_only = true},
      {.name = "pg_rank",
       .size_bytes = node_bytes,
       .random_accesses = 0.35 * iterations * graph_edges,
       .written_bytes = 8 * iterations * graph_nodes},
      {.name = "pg_rank_nxt",
       .size_bytes = node_bytes,
       .sequential_bytes = 16 * iterations * graph_nodes,
       .loop_index = true},
  };
  for (auto& use : arrays) use.phases = 1000;  // the thesis's times are without loading the graph
  return arrays;
}

double pagerank_ns(const Machine& machine, int threads, std::uint64_t page, Placement graph, Placement rest) {
  const auto arrays = pagerank();
  std::vector<PlacementCandidate> placed;
  for (const auto& use : arrays) placed.push_back({use.read_only ? graph : rest, page});
  return phase_ns(machine, arrays, placed, threads);
}

TEST(Choice, Table43LargerPagesHelpOneThreadAndLargestOnesRuinDistribution) {
  const Machine machine = thesis_machine(8);
  std::map<std::uint64_t, double> one, distributed, replicated;
  for (const auto page : {kib4, mib2, gib1}) {
    one[page] = pagerank_ns(machine, 1, page, Placement::single_node, Placement::single_node);
    distributed[page] = pagerank_ns(machine, 32, page, Placement::interleaved, Placement::interleaved);
    replicated[page] = pagerank_ns(machine, 32, page, Placement::replicated, Placement::interleaved);
    EXPECT_LT(replicated[page], distributed[page]) << page;
  }
  EXPECT_GT(one[kib4], one[mib2]);
  EXPECT_GT(one[mib2], one[gib1]);
  EXPECT_GT(distributed[gib1], 2 * distributed[mib2]);
  EXPECT_GT(distributed[gib1], replicated[gib1]);
  EXPECT_GT(replicated[gib1], replicated[mib2]);
}

TEST(Choice, OneNodeForAllIsFarSlower) {
  const Machine machine = thesis_machine(8);
  EXPECT_GT(pagerank_ns(machine, 32, kib4, Placement::single_node, Placement::single_node),
            2 * pagerank_ns(machine, 32, kib4, Placement::interleaved, Placement::interleaved));
}

TEST(Choice, Table41WritableReplicasCostMoreTheMoreThereAre) {
  const std::vector<ArrayUse> arrays = {{.name = "dist_nxt",
                                         .size_bytes = static_cast<std::uint64_t>(8 * graph_nodes),
                                         .sequential_bytes = 8 * graph_nodes,
                                         .random_accesses = 2e7,
                                         .written_bytes = graph_nodes,
                                         .phases = 1000}};
  const auto at = [&](const Machine& machine, Placement placement) {
    const PlacementCandidate placed{placement, mib2};
    return phase_ns(machine, arrays, {&placed, 1});
  };
  const Machine eight = thesis_machine(8), four = thesis_machine(4);
  EXPECT_GT(at(eight, Placement::writable_replicas), at(eight, Placement::interleaved));
  EXPECT_GT(at(eight, Placement::writable_replicas) - at(eight, Placement::interleaved),
            at(four, Placement::writable_replicas) - at(four, Placement::interleaved));
  EXPECT_GT(at(eight, Placement::single_node), at(eight, Placement::interleaved));
  // Without the cost of copies they are no worse than distribution.
  auto unwritten = arrays;
  unwritten[0].written_bytes = 0;
  unwritten[0].phases = 1e9;
  const PlacementCandidate replicas{Placement::writable_replicas, mib2};
  EXPECT_LE(phase_ns(eight, unwritten, {&replicas, 1}), at(eight, Placement::interleaved) * 1.001);
}

TEST(Choice, Table42ReplicationGainsAboutAQuarterOnTwoNodes) {
  const Machine machine = thesis_machine(2);
  const double distributed = pagerank_ns(machine, 8, mib2, Placement::interleaved, Placement::interleaved);
  const double replicated = pagerank_ns(machine, 8, mib2, Placement::replicated, Placement::interleaved);
  EXPECT_GT(distributed / replicated, 1.05);
  EXPECT_LT(distributed / replicated, 1.6);
}

TEST(Choice, TheThesissDecisionTreeFallsOutOfTheCosts) {
  const Machine machine = thesis_machine(8);
  const auto arrays = pagerank();
  const auto plan = choose_placements(machine, arrays, {.threads = 32});
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_FALSE(plan->estimated);
  for (std::size_t x = 0; x < arrays.size(); ++x) {
    const auto& choice = plan->arrays[x];
    if (arrays[x].name == "pg_rank") continue;
    EXPECT_EQ(choice.chosen.placement, decide_by_tree(arrays[x], true)) << choice.name;
    EXPECT_EQ(choice.chosen.page_bytes, page_by_tree(machine)) << choice.name;
    EXPECT_FALSE(choice.why.empty());
    ASSERT_FALSE(choice.others.empty());
    EXPECT_GE(choice.others.front().phase_ns * 1.001, plan->phase_ns);
  }
}

TEST(Choice, ReplicasThatDoNotFitGoToTheArraysWithTheMostAccessesPerByte) {
  Machine machine = thesis_machine(8);
  for (auto& node : machine.numa_nodes) node.memory_bytes = 4ull << 30;
  const auto arrays = pagerank();
  const auto plan = choose_placements(machine, arrays);
  ASSERT_TRUE(plan);
  std::map<std::string, Placement> chosen;
  for (const auto& each : plan->arrays) chosen[each.name] = each.chosen.placement;
  EXPECT_EQ(chosen["begin"], Placement::replicated);
  EXPECT_EQ(chosen["r_node_idx"], Placement::interleaved);  // 11 GiB
  EXPECT_EQ(decide_by_tree(arrays[2], false), Placement::interleaved);
}

TEST(Choice, AWrittenArrayGetsReplicasForALargeGainOnly) {
  const Machine machine = thesis_machine(8);
  ArrayUse use{.name = "x", .size_bytes = 64 << 20, .random_accesses = 1e9, .written_bytes = 64 << 20, .phases = 100};
  const auto placement = [&](double gain) {
    return choose_placements(machine, {&use, 1}, {.written_gain = gain})->arrays.front().chosen.placement;
  };
  EXPECT_EQ(placement(1.0), Placement::replicated);
  EXPECT_EQ(placement(100.0), Placement::interleaved);
}

TEST(Choice, OnOneNodeOnlyThePageSizeIsLeft) {
  Machine machine = thesis_machine(1);
  const ArrayUse uses[] = {{.name = "large", .size_bytes = gib1, .random_accesses = 1e9, .read_only = true},
                           {.name = "small", .size_bytes = 1 << 20, .random_accesses = 1e9, .read_only = true}};
  const auto plan = choose_placements(machine, uses);
  ASSERT_TRUE(plan);
  for (const auto& each : plan->arrays) EXPECT_EQ(each.chosen.placement, Placement::single_node);
  EXPECT_EQ(plan->arrays[0].chosen.page_bytes, mib2);
  EXPECT_EQ(plan->arrays[1].chosen.page_bytes, kib4);
  for (const auto placement : {Placement::interleaved, Placement::partitioned, Placement::replicated}) {
    const PlacementCandidate other{placement, mib2}, single{Placement::single_node, mib2};
    EXPECT_DOUBLE_EQ(phase_ns(machine, {uses, 1}, {&other, 1}), phase_ns(machine, {uses, 1}, {&single, 1}));
  }
}

TEST(Choice, NodesWithoutPusOrMemoryGetNothing) {
  Machine machine = thesis_machine(2);
  machine.numa_nodes.push_back({2, 64ull << 30});  // memory alone
  machine.memory.reset();
  EXPECT_THAT(memory::homes_of(machine), testing::ElementsAre(0, 1));
  machine.numa_nodes[1].memory_bytes = 0;
  EXPECT_THAT(memory::homes_of(machine), testing::ElementsAre(0));
  const ArrayUse use{.name = "x", .size_bytes = gib1, .random_accesses = 1e8};
  const auto plan = choose_placements(machine, {&use, 1});
  ASSERT_TRUE(plan);
  EXPECT_TRUE(plan->estimated);
  EXPECT_EQ(plan->arrays.front().chosen.placement, Placement::single_node);
}

TEST(Choice, BadUsesAreRefused) {
  const ArrayUse empty{.name = "x"};
  const auto plan = choose_placements(thesis_machine(2), {&empty, 1});
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().status, Status::invalid_argument);
}

TEST(Choice, HintsBecomeUses) {
  AccessHints hints{.access = AccessPattern::random, .read_only = true, .reads_per_element = 3};
  auto use = use_of("x", 1000, 8, hints);
  EXPECT_EQ(use.random_accesses, 3000);
  EXPECT_EQ(use.sequential_bytes, 0);
  EXPECT_TRUE(use.read_only);
  hints = {.access = AccessPattern::strided, .writes_per_element = 1, .stride_bytes = 256};
  use = use_of("x", 1000, 8, hints);
  EXPECT_EQ(use.sequential_bytes, 2 * 1000 * 64);
  EXPECT_EQ(use.written_bytes, 8000);
  use = use_of("x", 1000, 8, {.loop_index = true});
  EXPECT_EQ(use.sequential_bytes, 8000);
}

TEST(Choice, NamesOfPlacementsReadBack) {
  for (int i = 0; i <= static_cast<int>(Placement::writable_replicas); ++i) {
    const auto placement = static_cast<Placement>(i);
    const auto parsed = parse_placement(to_string(placement));
    ASSERT_TRUE(parsed);
    EXPECT_EQ(*parsed, placement);
  }
  const auto unknown = parse_placement("everywhere");
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().message, testing::HasSubstr("interleaved"));
}

}  // namespace
}  // namespace smelt
