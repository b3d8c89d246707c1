// Layouts on machines that are not this one: nodes with PUs and memory, with memory alone, with PUs alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include "memory/array/storage.hpp"
#include "smelt/machine.hpp"

namespace smelt::memory::layout_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::size_t mib = std::size_t{1} << 20;

/// Nodes 0 and 1 with two PUs each, 2 with memory alone, 5 with PUs alone, which is nearest to node 1.
MemoryView several() {
  MemoryView view;
  view.nodes = {{.os_index = 0, .pus = {0, 1}, .distances = {10, 20, 17, 25}, .total_bytes = 512 * mib},
                {.os_index = 1, .pus = {2, 3}, .distances = {20, 10, 28, 14}, .total_bytes = 512 * mib},
                {.os_index = 2, .distances = {17, 28, 10, 40}, .total_bytes = 512 * mib},
                {.os_index = 5, .pus = {4, 5}, .distances = {25, 14, 40, 10}}};
  for (auto& node : view.nodes) {
    node.free_bytes = node.total_bytes / 4;
    node.cached_bytes = node.total_bytes / 4;
  }
  return view;
}

ArrayOptions with(Placement placement) {
  ArrayOptions options;
  options.placement = placement;
  options.pages = PageSize::base;
  return options;
}

Layout planned(const ArrayOptions& options, std::vector<int> ranks = {}, std::size_t count = 1000) {
  const auto layout = plan_layout(count, 8, options, std::move(ranks), several());
  EXPECT_TRUE(layout) << layout.error().message;
  return layout ? *layout : Layout{};
}

TEST(Layout, ArraysAreSpreadOverNodesWithPusAndMemory) {
  for (const auto placement : {Placement::interleaved, Placement::partitioned, Placement::replicated}) {
    const auto layout = planned(with(placement));
    EXPECT_THAT(layout.nodes, ElementsAre(0, 1));
    EXPECT_EQ(layout.copies(), placement == Placement::replicated ? 2u : 1u);
    EXPECT_EQ(layout.size_bytes(), 8000u);
  }
}

TEST(Layout, ThereIsAPartForEachPu) {
  const auto layout = planned(with(Placement::partitioned));
  EXPECT_THAT(layout.cuts, ElementsAre(0, 250, 500, 750));
  EXPECT_THAT(layout.part_nodes, ElementsAre(0, 0, 1, 1));
  auto options = with(Placement::interleaved);
  options.numa_nodes = {2};  // without PUs: one part
  EXPECT_THAT(planned(options).cuts, ElementsAre(0));
  EXPECT_THAT(planned(options).part_nodes, ElementsAre(2));
}

TEST(Layout, NeighbouringPartsAreOnOneNode) {
  auto options = with(Placement::partitioned);
  options.parts = 5;
  EXPECT_THAT(planned(options).cuts, ElementsAre(0, 200, 400, 600, 800));
  EXPECT_THAT(planned(options).part_nodes, ElementsAre(0, 0, 0, 1, 1));
  options.parts = 1;
  EXPECT_THAT(planned(options).part_nodes, ElementsAre(0));
}

TEST(Layout, CutsGoToTheNodesInTurns) {
  auto options = with(Placement::partitioned);
  options.cuts = {0, 10, 10, 1000};
  options.numa_nodes = {1, 2, 1};
  const auto layout = planned(options);
  EXPECT_THAT(layout.nodes, ElementsAre(1, 2));
  EXPECT_THAT(layout.cuts, ElementsAre(0, 10, 10, 1000));
  EXPECT_THAT(layout.part_nodes, ElementsAre(1, 2, 1, 1));
  options.cuts = {0, 1001};
  EXPECT_FALSE(plan_layout(1000, 8, options, {}, several()));
}

