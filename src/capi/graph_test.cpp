// Graphs through the C interface: made, saved, loaded; each ready algorithm; arguments that do not fit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "smelt/smelt.h"

namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Handle {
  ~Handle() { smelt_graph_free(graph); }
  smelt_graph* graph = nullptr;
};

/// 0 -> 1 -> 2 -> 0 with a tail 2 -> 3, and 4 alone.
void make_triangle(Handle& handle, unsigned flags = 0) {
  const uint64_t from[] = {0, 1, 2, 2}, to[] = {1, 2, 0, 3};
  const double weight[] = {1, 2, 3, 4};
  ASSERT_EQ(smelt_graph_create(5, 4, from, to, weight, flags, &handle.graph), SMELT_OK) << smelt_last_error();
}

TEST(GraphsInC, AlgorithmsFillTheCallersArrays) {
  Handle directed, undirected;
  make_triangle(directed);
  make_triangle(undirected, SMELT_GRAPH_UNDIRECTED | SMELT_GRAPH_SIMPLE);
  EXPECT_EQ(smelt_graph_num_nodes(directed.graph), 5u);
  EXPECT_EQ(smelt_graph_num_edges(directed.graph), 4u);
  EXPECT_EQ(smelt_graph_num_edges(undirected.graph), 8u);

  std::vector<int64_t> nodes(5);
  ASSERT_EQ(smelt_graph_bfs(directed.graph, 0, 2, nodes.data()), SMELT_OK);
  EXPECT_THAT(nodes, ElementsAre(0, 0, 1, 2, -1));
  ASSERT_EQ(smelt_graph_components(directed.graph, 2, nodes.data()), SMELT_OK);
  EXPECT_THAT(nodes, ElementsAre(0, 0, 0, 0, 4));

  std::vector<int32_t> distance(5);
  ASSERT_EQ(smelt_graph_hop_distance(directed.graph, 1, 1, distance.data()), SMELT_OK);
  EXPECT_THAT(distance, ElementsAre(2, 0, 1, 2, INT32_MAX));
  ASSERT_EQ(smelt_graph_sssp(directed.graph, 1, 1, distance.data()), SMELT_OK);
  EXPECT_THAT(distance, ElementsAre(5, 0, 2, 6, INT32_MAX));

  std::vector<float> values(5);
  const uint64_t sources[] = {0};
  ASSERT_EQ(smelt_graph_betweenness(directed.graph, sources, 1, 0, values.data()), SMELT_OK);
  EXPECT_THAT(values, ElementsAre(0, 2, 1, 0, 0));
  int iterations = 0;
  ASSERT_EQ(smelt_graph_pagerank(undirected.graph, 0.85, 1e-6, 100, 0, values.data(), &iterations), SMELT_OK);
  EXPECT_GT(iterations, 1);
  EXPECT_GT(values[2], values[0]);
  uint64_t triangles = 0;
  ASSERT_EQ(smelt_graph_triangles(undirected.graph, 0, &triangles), SMELT_OK);
  EXPECT_EQ(triangles, 1u);
}

// More than a mebibyte, which several threads copy, and no whole number of their parts. Pairs of nodes; the last is
// alone.
TEST(GraphsInC, LongResultsAreCopiedWhole) {
  constexpr uint64_t count = 150'001;
  std::vector<uint64_t> from, to;
  for (uint64_t node = 0; node + 1 < count; node += 2) {
    from.push_back(node);
    to.push_back(node + 1);
  }
  Handle pairs;
  ASSERT_EQ(smelt_graph_create(count, from.size(), from.data(), to.data(), nullptr, 0, &pairs.graph), SMELT_OK);
  for (const int threads : {1, 3}) {
    std::vector<int64_t> component(count + 1, -7);
    ASSERT_EQ(smelt_graph_components(pairs.graph, threads, component.data()), SMELT_OK) << smelt_last_error();
    for (uint64_t node = 0; node < count; ++node) {
      ASSERT_EQ(component[node], static_cast<int64_t>(node - node % 2)) << threads;
    }
    EXPECT_EQ(component[count], -7) << "beyond the end";
  }
}

