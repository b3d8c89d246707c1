// Checks that the model confirms the statements of [Smelt16] 5.6 about agreement.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "smelt/log_model.hpp"

namespace smelt {
namespace {

/// Four packages of four cores of two PUs, as the machine of figure 12.
Machine machine_of_the_text() {
  SynthSpec options;
  options.packages = 4;
  options.cores = 4;
  options.smt = 2;
  return *synthesize_machine(options);
}

Group first(int count) {
  Group group;
  group.pus.resize(static_cast<std::size_t>(count));
  std::iota(group.pus.begin(), group.pus.end(), 0);
  return group;
}

double gain(const Machine& machine, int replicas) {
  return predict_log(machine, first(replicas), "1paxos", "best")->per_s /
         predict_log(machine, first(replicas), "1paxos", "sequential")->per_s;
}

TEST(LogModel, ATreeGainsMoreWithMoreReplicas) {
  const Machine machine = machine_of_the_text();
  double before = 0.0;
  for (const int replicas : {8, 16, 28}) {
    const double now = gain(machine, replicas);
    EXPECT_GT(now, before) << replicas;
    before = now;
  }
  EXPECT_GE(before, 2.5);
  EXPECT_LE(before, 4.5);
}

TEST(LogModel, AgreementCostsLittleMoreThanABroadcast) {
  const Machine machine = machine_of_the_text();
  for (const char* topology : {"best", "sequential"}) {
    for (const int replicas : {8, 16, 28}) {
      const double agreement = predict_log(machine, first(replicas), "1paxos", topology)->per_s;
      const double broadcast = predict_log(machine, first(replicas), "broadcast", topology)->per_s;
      EXPECT_LE(broadcast / agreement, 1.3) << topology << " " << replicas;
    }
  }
}

TEST(LogModel, CountsWhatTheRolesDo) {
  const Machine machine = machine_of_the_text();
  const auto made = predict_log(machine, first(3), "1paxos", "sequential");
  ASSERT_TRUE(made);
  EXPECT_NE(made->leader, made->acceptor);
  const auto a = static_cast<std::size_t>(made->acceptor);
  double acceptor = machine.recv_ns(static_cast<std::size_t>(made->leader), a);
  for (std::size_t other = 0; other < 3; ++other) {
    if (other != a) acceptor += machine.send_ns(a, other);
  }
  EXPECT_NEAR(made->busy_ns[a], acceptor, 1e-6);
  EXPECT_EQ(made->busy_ns.size(), 3u);
  EXPECT_NEAR(made->per_s * made->busiest_ns, 1e9, 1.0);
}

TEST(LogModel, SaysWhatIsWrong) {
  const Machine machine = machine_of_the_text();
  EXPECT_THAT(predict_log(machine, first(3), "raft").error().message, testing::HasSubstr("1paxos or broadcast"));
  EXPECT_THAT(predict_log(machine, first(1), "1paxos").error().message, testing::HasSubstr("too few"));
  EXPECT_THAT(predict_log(machine, first(3), "1paxos", "bush").error().message, testing::HasSubstr("bush"));
}

}  // namespace
}  // namespace smelt
