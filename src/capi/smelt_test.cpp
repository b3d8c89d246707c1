// The C interface through its own header: results, statuses, argument checks.
#include "smelt/smelt.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "smelt/machine.hpp"

namespace {

/// A machine file in a temporary directory, as a C program would find it.
class CInterface : public testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/smelt-capi-XXXXXX";
    ASSERT_NE(mkdtemp(pattern), nullptr);
    directory_ = pattern;
    smelt::SynthSpec spec;
    spec.cores = 4;
    ASSERT_TRUE(smelt::save_machine(*smelt::synthesize_machine(spec), directory_ + "/m.json"));
    ASSERT_EQ(smelt_machine_load((directory_ + "/m.json").c_str(), &machine_), SMELT_OK) << smelt_last_error();
  }
  void TearDown() override {
    smelt_machine_free(machine_);
    std::filesystem::remove_all(directory_);
  }
  std::string directory_;
  smelt_machine* machine_ = nullptr;
};

struct Shared {
  std::vector<double> totals = std::vector<double>(3);
  std::vector<int> committed = std::vector<int>(3, -1);
  std::vector<int> subgroup_sizes = std::vector<int>(3, -1);
};

void body(smelt_rank* rank, void* context) {
  auto* shared = static_cast<Shared*>(context);
  const int me = smelt_rank_number(rank);
  const auto at = static_cast<std::size_t>(me);
  EXPECT_EQ(smelt_rank_size(rank), 3);
  EXPECT_EQ(smelt_barrier(rank), SMELT_OK);
  char text[16] = "";
  if (me == 1) std::strcpy(text, "from one");
  EXPECT_EQ(smelt_broadcast(rank, text, sizeof text, 1), SMELT_OK);
  EXPECT_STREQ(text, "from one");
  const double mine = me + 0.5;
  EXPECT_EQ(smelt_allreduce(rank, &mine, &shared->totals[at], 1, SMELT_DOUBLE, SMELT_SUM), SMELT_OK);
  const unsigned char bit = static_cast<unsigned char>(1 << me);
  unsigned char bits = 0;
  EXPECT_EQ(smelt_reduce(rank, &bit, &bits, 1, SMELT_UINT8, SMELT_BIT_OR, 2), SMELT_OK);
  EXPECT_EQ(bits, me == 2 ? 7 : 0);
  EXPECT_EQ(smelt_allreduce(rank, &mine, &shared->totals[at], 1, SMELT_DOUBLE, SMELT_BIT_AND), SMELT_INVALID_ARGUMENT);
  int voter = me;
  EXPECT_EQ(smelt_two_phase_commit(
                rank, text, sizeof text, [](const void*, void* self) { return *static_cast<int*>(self) != 2 ? 1 : 0; },
                &voter, &shared->committed[at], 0),
            SMELT_OK);
  const auto concatenate = [](void* accumulator, const void* operand, size_t count, void*) {
    // A pair (a, b) stands for x -> a x + b: composing such functions does not commute.
    auto* to = static_cast<int*>(accumulator);
    const auto* from = static_cast<const int*>(operand);
    for (size_t i = 0; i < count; ++i) {
      to[2 * i + 1] = to[2 * i] * from[2 * i + 1] + to[2 * i + 1];
      to[2 * i] *= from[2 * i];
    }
  };
  const int function[2] = {me + 2, me + 1};
  int composed[2] = {0, 0};
  EXPECT_EQ(smelt_allreduce_user(rank, function, composed, 1, sizeof function, concatenate, nullptr, 0), SMELT_OK);
  EXPECT_EQ(composed[0], 2 * 3 * 4);
  EXPECT_EQ(composed[1], 1 + 2 * (2 + 3 * 3));
  if (me != 1) {
    const int members[] = {2, 0};
    smelt_rank* pair = nullptr;
    EXPECT_EQ(smelt_rank_subgroup(rank, members, 2, &pair), SMELT_OK) << smelt_last_error();
    shared->subgroup_sizes[at] = smelt_rank_size(pair);
    EXPECT_EQ(smelt_barrier(pair), SMELT_OK);
    smelt_rank_free(pair);
  }
}

