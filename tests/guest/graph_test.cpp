// Runs inside a virtual machine with several NUMA nodes (run_guest.sh): graph programs, their arrays placed, against
// the same with plain arrays.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <cstring>
#include <fstream>
#include <map>
#include <string>

#include "smelt/graph_algorithms.hpp"

namespace smelt::graph {
namespace {

using testing::IsEmpty;
using testing::Not;

int given(const std::string& key) {
  std::ifstream in("/proc/cmdline");
  for (std::string word; in >> word;) {
    if (word.rfind(key + "=", 0) == 0) return std::atoi(word.c_str() + key.size() + 1);
  }
  return 0;
}

Graph made(bool undirected) {
  const auto graph = generate(*parse_generator(undirected ? "kron:13:weights=255" : "kron:13:weights=255:directed"));
  EXPECT_TRUE(graph) << graph.error().message;
  return *graph;
}

RunResult run(const char* name, const Arguments& arguments, RunOptions::Placement placement, int threads) {
  const auto program = builtin_program(name);
  RunOptions options;
  options.threads = threads;
  options.placement = placement;
  const auto result = program->compile(4, 4)->run(program->main_procedure(), arguments, options);
  EXPECT_TRUE(result) << result.error().message;
  return result ? *result : RunResult();
}

using Placements = std::map<std::string, PlacedArray>;

/// All columns and what is returned are the same; returns what was placed.
Placements compare(const char* name, const Arguments& arguments) {
  SCOPED_TRACE(name);
  const auto plain = run(name, arguments, RunOptions::Placement::never, 2);
  EXPECT_THAT(plain.placed, IsEmpty());
  Placements placements;
  for (const int threads : {1, given("numa_nodes"), 0}) {
    const auto placed = run(name, arguments, RunOptions::Placement::automatic, threads);
    EXPECT_EQ(placed.returned, plain.returned);
    EXPECT_EQ(placed.columns.size(), plain.columns.size());
    for (const auto& [column, values] : plain.columns) {
      const auto& found = placed.columns.at(column);
      EXPECT_EQ(std::memcmp(found.data(), values.data(), values.size() * size_of(values.type())), 0) << column;
    }
    for (const auto& each : placed.placed) placements[each.name] = each;
  }
  return placements;
}

Arguments of(const Graph& graph, std::map<std::string, Value> values) {
  Arguments arguments;
  arguments.graphs.emplace("G", graph);
  arguments.values = std::move(values);
  return arguments;
}

TEST(GraphOnSeveralNodes, ArraysThatAreReadOnlyHaveACopyPerNode) {
  const auto placed = compare("triangles", of(made(true), {}));
  ASSERT_THAT(placed, Not(IsEmpty()));
  const auto& lists = placed.at("node_idx");
  EXPECT_EQ(lists.placement, "replicated");
  EXPECT_EQ(lists.copies, given("numa_nodes"));
}

TEST(GraphOnSeveralNodes, ArraysByIndexAreInPartsAndOthersInterleaved) {
  const auto placed = compare(
      "pagerank_exact", of(made(false), {{"damping", 0.85}, {"tolerance", 0.0}, {"max_iterations", std::int64_t{3}}}));
  EXPECT_EQ(placed.at("rank_nxt").placement, "partitioned");
  EXPECT_EQ(placed.at("rank_nxt").copies, 1);
  EXPECT_EQ(placed.at("rank").placement, "interleaved");
}

TEST(GraphOnSeveralNodes, TheOtherKernels) {
  const auto graph = made(true);
  auto paths = of(graph, {{"root", std::int64_t{1}}, {"delta", std::int64_t{16}}});
  paths.columns.emplace("len", *graph.edge_values("weight"));
  compare("sssp", paths);
  compare("components", of(graph, {{"directed", false}}));
  compare("hop_dist", of(graph, {{"root", std::int64_t{1}}}));
  compare("kosaraju", of(made(false), {}));
}

TEST(GraphOnSeveralNodes, TheCallerRunsWhereItRanBefore) {
  cpu_set_t before, after;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  ASSERT_TRUE(triangles(made(true)));
  ASSERT_EQ(sched_getaffinity(0, sizeof after, &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

}  // namespace
}  // namespace smelt::graph

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
