#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "smelt/machine.hpp"

namespace smelt {
namespace {

std::size_t count_ids(const Machine& machine, int Pu::*id) {
  std::set<int> ids;
  for (const auto& pu : machine.pus) ids.insert(pu.*id);
  return ids.size();
}

TEST(Synth, NestsTheCountsItIsGiven) {
  const auto machine = synthesize_machine({.packages = 2, .numa_per_package = 2, .cores = 8, .smt = 2, .l3 = 4});
  ASSERT_TRUE(machine);
  EXPECT_EQ(machine->size(), 32u);
  EXPECT_EQ(count_ids(*machine, &Pu::package), 2u);
  EXPECT_EQ(count_ids(*machine, &Pu::numa_node), 4u);
  EXPECT_EQ(count_ids(*machine, &Pu::l3), 8u);
  EXPECT_EQ(count_ids(*machine, &Pu::core), 16u);
  EXPECT_EQ(machine->numa_nodes.size(), 4u);
  EXPECT_EQ(machine->pus[31].os_index, 31);
  EXPECT_EQ(machine->pus[17].package, 1);
}

TEST(Synth, CostIsThatOfTheClosestCommonLevel) {
  const SynthSpec spec{.packages = 2, .numa_per_package = 2, .cores = 8, .smt = 2, .l3 = 4};
  const auto machine = synthesize_machine(spec);
  ASSERT_TRUE(machine);
  const auto latency = [&](std::size_t i, std::size_t j) { return machine->send_ns(i, j) + machine->recv_ns(i, j); };
  EXPECT_DOUBLE_EQ(latency(0, 1), spec.smt_ns);
  EXPECT_DOUBLE_EQ(latency(0, 2), spec.l3_ns);
  EXPECT_DOUBLE_EQ(latency(0, 4), spec.numa_ns);
  EXPECT_DOUBLE_EQ(latency(0, 8), spec.package_ns);
  EXPECT_DOUBLE_EQ(latency(0, 16), spec.remote_ns);
  EXPECT_DOUBLE_EQ(machine->send_ns(0, 16), 0.25 * spec.remote_ns);
  EXPECT_DOUBLE_EQ(latency(5, 5), 0.0);
}

TEST(Synth, PlacesPusAsSpecified) {
  for (const SynthSpec& spec :
       {SynthSpec{.packages = 3, .numa_per_package = 2, .cores = 12, .smt = 2, .l3 = 4},
        SynthSpec{.packages = 2, .numa_per_package = 6, .cores = 12, .smt = 3, .l3 = 2}, SynthSpec{.cores = 1}}) {
    const auto machine = synthesize_machine(spec);
    ASSERT_TRUE(machine);
    int index = 0;
    for (int package = 0; package < spec.packages; ++package) {
      for (int core = 0; core < spec.cores; ++core) {
        for (int thread = 0; thread < spec.smt; ++thread, ++index) {
          const auto run = [&](int count) { return package * count + core / (spec.cores / count); };
          const int number = package * spec.cores + core;
          EXPECT_EQ(machine->pus[static_cast<std::size_t>(index)], (Pu{.os_index = index,
                                                                       .core = number,
                                                                       .package = package,
                                                                       .numa_node = run(spec.numa_per_package),
                                                                       .l2 = number,
                                                                       .l3 = run(spec.l3)}));
        }
      }
    }
    EXPECT_EQ(machine->size(), static_cast<std::size_t>(index));
    for (int node = 0; node < spec.packages * spec.numa_per_package; ++node) {
      EXPECT_EQ(machine->numa_nodes[static_cast<std::size_t>(node)], (NumaNode{.os_index = node}));
    }
    EXPECT_EQ(machine->method, "synthetic");
  }
}

/// Vigna's splitmix64, and the noise that is made of it.
std::uint64_t splitmix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

TEST(Synth, JitterIsTheSameEverywhere) {
  EXPECT_EQ(splitmix64(0), 0xe220a8397b1dcdafu);
  for (const std::uint64_t seed : {0, 1, 77}) {
    const SynthSpec spec{.cores = 20, .l3_ns = 1000, .send_share = 0.5, .jitter = 0.3, .seed = seed};
    const auto machine = synthesize_machine(spec);
    ASSERT_TRUE(machine);
    for (std::uint64_t i = 0; i < 20; ++i) {
      for (std::uint64_t j = i + 1; j < 20; ++j) {
        const double unit =
            static_cast<double>(splitmix64(splitmix64(seed) ^ (i << 32 | j)) >> 11) / 4503599627370496.0 - 1;
        EXPECT_NEAR(machine->send_ns(i, j), 500 * (1 + 0.3 * unit), 0.0006) << i << ", " << j;
        EXPECT_EQ(machine->send_ns(i, j), std::round(machine->send_ns(i, j) * 1000) / 1000) << "picoseconds";
        EXPECT_EQ(machine->recv_ns(j, i), machine->recv_ns(i, j));
      }
    }
  }
}

/// Which ids of a pair's PUs are equal decides on its latency.
double latency_by_rule(const SynthSpec& spec, const Pu& a, const Pu& b) {
  if (a.core == b.core) return spec.smt_ns;
  if (a.l3 == b.l3 && a.numa_node == b.numa_node) return spec.l3_ns;
  if (a.l3 == b.l3 || a.numa_node == b.numa_node) return spec.numa_ns;
  return a.package == b.package ? spec.package_ns : spec.remote_ns;
}

double picoseconds(double cost_ns) { return std::round(cost_ns * 1000) / 1000; }

// Machines whose costs are held by class: as if each pair had been looked at.
TEST(Synth, LargeMachinesCostWhatTheRuleSays) {
  for (const SynthSpec& spec :
       {SynthSpec{.packages = 4, .numa_per_package = 2, .cores = 64, .smt = 2, .l3 = 8, .send_share = 0.3},
        SynthSpec{.packages = 2, .numa_per_package = 8, .cores = 160, .l3 = 2}, SynthSpec{.cores = 257},
        SynthSpec{.packages = 1, .numa_per_package = 2, .cores = 128, .smt = 2, .l3 = 1}}) {
    const auto machine = synthesize_machine(spec);
    ASSERT_TRUE(machine);
    for (std::size_t i = 0; i < machine->size(); i += 3) {
      for (std::size_t j = 0; j < machine->size(); ++j) {
        const double latency = i == j ? 0 : latency_by_rule(spec, machine->pus[i], machine->pus[j]);
        ASSERT_DOUBLE_EQ(machine->send_ns(i, j), picoseconds(spec.send_share * latency)) << i << ", " << j;
        ASSERT_DOUBLE_EQ(machine->recv_ns(i, j), picoseconds((1 - spec.send_share) * latency)) << i << ", " << j;
      }
    }
  }
}

// ... and jitter is one of pairs of units: the smallest of which there are no more than 256. Pairs within an L3 have
// none.
TEST(Synth, LargeMachinesHaveTheJitterOfTheirUnits) {
  const struct {
    SynthSpec spec;
    int Pu::*unit;
  } cases[] = {
      {{.packages = 4, .numa_per_package = 2, .cores = 256, .l3 = 64}, &Pu::l3},
      {{.packages = 4, .numa_per_package = 2, .cores = 260, .l3 = 130}, &Pu::numa_node},
      {{.packages = 4, .numa_per_package = 64, .cores = 256, .l3 = 2}, &Pu::numa_node},
      {{.packages = 4, .numa_per_package = 130, .cores = 260, .l3 = 2}, &Pu::l3},
      {{.packages = 2, .numa_per_package = 8, .cores = 144, .l3 = 8}, &Pu::l3},
      {{.packages = 4, .numa_per_package = 65, .cores = 65, .smt = 2, .l3 = 65}, &Pu::package},
  };
  for (auto [spec, unit] : cases) {
    spec.jitter = 0.3;
    spec.seed = 5;
    spec.send_share = 0.4;
    const auto machine = synthesize_machine(spec);
    ASSERT_TRUE(machine);
    for (std::size_t i = 0; i < machine->size(); i += 5) {
      for (std::size_t j = 0; j < machine->size(); j += 3) {
        if (i == j) continue;
        const Pu &a = machine->pus[i], &b = machine->pus[j];
        const auto low = static_cast<std::uint64_t>(std::min(a.*unit, b.*unit)),
                   high = static_cast<std::uint64_t>(std::max(a.*unit, b.*unit));
        const double noise =
            static_cast<double>(splitmix64(splitmix64(5) ^ (low << 32 | high)) >> 11) / 4503599627370496.0 - 1;
        const double latency = latency_by_rule(spec, a, b) * (low == high || a.l3 == b.l3 ? 1 : 1 + 0.3 * noise);
        ASSERT_NEAR(machine->send_ns(i, j), 0.4 * latency, 0.0006) << i << ", " << j;
        ASSERT_NEAR(machine->recv_ns(i, j), 0.6 * latency, 0.0006) << i << ", " << j;
        ASSERT_EQ(machine->send_ns(i, j), picoseconds(machine->send_ns(i, j)));
      }
    }
  }
}

TEST(Synth, ReachesItsBounds) {
  constexpr double most = 0.5e12;
  const SynthSpec slow{.packages = 2,
                       .numa_per_package = 2,
                       .cores = 4,
                       .smt = 2,
                       .l3 = 2,
                       .smt_ns = most,
                       .l3_ns = most,
                       .numa_ns = most,
                       .package_ns = most,
                       .remote_ns = most};
  EXPECT_TRUE(synthesize_machine(slow));
  const SynthSpec nothing{.cores = 2, .smt = 2, .smt_ns = 0, .l3_ns = 0, .numa_ns = 0, .package_ns = 0, .remote_ns = 0};
  EXPECT_TRUE(synthesize_machine(nothing));
  EXPECT_TRUE(synthesize_machine({.packages = 4096, .cores = 1}));
  for (const double share : {0.0, 1.0}) {
    const auto machine = synthesize_machine({.cores = 2, .send_share = share});
    ASSERT_TRUE(machine);
    EXPECT_EQ(machine->send_ns(0, 1), 40 * share);
    EXPECT_EQ(machine->recv_ns(0, 1), 40 * (1 - share));
  }
}

TEST(Synth, AnL3MaySpanNumaNodes) {
  const SynthSpec spec{.numa_per_package = 4, .cores = 8, .l3 = 1};
  const auto machine = synthesize_machine(spec);
  ASSERT_TRUE(machine);
  EXPECT_DOUBLE_EQ(machine->send_ns(0, 1) + machine->recv_ns(0, 1), spec.l3_ns);
  EXPECT_DOUBLE_EQ(machine->send_ns(0, 2) + machine->recv_ns(0, 2), spec.numa_ns);
}

TEST(Synth, JitterIsBoundedSymmetricAndRepeatable) {
  SynthSpec spec{.cores = 64, .jitter = 0.2};
  const auto machine = synthesize_machine(spec);
  const auto again = synthesize_machine(spec);
  spec.seed = 2;
  const auto other = synthesize_machine(spec);
  ASSERT_TRUE(machine && again && other);
  EXPECT_EQ(*machine, *again);
  EXPECT_NE(machine->send_ns, other->send_ns);
  double low = 1e9, high = 0;
  for (std::size_t i = 0; i < 64; ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const double latency = machine->send_ns(i, j) + machine->recv_ns(i, j);
      EXPECT_EQ(machine->send_ns(i, j), machine->send_ns(j, i));
      low = std::min(low, latency);
      high = std::max(high, latency);
    }
  }
  EXPECT_GE(low, 40 * 0.8 - 0.001);
  EXPECT_LE(high, 40 * 1.2 + 0.001);
  EXPECT_LT(low, 40 * 0.85);
  EXPECT_GT(high, 40 * 1.15);
}

TEST(Synth, MakesTheLargestMachine) {
  const auto machine = synthesize_machine({.packages = 16, .cores = 512, .smt = 2, .l3 = 16});
  ASSERT_TRUE(machine);
  EXPECT_EQ(machine->size(), 16384u);
  EXPECT_EQ(machine->send_ns.size(), 16384u);
}

struct BadSpec {
  SynthSpec spec;
  std::string part_of_message;
};

class SynthErrors : public testing::TestWithParam<BadSpec> {};

TEST_P(SynthErrors, NamesTheArgument) {
  const auto machine = synthesize_machine(GetParam().spec);
  ASSERT_FALSE(machine);
  EXPECT_EQ(machine.error().status, Status::invalid_argument);
  EXPECT_NE(machine.error().message.find(GetParam().part_of_message), std::string::npos) << machine.error().message;
}

INSTANTIATE_TEST_SUITE_P(
    Bad, SynthErrors,
    testing::Values(BadSpec{{.packages = 0}, "packages"}, BadSpec{{.cores = -4}, "cores"}, BadSpec{{.smt = 0}, "smt"},
                    BadSpec{{.cores = 8, .l3 = 3}, "l3: 3"},
                    BadSpec{{.numa_per_package = 3, .cores = 8}, "numa_per_package: 3"},
                    BadSpec{{.numa_per_package = 2, .cores = 6, .l3 = 3}, "do not nest"},
                    BadSpec{{.packages = 4096, .cores = 4096, .smt = 4096}, "at most 16384"},
                    BadSpec{{.packages = 8, .cores = 1024, .smt = 4}, "32768 PUs"},
                    BadSpec{{.packages = 16385, .cores = 1}, "packages"},
                    BadSpec{{.packages = 5462, .cores = 3}, "16386 PUs"}, BadSpec{{.l3 = 0}, "l3"},
                    BadSpec{{.numa_per_package = 0}, "numa_per_package"}, BadSpec{{.l3_ns = -1}, "l3_ns"},
                    BadSpec{{.smt_ns = 0.6e12}, "smt_ns"}, BadSpec{{.numa_ns = -1}, "numa_ns"},
                    BadSpec{{.package_ns = 1e300}, "package_ns"}, BadSpec{{.send_share = -0.1}, "send_share"},
                    BadSpec{{.jitter = -0.1}, "jitter"}, BadSpec{{.remote_ns = std::nan("")}, "remote_ns"},
                    BadSpec{{.send_share = 1.5}, "send_share"}, BadSpec{{.jitter = 1.0}, "jitter"},
                    BadSpec{{.jitter = std::nan("")}, "jitter"}));

}  // namespace
}  // namespace smelt
