#include "measure/node_memory.hpp"

#include <gtest/gtest.h>

#include "machine/topology/numa.hpp"
#include "measure/timing_thread.hpp"

namespace smelt::measure {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

TEST(NodeMemory, MeasuresWhatThisMachineHas) {
  const auto machine = discover_machine();
  ASSERT_TRUE(machine);
  const MemoryEffort little{16 * mib, 1, 1000};
  const auto measured = measure_node_memory(*machine, little, monotonic_s() + 60);
  if (!measured && measured.error().status == Status::out_of_memory) GTEST_SKIP() << measured.error().message;
  ASSERT_TRUE(measured) << measured.error().message;
  const auto* costs = &measured->costs;
  const auto nodes = machine->numa_nodes.size();
  ASSERT_EQ(costs->latency_ns.size(), nodes);
  bool some = false;
  for (std::size_t node = 0; node < nodes; ++node)
    some |= costs->read_gbs(node, node) > 0.0 && costs->latency_ns(node, node) > 0.0;
  EXPECT_TRUE(some);
  ASSERT_GE(costs->page_bytes.size(), 1u);
  EXPECT_EQ(costs->walk_ns.size(), costs->page_bytes.size());
  EXPECT_EQ(costs->touch_ns_per_mib.size(), costs->page_bytes.size());
  EXPECT_GT(costs->touch_ns_per_mib.front(), 0.0);
  EXPECT_GT(costs->copy_memcpy_gbs, 0.0);
  EXPECT_GT(costs->interleaved_gbs, 0.0);
  // A machine with these costs can be saved.
  auto whole = *machine;
  whole.memory = *costs;
  whole.send_ns = whole.recv_ns = Matrix(whole.size());
  const auto again = parse_machine(format_machine(whole), "memory");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->memory, whole.memory);
}

TEST(NodeMemory, MeasuresNothingWithoutTime) {
  const auto machine = discover_machine();
  ASSERT_TRUE(machine);
  const auto costs = measure_node_memory(*machine, {16 * mib, 1, 1000}, monotonic_s() - 1);
  ASSERT_FALSE(costs);
  EXPECT_EQ(costs.error().status, Status::timed_out);
}

TEST(NodeMemory, StopsBetweenRepetitions) {
  const auto machine = discover_machine();
  ASSERT_TRUE(machine);
  const MemoryEffort endless{16 * mib, 1'000'000'000, 1000};
  const auto costs = measure_node_memory(*machine, endless, monotonic_s() + 0.2);
  ASSERT_FALSE(costs);
  if (costs.error().status == Status::out_of_memory) GTEST_SKIP() << costs.error().message;
  EXPECT_EQ(costs.error().status, Status::timed_out);
}

// Some deadline lies between the first part and the last.
TEST(NodeMemory, KeepsWhatWasCompleteInTime) {
  auto machine = discover_machine();
  ASSERT_TRUE(machine);
  const MemoryEffort little{16 * mib, 1, 1000};
  machine->send_ns = machine->recv_ns = Matrix(machine->size());
  for (double time_s = 1e-3; time_s < 60; time_s *= 1.2) {
    const auto measured = measure_node_memory(*machine, little, monotonic_s() + time_s);
    if (!measured && measured.error().status == Status::out_of_memory) GTEST_SKIP() << measured.error().message;
    if (!measured || measured->left_out.empty()) continue;
    machine->memory = measured->costs;
    EXPECT_NE(measured->costs.read_gbs, Matrix(machine->numa_nodes.size()));
    const auto again = parse_machine(format_machine(*machine), "memory");
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(again->memory, machine->memory);
    return;
  }
  ADD_FAILURE() << "always all or nothing";
}

TEST(NodeMemory, BuffersArePowersOfTwoBeyondTheCaches) {
  for (const bool quick : {true, false}) {
    const auto effort = memory_effort(quick);
    EXPECT_EQ(effort.buffer_bytes & (effort.buffer_bytes - 1), 0u);
    EXPECT_GE(effort.buffer_bytes, 64 * mib);
  }
}

}  // namespace
}  // namespace smelt::measure
