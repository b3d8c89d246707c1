// Alltoall in rounds is what the simulator of schedules predicts, move by move.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "plan/simulator/simulate_rounds.hpp"
#include "plan/simulator/simulate_schedule.hpp"
#include "smelt/plan.hpp"
#include "smelt/schedule.hpp"

namespace smelt {
namespace {

/// Costs that differ by what a pair shares and by the kind of each core, so that both directions of a pair differ.
Machine by_class(bool exchanges, bool gaps) {
  Machine machine = *synthesize_machine({.packages = 2, .cores = 6, .smt = 2, .l3 = 2});
  for (auto& pu : machine.pus) pu.efficiency_class = pu.core % 2;
  const std::size_t n = machine.size();
  const auto cost = [&](double base, double package) {
    Matrix costs(n);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        const Pu &a = machine.pus[i], &b = machine.pus[j];
        if (i == j) continue;
        costs(i, j) = base * (1 + 3 * a.efficiency_class + b.efficiency_class) +
                      (a.package == b.package ? 0 : package) + (a.l3 == b.l3 ? 0 : 7) + (a.core == b.core ? 0 : 3);
      }
    }
    return costs;
  };
  machine.send_ns = cost(5, 20);
  machine.recv_ns = cost(9, 40);
  machine.propagation_ns = cost(2, 11);
  machine.lines_ns = {50, 90, 100, 130};
  if (exchanges) machine.exchange_ns = cost(12, 50);
  if (gaps) machine.send_gap_ns = cost(8, 25);
  if (gaps) machine.recv_gap_ns = cost(1, 2);
  return with_costs_by_class(std::move(machine), 0.0);
}

TEST(Rounds, AreAsMovesOneByOne) {
  std::mt19937 random(3);
  for (const bool exchanges : {false, true}) {
    for (const bool gaps : {false, true}) {
      const Machine machine = by_class(exchanges, gaps);
      for (const int ranks : {3, 4, 7, 16, 24}) {
        Group group = whole_machine(machine);
        std::shuffle(group.pus.begin(), group.pus.end(), random);
        group.pus.resize(static_cast<std::size_t>(ranks));
        std::vector<double> late_ns(static_cast<std::size_t>(ranks), 0.0);
        late_ns.back() = 700.0;
        for (const char* text : {"alltoall_pairwise+channels", "alltoall_pairwise+direct"}) {
          const auto request = *make_request(machine, group, *parse_recipe(text));
          ASSERT_TRUE(plan::has_rounds(machine, group, request));
          for (const std::size_t bytes : {8, 56, 57, 1000, 5000}) {
            for (const auto& start_ns : {std::vector<double>(), late_ns}) {
              for (const bool processes : {false, true}) {
                const Reach reach{.processes = processes};
                const auto moves = simulate(machine, group, request, bytes, 1, reach, start_ns);
                ASSERT_TRUE(moves);
                const auto rounds = plan::simulate_rounds(machine, group, request, bytes, 1, reach, start_ns);
                const std::string what =
                    std::string(text) + ", " + std::to_string(bytes) + " by " + std::to_string(ranks);
                EXPECT_NEAR(rounds.total_ns, moves->total_ns, 1e-9 * moves->total_ns) << what;
                for (std::size_t rank = 0; rank < group.pus.size(); ++rank) {
                  EXPECT_NEAR(rounds.finish_ns[rank], moves->finish_ns[rank], 1e-9 * moves->total_ns) << what << rank;
                }
              }
            }
          }
        }
      }
    }
  }
}

// First in, first out for every pair, in groups small and large.
TEST(MessageQueues, KeepTheOrderOfEachPair) {
  for (const int ranks : {5, 3000}) {
    plan::MessageQueues queues;
    for (int again = 0; again < 2; ++again) {
      queues.clear(static_cast<std::size_t>(ranks));
      std::map<std::pair<int, int>, std::deque<double>> expected;
      std::mt19937 random(11);
      for (int step = 0; step < 4000; ++step) {
        const int from = ranks - 1 - static_cast<int>(random() % 4), to = static_cast<int>(random() % 4);
        auto& waiting = expected[{from, to}];
        const auto* const next = queues.next(from, to);
        ASSERT_EQ(next != nullptr, !waiting.empty());
        if (next != nullptr && random() % 2 == 0) {
          ASSERT_EQ(next->start_ns, waiting.front());
          ASSERT_EQ(queues.take(from, to).start_ns, waiting.front());
          waiting.pop_front();
        } else {
          queues.put(from, to, {0.0, 0.0, static_cast<double>(step), {}});
          waiting.push_back(step);
        }
      }
    }
  }
}

TEST(Rounds, NeedClassesAndOneRankOnEachPu) {
  const Machine machine = by_class(false, false);
  const Group all = whole_machine(machine);
  const auto of = [&](const Machine& on, const Group& group, const char* text) {
    return plan::has_rounds(on, group, *make_request(on, group, *parse_recipe(text)));
  };
  EXPECT_TRUE(of(machine, all, "alltoall_pairwise"));
  EXPECT_FALSE(of(machine, all, "alltoall_flat+direct"));
  EXPECT_FALSE(of(machine, Group{{0, 1, 2, 0}}, "alltoall_pairwise"));
  Machine full = machine;
  full.recv_ns(0, 1) = 5.0;  // turns it into one of all cells
  EXPECT_FALSE(of(full, all, "alltoall_pairwise"));
}

TEST(Rounds, ServeLargeGroups) {
  const Machine machine = *synthesize_machine({.packages = 4, .cores = 100, .smt = 2, .l3 = 4});
  const Group group = whole_machine(machine);
  ASSERT_EQ(group.size(), 800);
  const Access all[] = {Access::channels, Access::staged, Access::direct};
  const auto ranked = rank_recipes(machine, group, Operation::alltoall, 8, all);
  ASSERT_TRUE(ranked);
  ASSERT_FALSE(ranked->empty());
  const auto request = *make_request(machine, group, ranked->front().recipe);
  EXPECT_DOUBLE_EQ(simulate(machine, group, request, 8)->total_ns, ranked->front().predicted_ns);
}

}  // namespace
}  // namespace smelt