TEST(Layout, RanksHaveTheirPartsAtHomeOrAsNearAsCanBe) {
  const auto layout = planned(with(Placement::partitioned), {1, 0, 5, 1});
  EXPECT_THAT(layout.nodes, ElementsAre(1, 0));
  EXPECT_THAT(layout.part_nodes, ElementsAre(1, 0, 1, 1));
  EXPECT_THAT(layout.cuts, ElementsAre(0, 250, 500, 750));
  // As many parts as were asked for: no longer one for each rank.
  auto options = with(Placement::partitioned);
  options.parts = 2;
  EXPECT_THAT(planned(options, {1, 0, 5, 1}).part_nodes, ElementsAre(1, 0));
  // Nodes that are named are the parts' ones, but for the memory of a single node.
  options = with(Placement::partitioned);
  options.numa_nodes = {2};
  EXPECT_THAT(planned(options, {1, 0, 5, 1}).part_nodes, ElementsAre(2, 2, 2, 2));
  options.numa_nodes = {0, 1};
  EXPECT_THAT(planned(options, {1, 0, 5, 1}).part_nodes, ElementsAre(0, 0, 1, 1));
  options.placement = Placement::single_node;
  EXPECT_THAT(planned(options, {1, 0, 5, 1}).part_nodes, ElementsAre(1, 0, 1, 1));
  // Ranks on nodes without memory alone.
  EXPECT_THAT(planned(with(Placement::interleaved), {5, 5}).nodes, ElementsAre(0, 1));
  EXPECT_THAT(planned(with(Placement::partitioned), {5, 5}).part_nodes, ElementsAre(1, 1));
}

TEST(Layout, ASingleNodeIsTheFirstThatIsNamed) {
  auto options = with(Placement::single_node);
  options.numa_nodes = {2, 0};
  EXPECT_THAT(planned(options).nodes, ElementsAre(2));
  options.numa_nodes = {};
  EXPECT_EQ(planned(options).nodes.size(), 1u);
  EXPECT_EQ(planned(options, {1, 1}).nodes.size(), 1u);
}

TEST(Layout, NodesThatCannotBeUsedAreRefusedByName) {
  auto options = with(Placement::interleaved);
  options.name = "table";
  for (const int node : {5, 3, -1}) {
    options.numa_nodes = {0, node};
    const auto layout = plan_layout(10, 8, options, {}, several());
    ASSERT_FALSE(layout);
    EXPECT_EQ(layout.error().status, Status::invalid_argument);
    EXPECT_THAT(layout.error().message, HasSubstr("table: NUMA node " + std::to_string(node)));
  }
  auto view = several();
  for (auto& node : view.nodes) node.allowed = false;
  options.numa_nodes = {};
  const auto layout = plan_layout(10, 8, options, {}, view);
  ASSERT_FALSE(layout);
  EXPECT_EQ(layout.error().status, Status::not_found);
}

TEST(Layout, SizesHaveLimits) {
  const auto options = with(Placement::interleaved);
  const auto refused = [&](std::size_t count, std::size_t bytes) {
    return !plan_layout(count, bytes, options, {}, several());
  };
  EXPECT_TRUE(refused(0, 8));
  EXPECT_TRUE(refused(8, 0));
  EXPECT_FALSE(refused(std::size_t{1} << 43, 8));
  EXPECT_TRUE(refused((std::size_t{1} << 43) + 1, 8));
}

TEST(Layout, BestIsAPlacementThatWritesCannotGetLostIn) {
  auto options = with(Placement::best);
  options.hints = {.access = AccessPattern::random, .reads_per_element = 1000, .phases = 1000};
  const auto layout = planned(options);
  EXPECT_NE(layout.placement, Placement::best);
  EXPECT_FALSE(layout.has_replicas());
  options.numa_nodes = {1};
  EXPECT_EQ(planned(options).placement, Placement::single_node);
}