TEST_F(CInterface, CollectivesWork) {
  const int pus[] = {0, 1, 2};
  smelt_options options{};
  options.keep_affinity = 1;
  smelt_communicator* comm = nullptr;
  ASSERT_EQ(smelt_communicator_create(machine_, pus, 3, &options, &comm), SMELT_OK) << smelt_last_error();
  EXPECT_EQ(smelt_communicator_size(comm), 3);
  Shared shared;
  EXPECT_EQ(smelt_communicator_run(comm, body, &shared), SMELT_OK) << smelt_last_error();
  EXPECT_EQ(shared.totals, (std::vector<double>{4.5, 4.5, 4.5}));
  EXPECT_EQ(shared.committed, (std::vector<int>{0, 0, 0}));
  EXPECT_EQ(shared.subgroup_sizes, (std::vector<int>{2, -1, 2}));
  smelt_communicator_free(comm);
}

TEST_F(CInterface, ArgumentsAreChecked) {
  smelt_machine* none = nullptr;
  EXPECT_EQ(smelt_machine_load("/nonexistent/m.json", &none), SMELT_NOT_FOUND);
  EXPECT_NE(std::string(smelt_last_error()).find("/nonexistent/m.json"), std::string::npos);
  EXPECT_EQ(smelt_machine_load(nullptr, &none), SMELT_INVALID_ARGUMENT);
  EXPECT_EQ(none, nullptr);
  smelt_communicator* comm = nullptr;
  const int bad[] = {0, 77};
  EXPECT_EQ(smelt_communicator_create(machine_, bad, 2, nullptr, &comm), SMELT_NOT_FOUND);
  EXPECT_EQ(smelt_communicator_create(machine_, bad, 0, nullptr, &comm), SMELT_INVALID_ARGUMENT);
  EXPECT_EQ(smelt_communicator_create(machine_, bad, 2, nullptr, nullptr), SMELT_INVALID_ARGUMENT);
  EXPECT_EQ(comm, nullptr);
  EXPECT_EQ(smelt_barrier(nullptr), SMELT_INVALID_ARGUMENT);
  EXPECT_EQ(smelt_broadcast(nullptr, nullptr, 0, 0), SMELT_INVALID_ARGUMENT);
  double send_ns = 0, recv_ns = 0;
  EXPECT_EQ(smelt_machine_costs(machine_, 0, 4, &send_ns, &recv_ns), SMELT_INVALID_ARGUMENT);
  EXPECT_EQ(smelt_machine_costs(machine_, 0, 1, &send_ns, &recv_ns), SMELT_OK);
  EXPECT_GT(send_ns, 0.0);
  smelt_machine_free(nullptr);
  smelt_communicator_free(nullptr);
  smelt_rank_free(nullptr);
}

TEST(CCommunicator, NeedsNoModelAtAll) {
  const int pus[] = {0, 0};
  smelt_communicator* comm = nullptr;
  ASSERT_EQ(smelt_communicator_create(nullptr, pus, 2, nullptr, &comm), SMELT_OK) << smelt_last_error();
  EXPECT_EQ(smelt_communicator_size(comm), 2);
  smelt_communicator_free(comm);
  ASSERT_EQ(smelt_communicator_create(nullptr, nullptr, 3, nullptr, &comm), SMELT_OK) << smelt_last_error();
  EXPECT_EQ(smelt_communicator_size(comm), 3);
  smelt_communicator_free(comm);
}

