#include "machine/costs_by_class.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "machine/test_support.hpp"
#include "smelt/machine.hpp"

namespace smelt {
namespace {

Machine synthetic(SynthSpec spec) {
  auto machine = synthesize_machine(spec);
  EXPECT_TRUE(machine) << machine.error().message;
  return *std::move(machine);
}

/// 512 PUs: large enough to be held by class.
SynthSpec large() { return {.packages = 4, .numa_per_package = 2, .cores = 64, .smt = 2, .l3 = 8}; }

/// The units that each PU lies in, by hand: two kinds of core, and an L3 around several NUMA nodes.
std::vector<Pu> irregular_pus() {
  std::vector<Pu> pus;
  for (int i = 0; i < 24; ++i) {
    pus.push_back({.os_index = i,
                   .core = i / 2,
                   .package = i / 12,
                   .numa_node = i / 6,
                   .l2 = i / 4,
                   .l3 = i / 12,
                   .efficiency_class = i % 12 < 4 ? 1 : 0});
  }
  return pus;
}

void expect_occurring_classes_are_those_of_the_pairs(const std::vector<Pu>& pus) {
  const Places places(pus);
  std::vector<std::array<bool, shared_count>> expected(static_cast<std::size_t>(places.kinds() * places.kinds()));
  for (std::size_t a = 0; a < pus.size(); ++a) {
    for (std::size_t b = 0; b < pus.size(); ++b) {
      if (a == b) continue;
      expected[static_cast<std::size_t>(places.kind(a) * places.kinds() + places.kind(b))][places.shared(a, b)] = true;
    }
  }
  EXPECT_EQ(places.occurring(), expected);
}

TEST(Places, KnowWhichClassesOccur) {
  expect_occurring_classes_are_those_of_the_pairs(irregular_pus());
  expect_occurring_classes_are_those_of_the_pairs(synthetic(large()).pus);
  expect_occurring_classes_are_those_of_the_pairs(synthetic({.packages = 2, .cores = 3}).pus);
  expect_occurring_classes_are_those_of_the_pairs(
      synthetic({.packages = 2, .numa_per_package = 4, .cores = 8, .l3 = 2}).pus);
  auto crossed = synthetic({.packages = 2, .cores = 4}).pus;
  for (auto& pu : crossed) pu.numa_node = pu.os_index % 2;  // nodes across packages nest in nothing
  expect_occurring_classes_are_those_of_the_pairs(crossed);
}

/// PUs in a random tree of units, or with a level that lies across the others.
std::vector<Pu> random_pus(std::mt19937& random) {
  std::vector<Pu> pus(2 + random() % 11);
  const bool two_kinds = random() % 4 == 0;
  std::vector<int> around(pus.size(), 0);
  for (int Pu::*const level : unit_ids) {
    const bool across = random() % 8 == 0;
    const int parts = 1 + static_cast<int>(random() % 3);
    for (std::size_t i = 0; i < pus.size(); ++i) {
      const int part = static_cast<int>(random() % static_cast<unsigned>(parts));
      pus[i].*level = across ? part : around[i] * parts + part;
      if (!across) around[i] = pus[i].*level;
    }
  }
  for (std::size_t i = 0; i < pus.size(); ++i) {
    pus[i].os_index = static_cast<int>(i);
    pus[i].efficiency_class = two_kinds ? static_cast<int>(random() % 2) : 0;
  }
  return pus;
}

TEST(Places, KnowWhichClassesOccurInAnyTreeOfUnits) {
  std::mt19937 random(31);
  for (int trial = 0; trial < 500 && !testing::Test::HasFailure(); ++trial) {
    SCOPED_TRACE(trial);
    expect_occurring_classes_are_those_of_the_pairs(random_pus(random));
  }
}

TEST(Places, NameWhatPairsShare) {
  EXPECT_EQ(name_of(0), "machine");
  EXPECT_EQ(name_of(0b10101), "package+l3+core");
  for (int shared = 0; shared < shared_count; ++shared) {
    EXPECT_EQ(shared_units_of(name_of(static_cast<SharedUnits>(shared))), static_cast<SharedUnits>(shared));
  }
  EXPECT_FALSE(shared_units_of("core+package"));
}

/// A matrix that classes describe up to `noise`, one pair of NUMA nodes that differs, and one pair of PUs.
Matrix made_up(const std::vector<Pu>& pus, double noise) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> around(1.0 - noise, 1.0 + noise);
  const Places places(pus);
  Matrix matrix(pus.size());
  for (std::size_t a = 0; a < pus.size(); ++a) {
    for (std::size_t b = 0; b < pus.size(); ++b) {
      if (a == b) continue;
      matrix(a, b) = 100.0 / (1 + places.shared(a, b)) * (places.kind(a) + 1) * around(random);
      if (pus[a].numa_node == 0 && pus[b].numa_node == 3) matrix(a, b) = 500.0;
    }
  }
  matrix(2, 20) = 900.0;
  return matrix;
}

TEST(CostsByClass, DescribeWhatIsRegularExactly) {
  const auto pus = irregular_pus();
  const auto places = std::make_shared<const Places>(pus);
  const Matrix whole = made_up(pus, 0.0);
  const auto costs = CostsByClass::of(whole, places, 0.0);
  ASSERT_NE(costs, nullptr);
  const Matrix by_class(costs);
  EXPECT_EQ(by_class, whole);
  EXPECT_EQ(by_class(2, 20), 900.0);
  const auto& nodes = costs->residuals(1);
  EXPECT_NE(std::find(nodes.begin(), nodes.end(), Residual{0, 3, 500.0}), nodes.end());
  EXPECT_EQ(costs->residuals(pu_level), (std::vector<Residual>{{2, 20, 900.0}}));
  EXPECT_TRUE(costs->has_residuals());
  std::vector<double> row(pus.size());
  for (std::size_t a = 0; a < pus.size(); ++a) {
    by_class.copy_row(a, row.data());
    for (std::size_t b = 0; b < pus.size(); ++b) ASSERT_EQ(row[b], by_class(a, b)) << a << ' ' << b;
  }
}

TEST(CostsByClass, OwnCostIsTheMedianOfTheDiagonal) {
  for (const std::size_t size : {std::size_t{23}, std::size_t{24}}) {
    auto pus = irregular_pus();
    pus.resize(size);
    Matrix whole(size);
    for (std::size_t pu = 0; pu < size; ++pu) whole(pu, pu) = static_cast<double>(1 + (7 * pu) % size);
    const auto costs = CostsByClass::of(whole, std::make_shared<const Places>(pus), 0.0);
    ASSERT_NE(costs, nullptr);
    EXPECT_EQ(costs->own(), 12.0) << "of 1 to " << size;
    EXPECT_EQ(Matrix(costs), whole);
  }
}

TEST(CostsByClass, LeaveOutNoiseAndNothingElse) {
  const auto pus = irregular_pus();
  const Matrix whole = made_up(pus, 0.02);
  const auto costs = CostsByClass::of(whole, std::make_shared<const Places>(pus), 0.05);
  ASSERT_NE(costs, nullptr);
  EXPECT_LE(costs->residuals(pu_level).size(), 1u);
  const Matrix by_class(costs);
  for (std::size_t a = 0; a < pus.size(); ++a) {
    for (std::size_t b = 0; b < pus.size(); ++b) {
      EXPECT_LE(std::abs(by_class(a, b) - whole(a, b)), 0.05 * std::max(by_class(a, b), whole(a, b)) + 1e-9);
    }
  }
}

TEST(CostsByClass, DoNotDescribeWhatHasNoClasses) {
  const auto pus = irregular_pus();
  EXPECT_EQ(CostsByClass::of(made_up(pus, 0.5), std::make_shared<const Places>(pus), 0.01), nullptr);
}

TEST(CostsByClass, AreTurnedAndRaisedAsMatricesAre) {
  const auto pus = irregular_pus();
  const Matrix whole = made_up(pus, 0.0);
  const Matrix by_class(CostsByClass::of(whole, std::make_shared<const Places>(pus), 0.0));
  EXPECT_NE(by_class.transposed().classes(), nullptr);
  EXPECT_EQ(by_class.transposed(), whole.transposed());
  EXPECT_EQ(whole.transposed()(20, 2), 900.0);
  EXPECT_EQ(by_class.raised_by(3.5), whole.raised_by(3.5));
  EXPECT_EQ(by_class.raised_by(3.5)(4, 4), 0.0);
}

TEST(CostsByClass, WritingACellMakesTheMatrixWhole) {
  const auto pus = irregular_pus();
  const Matrix whole = made_up(pus, 0.0);
  Matrix changed(CostsByClass::of(whole, std::make_shared<const Places>(pus), 0.0));
  changed(1, 2) = 1.25;
  EXPECT_EQ(changed.classes(), nullptr);
  EXPECT_EQ(changed(1, 2), 1.25);
  changed(1, 2) = whole(1, 2);
  EXPECT_EQ(changed, whole);
}

TEST(CostsByClass, LargeMachinesAreHeldByClass) {
  EXPECT_EQ(synthetic({.packages = 2, .cores = 128}).send_ns.classes(), nullptr);
  const auto machine = synthetic(large());
  ASSERT_NE(machine.send_ns.classes(), nullptr);
  EXPECT_FALSE(machine.send_ns.classes()->has_residuals());
  const SynthSpec spec = large();
  for (std::size_t a = 0; a < machine.size(); a += 7) {
    for (std::size_t b = 0; b < machine.size(); ++b) {
      const Pu &x = machine.pus[a], &y = machine.pus[b];
      const double latency = a == b                       ? 0.0
                             : x.core == y.core           ? spec.smt_ns
                             : x.l3 == y.l3               ? spec.l3_ns
                             : x.numa_node == y.numa_node ? spec.numa_ns
                             : x.package == y.package     ? spec.package_ns
                                                          : spec.remote_ns;
      ASSERT_EQ(machine.send_ns(a, b), 0.25 * latency);
      ASSERT_EQ(machine.recv_ns(a, b), 0.75 * latency);
    }
  }
}

TEST(CostsByClass, DescribeMachinesWithOnePuToACore) {
  const auto machine = synthetic({.packages = 2, .numa_per_package = 2, .cores = 8, .smt = 1, .l3 = 2});
  const auto costs = CostsByClass::of(machine.send_ns, std::make_shared<const Places>(machine.pus), 0.0);
  ASSERT_NE(costs, nullptr);
  EXPECT_FALSE(costs->has_residuals());
  EXPECT_EQ(Matrix(costs), machine.send_ns);
}

TEST(CostsByClass, JitterOfLargeMachinesIsOfPairsOfUnits) {
  auto spec = large();
  spec.jitter = 0.1;
  const auto machine = synthetic(spec);
  const auto& l3s = machine.send_ns.classes()->residuals(2);
  EXPECT_EQ(l3s.size(), 32u * 31u);
  double least = 1.0, most = 1.0;
  for (std::size_t b = 128; b < machine.size(); ++b) {
    const double ratio = machine.send_ns(0, b) / (0.25 * spec.remote_ns);
    least = std::min(least, ratio), most = std::max(most, ratio);
    EXPECT_EQ(machine.send_ns(0, b), machine.send_ns(b, 0));
  }
  EXPECT_GE(least, 0.9);
  EXPECT_LE(most, 1.1);
  EXPECT_GT(most - least, 0.05);
}

// ---- files ----------------------------------------------------------------------------------

TEST(CostsByClass, AreReadAsTheyWereWritten) {
  auto spec = large();
  spec.jitter = 0.1;
  const auto machine = synthetic(spec);
  const auto text = format_machine(machine);
  EXPECT_NE(text.find("\"smelt-machine/2\""), std::string::npos);
  const auto read = parse_machine(text, "memory");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, machine);
  EXPECT_NE(read->send_ns.classes(), nullptr);
}