TEST(Layout, RunsAreWherePagesAreToBe) {
  const auto runs_of = [](Placement placement, std::size_t copy, std::size_t count) {
    auto options = with(placement);
    options.parts = 2;
    return planned(options, {}, count).runs_of(copy);
  };
  EXPECT_THAT(runs_of(Placement::interleaved, 0, 1024), IsEmpty());
  EXPECT_THAT(runs_of(Placement::first_touch, 0, 1024), IsEmpty());
  EXPECT_THAT(runs_of(Placement::partitioned, 0, 1024), ElementsAre(PageRun{0, 4096, 0}, PageRun{4096, 8192, 1}));
  EXPECT_THAT(runs_of(Placement::replicated, 0, 1000), ElementsAre(PageRun{0, 8000, 0}));
  EXPECT_THAT(runs_of(Placement::replicated, 1, 1000), ElementsAre(PageRun{0, 8000, 1}));
  EXPECT_THAT(runs_of(Placement::writable_replicas, 1, 1000), ElementsAre(PageRun{0, 8000, 1}));
  auto options = with(Placement::single_node);
  options.numa_nodes = {2};
  EXPECT_THAT(planned(options).runs_of(0), ElementsAre(PageRun{0, 8000, 2}));
}

TEST(Layout, HugePagesWhereEachNodeGetsSome) {
  const auto huge = read_page_support().transparent_bytes;
  if (huge == 0) GTEST_SKIP() << "no transparent huge pages here";
  const auto kind = [&](Placement placement, std::size_t bytes) {
    auto options = with(placement);
    options.pages = PageSize::best;
    options.numa_nodes = {0, 1, 2};
    return planned(options, {}, bytes / 8).pages.kind;
  };
  EXPECT_EQ(kind(Placement::interleaved, 3 * least_huge_pages_per_node * huge), PageKind::transparent);
  EXPECT_EQ(kind(Placement::interleaved, 3 * least_huge_pages_per_node * huge - 8), PageKind::base);
  EXPECT_EQ(kind(Placement::partitioned, 3 * least_huge_pages_per_node * huge - 8), PageKind::base);
  for (const auto placement : {Placement::single_node, Placement::replicated}) {
    EXPECT_EQ(kind(placement, least_huge_pages_per_node * huge), PageKind::transparent);
    EXPECT_EQ(kind(placement, least_huge_pages_per_node * huge - 8), PageKind::base);
  }
}

// ---- room ------------------------------------------------------------------------------------

/// Whether there is room for so many bytes. Each node with memory has 256 MiB available.
bool fits(Placement placement, std::size_t bytes, bool strict, std::uint64_t limit = UINT64_MAX,
          std::vector<int> nodes = {}) {
  auto options = with(placement);
  options.strict = strict;
  options.numa_nodes = std::move(nodes);
  auto view = several();
  view.limit_bytes = limit;
  const auto layout = plan_layout(bytes, 1, options, {}, view);
  EXPECT_TRUE(layout) << layout.error().message;
  const auto room = check_room(*layout, view);
  EXPECT_TRUE(room || room.error().status == Status::out_of_memory);
  return bool{room};
}

TEST(Room, WhatAllNodesHaveIsTheLimitOfWishes) {
  EXPECT_TRUE(fits(Placement::interleaved, 768 * mib, false));
  EXPECT_FALSE(fits(Placement::interleaved, 768 * mib + 1, false));
  EXPECT_TRUE(fits(Placement::replicated, 384 * mib, false));
  EXPECT_FALSE(fits(Placement::replicated, 384 * mib + 1, false));
  EXPECT_TRUE(fits(Placement::first_touch, 2000 * mib, false));
}

TEST(Room, TheCgroupsLimitCountsAllCopies) {
  EXPECT_TRUE(fits(Placement::interleaved, 100 * mib, false, 100 * mib));
  EXPECT_FALSE(fits(Placement::interleaved, 100 * mib + 1, false, 100 * mib));
  EXPECT_TRUE(fits(Placement::replicated, 50 * mib, false, 100 * mib));
  EXPECT_FALSE(fits(Placement::replicated, 50 * mib + 1, false, 100 * mib));
  EXPECT_TRUE(fits(Placement::first_touch, 2000 * mib, false, 100 * mib));
}

