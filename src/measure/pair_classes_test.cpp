#include "measure/pair_classes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

namespace smelt::measure {
namespace {

Machine machine_of(int packages, int numa_per_package, int cores, int l3, int smt) {
  SynthSpec spec;
  spec.packages = packages;
  spec.numa_per_package = numa_per_package;
  spec.cores = cores;
  spec.l3 = l3;
  spec.smt = smt;
  auto machine = synthesize_machine(spec);
  EXPECT_TRUE(machine) << (machine ? "" : machine.error().message);
  return *machine;
}

PairCosts costs_of(const Machine& machine, Pair pair, double factor = 1.0, double error = 0.01) {
  const auto i = static_cast<std::size_t>(pair.a), j = static_cast<std::size_t>(pair.b);
  PairCosts costs;
  costs[Cost::send_forward] = {factor * machine.send_ns(i, j), 0.05, error};
  costs[Cost::recv_forward] = {factor * machine.recv_ns(i, j), 0.05, error};
  costs[Cost::send_backward] = {factor * machine.send_ns(j, i), 0.05, error};
  costs[Cost::recv_backward] = {factor * machine.recv_ns(j, i), 0.05, error};
  costs[Cost::round_trip] = {factor * 3.0 * machine.send_ns(i, j), 0.05, error};
  costs[Cost::exchange] = {factor * 2.0 * machine.send_ns(i, j), 0.05, error};
  return costs;
}

TEST(ClosestLevel, IsTheFirstThingShared) {
  Pu a, b;
  b.os_index = 1;
  EXPECT_EQ(closest_level(a, b), Level::core);
  b.core = 1;
  EXPECT_EQ(closest_level(a, b), Level::l2);
  b.l2 = 1;
  EXPECT_EQ(closest_level(a, b), Level::l3);
  b.l3 = 1;
  EXPECT_EQ(closest_level(a, b), Level::numa_node);
  b.numa_node = 1;
  EXPECT_EQ(closest_level(a, b), Level::package);
  b.package = 1;
  EXPECT_EQ(closest_level(a, b), Level::machine);
}

TEST(PairClasses, OneRepresentativePerLevelAndNumaNodes) {
  // 2 packages x 2 NUMA nodes x 2 L3 x 4 cores x 2 PUs. Within each of 4 NUMA nodes: same core,
  // same L3, same NUMA node; between NUMA nodes: 6 pairs of them.
  const auto machine = machine_of(2, 2, 16, 4, 2);
  ASSERT_EQ(machine.size(), 64u);
  PairClasses classes(machine.pus, 1000);
  EXPECT_EQ(classes.class_count(), 4u * 3u + 6u);
  const auto representatives = classes.wanted(1);
  ASSERT_EQ(representatives.size(), 18u);
  std::map<std::tuple<Level, int, int>, int> seen;
  for (Pair pair : representatives) {
    const Pu& a = machine.pus[static_cast<std::size_t>(pair.a)];
    const Pu& b = machine.pus[static_cast<std::size_t>(pair.b)];
    ++seen[{closest_level(a, b), std::min(a.numa_node, b.numa_node), std::max(a.numa_node, b.numa_node)}];
  }
  EXPECT_EQ(seen.size(), 18u);  // no class has two
}

TEST(PairClasses, ChecksComeAfterAllRepresentativesAndAreOtherPairs) {
  const auto machine = machine_of(2, 1, 8, 1, 1);
  PairClasses classes(machine.pus, 1000);
  ASSERT_EQ(classes.class_count(), 3u);
  const auto first = classes.wanted(1);
  const auto three = classes.wanted(3);
  ASSERT_EQ(three.size(), 9u);
  EXPECT_TRUE(std::equal(first.begin(), first.end(), three.begin()));
  std::set<std::pair<int, int>> distinct;
  for (Pair pair : three) distinct.emplace(std::min(pair.a, pair.b), std::max(pair.a, pair.b));
  EXPECT_EQ(distinct.size(), 9u);
  for (Pair pair : first) classes.record(pair, costs_of(machine, pair));
  const auto rest = classes.wanted(3);
  EXPECT_EQ(rest.size(), 6u);
  for (Pair pair : rest) EXPECT_EQ(std::count(first.begin(), first.end(), pair), 0);
}

TEST(PairClasses, SmallClassesAreTimedWhole) {
  const auto machine = machine_of(1, 1, 2, 1, 1);
  PairClasses classes(machine.pus, 1000);
  EXPECT_EQ(classes.wanted(3).size(), 1u);
  EXPECT_EQ(classes.all_pairs().size(), 1u);
}

TEST(PairClasses, AreCoarserIfThereAreTooMany) {
  const auto machine = machine_of(4, 4, 16, 4, 1);
  EXPECT_EQ(PairClasses(machine.pus, 1000).class_count(), 16u + 120u);
  EXPECT_EQ(PairClasses(machine.pus, 50).class_count(), 4u * 2u + 6u);  // by package
  EXPECT_EQ(PairClasses(machine.pus, 5).class_count(), 3u);             // by level alone
}

TEST(PairClasses, KindsOfCoreAreKeptApart) {
  std::vector<Pu> pus;
  for (int i = 0; i < 8; ++i) {
    Pu pu;
    pu.os_index = pu.core = pu.l2 = i;
    pu.efficiency_class = i < 4 ? 1 : 0;
    pus.push_back(pu);
  }
  PairClasses classes(pus, 1000);
  EXPECT_EQ(classes.class_count(), 3u);
  for (Pair pair : classes.all_pairs()) {
    // All pairs point from slow to fast cores.
    EXPECT_LE(pus[static_cast<std::size_t>(pair.a)].efficiency_class,
              pus[static_cast<std::size_t>(pair.b)].efficiency_class);
  }
}

TEST(PairClasses, HomogeneousClassesStandForTheirPairs) {
  const auto machine = machine_of(2, 1, 64, 4, 2);
  PairClasses classes(machine.pus, 1000);
  for (Pair pair : classes.wanted(3)) classes.record(pair, costs_of(machine, pair));
  EXPECT_FALSE(classes.refine(1000));
  classes.finish();
  for (int i = 0; i < 256; i += 7) {
    for (int j = 0; j < 256; j += 5) {
      if (i == j) continue;
      const auto costs = classes.costs(i, j, false);
      EXPECT_DOUBLE_EQ(costs[Cost::send_forward].value,
                       machine.send_ns(static_cast<std::size_t>(i), static_cast<std::size_t>(j)));
    }
  }
}

TEST(PairClasses, InhomogeneousClassesAreSplitByTheDifferingUnit) {
  // One NUMA node with 8 L3 caches. L3 number 2 is twice as far from the others as they are from each other.
  const auto machine = machine_of(1, 1, 32, 8, 1);
  const auto factor = [&](Pair pair) {
    const int x = machine.pus[static_cast<std::size_t>(pair.a)].l3,
              y = machine.pus[static_cast<std::size_t>(pair.b)].l3;
    return x != y && (x == 2 || y == 2) ? 2.0 : 1.0;
  };
  PairClasses classes(machine.pus, 1000);
  EXPECT_EQ(classes.class_count(), 2u);
  std::size_t samples = 3;
  do {  // more samples until one of the far pairs is among them
    for (Pair pair : classes.wanted(samples)) classes.record(pair, costs_of(machine, pair, factor(pair)));
    samples *= 2;
  } while (!classes.refine(1000) && samples < 100);
  EXPECT_EQ(classes.class_count(), 1u + 28u);
  for (Pair pair : classes.wanted(3)) classes.record(pair, costs_of(machine, pair, factor(pair)));
  EXPECT_FALSE(classes.refine(1000));
  classes.finish();
  for (int i = 0; i < 32; ++i) {
    for (int j = 0; j < 32; ++j) {
      if (i == j) continue;
      EXPECT_DOUBLE_EQ(classes.costs(i, j, false)[Cost::send_forward].value,
                       factor({i, j}) * machine.send_ns(static_cast<std::size_t>(i), static_cast<std::size_t>(j)));
    }
  }
}

TEST(PairClasses, NoiseWithinTheErrorSplitsNoClass) {
  const auto machine = machine_of(1, 1, 16, 1, 1);
  for (double error : {0.01, 0.2}) {
    PairClasses classes(machine.pus, 1000);
    double factor = 1.0;
    for (Pair pair : classes.wanted(3)) classes.record(pair, costs_of(machine, pair, factor += 0.15, error));
    EXPECT_EQ(classes.refine(1000), error < 0.1) << error;
  }
}

TEST(PairClasses, DoesNotSplitIntoMoreThanCanBeTimed) {
  const auto machine = machine_of(1, 1, 64, 1, 1);
  PairClasses classes(machine.pus, 1000);
  double factor = 1.0;
  const auto timed = classes.wanted(3);
  for (Pair pair : timed) classes.record(pair, costs_of(machine, pair, factor *= 2.0));
  // The only finer unit that differs is the core: 2016 classes of one pair each.
  while (classes.refine(100)) {}
  EXPECT_EQ(classes.class_count(), 1u);
  const auto untimed = classes.wanted(4);
  ASSERT_EQ(untimed.size(), 1u);
  classes.finish();
  // Timed pairs keep their own costs; the others get the median.
  const auto round_trip = [&](Pair pair) { return classes.costs(pair.a, pair.b, false)[Cost::round_trip].value; };
  factor = 1.0;
  for (Pair pair : timed) {
    EXPECT_DOUBLE_EQ(round_trip(pair), costs_of(machine, pair, factor *= 2.0)[Cost::round_trip].value);
  }
  EXPECT_DOUBLE_EQ(round_trip(untimed[0]), costs_of(machine, untimed[0], 4.0)[Cost::round_trip].value);
}

TEST(PairClasses, DirectionsAreKeptApart) {
  auto machine = machine_of(2, 1, 4, 1, 1);
  for (std::size_t i = 0; i < 8; ++i) {
    for (std::size_t j = 0; j < i; ++j) machine.send_ns(i, j) *= 3.0;  // sends to lower PUs cost more
  }
  PairClasses classes(machine.pus, 1000);
  for (Pair pair : classes.wanted(3)) {
    // Some pairs are recorded in the opposite direction. The class must reverse their costs.
    const Pair reverse{pair.b, pair.a};
    classes.record(reverse, costs_of(machine, reverse));
  }
  classes.finish();
  for (int i = 0; i < 8; ++i) {
    for (int j = 0; j < 8; ++j) {
      if (i == j) continue;
      EXPECT_DOUBLE_EQ(classes.costs(i, j, false)[Cost::send_forward].value,
                       machine.send_ns(static_cast<std::size_t>(i), static_cast<std::size_t>(j)));
    }
  }
}

TEST(PairClasses, UntimedPairsGetTheNearestLevelsCosts) {
  const auto machine = machine_of(2, 1, 8, 2, 2);
  PairClasses classes(machine.pus, 1000);
  for (Pair pair : classes.all_pairs()) {
    const auto level =
        closest_level(machine.pus[static_cast<std::size_t>(pair.a)], machine.pus[static_cast<std::size_t>(pair.b)]);
    if (level != Level::l3 || machine.pus[static_cast<std::size_t>(pair.a)].package != 0) continue;
    classes.record(pair, costs_of(machine, pair));
    break;
  }
  classes.finish();
  for (int i = 0; i < 32; ++i) {
    for (int j = 0; j < 32; ++j) {
      if (i != j) {
        EXPECT_DOUBLE_EQ(classes.costs(i, j, true)[Cost::send_forward].value, 10.0);
      }
    }
  }
}

TEST(PairClasses, AllPairsAreAllPairsOnceWithSamplesFirst) {
  const auto machine = machine_of(2, 1, 8, 2, 2);
  const PairClasses classes(machine.pus, 1000);
  const auto all = classes.all_pairs();
  std::set<std::pair<int, int>> distinct;
  for (Pair pair : all) distinct.emplace(std::min(pair.a, pair.b), std::max(pair.a, pair.b));
  EXPECT_EQ(all.size(), classes.pair_count());
  EXPECT_EQ(distinct.size(), classes.pair_count());
  const auto representatives = classes.wanted(1);
  EXPECT_TRUE(std::equal(representatives.begin(), representatives.end(), all.begin()));
}

TEST(PairClasses, SameInputSamePairs) {
  const auto machine = machine_of(4, 2, 32, 4, 2);
  EXPECT_EQ(PairClasses(machine.pus, 1000, 5).wanted(3), PairClasses(machine.pus, 1000, 5).wanted(3));
  EXPECT_NE(PairClasses(machine.pus, 1000, 5).wanted(3), PairClasses(machine.pus, 1000, 6).wanted(3));
}

TEST(PairClasses, LargestMachine) {
  // 8 packages x 4 NUMA nodes x 128 PUs.
  const auto machine = machine_of(8, 4, 256, 16, 2);
  ASSERT_EQ(machine.size(), 4096u);
  PairClasses classes(machine.pus, 1000);
  EXPECT_EQ(classes.class_count(), 32u * 3u + 496u);
  EXPECT_EQ(classes.pair_count(), 4096u * 4095u / 2u);
  for (Pair pair : classes.wanted(3)) classes.record(pair, costs_of(machine, pair));
  EXPECT_FALSE(classes.refine(1000));
  classes.finish();
  for (int i = 0; i < 4096; i += 257) {
    for (int j = 1; j < 4096; j += 129) {
      if (i == j) continue;
      EXPECT_DOUBLE_EQ(classes.costs(i, j, false)[Cost::recv_forward].value,
                       machine.recv_ns(static_cast<std::size_t>(i), static_cast<std::size_t>(j)));
    }
  }
}

}  // namespace
}  // namespace smelt::measure