TEST(CostsByClass, OfKindsOfCoresAndCopiesAreReadAsTheyWereWritten) {
  Machine machine;
  machine.name = "irregular";
  machine.pus = irregular_pus();
  machine.send_ns = machine.recv_ns = made_up(machine.pus, 0.0);
  machine.propagation_ns = made_up(machine.pus, 0.0);
  const auto by_class = with_costs_by_class(machine, 0.0);
  ASSERT_NE(by_class.propagation_ns->classes(), nullptr);
  const auto text = format_machine(by_class);
  EXPECT_NE(text.find("\"package+numa_node+l3:0>1\""), std::string::npos) << text;
  const auto read = parse_machine(text, "memory");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, machine);
  EXPECT_NE(read->recv_ns.classes(), nullptr);
  // Copies: a PU's own data costs something, too.
  auto copying = with_costs_by_class(test::with_copies(synthetic({.packages = 2, .cores = 4})), 0.5);
  const auto read_copies = parse_machine(format_machine(copying), "memory");
  ASSERT_TRUE(read_copies) << read_copies.error().message;
  EXPECT_EQ(*read_copies, copying);
  EXPECT_GT(read_copies->copy->startup_ns(1, 1), 0.0);
}

TEST(CostsByClass, AFileInFullIsReadByClassWhereThatIsExact) {
  auto full = synthetic(large());
  const auto by_class = full;
  full.send_ns(0, 0) = full.recv_ns(0, 0) = 0.0;  // holds all cells from here on
  const auto text = format_machine(full);
  EXPECT_NE(text.find("\"smelt-machine/1\""), std::string::npos);
  const auto read = parse_machine(text, "memory");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_NE(read->send_ns.classes(), nullptr);
  EXPECT_EQ(*read, by_class);
}