TEST(Room, StrictArraysLeaveSomeOfEachNodeToOthers) {
  constexpr std::size_t most = 240 * mib;  // of 256
  EXPECT_TRUE(fits(Placement::single_node, most, true, UINT64_MAX, {1}));
  EXPECT_FALSE(fits(Placement::single_node, most + 1, true, UINT64_MAX, {1}));
  EXPECT_TRUE(fits(Placement::interleaved, 2 * most, true));
  EXPECT_FALSE(fits(Placement::interleaved, 2 * most + 2, true));
  EXPECT_TRUE(fits(Placement::replicated, most, true));
  EXPECT_FALSE(fits(Placement::replicated, most + 1, true));
  EXPECT_TRUE(fits(Placement::partitioned, 2 * most, true));
  EXPECT_FALSE(fits(Placement::partitioned, 2 * most + 2 * 4096, true));
}

TEST(Room, OnOneNodeStrictIsNoMoreThanAWish) {
  MemoryView view;
  view.nodes = {{.pus = {0}, .distances = {10}, .total_bytes = 512 * mib, .free_bytes = 256 * mib}};
  auto options = with(Placement::single_node);
  options.strict = true;
  const auto layout = plan_layout(256 * mib, 1, options, {}, view);
  ASSERT_TRUE(layout);
  EXPECT_TRUE(check_room(*layout, view));
}

// ---- policies and copies ---------------------------------------------------------------------

TEST(Policies, WhatTheKernelRefusesIsANoteOnceOrAnError) {
  auto pages = PageMapping::map(2 * 4096, PageKind::base, 4096);
  ASSERT_TRUE(pages);
  Layout layout{.count = 2 * 4096, .element_bytes = 1, .placement = Placement::partitioned, .name = "parts"};
  layout.pages.bytes = 4096;
  layout.nodes = {900, 901};
  Copy copy{.data = pages->data(), .runs = {{0, 4096, 900}, {4096, 8192, 901}}};
  for (int time = 0; time < 2; ++time) {
    EXPECT_TRUE(apply_policy(layout, copy, false));
    ASSERT_EQ(layout.notes.size(), 1u);
    EXPECT_THAT(layout.notes.front(), HasSubstr("placed by the threads that touch it first"));
  }
  layout.strict = true;
  const auto refused = apply_policy(layout, copy, false);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("parts: "));
  layout.placement = Placement::interleaved;
  copy.runs = {};
  EXPECT_FALSE(apply_policy(layout, copy, false));
  EXPECT_EQ(layout.notes.size(), 1u);
}

TEST(Policies, PagesThatDoNotTakeTurnsAreAnError) {
  const auto view = read_memory_view();
  if (view.nodes.size() > 1) GTEST_SKIP() << "for machines with one NUMA node";
  const int here = view.nodes.front().os_index;
  auto pages = PageMapping::map(4 * 4096, PageKind::base, 4096);
  ASSERT_TRUE(pages);
  std::fill_n(pages->data(), 4 * 4096, std::byte{1});
  Layout layout{.count = 4 * 4096, .element_bytes = 1, .placement = Placement::interleaved, .name = "turns"};
  layout.pages.bytes = 4096;
  const Copy copy{.data = pages->data()};
  layout.nodes = {here};
  EXPECT_TRUE(check_pages(layout, copy));
  layout.nodes = {here, here + 1};
  const auto checked = check_pages(layout, copy);
  ASSERT_FALSE(checked);
  EXPECT_THAT(checked.error().message, HasSubstr("holds 4 of 4 pages"));
  layout.count = 4096;  // one page: it may be on either
  EXPECT_TRUE(check_pages(layout, copy));
}

