// The cost function against its formula (docs/reference/memory-model.md), written down once more, plainly; and the
// choice against all there is to choose from.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "memory/choice/costs.hpp"
#include "memory/choice/published.hpp"
#include "smelt/placement.hpp"

namespace smelt {
namespace {

using testing::ElementsAre;

constexpr std::uint64_t pages[] = {4096, 2 << 20, 1 << 30};
constexpr Placement placements[] = {Placement::first_touch, Placement::single_node, Placement::interleaved,
                                    Placement::partitioned, Placement::replicated,  Placement::writable_replicas};

class Drawn {
 public:
  explicit Drawn(unsigned seed) : random_(seed) {}
  double between(double low, double high) { return std::uniform_real_distribution<>(low, high)(random_); }
  int below(int limit) { return static_cast<int>(random_() % static_cast<unsigned>(limit)); }

  /// All nodes have PUs and memory, or the last one has no PUs, or no memory.
  Machine machine() {
    memory::Published published{.nodes = below(4) + 1, .cores = below(4) + 1, .nodes_per_package = 1};
    Machine made = memory::published_machine(published);
    const auto nodes = made.numa_nodes.size();
    if (nodes > 1 && below(3) == 0) {
      made.numa_nodes.back().memory_bytes = 0;
    } else if (below(3) == 0) {
      made.numa_nodes.push_back({static_cast<int>(nodes), 32ull << 30});
    }
    auto& costs = *made.memory;
    for (const auto matrix : {&MemoryCosts::latency_ns, &MemoryCosts::gather_ns, &MemoryCosts::read_gbs,
                              &MemoryCosts::write_gbs, &MemoryCosts::read_all_gbs, &MemoryCosts::write_all_gbs}) {
      costs.*matrix = Matrix(made.numa_nodes.size());
      for (std::size_t a = 0; a < made.numa_nodes.size(); ++a) {
        for (std::size_t m = 0; m < made.numa_nodes.size(); ++m) (costs.*matrix)(a, m) = between(1, 50);
      }
    }
    for (auto& reach : costs.reach_bytes) reach = between(0, 1e8);
    return made;
  }

  ArrayUse use() {
    ArrayUse drawn{.name = "x",
                   .size_bytes = static_cast<std::uint64_t>(between(1, 1e10)),
                   .sequential_bytes = between(0, 1e10),
                   .random_accesses = between(0, 1e9),
                   .loop_index = below(2) == 0,
                   .read_only = below(2) == 0,
                   .phases = between(0, 20)};
    drawn.written_bytes = drawn.read_only ? 0 : between(0, 1e9);
    if (below(4) == 0) drawn.size_bytes = static_cast<std::uint64_t>(below(5) + 1) * 4096;
    return drawn;
  }