TEST(CostsByClass, FilesOfLargeMachinesAreSmall) {
  const auto machine = synthetic({.packages = 16, .cores = 128, .smt = 2, .l3 = 16});
  EXPECT_EQ(machine.size(), 4096u);
  EXPECT_LE(format_machine(machine).size(), 5u << 20);
}

std::string file_with(const std::string& send) {
  return R"({"schema": "smelt-machine/2", "name": "n", "pus": [{"os_index": 0}, {"os_index": 1},
    {"os_index": 2, "package": 1}], "send_ns": )" +
         send + R"(, "recv_ns": {"machine": 3, "package+numa_node+l3": 1}})";
}

TEST(CostsByClass, WhatIsWrongWithAFileIsNamed) {
  const auto right = parse_machine(
      file_with(
          R"({"machine": 3, "package+numa_node+l3": 1, "residuals": {"package": [[0, 1, 7]], "pu": [[2, 0, 8]]}})"),
      "memory");
  ASSERT_TRUE(right) << right.error().message;
  EXPECT_EQ(right->send_ns(0, 1), 1.0);
  EXPECT_EQ(right->send_ns(1, 2), 7.0);
  EXPECT_EQ(right->send_ns(2, 0), 8.0);
  EXPECT_EQ(right->send_ns(2, 1), 3.0);
  const std::string good = R"("machine": 3, "package+numa_node+l3": 1)";
  const std::pair<std::string, std::string> cases[] = {
      {R"({"machine": 3})", "send_ns.package+numa_node+l3: missing"},
      {"{" + good + R"(, "socket": 1})", "send_ns.socket: not a class"},
      {"{" + good + R"(, "machine": 1})", "send_ns.machine: given twice"},
      {R"({"machine": -3, "package+numa_node+l3": 1})", "send_ns.machine: must be 0.."},
      {R"({"machine": "x", "package+numa_node+l3": 1})", "send_ns.machine: must be a number"},
      {R"({"machine": [3], "package+numa_node+l3": 1})", "send_ns.machine: must not be an array"},
      {"{" + good + R"(, "own": 4})", "send_ns.own: must be 0 here"},
      {"{" + good + R"(, "residuals": 4})", "send_ns.residuals: must be an object"},
      {"{" + good + R"(, "residuals": {"node": [[0, 1, 7]]}})", "send_ns.residuals.node: must be package"},
      {"{" + good + R"(, "residuals": {"package": [[0, 2, 7]]}})", "send_ns.residuals.package[0]: names unit 2"},
      {"{" + good + R"(, "residuals": {"package": [[0, 1]]}})", "must be two units and the cost"},
      {"{" + good + R"(, "residuals": {"package": [[0, 1, 2, 3]]}})", "must be two units and the cost"},
      {"{" + good + R"(, "residuals": {"package": [[0, 0.5, 2]]}})", "must be a unit"},
      {"{" + good + R"(, "residuals": {"package": [4]}})", "must be an array"},
      {"{" + good + R"(, "residuals": {"package": 4}})", "must be an array"},
      {"{" + good + R"(, "residuals": {"pu": [[1, 1, 4]]}})", "must be 0 on the diagonal"},
  };
  for (const auto& [send, expected] : cases) {
    const auto machine = parse_machine(file_with(send), "memory");
    ASSERT_FALSE(machine) << send;
    EXPECT_EQ(machine.error().status, Status::bad_format);
    EXPECT_NE(machine.error().message.find(expected), std::string::npos) << send << ": " << machine.error().message;
  }
}

}  // namespace
}  // namespace smelt
