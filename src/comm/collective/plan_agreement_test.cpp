// The hot paths are written out by hand; here what they really send and receive is held against
// the plan's steps, for every operation, tree and root.
#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

#include "comm/collective/communicator_state.hpp"
#include "comm/collective/endpoint.hpp"

namespace smelt::comm {
namespace {

std::shared_ptr<CommunicatorState> make_state(const std::string& topology, int ranks, const std::string& barrier = "",
                                              const std::string& algorithm = "") {
  SynthSpec spec;
  spec.packages = 2;
  spec.cores = 8;
  spec.l3 = 2;
  spec.jitter = 0.3;
  const Machine machine = *synthesize_machine(spec);
  Group group = whole_machine(machine);
  group.pus.resize(static_cast<std::size_t>(ranks));
  CommunicatorOptions options;
  options.topology = topology;
  options.barrier = barrier;
  options.algorithm = algorithm;
  options.search_ms = 0;
  options.wait = "yield";
  auto state = CommunicatorState::create(machine, group, options);
  EXPECT_TRUE(state) << (state ? "" : state.error().message);
  (*state)->flat_barrier_used = (*state)->commits_in_parts =
      false;  // the planned steps, however many PUs this machine has
  return *state;
}

/// Runs f(endpoint) on all ranks and returns what each did.
template <class F>
std::vector<StepLog> record(CommunicatorState& state, F f) {
  std::vector<StepLog> logs(state.endpoints.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < logs.size(); ++rank) {
    threads.emplace_back([&, rank] {
      state.endpoints[rank]->log = &logs[rank];
      f(*state.endpoints[rank]);
      state.endpoints[rank]->log = nullptr;
    });
  }
  for (auto& thread : threads) thread.join();
  return logs;
}

const Plan& plan_of(const CommunicatorState& state, Operation operation) {
  return state.plans[static_cast<std::size_t>(operation)];
}

std::vector<StepLog> steps(const Plan& plan) { return plan.steps; }

/// A barrier combines nothing: recv and recv_combine are the same there.
std::vector<StepLog> without_combine(std::vector<StepLog> logs) {
  for (auto& log : logs) {
    for (auto& step : log) {
      if (step.kind == Step::Kind::recv_combine) step.kind = Step::Kind::recv;
    }
  }
  return logs;
}

class Topology : public testing::TestWithParam<std::string> {};

TEST_P(Topology, RunsThePlannedSteps) {
  for (int ranks : {1, 2, 3, 8, 13}) {
    SCOPED_TRACE(ranks);
    auto state = make_state(GetParam(), ranks);
    const double mine = 1.0;
    const auto barrier = record(*state, [](Endpoint& e) { e.barrier(); });
    EXPECT_EQ(without_combine(barrier), without_combine(steps(plan_of(*state, Operation::barrier))));

    const Plan& broadcast = plan_of(*state, Operation::broadcast);
    const auto sent = record(*state, [&](Endpoint& e) {
      double value = mine;
      e.broadcast(&value, sizeof value, broadcast.root);
    });
    EXPECT_EQ(sent, steps(broadcast));

    const Plan& reduce = plan_of(*state, Operation::reduce);
    const auto reduced = record(*state, [&](Endpoint& e) {
      double value = 0;
      e.reduce(&mine, &value, 1, sum<double>(), reduce.root);
    });
    EXPECT_EQ(reduced, steps(reduce));

    const auto allreduced = record(*state, [&](Endpoint& e) {
      double value = 0;
      e.allreduce(&mine, &value, 1, sum<double>());
    });
    EXPECT_EQ(allreduced, steps(plan_of(*state, Operation::allreduce)));
  }
}

/// Of every size, root and outcome, by exchanged votes and along trees.
TEST(PlanAgreement, CommitsReachOneDecision) {
  int exchanged = 0, along_trees = 0;
  for (const int ranks : {1, 2, 3, 4, 5, 8, 13, 16}) {
    auto state = make_state("best", ranks);
    ++(plan_of(*state, Operation::two_phase_commit).reduce_tree ? along_trees : exchanged);
    for (int root = 0; root < ranks; ++root) {
      for (int against = -1; against < ranks; ++against) {  // -1: nobody
        record(*state, [&](Endpoint& e) {
          double proposal = e.rank() == root ? root + 0.5 : 0.0;
          bool vote = e.rank() != against, committed = against >= 0;
          const auto tell = [](const void*, void* yes) { return *static_cast<bool*>(yes); };
          e.run(Collective::two_phase_commit(&proposal, sizeof proposal, tell, &vote, &committed, root));
          EXPECT_EQ(committed, against < 0) << ranks << " ranks, root " << root << ", against " << against;
          EXPECT_EQ(proposal, root + 0.5);
        });
      }
    }
  }
  EXPECT_GT(exchanged, 0);
  EXPECT_GT(along_trees, 0);
}

/// Between two ranks a commit's messages are those of its plan; else the trees of broadcast and reduction carry it.
TEST(PlanAgreement, TwoRanksExchangeTheirVotes) {
  auto state = make_state("best", 2);
  const Plan& plan = plan_of(*state, Operation::two_phase_commit);
  EXPECT_FALSE(plan.reduce_tree);
  for (const bool vote : {true, false}) {
    const auto commit = record(*state, [&](Endpoint& e) {
      double proposal = 1.0;
      bool votes = vote || e.rank() == 0, committed = !vote;
      const auto tell = [](const void*, void* yes) { return *static_cast<bool*>(yes); };
      e.run(Collective::two_phase_commit(&proposal, sizeof proposal, tell, &votes, &committed, plan.root));
      EXPECT_EQ(committed, vote);
    });
    EXPECT_EQ(commit, steps(plan));
  }
}

/// So are those of short calls along the planned trees, which the endpoint knows from the second one on.
TEST_P(Topology, ShortCallsSendAsPlanned) {
  const double mine = 1.0;
  for (int ranks : {2, 3, 8}) {
    SCOPED_TRACE(ranks);
    auto state = make_state(GetParam(), ranks, "", "broadcast_tree");
    const Plan& broadcast = plan_of(*state, Operation::broadcast);
    for (int turn = 0; turn < 3; ++turn) {
      const auto sent = record(*state, [&](Endpoint& e) {
        double value = mine;
        e.run_broadcast(&value, sizeof value, broadcast.root);
      });
      EXPECT_EQ(sent, steps(broadcast));
    }
    state = make_state(GetParam(), ranks, "", "reduce_tree");
    const Plan& reduce = plan_of(*state, Operation::reduce);
    for (int turn = 0; turn < 3; ++turn) {
      const auto reduced = record(*state, [&](Endpoint& e) {
        double value = 0;
        e.run_reduce(&mine, &value, 1, sum<double>(), reduce.root);
      });
      EXPECT_EQ(reduced, steps(reduce));
    }
    const bool exchange = !plan_of(*state, Operation::allreduce).reduce_tree;
    state = make_state(GetParam(), ranks, "", exchange ? "allreduce_recursive_doubling" : "allreduce_tree");
    for (int turn = 0; turn < 3; ++turn) {
      const auto allreduced = record(*state, [&](Endpoint& e) {
        double value = 0;
        e.run_allreduce(&mine, &value, 1, sum<double>());
        EXPECT_EQ(value, ranks);
      });
      EXPECT_EQ(allreduced, steps(plan_of(*state, Operation::allreduce)));
    }
  }
}

/// Recipes name trees other than the planned ones. Their messages of a single line take the same code, for every root.
TEST(PlanAgreement, ShortCallsAlongNamedTreesSendAsPlanned) {
  for (const std::string tree : {"sequential", "stream", "k-nomial:4", "chain"}) {
    for (const int ranks : {2, 3, 8, 13}) {
      const auto broadcasts = make_state("best", ranks, "", "broadcast_tree+channels+tree=" + tree);
      const auto reductions = make_state("best", ranks, "", "reduce_tree+channels+tree=" + tree);
      for (int call = 0; call < 2 * ranks; ++call) {
        const int root = call / 2;  // twice each: the second call knows the tree
        SCOPED_TRACE(tree + ", rank " + std::to_string(root) + " of " + std::to_string(ranks));
        PlanOptions options;
        options.topology = tree;
        options.root = root;
        const auto down = make_plan(broadcasts->machine, broadcasts->group, Operation::broadcast, options);
        const auto up = make_plan(reductions->machine, reductions->group, Operation::reduce, options);
        ASSERT_TRUE(down && up);
        const auto sent = record(*broadcasts, [&](Endpoint& e) {
          int value = e.rank() == root ? 5 : 0;
          e.run_broadcast(&value, sizeof value, root);
          EXPECT_EQ(value, 5);
        });
        EXPECT_EQ(sent, steps(*down));
        const auto reduced = record(*reductions, [&](Endpoint& e) {
          const double mine = e.rank() + 1.0;
          double value = 0;
          e.run_reduce(&mine, &value, 1, sum<double>(), root);
          if (e.rank() == root) {
            EXPECT_EQ(value, ranks * (ranks + 1) / 2.0);
          }
        });
        EXPECT_EQ(reduced, steps(*up));
      }
    }
  }
}

/// Of the same tree, some ranks may run a call by its schedule and others by the code for a single line.
TEST(PlanAgreement, ShortCallsAgreeWithStartedOnes) {
  constexpr int ranks = 8;
  for (const std::string tree : {"sequential", "k-nomial:4"}) {
    const auto state = make_state("best", ranks, "", "reduce_tree+channels+tree=" + tree);
    for (int turn = 0; turn < 2 * ranks; ++turn) {
      const int root = turn % ranks;
      record(*state, [&](Endpoint& e) {
        const double mine = e.rank() + turn;
        double value = 0;
        const Collective call = Collective::reduce(&mine, &value, 1, sum<double>(), root);
        if ((e.rank() + turn) % 3 == 0) {
          StartedCollective started;
          started.call = call;
          started.endpoint = &e;
          e.start(started);
          EXPECT_EQ(e.finish(started), Status::ok);
        } else {
          EXPECT_EQ(e.run(call), Status::ok);
        }
        if (e.rank() == root) {
          EXPECT_EQ(value, ranks * (ranks - 1) / 2.0 + ranks * turn) << tree << ' ' << turn;
        }
      });
    }
  }
}

TEST_P(Topology, OtherRootsUseTheRerootedTree) {
  auto state = make_state(GetParam(), 11);
  const Plan& plan = plan_of(*state, Operation::broadcast);
  for (int root = 0; root < 11; ++root) {
    const Tree hung = reroot(state->machine, state->group, *plan.broadcast_tree, root);
    const auto expected = plan_from_tree(state->machine, state->group, Operation::broadcast, hung);
    ASSERT_TRUE(expected);
    const auto done = record(*state, [&](Endpoint& e) {
      int value = e.rank() == root ? 5 : 0;
      e.broadcast(&value, sizeof value, root);
      EXPECT_EQ(value, 5);
    });
    EXPECT_EQ(done, steps(*expected)) << "root " << root;
  }
}

// "adaptive" keeps the send order of its source, which is not the exact best that the flood order
// is: its plan differs from what runs by that order alone, which is tested below.
INSTANTIATE_TEST_SUITE_P(Trees, Topology,
                         testing::Values("sequential", "binary", "fibonacci", "mst", "cluster", "k-nomial:3", "chain",
                                         "adaptive-optimized", "best"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) {
                             if (!isalnum(static_cast<unsigned char>(c))) c = '_';
                           }
                           return name;
                         });

TEST(PlanAgreement, DisseminationBarrier) {
  for (int ranks : {2, 3, 5, 8}) {
    auto state = make_state("best", ranks, "dissemination");
    EXPECT_EQ(plan_of(*state, Operation::barrier).topology, "dissemination");
    const auto logs = record(*state, [](Endpoint& e) { e.barrier(); });
    EXPECT_EQ(without_combine(logs), without_combine(steps(plan_of(*state, Operation::barrier))));
  }
}

TEST(PlanAgreement, TwoRanksUseOneConcurrentExchange) {
  auto state = make_state("best", 2);
  for (Operation operation : {Operation::barrier, Operation::allreduce}) {
    const Plan& plan = plan_of(*state, operation);
    for (int rank = 0; rank < 2; ++rank) {
      const auto& mine = plan.steps[static_cast<std::size_t>(rank)];
      ASSERT_EQ(mine.size(), 2u) << to_string(operation);
      EXPECT_EQ(mine[0].kind, Step::Kind::send);
      EXPECT_NE(mine[1].kind, Step::Kind::send);
    }
  }
}

}  // namespace
}  // namespace smelt::comm
