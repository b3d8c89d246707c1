#include "memory/copies/copies.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <random>
#include <thread>

#include "machine/topology/affinity.hpp"
#include "memory/copies/thread_nodes.hpp"

namespace smelt::memory::copies_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::size_t mib = std::size_t{1} << 20;

/// The PUs that this process may use, on node 3; nodes 1 and 2 without any, node 2 nearer.
MemoryView this_machine() {
  MemoryView view;
  view.nodes = {{.os_index = 1, .distances = {10, 12, 20, 15}, .total_bytes = 1},
                {.os_index = 2, .distances = {12, 10, 15, 20}, .total_bytes = 1},
                {.os_index = 3, .pus = *this_thread_affinity(), .distances = {20, 15, 10, 30}, .total_bytes = 1},
                {.os_index = 4, .pus = {3000}, .distances = {15, 20, 30, 10}, .total_bytes = 1}};
  return view;
}

TEST(Workers, AreThePusOfTheNodeOrTheNearestWithSome) {
  const auto view = this_machine();
  const auto own = view.nodes[2].pus;
  EXPECT_EQ(workers_of(view, 3), own);
  EXPECT_EQ(workers_of(view, 1), own);
  EXPECT_EQ(workers_of(view, 4), own);  // its only PU is not this process's
  EXPECT_THAT(workers_of(view, 9), IsEmpty());
  if (own.size() < 2) return;
  auto two = view;
  two.nodes[2].pus = {own[0]};
  two.nodes[3].pus = {own[1]};
  EXPECT_THAT(workers_of(two, 1), ElementsAre(own[1]));  // 15 away, not 20
  EXPECT_THAT(workers_of(two, 2), ElementsAre(own[0]));
  two.nodes[0].distances.clear();
  EXPECT_THAT(workers_of(two, 1), ElementsAre(own[0]));  // unknown: the first one
}

TEST(Workers, ThreadNodesAreThoseWithPusAndMemory) {
  const auto view = read_memory_view();
  const auto nodes = thread_nodes();
  ASSERT_EQ(nodes.size(), view.home_nodes().size());
  for (std::size_t i = 0; i < nodes.size(); ++i) EXPECT_EQ(nodes[i].os_index, view.home_nodes()[i]);
}

TEST(Pieces, TileTheRunsInWholeElements) {
  const auto view = this_machine();
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    const std::size_t element = random() % 24 + 1, unit = std::size_t{64} << random() % 7;
    std::vector<PageRun> runs;
    std::size_t end = 0;
    for (int i = 0; i < 4; ++i) {
      const std::size_t begin = end;
      end += (random() % 3000 + 1) * 4096;
      runs.push_back({begin, end, static_cast<int>(random() % 4) + 1});
    }
    runs.back().last_byte = end = end / element * element;
    const auto pieces = pieces_of(runs, view, element, unit);
    std::size_t at = 0, workers = std::max<std::size_t>(1, view.nodes[2].pus.size());
    for (const auto& piece : pieces) {
      ASSERT_EQ(piece.first_byte, at);
      ASSERT_GT(piece.last_byte, piece.first_byte);
      ASSERT_EQ(piece.first_byte % element, 0u);
      at = piece.last_byte;
      const auto run = std::find_if(runs.begin(), runs.end(), [&](const PageRun& each) {
        return piece.first_byte < (each.last_byte + element - 1) / element * element;
      });
      ASSERT_EQ(piece.node, run->node);
      const std::size_t size = run->last_byte - run->first_byte, most = std::max(mib, size / (4 * workers) + element);
      ASSERT_LE(piece.last_byte - piece.first_byte, most + 2 * std::lcm(element, unit));
      const bool to_the_end = piece.last_byte == (run->last_byte + element - 1) / element * element;
      ASSERT_TRUE(to_the_end || piece.last_byte % std::lcm(element, unit) == 0);
    }
    ASSERT_EQ(at, end);
  }
}

TEST(Pieces, AreNotSmallerThanIsWorthAThread) {
  const auto view = this_machine();
  const PageRun run{0, 3 * mib, 3};
  const auto pieces = pieces_of({&run, 1}, view, 1, 64);
  ASSERT_EQ(pieces.size(), 3u);
  EXPECT_EQ(pieces.front().last_byte, mib);
  const PageRun large{0, 1024 * mib, 3};
  EXPECT_EQ(pieces_of({&large, 1}, view, 8, 64).size(), 4 * std::max<std::size_t>(1, view.nodes[2].pus.size()));
  // Elements and pages that have no common multiple in reach: whole elements alone.
  const PageRun odd{0, 7919 * 1024, 3};
  for (const auto& piece : pieces_of({&odd, 1}, view, 7919, 8192)) EXPECT_EQ(piece.first_byte % 7919, 0u);
  EXPECT_EQ(pieces_of({&odd, 1}, view, 7919, 8192).size(), 8u);
}

TEST(NodeWorkers, RunEveryTaskOnceOnItsNode) {
  const auto view = read_memory_view();
  const int node = view.home_nodes().front();
  const auto before = *this_thread_affinity();
  for (const int count : {0, 1, 2, 50}) {
    std::vector<std::atomic<int>> runs(static_cast<std::size_t>(count));
    std::vector<NodeTask> tasks;
    std::atomic<int> elsewhere{0};
    for (auto& run : runs) {
      tasks.push_back({node, [&run, &elsewhere, &view, node] {
                         ++run;
                         elsewhere += current_numa_node() != node;
                         (void)view;
                       }});
    }
    NodeWorkers workers(view, std::move(tasks));
    workers.wait();
    EXPECT_TRUE(workers.done());
    workers.wait();
    for (const auto& run : runs) EXPECT_EQ(run, 1);
    EXPECT_EQ(elsewhere, 0);
  }
  EXPECT_EQ(*this_thread_affinity(), before);
}

TEST(NodeWorkers, AreNotDoneBeforeTheLastTask) {
  const auto view = read_memory_view();
  std::atomic<bool> go{false};
  std::vector<NodeTask> tasks;
  for (int i = 0; i < 3; ++i) {
    tasks.push_back({view.home_nodes().front(), [&go] {
                       while (!go) std::this_thread::yield();
                     }});
  }
  NodeWorkers workers(view, std::move(tasks));
  EXPECT_FALSE(workers.done());
  go = true;
  workers.wait();
  EXPECT_TRUE(workers.done());
}

TEST(NodeWorkers, TheCallerRunsASingleTask) {
  const auto view = read_memory_view();
  std::thread::id by{};
  run_tasks(view, {{0, [&by] { by = std::this_thread::get_id(); }}});
  EXPECT_EQ(by, std::this_thread::get_id());
  std::atomic<int> others{0};
  const auto other = [&others] { others += 1; };
  run_tasks(view, {{0, other}, {0, other}, {1, other}});
  EXPECT_EQ(others, 3);
}

}  // namespace
}  // namespace smelt::memory::copies_test