TEST(GraphsInC, FilesAndGenerators) {
  Handle made, loaded;
  ASSERT_EQ(smelt_graph_generate("kron:6:seed=2", &made.graph), SMELT_OK) << smelt_last_error();
  EXPECT_EQ(smelt_graph_num_nodes(made.graph), 64u);
  const auto file =
      (std::filesystem::temp_directory_path() / ("smelt-graphs-in-c-" + std::to_string(getpid()) + ".smg")).string();
  ASSERT_EQ(smelt_graph_save(made.graph, file.c_str()), SMELT_OK) << smelt_last_error();
  EXPECT_EQ(smelt_graph_load(file.c_str(), 0, &loaded.graph), SMELT_OK) << smelt_last_error();
  EXPECT_EQ(smelt_graph_num_edges(loaded.graph), smelt_graph_num_edges(made.graph));
  std::remove(file.c_str());
}

TEST(GraphsInC, ArgumentsThatDoNotFit) {
  Handle handle;
  EXPECT_EQ(smelt_graph_load("/nonexistent.el", 0, &handle.graph), SMELT_NOT_FOUND);
  EXPECT_THAT(smelt_last_error(), HasSubstr("/nonexistent.el"));
  EXPECT_EQ(smelt_graph_load("x", 8, &handle.graph), SMELT_INVALID_ARGUMENT);
  EXPECT_EQ(smelt_graph_load(nullptr, 0, &handle.graph), SMELT_INVALID_ARGUMENT);
  EXPECT_EQ(smelt_graph_generate("nonsense", &handle.graph), SMELT_INVALID_ARGUMENT);
  EXPECT_EQ(smelt_graph_create(2, 1, nullptr, nullptr, nullptr, 0, &handle.graph), SMELT_INVALID_ARGUMENT);
  const uint64_t from[] = {0}, to[] = {2};
  EXPECT_EQ(smelt_graph_create(2, 1, from, to, nullptr, 0, &handle.graph), SMELT_INVALID_ARGUMENT);
  EXPECT_EQ(handle.graph, nullptr);
  EXPECT_EQ(smelt_graph_num_nodes(nullptr), 0u);

  make_triangle(handle);
  int64_t parents[5];
  EXPECT_EQ(smelt_graph_bfs(handle.graph, 5, 0, parents), SMELT_INVALID_ARGUMENT);
  EXPECT_EQ(smelt_graph_bfs(handle.graph, 0, 0, nullptr), SMELT_INVALID_ARGUMENT);
  EXPECT_EQ(smelt_graph_bfs(nullptr, 0, 0, parents), SMELT_INVALID_ARGUMENT);
  EXPECT_EQ(smelt_graph_bfs(handle.graph, 0, -1, parents), SMELT_INVALID_ARGUMENT);
  const double half[] = {0.5};
  const uint64_t start[] = {0}, end[] = {1};
  Handle fraction;
  ASSERT_EQ(smelt_graph_create(2, 1, start, end, half, 0, &fraction.graph), SMELT_OK);
  int32_t distance[5];
  EXPECT_EQ(smelt_graph_sssp(fraction.graph, 0, 0, distance), SMELT_INVALID_ARGUMENT);
  EXPECT_THAT(smelt_last_error(), HasSubstr("'weight' of edge 0 is 0.5"));
  float values[5];
  EXPECT_EQ(smelt_graph_betweenness(handle.graph, nullptr, 1, 0, values), SMELT_INVALID_ARGUMENT);
  uint64_t triangles = 0;
  EXPECT_EQ(smelt_graph_triangles(handle.graph, 0, &triangles), SMELT_INVALID_ARGUMENT);
  EXPECT_THAT(smelt_last_error(), HasSubstr("undirected"));
}

}  // namespace
