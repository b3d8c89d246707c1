#include "memory/pages/clusters.hpp"

#include <gtest/gtest.h>

namespace smelt::memory {
namespace {

TEST(CacheClusters, OnePerCacheInTheOrderOfThePus) {
  SynthSpec spec;
  spec.cores = 4;
  spec.l3 = 2;
  const auto machine = synthesize_machine(spec);
  ASSERT_TRUE(machine);
  const MemoryView view{.nodes = {{.os_index = 5, .pus = {0, 1, 2, 3}, .total_bytes = 1}}};
  const std::vector<int> all = {0, 1, 2, 3}, some = {3, 2, 0};
  EXPECT_EQ(cache_clusters(*machine, all, view), (std::vector<CacheCluster>{{5, {0, 1}}, {5, {2, 3}}}));
  EXPECT_EQ(cache_clusters(*machine, some, view), (std::vector<CacheCluster>{{5, {3, 2}}, {5, {0}}}));
  EXPECT_TRUE(cache_clusters(*machine, {}, view).empty());
}

TEST(CacheClusters, ACacheOfTwoNodesIsAClusterOnEach) {
  SynthSpec spec;
  spec.cores = 4;
  const auto machine = synthesize_machine(spec);
  ASSERT_TRUE(machine);
  const MemoryView view{
      .nodes = {{.os_index = 0, .pus = {0, 1}, .total_bytes = 1}, {.os_index = 1, .pus = {2, 3}, .total_bytes = 1}}};
  const std::vector<int> all = {0, 2, 1, 3};
  EXPECT_EQ(cache_clusters(*machine, all, view), (std::vector<CacheCluster>{{0, {0, 1}}, {1, {2, 3}}}));
}

}  // namespace
}  // namespace smelt::memory