TEST(Policies, EveryNodeHasItsShareOfPagesThatTakeTurns) {
  const std::vector<int> nodes = {4, 7, 9};
  const auto without = [&](std::vector<int> pages) { return node_without_its_share(nodes, pages); };
  EXPECT_EQ(without({4, 7, 9, 4, 7, 9}), std::nullopt);
  EXPECT_EQ(without({4, 7, 9, 4, 7}), std::nullopt);
  EXPECT_EQ(without({9}), std::nullopt);
  EXPECT_EQ(without({4, 7, 9, 4, 9, 9}), 7);
  EXPECT_EQ(without({4, 4, 4, 4, 7, 9}), 4) << "more than its share";
  EXPECT_EQ(without({4, 7, 4, 7, 4, 7, 7}), 7);
  EXPECT_EQ(without({4, 7, 3, 4, 7, 3}), 9) << "the last one, as its pages lie elsewhere";
}

TEST(Copies, TheNearestIsByTheFirmwaresDistances) {
  const std::vector<int> all = nearest_copies(several(), {0, 1});
  EXPECT_THAT(all, ElementsAre(0, 1, 0, 0, 0, 1));  // nodes 3 and 4 are not there
  EXPECT_THAT(nearest_copies(several(), {2, 1, 0}), ElementsAre(2, 1, 0, 0, 0, 1));
  auto unknown = several();
  for (auto& node : unknown.nodes) node.distances.clear();
  EXPECT_THAT(nearest_copies(unknown, {1, 2}), ElementsAre(0, 0, 1, 0, 0, 0));
}

TEST(Copies, ReplicasPerCacheAreOnTheCachesNodes) {
  SynthSpec spec;
  spec.packages = 2;
  spec.cores = 4;
  spec.l3 = 2;
  const auto machine = synthesize_machine(spec);
  ASSERT_TRUE(machine);
  auto view = several();
  view.nodes = {{.os_index = 0, .pus = {0, 1, 2, 3}, .distances = {10, 20}, .total_bytes = mib},
                {.os_index = 4, .pus = {4, 5, 6, 7}, .distances = {20, 10}, .total_bytes = mib}};
  Layout layout{.count = 10, .element_bytes = 1, .placement = Placement::replicated};
  layout.nodes = {0, 4};
  replicate_by_cache(layout, *machine, {0, 1, 2, 3, 4, 5, 6, 7}, view);
  EXPECT_THAT(layout.nodes_of_copies(), ElementsAre(0, 0, 4, 4));
  EXPECT_THAT(layout.copy_of_pu, ElementsAre(0, 0, 1, 1, 2, 2, 3, 3));
  EXPECT_EQ(layout.copies(), 4u);
  EXPECT_THAT(layout.runs_of(2), ElementsAre(PageRun{0, 10, 4}));
  // Only PUs of the group have a cache of theirs, and nodes that take part keep a copy.
  replicate_by_cache(layout, *machine, {2, 1}, view);
  EXPECT_THAT(layout.nodes_of_copies(), ElementsAre(0, 0, 4));
  EXPECT_THAT(layout.copy_of_pu, ElementsAre(-1, 1, 0));
  // Caches of nodes that take no part get none.
  layout.nodes = {4};
  replicate_by_cache(layout, *machine, {0, 5, 7}, view);
  EXPECT_THAT(layout.nodes_of_copies(), ElementsAre(4, 4));
  EXPECT_THAT(layout.copy_of_pu, ElementsAre(-1, -1, -1, -1, -1, 0, -1, 1));
}

TEST(Copies, AThreadUsesThatOfItsCache) {
  Storage storage;
  storage.copy_of_node = {3, 3};
  EXPECT_EQ(storage.near_here(), storage.near(current_numa_node()));
  const int pu = sched_getcpu();
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  CPU_SET(pu, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  storage.layout.copy_of_pu.assign(static_cast<std::size_t>(pu) + 1, 7);
  EXPECT_EQ(storage.near_here(), 7);
  storage.near_index = 0;  // the process has one of its own
  EXPECT_EQ(storage.near_here(), 0);
  storage.near_index = -1;
  storage.layout.copy_of_pu.back() = -1;
  EXPECT_EQ(storage.near_here(), storage.near(current_numa_node()));
  storage.layout.copy_of_pu.pop_back();
  EXPECT_EQ(storage.near_here(), storage.near(current_numa_node()));
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

}  // namespace
}  // namespace smelt::memory::layout_test
