// How the ranks of a communicator wait: what their waiters have been told, without a clock.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "comm/collective/communicator_state.hpp"
#include "comm/collective/endpoint.hpp"

namespace smelt {
namespace {

constexpr std::uint64_t long_enough_ns = 10'000'000;  ///< for a long message of others to end

/// Ranks on so many PUs, one after another; `processes` are this one, twice.
std::shared_ptr<comm::CommunicatorState> two_ranks(int pus, bool processes, const std::string& mode = "auto") {
  const Machine machine = *synthesize_machine({.cores = 2});
  const Group group{{0, pus - 1}};
  CommunicatorOptions options;
  options.pin = false;
  options.search_ms = 0;
  options.profile = "none";
  options.wait = mode;
  options.pus = {machine.pus[0].os_index, machine.pus[static_cast<std::size_t>(pus - 1)].os_index};
  const int both[] = {0, 1};
  const int memory = memfd_create("test", 0);
  auto state = processes ? comm::CommunicatorState::create_shared(memory, machine, group, both, options)
                         : comm::CommunicatorState::create(machine, group, options);
  close(memory);
  EXPECT_TRUE(state) << state.error().message;
  return state ? *state : nullptr;
}

class RankWaiting : public testing::TestWithParam<bool> {};

TEST_P(RankWaiting, WithAPuEachTheyStayAwakeForLongMessages) {
  const auto state = two_ranks(2, GetParam());
  ASSERT_TRUE(state);
  if (state->parallelism < 2) GTEST_SKIP() << "this process has one PU's worth of time only";
  for (const auto& endpoint : state->endpoints) {
    EXPECT_EQ(endpoint->wait_config().awake_ns, long_enough_ns);
    EXPECT_EQ(endpoint->wait_config().ranks_per_pu, 1.0);
    EXPECT_EQ(endpoint->wait_config().across_processes, GetParam());
  }
}

TEST_P(RankWaiting, CrowdedOnesByTheUsualPolicy) {
  const auto state = two_ranks(1, GetParam());
  ASSERT_TRUE(state);
  for (const auto& endpoint : state->endpoints) {
    EXPECT_EQ(endpoint->wait_config().awake_ns, 0u);
    EXPECT_EQ(endpoint->wait_config().ranks_per_pu, 2.0);
    EXPECT_EQ(endpoint->wait_config().across_processes, GetParam());
  }
}

TEST_P(RankWaiting, AsTheyAreTold) {
  const auto state = two_ranks(2, GetParam(), "sleep");
  ASSERT_TRUE(state);
  for (const auto& endpoint : state->endpoints) EXPECT_EQ(endpoint->wait_config().mode, WaitMode::sleep);
}

INSTANTIATE_TEST_SUITE_P(ThreadsAndProcesses, RankWaiting, testing::Bool(),
                         [](const auto& processes) { return processes.param ? "Processes" : "Threads"; });

TEST(RankWaiting, PartsOfACommunicatorAsTheWhole) {
  const auto state = two_ranks(2, false);
  ASSERT_TRUE(state);
  const auto alone = state->subgroup({1}, 0, 0);
  ASSERT_TRUE(alone) << alone.error().message;
  EXPECT_EQ((*alone)->endpoints[0]->wait_config().awake_ns, long_enough_ns);
}

}  // namespace
}  // namespace smelt