TEST_F(CInterface, PlansTrees) {
  int parents[4] = {9, 9, 9, 9};
  int root = -1;
  double predicted_ns = 0;
  ASSERT_EQ(smelt_plan(machine_, nullptr, 0, SMELT_BROADCAST, "sequential", 2, 0, parents, &root, &predicted_ns),
            SMELT_OK)
      << smelt_last_error();
  EXPECT_EQ(root, 2);
  EXPECT_EQ(std::vector<int>(parents, parents + 4), (std::vector<int>{2, 2, -1, 2}));
  EXPECT_GT(predicted_ns, 0.0);
  EXPECT_NE(smelt_plan(machine_, nullptr, 0, SMELT_BROADCAST, "nonsense", -1, 0, nullptr, nullptr, nullptr), SMELT_OK);
}

TEST(CStatus, EveryStatusHasAName) {
  for (int status = SMELT_OK; status >= SMELT_BROKEN; --status) {
    EXPECT_STRNE(smelt_status_string(status), "unknown status") << status;
  }
  EXPECT_STREQ(smelt_status_string(-99), "unknown status");
  EXPECT_STREQ(smelt_version(), "0.1.0");
}

TEST_F(CInterface, NoThreadWaitsForOneThatHasLeft) {
  smelt_options options{};
  options.keep_affinity = 1;
  smelt_communicator* comm = nullptr;
  const int pus[] = {0, 1, 2};
  ASSERT_EQ(smelt_communicator_create(machine_, pus, 3, &options, &comm), SMELT_OK) << smelt_last_error();
  std::atomic<int> told{0};
  EXPECT_EQ(smelt_communicator_run(
                comm,
                [](smelt_rank* rank, void* context) {
                  const double one = 1;
                  double total = 0;
                  EXPECT_EQ(smelt_allreduce(rank, &one, &total, 1, SMELT_DOUBLE, SMELT_SUM), SMELT_OK);
                  if (smelt_rank_number(rank) == 1) return;
                  EXPECT_EQ(smelt_allreduce(rank, &one, &total, 1, SMELT_DOUBLE, SMELT_SUM), SMELT_BROKEN);
                  char text[64];
                  smelt_rank_failure(rank, text, sizeof text);
                  EXPECT_STREQ(text, "rank 1 has left");
                  smelt_rank* survivor = nullptr;
                  ASSERT_EQ(smelt_rank_shrink(rank, &survivor), SMELT_OK) << smelt_last_error();
                  EXPECT_EQ(smelt_allreduce(survivor, &one, &total, 1, SMELT_DOUBLE, SMELT_SUM), SMELT_OK);
                  EXPECT_EQ(total, 2);
                  smelt_rank_free(survivor);
                  ++*static_cast<std::atomic<int>*>(context);
                },
                &told),
            SMELT_OK);
  EXPECT_EQ(told, 2);
  smelt_communicator_free(comm);

  smelt_counted_barrier counted_barrier;
  ASSERT_EQ(smelt_counted_barrier_init_private(&counted_barrier, 2), SMELT_OK);
  std::thread leaver([&] {
    smelt_counted_barrier_wait(&counted_barrier);
    smelt_counted_barrier_leave(&counted_barrier);
  });
  EXPECT_GE(smelt_counted_barrier_wait(&counted_barrier), SMELT_OK);
  EXPECT_EQ(smelt_counted_barrier_wait(&counted_barrier), SMELT_BROKEN);
  leaver.join();
  EXPECT_EQ(smelt_counted_barrier_destroy(&counted_barrier), SMELT_OK);

  smelt_team* team = nullptr;
  ASSERT_EQ(smelt_team_create(2, 2, 0, &team), SMELT_OK);
  EXPECT_EQ(smelt_team_left(team), -1);
  std::thread member([&] {
    EXPECT_NE(smelt_team_barrier(team, 1), 0);
    smelt_team_leave(team, 1);
  });
  EXPECT_NE(smelt_team_barrier(team, 0), 0);
  EXPECT_EQ(smelt_team_barrier(team, 0), 0);
  EXPECT_EQ(smelt_team_left(team), 1);
  member.join();
  smelt_team_free(team);
}

}  // namespace