 private:
  std::mt19937 random_;
};

/// w(a, m): the share of a's accesses that m serves.
double share(const std::vector<std::size_t>& homes, const ArrayUse& use, const PlacementCandidate& placed,
             std::size_t a, std::size_t m, std::size_t home) {
  const auto at = std::find(homes.begin(), homes.end(), m);
  const std::size_t near = std::find(homes.begin(), homes.end(), a) != homes.end() ? a : homes.front();
  if (placed.placement == Placement::single_node) return m == home;
  if (placed.placement == Placement::replicated || placed.placement == Placement::writable_replicas) return m == near;
  if (at == homes.end()) return 0;
  const std::uint64_t all = std::max<std::uint64_t>(1, (use.size_bytes + placed.page_bytes - 1) / placed.page_bytes);
  const std::size_t n = homes.size();
  if (placed.placement != Placement::interleaved && use.loop_index && all >= n) {
    const double shared = static_cast<double>(n) / static_cast<double>(all);
    return (m == near ? 1 - shared : 0) + shared / static_cast<double>(n);
  }
  // Page k is on the node k modulo n.
  const auto index = static_cast<std::uint64_t>(at - homes.begin());
  return static_cast<double>(all / n + (all % n > index)) / static_cast<double>(all);
}

double reference_ns(const Machine& machine, const std::vector<ArrayUse>& arrays,
                    const std::vector<PlacementCandidate>& placed, int threads, std::size_t home) {
  const auto costs = memory_costs(machine);
  const auto homes = memory::homes_of(machine);
  const auto on = memory::threads_per_node(machine, threads);
  const double all = std::accumulate(on.begin(), on.end(), 0);
  const std::size_t nodes = on.size();
  double link = INFINITY;
  for (const auto a : homes) {
    for (const auto m : homes) {
      if (a != m) link = std::min(link, costs.read_all_gbs(a, m));
    }
  }
  std::vector<double> thread(nodes), served(nodes), into(nodes), out(nodes);
  double copies = 0;
  for (std::size_t x = 0; x < arrays.size(); ++x) {
    const auto& use = arrays[x];
    const auto page = std::find(std::begin(pages), std::end(pages), placed[x].page_bytes) - std::begin(pages);
    const auto k = static_cast<std::size_t>(page);
    const double walk =
        costs.gather_walk_ns[k] * std::max(0.0, 1 - costs.reach_bytes[k] / static_cast<double>(use.size_bytes));
    for (std::size_t a = 0; a < nodes; ++a) {
      for (std::size_t m = 0; m < nodes; ++m) {
        const double w = share(homes, use, placed[x], a, m, home);
        if (on[a] > 0) {
          thread[a] +=
              w / all *
              (use.sequential_bytes / costs.read_gbs(a, m) + use.random_accesses * (costs.gather_ns(a, m) + walk));
        }
        const double bytes = w * on[a] / all * (use.sequential_bytes + 64 * use.random_accesses);
        served[m] += bytes;
        into[a] += a == m ? 0 : bytes;
        out[m] += a == m ? 0 : bytes;
      }
    }
    const bool has_copies =
        placed[x].placement == Placement::replicated || placed[x].placement == Placement::writable_replicas;
    if (!has_copies || homes.size() == 1) continue;
    copies += use.written_bytes * static_cast<double>(homes.size() - 1) / link +
              static_cast<double>(use.size_bytes) / link / std::max(1.0, use.phases);
  }
  double slowest = 0;
  for (std::size_t m = 0; m < nodes; ++m) {
    slowest = std::max({slowest, thread[m], served[m] / costs.read_all_gbs(m, m), into[m] / link, out[m] / link});
  }
  return slowest + copies;
}

TEST(Phase, IsTheFormula) {
  Drawn drawn(1);
  for (int round = 0; round < 3000; ++round) {
    const Machine machine = drawn.machine();
    std::vector<ArrayUse> arrays;
    std::vector<PlacementCandidate> placed;
    for (int x = drawn.below(3); x >= 0; --x) {
      arrays.push_back(drawn.use());
      placed.push_back({placements[drawn.below(6)], pages[drawn.below(3)]});
    }
    const auto homes = memory::homes_of(machine);
    const auto home = homes[static_cast<std::size_t>(drawn.below(static_cast<int>(homes.size())))];
    const int threads = drawn.below(20);
    const double expected = reference_ns(machine, arrays, placed, threads, home);
    ASSERT_NEAR(phase_ns(machine, arrays, placed, threads, static_cast<int>(home)), expected, 1e-9 * expected) << round;
  }
}

TEST(Phase, ThreadsAreDealtToCoresInOrder) {
  Machine machine = memory::published_machine({.nodes = 3, .cores = 2, .nodes_per_package = 1});
  EXPECT_THAT(memory::threads_per_node(machine, 0), ElementsAre(2, 2, 2));
  EXPECT_THAT(memory::threads_per_node(machine, 1), ElementsAre(1, 0, 0));
  EXPECT_THAT(memory::threads_per_node(machine, 3), ElementsAre(2, 1, 0));
  EXPECT_THAT(memory::threads_per_node(machine, 9), ElementsAre(4, 3, 2));
  machine.pus[1].core = 0;  // SMT: two PUs, one core
  EXPECT_THAT(memory::threads_per_node(machine, 0), ElementsAre(1, 2, 2));
  EXPECT_THAT(memory::threads_per_node(Machine{}, 4), ElementsAre(0));
  EXPECT_EQ(memory::node_count(Machine{}), 1u);
  machine.numa_nodes.clear();
  EXPECT_EQ(memory::node_count(machine), 3u);
  EXPECT_THAT(memory::homes_of(machine), ElementsAre(0, 1, 2));
  EXPECT_THAT(memory::homes_of(Machine{}), ElementsAre(0));
}

TEST(Phase, WhatWasNotMeasuredIsEstimated) {
  Machine machine = memory::published_machine({.nodes = 4, .cores = 1, .nodes_per_package = 2});
  const auto measured = *machine.memory;
  machine.memory.reset();
  const auto estimated = memory_costs(machine);
  // Near, in the package, beyond it.
  EXPECT_LT(estimated.latency_ns(0, 0), estimated.latency_ns(0, 1));
  EXPECT_LT(estimated.latency_ns(0, 1), estimated.latency_ns(0, 2));
  EXPECT_EQ(estimated.latency_ns(3, 2), estimated.latency_ns(0, 1));
  for (std::size_t m = 0; m < 4; ++m) {
    const double ratio = estimated.latency_ns(0, m) / estimated.latency_ns(0, 0);
    EXPECT_NEAR(estimated.gather_ns(0, m) / estimated.gather_ns(0, 0), ratio, 1e-12);
    EXPECT_NEAR(estimated.read_gbs(0, 0) / estimated.read_gbs(0, m), ratio, 1e-12);
    EXPECT_EQ(estimated.write_gbs(0, m), estimated.read_gbs(0, m));
    EXPECT_EQ(estimated.write_all_gbs(0, m), estimated.read_all_gbs(0, m));
  }
  EXPECT_GT(estimated.read_all_gbs(1, 1), estimated.read_all_gbs(1, 0));
  for (const auto list : {&MemoryCosts::walk_ns, &MemoryCosts::gather_walk_ns, &MemoryCosts::touch_ns_per_mib}) {
    ASSERT_EQ((estimated.*list).size(), estimated.page_bytes.size());
    EXPECT_TRUE(std::is_sorted((estimated.*list).rbegin(), (estimated.*list).rend()));
  }
  EXPECT_THAT(estimated.page_bytes, ElementsAre(pages[0], pages[1], pages[2]));
  // The figures that stand in: of a usual server with two nodes in a package.
  for (std::size_t m = 0; m < 3; ++m) {
    const double latency_ns = std::vector<double>{95, 120, 150}[m];
    EXPECT_DOUBLE_EQ(estimated.latency_ns(0, m), latency_ns);
    EXPECT_DOUBLE_EQ(estimated.gather_ns(0, m), latency_ns / 10);
    EXPECT_DOUBLE_EQ(estimated.read_gbs(0, m), 12 * 95 / latency_ns);
    EXPECT_DOUBLE_EQ(estimated.read_all_gbs(0, m), m == 0 ? 60 : 24);
  }
  EXPECT_DOUBLE_EQ(estimated.interleaved_gbs, 96);
  EXPECT_THAT(estimated.walk_ns, ElementsAre(30, 8, 2));
  EXPECT_THAT(estimated.gather_walk_ns, ElementsAre(6, 1.5, 0.4));
  EXPECT_THAT(estimated.reach_bytes, ElementsAre(1536.0 * 4096, 1536.0 * (2 << 20), 16.0 * (1 << 30)));
  EXPECT_THAT(estimated.touch_ns_per_mib, ElementsAre(150e3, 60e3, 50e3));
  for (const double gbs : {estimated.copy_memcpy_gbs, estimated.copy_nontemporal_gbs, estimated.copy_string_gbs}) {
    EXPECT_DOUBLE_EQ(gbs, 6);
  }
  EXPECT_DOUBLE_EQ(estimated.copy_threads_gbs, 20);
  // A node of memory alone is in nobody's package.
  machine.numa_nodes.push_back({4, 1});
  EXPECT_EQ(memory_costs(machine).latency_ns(0, 4), estimated.latency_ns(0, 2));
  machine.numa_nodes.push_back({5, 1});
  EXPECT_EQ(memory_costs(machine).latency_ns(5, 4), estimated.latency_ns(0, 2));
  machine.numa_nodes.resize(4);
  // Some pairs.
  machine.memory = measured;
  for (const auto matrix : {&MemoryCosts::read_all_gbs, &MemoryCosts::write_all_gbs})
    (machine.memory.value().*matrix)(2, 3) = 0;
  machine.memory->latency_ns(3, 1) = 0;
  const auto filled = memory_costs(machine);
  EXPECT_EQ(filled.read_all_gbs(2, 3), estimated.read_all_gbs(2, 3));
  EXPECT_EQ(filled.write_all_gbs(2, 3), estimated.write_all_gbs(2, 3));
  EXPECT_EQ(filled.latency_ns(3, 1), estimated.latency_ns(3, 1));
  EXPECT_EQ(filled.read_all_gbs(3, 3), measured.read_all_gbs(3, 3));
  EXPECT_EQ(filled.gather_walk_ns, measured.gather_walk_ns);
  // Of another number of nodes: nothing.
  machine.numa_nodes.pop_back();
  machine.pus.pop_back();
  EXPECT_EQ(memory_costs(machine).touch_ns_per_mib, estimated.touch_ns_per_mib);
}

/// Milliseconds of a phase of each program of the thesis, all arrays placed alike, on both of its machines; and what
/// its configurations gain. Whoever changes these figures changes the tables of the documents.
TEST(Phase, TheModelledProgramsAreAsPublished) {
  auto programs = memory::graph_programs();
  programs.push_back({"streamcluster", memory::streamcluster(), {}});
  std::vector<double> found;
  for (const Machine& machine : {memory::thesis_machine(8), memory::sandy_bridge()}) {
    for (const auto& program : programs) {
      for (const auto placement : placements) {
        const std::vector<PlacementCandidate> placed(program.arrays.size(), {placement, memory::kib4});
        found.push_back(phase_ns(machine, program.arrays, placed, 32) * 1e-6);
      }
      for (const auto each : {memory::Configuration::distributed, memory::Configuration::replicated,
                              memory::Configuration::partitioned, memory::Configuration::large_pages}) {
        found.push_back(memory::gain_over_stock(machine, program, each, 32));
      }
    }
  }
  const std::vector<double> expected = {
      11889.3, 96261.2, 12032.8, 11889.3, 13433.6, 13433.6, 1.08348, 1.26783, 1.27237, 1.6763,  413.697, 4062.37,
      507.85,  413.697, 5639.9,  5639.9,  3.51863, 6.59856, 7.24219, 7.1674,  914.646, 7051.8,  914.646, 914.646,
      741.867, 741.867, 1,       1.2329,  1.2329,  1.79698, 2.24,    17.92,   2.24,    2.24,    1.08715, 1.08715,
      1,       2.06044, 2.06044, 2.06044, 10615.4, 42973.8, 10743.5, 10615.4, 6776.36, 6776.36, 1.03578, 1.59684,
      1.59987, 1.69898, 369.336, 1813.56, 453.406, 369.336, 1399.12, 1399.12, 2.0795,  4.43748, 4.84243, 4.83116,
      787.107, 3148.12, 787.107, 787.107, 469.261, 469.261, 1,       1.67733, 1.67733, 2.34355, 2,       8,
      2,       2,       0.864,   0.864,   1,       2.31481, 2.31481, 2.31481};
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5 * expected[i]) << i;
}

// ---- the choice ------------------------------------------------------------------------------

bool with_copies(const PlacementCandidate& each) { return each.placement == Placement::replicated; }

TEST(Choice, NoSingleChangeWouldHelp) {
  Drawn drawn(2);
  for (int round = 0; round < 400; ++round) {
    SCOPED_TRACE(round);
    Machine machine = drawn.machine();
    for (auto& node : machine.numa_nodes) {
      if (node.memory_bytes > 0) node.memory_bytes = 20ull << 30;
    }
    const PlacementOptions options{.threads = drawn.below(9), .reserve = 0.1 * drawn.below(5)};
    std::vector<ArrayUse> arrays;
    for (int x = drawn.below(3); x >= 0; --x) {
      arrays.push_back(drawn.use());
      arrays.back().name = std::string(1, static_cast<char>('a' + x));
    }
    const auto plan = choose_placements(machine, arrays, options);
    ASSERT_TRUE(plan);
    ASSERT_EQ(plan->arrays.size(), arrays.size());
    const auto homes = memory::homes_of(machine);
    std::vector<PlacementCandidate> chosen;
    double total = 0, replicated = 0;
    for (std::size_t x = 0; x < arrays.size(); ++x) {
      const auto& each = plan->arrays[x];
      chosen.push_back(each.chosen);
      EXPECT_EQ(each.name, arrays[x].name);
      EXPECT_EQ(each.chosen.phase_ns, plan->phase_ns);
      EXPECT_EQ(each.chosen.total_bytes, arrays[x].size_bytes * (with_copies(each.chosen) ? homes.size() : 1));
      EXPECT_TRUE(std::is_sorted(each.others.begin(), each.others.end(),
                                 [](const auto& a, const auto& b) { return a.phase_ns < b.phase_ns; }));
      total += static_cast<double>(arrays[x].size_bytes);
      replicated += with_copies(each.chosen) ? static_cast<double>(arrays[x].size_bytes) : 0;
    }
    const int home = static_cast<int>(homes.front());
    EXPECT_DOUBLE_EQ(plan->phase_ns, phase_ns(machine, arrays, chosen, options.threads, home));
    const double node = static_cast<double>(20ull << 30) * (1 - options.reserve);
    const double room = node - total / static_cast<double>(homes.size()) - replicated;
    EXPECT_TRUE(replicated == 0 || room >= 0) << room;
    for (std::size_t x = 0; x < arrays.size(); ++x) {
      std::size_t seen = 0;
      for (const auto& other : plan->arrays[x].others) {
        auto changed = chosen;
        changed[x] = other;
        const double ns = phase_ns(machine, arrays, changed, options.threads, home);
        EXPECT_DOUBLE_EQ(other.phase_ns, ns);
        if (other.page_bytes != chosen[x].page_bytes) continue;  // of pages, huge ones are taken wherever they fit
        ++seen;
        const bool fits = static_cast<double>(arrays[x].size_bytes) <= room;
        const double gain = arrays[x].read_only ? 1.0 : options.written_gain;
        if (with_copies(other) && !fits) continue;
        EXPECT_GE(ns * (with_copies(other) ? gain : 1.0) * 1.0011, plan->phase_ns) << x;
      }
      const std::size_t kinds = homes.size() == 1 ? 1u : arrays[x].loop_index ? 4u : 3u;
      EXPECT_EQ(seen + 1, kinds);
    }
  }
}

TEST(Choice, EqualPlacementsAreDecidedByBytesAndThenByOrder) {
  Machine machine = memory::published_machine({.nodes = 2, .cores = 2, .nodes_per_package = 1});
  auto& costs = *machine.memory;
  for (const auto matrix : {&MemoryCosts::gather_ns, &MemoryCosts::read_gbs}) costs.*matrix = Matrix(2, 10);
  costs.read_all_gbs = Matrix(2, 1e6);  // wherever it lies
  ArrayUse use{.name = "x", .size_bytes = 1 << 30, .random_accesses = 1e9, .read_only = true, .phases = 1e9};
  const auto chosen = [&] { return choose_placements(machine, {&use, 1})->arrays.front().chosen.placement; };
  EXPECT_EQ(chosen(), Placement::interleaved);
  use.loop_index = true;
  EXPECT_EQ(chosen(), Placement::partitioned);
}

TEST(Choice, PagesAreHugeIfEachNodeGetsTwo) {
  const Machine machine = memory::published_machine({.nodes = 4, .cores = 1});
  const auto page = [&](std::uint64_t bytes, bool reserved, double walk = 2) {
    Machine other = machine;
    other.memory->gather_walk_ns = {14, walk, 0.5};
    const ArrayUse use{.name = "x", .size_bytes = bytes, .random_accesses = 1e9};
    return choose_placements(other, {&use, 1}, {.reserved_pages = reserved})->arrays.front().chosen.page_bytes;
  };
  EXPECT_EQ(page(8 * memory::mib2 - 1, false), memory::kib4);
  EXPECT_EQ(page(8 * memory::mib2, false), memory::mib2);
  EXPECT_EQ(page(8 * memory::gib1, false), memory::mib2);
  EXPECT_EQ(page(8 * memory::gib1, true), memory::gib1);
  EXPECT_EQ(page(8 * memory::gib1 - 1, true), memory::mib2);
  EXPECT_EQ(page(8 * memory::gib1, true, 0.5), memory::mib2);  // nothing is gained
  EXPECT_EQ(memory_costs(machine).page_bytes.size(), 3u);
}

TEST(Choice, ItSaysWhy) {
  Machine machine = memory::thesis_machine(4);
  ArrayUse use{.name = "x", .size_bytes = 1ull << 30, .random_accesses = 1e9, .phases = 1000};
  const auto why = [&] { return choose_placements(machine, {&use, 1})->arrays.front().why; };
  EXPECT_THAT(why(), testing::HasSubstr("near reads gain more"));
  use.written_bytes = 1e12;
  EXPECT_THAT(why(), testing::HasSubstr("written, and not by the index"));
  const auto alone = choose_placements(machine, {&use, 1}, {.threads = 1});
  EXPECT_EQ(alone->arrays.front().chosen.placement, Placement::single_node);
  EXPECT_THAT(alone->arrays.front().why, testing::HasSubstr("gains nothing"));
  use.written_bytes = 0;
  use.read_only = true;
  EXPECT_THAT(why(), testing::HasSubstr("a copy fits into every node"));
  use.size_bytes = 30ull << 30;
  EXPECT_THAT(why(), testing::HasSubstr("copies do not fit"));
  use.size_bytes = 1ull << 30;
  use.phases = 0;
  use.random_accesses = 1e6;
  EXPECT_THAT(why(), testing::HasSubstr("copies gain too little"));
  use.loop_index = true;
  EXPECT_THAT(why(), testing::HasSubstr("only accessed by the index of the loop"));
  machine = memory::thesis_machine(1);
  EXPECT_THAT(why(), testing::HasSubstr("only the size of pages"));
  use.size_bytes = 4096;
  EXPECT_THAT(why(), testing::HasSubstr("too small for huge pages"));
}

TEST(Choice, CountsBelowZeroAreRefusedAndZeroIsNot) {
  const ArrayUse good{.name = "x", .size_bytes = 1, .phases = 0};
  EXPECT_TRUE(choose_placements(memory::thesis_machine(2), {&good, 1}));
  for (const auto count :
       {&ArrayUse::sequential_bytes, &ArrayUse::random_accesses, &ArrayUse::written_bytes, &ArrayUse::phases}) {
    auto bad = good;
    bad.*count = -1;
    EXPECT_FALSE(choose_placements(memory::thesis_machine(2), {&bad, 1}));
    bad.*count = std::nan("");
    EXPECT_FALSE(choose_placements(memory::thesis_machine(2), {&bad, 1}));
  }
}

TEST(Choice, HintsOfEachKind) {
  const auto use = [](AccessPattern access, std::size_t stride, bool loop_index = false) {
    return use_of("x", 1000, 8,
                  {.access = access,
                   .loop_index = loop_index,
                   .reads_per_element = 2,
                   .writes_per_element = 1,
                   .phases = 7,
                   .stride_bytes = stride});
  };
  for (const auto access : {AccessPattern::random, AccessPattern::unknown}) {
    EXPECT_EQ(use(access, 0).random_accesses, 3000);
    EXPECT_EQ(use(access, 0).sequential_bytes, 0);
  }
  EXPECT_EQ(use(AccessPattern::sequential, 0).sequential_bytes, 24000);
  EXPECT_EQ(use(AccessPattern::sequential, 512).sequential_bytes, 24000);
  EXPECT_EQ(use(AccessPattern::random, 0, true).sequential_bytes, 24000);
  EXPECT_EQ(use(AccessPattern::strided, 0).sequential_bytes, 24000);
  EXPECT_EQ(use(AccessPattern::strided, 8).sequential_bytes, 24000);
  EXPECT_EQ(use(AccessPattern::strided, 32).sequential_bytes, 4 * 24000);
  EXPECT_EQ(use(AccessPattern::strided, 64).sequential_bytes, 3000 * 64);
  EXPECT_EQ(use(AccessPattern::strided, 63).sequential_bytes, 3000 * 63);
  const auto all = use(AccessPattern::sequential, 0);
  EXPECT_EQ(all.written_bytes, 8000);
  EXPECT_EQ(all.size_bytes, 8000u);
  EXPECT_EQ(all.phases, 7);
}

TEST(Choice, TheTreeOfTheThesis) {
  const auto tree = [](bool loop_index, bool read_only, bool fit) {
    const ArrayUse use{.name = "x", .size_bytes = 1, .loop_index = loop_index, .read_only = read_only};
    return decide_by_tree(use, fit);
  };
  EXPECT_EQ(tree(true, true, true), Placement::partitioned);
  EXPECT_EQ(tree(false, true, true), Placement::replicated);
  EXPECT_EQ(tree(false, true, false), Placement::interleaved);
  EXPECT_EQ(tree(false, false, true), Placement::interleaved);
  Machine machine;
  EXPECT_EQ(page_by_tree(machine), memory::mib2);
  machine.page_sizes_bytes = {4096};
  EXPECT_EQ(page_by_tree(machine), 4096u);
  machine.page_sizes_bytes = {4096, memory::mib2};
  EXPECT_EQ(page_by_tree(machine), memory::mib2);
}

}  // namespace
}  // namespace smelt
