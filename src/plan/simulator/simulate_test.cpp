// Step lists and the simulator on cases small enough to do by hand.
#include <gtest/gtest.h>

#include "plan/plan_test_util.hpp"
#include "plan/simulator/counted_barrier.hpp"

namespace smelt {
namespace {

constexpr auto send = Step::Kind::send;
constexpr auto recv = Step::Kind::recv;
constexpr auto combine = Step::Kind::recv_combine;

Plan named(const Machine& machine, Operation operation, const std::string& topology, bool completion = false) {
  PlanOptions options;
  options.topology = topology;
  options.root = topology == "dissemination" ? std::optional<int>{} : 0;
  options.completion = completion;
  options.search_ms = 0.0;
  auto plan = make_plan(machine, whole_machine(machine), operation, options);
  EXPECT_TRUE(plan) << plan.error().message;
  return std::move(*plan);
}

// Each rank of the fullest PU takes a turn; the counter's line goes around.
TEST(CountedBarrier, TakesASwitchForEachRankOfAPu) {
  Machine machine = test::uniform_machine(3, 2.0, 5.0);
  machine.switch_ns = 1000.0;
  const auto ns = [&](std::vector<int> pus) { return plan::counted_barrier_ns(machine, Group{std::move(pus)}); };
  EXPECT_DOUBLE_EQ(ns({1}), 0.0);
  EXPECT_DOUBLE_EQ(ns({0, 1}), 2 * 7.0);
  EXPECT_DOUBLE_EQ(ns({0, 1, 0, 1}), 2 * 1000.0 + 2 * 7.0);
  EXPECT_DOUBLE_EQ(ns({0, 1, 0, 2, 0}), 3 * 1000.0 + 3 * 7.0);
  EXPECT_DOUBLE_EQ(ns({2, 2, 2}), 3 * 1000.0);
  const Group crowd{{0, 1, 0, 1}};
  EXPECT_DOUBLE_EQ(plan::counted_barrier_ns(machine, crowd, true), ns({0, 1, 0, 1})) << "nothing else is known";
  machine.process_switch_ns = 1500.0;
  EXPECT_DOUBLE_EQ(plan::counted_barrier_ns(machine, crowd, true), 2 * 1500.0 + 2 * 7.0);
  EXPECT_DOUBLE_EQ(plan::counted_barrier_ns(machine, crowd, false), 2 * 1000.0 + 2 * 7.0);
  // Where the counter was timed: each PU adds that, and then all wait for a line.
  machine.counter_ns = 3.0;
  machine.fan_out_ns = {0.0, 4.0};
  EXPECT_DOUBLE_EQ(ns({0, 1}), 2 * 3.0 + 7.0);
  EXPECT_DOUBLE_EQ(ns({0, 1, 2}), 3 * 3.0 + 7.0 + 4.0);
  EXPECT_DOUBLE_EQ(ns({2, 2, 2}), 3 * 1000.0);
  machine.switch_ns.reset();
  EXPECT_GT(ns({0, 0}), 0.0);
}

TEST(Simulate, BroadcastByHand) {
  Machine machine = test::uniform_machine(3, 2.0, 5.0);
  machine.propagation_ns = Matrix(3, 1.0);
  const Plan plan = named(machine, Operation::broadcast, "sequential");
  EXPECT_EQ(plan.arrival_ns, (std::vector<double>{0.0, 8.0, 10.0}));
  const auto run = simulate(machine, plan);
  ASSERT_TRUE(run);
  ASSERT_EQ(run->timeline.size(), 4U);
  EXPECT_DOUBLE_EQ(run->timeline[0].end_ns, 2.0);
  EXPECT_DOUBLE_EQ(run->total_ns, 10.0);
  EXPECT_DOUBLE_EQ(run->completion_ns, 18.0);  // the last leaf's notice: 10 + 2 + 1 + 5
}

// 2 -> 1 -> 0: 2 sends (2), 1 receives (5) at 2..7, sends until 9, 0 receives until 14.
TEST(Simulate, ReduceByHand) {
  const Machine machine = test::uniform_machine(3, 2.0, 5.0);
  const Plan plan = named(machine, Operation::reduce, "chain");
  EXPECT_EQ(plan.steps[0], (std::vector<Step>{{combine, 1}}));
  EXPECT_EQ(plan.steps[1], (std::vector<Step>{{combine, 2}, {send, 0}}));
  EXPECT_EQ(plan.arrival_ns, (std::vector<double>{14.0, 9.0, 2.0}));
  EXPECT_DOUBLE_EQ(named(machine, Operation::reduce, "chain", true).predicted_ns, 21.0);
}

TEST(Simulate, TwoPhaseCommitOverlapsBroadcastAndVotes) {
  const Machine machine = test::uniform_machine(3, 2.0, 5.0);
  const Plan plan = named(machine, Operation::two_phase_commit, "sequential");
  // Proposal at 7 and 9, votes sent until 9 and 11; the root receives 9..14 and 14..19; decision at 26, 28.
  EXPECT_DOUBLE_EQ(plan.predicted_ns, 28.0);
  EXPECT_EQ(plan.arrival_ns[0], 19.0);
}

// Proposal at 7; both votes under way at once, the other's at 7 + 7. Up and down trees it is one message more.
TEST(Simulate, VotesOfTwoRanksAreExchanged) {
  const Machine machine = test::uniform_machine(2, 2.0, 5.0);
  const Plan plan = named(machine, Operation::two_phase_commit, "best");
  EXPECT_FALSE(plan.reduce_tree);
  EXPECT_EQ(plan.steps[static_cast<std::size_t>(plan.root)],
            (std::vector<Step>{{send, 1 - plan.root}, {send, 1 - plan.root}, {combine, 1 - plan.root}}));
  EXPECT_DOUBLE_EQ(plan.predicted_ns, 14.0);
  EXPECT_FALSE(plan.optimal);
  EXPECT_LE(*plan.lower_bound_ns, 14.0);
  Machine swaps = machine;
  swaps.exchange_ns = Matrix(2, 6.0);  // less than a message: the bound of trees would lie above
  const Plan quick = named(swaps, Operation::two_phase_commit, "best");
  EXPECT_DOUBLE_EQ(quick.predicted_ns, 13.0);
  EXPECT_EQ(quick.reason.find("-"), std::string::npos) << quick.reason;
  EXPECT_EQ(quick.reason.find("lower bound"), std::string::npos) << "it is that of trees: " << quick.reason;
  EXPECT_DOUBLE_EQ(named(machine, Operation::two_phase_commit, "sequential").predicted_ns, 21.0);
}

// Of three ranks one takes no part in the doubling: it hands its vote in before and gets the decision after, 30 in all.
TEST(Simulate, VotesGoUpAndDownTreesWhereThatIsOverEarlier) {
  const Plan plan = named(test::uniform_machine(3, 2.0, 5.0), Operation::two_phase_commit, "best");
  EXPECT_TRUE(plan.reduce_tree);
  EXPECT_LE(plan.predicted_ns, 28.0);
}

TEST(Simulate, TwoRankBarrierIsOneExchange) {
  Machine machine = test::uniform_machine(2, 2.0, 5.0);
  const Plan plan = named(machine, Operation::barrier, "dissemination");
  EXPECT_EQ(plan.steps[0], (std::vector<Step>{{send, 1}, {recv, 1}}));
  EXPECT_EQ(plan.steps[1], (std::vector<Step>{{send, 0}, {recv, 0}}));
  EXPECT_DOUBLE_EQ(plan.predicted_ns, 7.0);
  EXPECT_EQ(named(machine, Operation::barrier, "best").topology, "dissemination");
  machine.exchange_ns = Matrix(2, 6.0);
  EXPECT_DOUBLE_EQ(named(machine, Operation::barrier, "dissemination").predicted_ns, 6.0);
  EXPECT_DOUBLE_EQ(named(machine, Operation::allreduce, "dissemination").predicted_ns, 6.0);
}

TEST(Simulate, ASwapWaitsForTheLaterSide) {
  Machine machine = test::uniform_machine(4, 2.0, 5.0);
  machine.exchange_ns = Matrix(4, 6.0);
  (*machine.exchange_ns)(0, 1) = (*machine.exchange_ns)(1, 0) = 10.0;
  const Plan plan = named(machine, Operation::allreduce, "dissemination");  // rounds 0-1, 2-3, then 0-2, 1-3
  EXPECT_EQ(plan.arrival_ns, (std::vector<double>{16.0, 16.0, 16.0, 16.0}));
}

/// Whatever is predicted is later by it, and nothing else is different; a barrier is its messages alone.
TEST(Simulate, ACallCostsBesidesItsMessages) {
  Machine machine = test::random_machine(6, 3);
  Machine with_calls = machine;
  with_calls.call_ns = 9.0;
  for (Operation operation : {Operation::broadcast, Operation::reduce, Operation::barrier, Operation::allreduce,
                              Operation::two_phase_commit}) {
    const double later = operation == Operation::barrier ? 0.0 : 9.0;
    for (const char* topology : {"sequential", "chain", "adaptive", "dissemination", "best", "optimal"}) {
      if (topology == std::string("dissemination") && operation != Operation::barrier &&
          operation != Operation::allreduce)
        continue;
      SCOPED_TRACE(std::string(to_string(operation)) + " " + topology);
      for (const bool completion : {false, true}) {
        const Plan without = named(machine, operation, topology, completion);
        const Plan plan = named(with_calls, operation, topology, completion);
        EXPECT_EQ(plan.steps, without.steps);
        EXPECT_EQ(plan.optimal, without.optimal);
        EXPECT_NEAR(plan.predicted_ns, without.predicted_ns + later, 1e-9);
        EXPECT_EQ(plan.lower_bound_ns.has_value(), without.lower_bound_ns.has_value());
        if (plan.lower_bound_ns) {
          EXPECT_NEAR(*plan.lower_bound_ns, *without.lower_bound_ns + later, 1e-9);
        }
        const auto run = simulate(with_calls, plan);
        ASSERT_TRUE(run);
        EXPECT_EQ(run->arrival_ns, plan.arrival_ns);
        EXPECT_NEAR(completion ? run->completion_ns : run->total_ns, plan.predicted_ns, 1e-9);
        EXPECT_NEAR(run->timeline.front().start_ns, later, 1e-9);
        EXPECT_NEAR(run->timeline.back().end_ns - later, simulate(machine, without)->timeline.back().end_ns, 1e-9);
      }
    }
  }
  const Plan broadcast = named(with_calls, Operation::broadcast, "chain");
  EXPECT_EQ(broadcast.arrival_ns[0], 0.0) << "the root has its message before it calls";
  machine = test::uniform_machine(2, 2.0, 5.0);
  machine.exchange_ns = Matrix(2, 13.0);
  machine.call_ns = 9.0;
  EXPECT_EQ(named(machine, Operation::allreduce, "best").topology, "dissemination") << "two messages take 14";
  machine = test::uniform_machine(1, 2.0, 5.0);
  machine.call_ns = 9.0;
  EXPECT_EQ(named(machine, Operation::allreduce, "best").predicted_ns, 0.0);
}

// Runs steps on sets of contributions: everybody must end with everything, counted once.
TEST(Steps, AllreduceCountsEveryContributionOnce) {
  for (int n = 1; n <= 19; ++n) {
    const Machine machine = test::random_machine(n, 3);
    for (const char* topology : {"dissemination", "binary", "best"}) {
      const Plan plan = named(machine, Operation::allreduce, topology);
      std::vector<std::vector<int>> value(n, std::vector<int>(n, 0));
      std::vector<std::size_t> next(n, 0);
      std::vector<std::vector<std::vector<std::vector<int>>>> wire(n, std::vector<std::vector<std::vector<int>>>(n));
      for (int rank = 0; rank < n; ++rank) value[rank][rank] = 1;
      for (bool moved = true; moved;) {
        moved = false;
        for (int rank = 0; rank < n; ++rank) {
          if (next[rank] == plan.steps[rank].size()) continue;
          const Step step = plan.steps[rank][next[rank]];
          if (step.kind == send) {
            wire[rank][step.peer].push_back(value[rank]);
          } else {
            auto& queue = wire[step.peer][rank];
            if (queue.empty()) continue;
            for (int i = 0; i < n; ++i) value[rank][i] = queue.front()[i] + (step.kind == combine ? value[rank][i] : 0);
            queue.erase(queue.begin());
          }
          ++next[rank];
          moved = true;
        }
      }
      for (int rank = 0; rank < n; ++rank) {
        ASSERT_EQ(next[rank], plan.steps[rank].size());
        ASSERT_EQ(value[rank], std::vector<int>(n, 1)) << topology << " n " << n << " rank " << rank;
      }
    }
  }
}

// After a barrier's steps every rank depends on every other having entered.
TEST(Steps, BarriersJoinEverybody) {
  for (int n = 1; n <= 17; ++n) {
    const Machine machine = test::random_machine(n, 4);
    for (const char* topology : {"dissemination", "chain", "adaptive"}) {
      const Plan plan = named(machine, Operation::barrier, topology);
      std::vector<std::vector<bool>> knows(n, std::vector<bool>(n, false));
      for (int rank = 0; rank < n; ++rank) knows[rank][rank] = true;
      const auto run = simulate(machine, plan);
      ASSERT_TRUE(run);
      std::vector<std::vector<std::vector<std::vector<bool>>>> wire(n, std::vector<std::vector<std::vector<bool>>>(n));
      std::vector<TimelineEvent> events = run->timeline;
      std::stable_sort(events.begin(), events.end(), [](auto& a, auto& b) { return a.end_ns < b.end_ns; });
      for (const TimelineEvent& event : events) {
        if (event.kind == send) {
          wire[event.rank][event.peer].push_back(knows[event.rank]);
        } else {
          auto& queue = wire[event.peer][event.rank];
          ASSERT_FALSE(queue.empty());
          for (int i = 0; i < n; ++i) knows[event.rank][i] = knows[event.rank][i] || queue.front()[i];
          queue.erase(queue.begin());
        }
      }
      for (int rank = 0; rank < n; ++rank) ASSERT_EQ(knows[rank], std::vector<bool>(n, true)) << topology << n;
    }
  }
}

TEST(Simulate, RefusesStepsThatCannotRun) {
  const Machine machine = test::uniform_machine(2, 1.0, 1.0);
  Plan plan = named(machine, Operation::barrier, "dissemination");
  plan.steps[0] = {{recv, 1}, {send, 1}};
  plan.steps[1] = {{recv, 0}, {send, 0}};
  auto result = simulate(machine, plan);
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message.find("deadlock"), std::string::npos);
  plan.steps[1] = {{send, 0}};
  EXPECT_FALSE(simulate(machine, plan));
  plan.steps[0] = {{recv, 2}};
  EXPECT_FALSE(simulate(machine, plan));
  plan.steps.pop_back();
  EXPECT_FALSE(simulate(machine, plan));
}

TEST(MakePlan, RefusesBadArguments) {
  const Machine machine = test::uniform_machine(3, 1.0, 1.0);
  const Group group = whole_machine(machine);
  const auto fails = [&](auto&& change) {
    PlanOptions options;
    change(options);
    return !make_plan(machine, group, Operation::broadcast, options);
  };
  EXPECT_TRUE(fails([](PlanOptions& o) { o.topology = "star"; }));
  EXPECT_TRUE(fails([](PlanOptions& o) { o.topology = "k-nomial:1"; }));
  EXPECT_TRUE(fails([](PlanOptions& o) { o.topology = "k-nomial:x"; }));
  EXPECT_TRUE(fails([](PlanOptions& o) { o.topology = "binary:2"; }));
  EXPECT_TRUE(fails([](PlanOptions& o) { o.topology = "dissemination"; }));
  EXPECT_TRUE(fails([](PlanOptions& o) { o.root = 3; }));
  EXPECT_TRUE(fails([](PlanOptions& o) { o.root = -1; }));
  EXPECT_TRUE(fails([](PlanOptions& o) { o.search_ms = -1.0; }));
  EXPECT_FALSE(make_plan(machine, Group{}, Operation::broadcast));
  EXPECT_FALSE(make_plan(machine, Group{{0, 3}}, Operation::broadcast));
  EXPECT_FALSE(make_plan(Machine{}, group, Operation::broadcast));
  EXPECT_FALSE(plan_from_tree(machine, group, Operation::reduce, Tree{0, {{1}, {0}, {2}}}));
  EXPECT_TRUE(plan_from_tree(machine, group, Operation::reduce, Tree{0, {{1}, {2}, {}}}));
}

TEST(Groups, OneRankPerCoreThenSiblingsThenSharing) {
  Machine machine = test::uniform_machine(6, 1.0, 1.0);  // os_index 10..15
  const int cores[] = {0, 0, 1, 1, 2, 3};
  for (int i = 0; i < 6; ++i) machine.pus[i].core = cores[i];
  machine.pus[0].efficiency_class = machine.pus[1].efficiency_class = 1;
  machine.pus[4].efficiency_class = 2;
  const Allowance all{{10, 11, 12, 13, 14, 15}, 0.0};
  EXPECT_EQ(default_group(machine, all)->pus, (std::vector<int>{4, 0, 2, 5}));
  EXPECT_EQ(default_group(machine, all, 8)->pus, (std::vector<int>{4, 0, 2, 5, 1, 3, 4, 0}));
  EXPECT_EQ(default_group(machine, {{10, 11, 13}, 0.0})->pus, (std::vector<int>{0, 3}));
  EXPECT_EQ(default_group(machine, {{10, 11, 12, 13, 14, 15}, 1.5})->pus.size(), 2U);
  EXPECT_FALSE(default_group(machine, {{99}, 0.0}));
  EXPECT_FALSE(default_group(machine, all, -1));
  EXPECT_EQ(make_group(machine, std::vector<int>{15, 10})->pus, (std::vector<int>{5, 0}));
  EXPECT_FALSE(make_group(machine, std::vector<int>{15, 9}));
}

TEST(Groups, RanksMayShareAPu) {
  const Machine machine = test::random_machine(3, 9);
  const Group group{{0, 1, 0, 2, 1, 1, 0, 0}};
  for (const TopologyInfo& info : topologies()) {
    PlanOptions options;
    options.topology = info.name;
    options.search_ms = 1.0;
    const auto plan = make_plan(machine, group, Operation::barrier, options);
    ASSERT_TRUE(plan) << info.name;
    EXPECT_GT(plan->predicted_ns, 0.0);
  }
}

}  // namespace
}  // namespace smelt
