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
  const auto costs = measure_node_memory(*machine, little, monotonic_s() + 60);
  if (!costs && costs.error().status == Status::out_of_memory) GTEST_SKIP() << costs.error().message;
  ASSERT_TRUE(costs) << costs.error().message;
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

TEST(NodeMemory, BuffersArePowersOfTwoBeyondTheCaches) {
  for (const bool quick : {true, false}) {
    const auto effort = memory_effort(quick);
    EXPECT_EQ(effort.buffer_bytes & (effort.buffer_bytes - 1), 0u);
    EXPECT_GE(effort.buffer_bytes, 64 * mib);
  }
}

}  // namespace
}  // namespace smelt::measure
