#include "tune/algorithm_race.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace smelt::comm {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

/// Times as a machine gives them: a skewed distribution, slow moments that all share, interrupts.
class Machine {
 public:
  explicit Machine(std::uint64_t seed) : random_(seed) {}

  void next_round() { moment_ = coin_(random_) < 0.1 ? 2.0 : 1.0 + 0.1 * coin_(random_); }
  double time(double true_ns) {
    const double noise = 1.0 + 0.02 * exponential_(random_);
    const double interrupt = coin_(random_) < 0.05 ? 5.0 : 1.0;
    return true_ns * noise * interrupt * moment_;
  }

 private:
  std::mt19937_64 random_;
  std::uniform_real_distribution<double> coin_{0.0, 1.0};
  std::exponential_distribution<double> exponential_{1.0};
  double moment_ = 1.0;
};

AlgorithmRace run(const std::vector<double>& true_ns, std::uint64_t seed) {
  AlgorithmRace race(true_ns.size(), {}, seed);
  Machine machine(seed * 7919);
  while (!race.decided()) {
    machine.next_round();
    std::vector<double> times(true_ns.size(), 0.0);
    for (const auto i : race.next_order()) times[i] = machine.time(true_ns[i]);
    race.add_round(times);
  }
  return race;
}

std::vector<std::size_t> order_of(std::size_t count) {
  std::vector<std::size_t> order(count);
  for (std::size_t i = 0; i < count; ++i) order[i] = i;
  return order;
}

TEST(Midmean, DistinguishesTimesOfACoarseClock) {
  EXPECT_EQ(midmean_of({}), 0.0);
  EXPECT_EQ(midmean_of({3}), 3.0);
  EXPECT_EQ(midmean_of({1, 2, 3}), 2.0);
  EXPECT_EQ(midmean_of({1e9, 2, 0, 4}), 3.0);
  const std::vector<double> faster{120, 120, 130, 120, 130, 120, 120, 1e6},
      slower{130, 120, 130, 130, 130, 120, 130, 120};
  EXPECT_LT(midmean_of(faster), midmean_of(slower));
}

TEST(AlgorithmRace, NoVerdictBeforeTheFirstLook) {
  AlgorithmRace race(2, {.first_look = 10});
  for (int round = 1; round <= 10; ++round) {
    EXPECT_EQ(race.standing(1), AlgorithmRace::Standing::open) << round;
    EXPECT_FALSE(race.looked());
    EXPECT_FALSE(race.decided());
    race.add_round({100.0 + round, 1.1 * (100.0 + round)});
  }
  EXPECT_TRUE(race.looked());
  EXPECT_EQ(race.standing(1), AlgorithmRace::Standing::out);
  EXPECT_TRUE(race.decided());
}

TEST(AlgorithmRace, FindsTheFaster) {
  int right = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const auto race = run({100, 110, 95 * 1.1, 300}, seed);
    const auto winner = race.winner({1, 2, 3, 0});  // the faster is nobody's favourite
    right += winner == 0;
    EXPECT_EQ(race.standing(3), AlgorithmRace::Standing::out);
    EXPECT_LE(race.rounds(), 40);
  }
  EXPECT_GE(right, 97);
}

TEST(AlgorithmRace, EqualsAreDeclaredAndTheFavouriteKept) {
  int kept = 0, together = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const auto race = run({100, 100.5, 100.2}, seed);
    kept += race.winner({1, 0, 2}) == 1;
    together += race.not_slower().size() == 3;
  }
  EXPECT_GE(kept, 95);
  EXPECT_GE(together, 90);
}

TEST(AlgorithmRace, HopelessOnesLeaveEarly) {
  AlgorithmRace race(2, {}, 1);
  race.add_round({100, 1000});
  EXPECT_NE(race.standing(1), AlgorithmRace::Standing::out) << "that may have been an interrupt";
  race.add_round({100, 1000});
  EXPECT_EQ(race.standing(1), AlgorithmRace::Standing::out);
  EXPECT_TRUE(race.decided());
  EXPECT_THAT(race.next_order(), testing::ElementsAre(0));
  EXPECT_EQ(race.time_ns(1), 1000.0);
  EXPECT_EQ(race.winner({1, 0}), 0u) << "no preference brings back who is out";
}

TEST(AlgorithmRace, OneSlowRoundDoesNotDecide) {
  AlgorithmRace race(2, {}, 1);
  for (int round = 0; round < 14; ++round) {
    race.add_round({100, round == 3 ? 100000.0 : 98.0});
    if (race.decided()) break;
  }
  EXPECT_NE(race.standing(1), AlgorithmRace::Standing::out);
}

TEST(AlgorithmRace, MissingTimesAreNoTimes) {
  AlgorithmRace race(3, {}, 1);
  for (int round = 0; round < 40 && !race.decided(); ++round)
    race.add_round({100.0, 0.0, round % 2 == 0 ? 150.0 : 0.0});
  EXPECT_TRUE(race.decided());
  EXPECT_EQ(race.winner(order_of(3)), 0u);
  EXPECT_EQ(race.time_ns(1), 0.0) << "it never ran";
  EXPECT_EQ(race.standing(2), AlgorithmRace::Standing::out);
}

// Where rounds end before all have had their turn, a contender that seems as fast may hardly have met the leader.
TEST(AlgorithmRace, ThreeRoundsWithTheLeaderAreAComparison) {
  AlgorithmRace race(2, {.first_look = 7});
  for (int round = 1; round <= 9; ++round) {
    race.add_round({100.0, round % 3 == 0 ? 100.0 : 0.0});
    if (!race.looked()) continue;
    EXPECT_EQ(race.compared(1), round == 9) << round;
    EXPECT_EQ(race.holds_up(1), round == 9) << round;
    EXPECT_NE(race.standing(1), AlgorithmRace::Standing::out);
    EXPECT_TRUE(race.compared(0));
  }
}

TEST(AlgorithmRace, FewRoundsDecideNothingClose) {
  AlgorithmRace race(3, {}, 1);
  for (int round = 0; round < 4; ++round) race.add_round({100, 110, 135});
  EXPECT_EQ(race.winner({1, 2, 0}), 1u) << "10 % in 4 rounds is no evidence";
  EXPECT_EQ(race.winner({2, 0, 1}), 0u) << "but its best being 35 % slower is some";
  for (int round = 0; round < 3; ++round) race.add_round({100, 110, 135});
  EXPECT_EQ(race.winner({1, 2, 0}), 0u) << "in 7 it is";
}

TEST(AlgorithmRace, TheOrderIsShuffledAndRepeatable) {
  AlgorithmRace a(8, {}, 3), b(8, {}, 3), c(8, {}, 4);
  const auto first = a.next_order();
  EXPECT_THAT(first, testing::UnorderedElementsAreArray(order_of(8)));
  EXPECT_EQ(first, b.next_order());
  EXPECT_NE(first, c.next_order());
  EXPECT_NE(first, a.next_order()) << "another order in every round";
}

TEST(AlgorithmRace, OneContenderNeedsNoRounds) {
  AlgorithmRace race(1);
  EXPECT_TRUE(race.decided());
  EXPECT_EQ(race.winner({0}), 0u);
}

TEST(Crossover, IsFoundByBisection) {
  for (const std::size_t truth : {100u, 3000u, 20000u, 60000u}) {
    int probes = 0;
    const auto found = find_crossover(64, 65536, 1.1, [&](std::size_t bytes) -> std::optional<int> {
      ++probes;
      return bytes >= truth ? 1 : -1;
    });
    EXPECT_GE(found, truth);
    EXPECT_LE(static_cast<double>(found), 1.1 * static_cast<double>(truth) + 64);
    EXPECT_LE(probes, 8) << "2^7 > log(1024) / log(1.1)";
  }
}

TEST(Crossover, LiesWhereBothAreEqualAndInTheMiddleWithoutTime) {
  EXPECT_EQ(find_crossover(64, 65536, 1.1, [](std::size_t) { return 0; }), middle_bytes(64, 65536));
  EXPECT_EQ(find_crossover(64, 65536, 1.1, [](std::size_t) { return std::optional<int>(); }), middle_bytes(64, 65536));
  EXPECT_EQ(middle_bytes(8, 8 * 64), 64u);
  EXPECT_EQ(find_crossover(8, 16, 1.1, [](std::size_t) { return std::optional<int>(); }), 16u) << "nothing in between";
}

bool same_letter(std::size_t, std::size_t a, std::size_t, std::size_t b) { return a == b; }

TEST(FewestChanges, EachRangeIsAsLongAsPossible) {
  EXPECT_THAT(fewest_changes({{1}, {1}, {2}}, same_letter), ElementsAre(1, 1, 2));
  EXPECT_THAT(fewest_changes({{1, 2}, {2, 1}, {2}}, same_letter), ElementsAre(2, 2, 2)) << "one stretch, not two";
  EXPECT_THAT(fewest_changes({{1, 2}, {2, 1}}, same_letter), ElementsAre(1, 1)) << "what the first one prefers";
  EXPECT_THAT(fewest_changes({{1}, {2, 1}, {2}, {3, 2}, {3}}, same_letter), ElementsAre(1, 1, 2, 2, 3));
  EXPECT_THAT(fewest_changes({{1, 2, 3}, {3, 2}, {3, 1}}, same_letter), ElementsAre(3, 3, 3)) << "all three share it";
  EXPECT_THAT(fewest_changes({}, same_letter), IsEmpty());
}

TEST(FewestChanges, NamesDifferFromStepToStep) {
  const auto shifted = [](std::size_t i, std::size_t a, std::size_t k, std::size_t b) { return a + k == b + i; };
  EXPECT_THAT(fewest_changes({{7, 5}, {9, 6}, {7}}, shifted), ElementsAre(5, 6, 7));
}

TEST(FewestChanges, NoOtherDivisionHasFewer) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::vector<std::size_t>> able(1 + random() % 6);
    for (auto& each : able) {
      for (std::size_t i = 0; i < 4; ++i) {
        if (random() % 2 == 0) each.push_back(i);
      }
      if (each.empty()) each.push_back(random() % 4);
    }
    const auto changes = [](const std::vector<std::size_t>& taken) {
      std::size_t found = 0;
      for (std::size_t i = 1; i < taken.size(); ++i) found += taken[i] != taken[i - 1] ? 1 : 0;
      return found;
    };
    const auto taken = fewest_changes(able, same_letter);
    ASSERT_EQ(taken.size(), able.size());
    for (std::size_t i = 0; i < able.size(); ++i) EXPECT_THAT(able[i], Contains(taken[i]));
    // Of all ways to take one at each step.
    std::size_t fewest = able.size();
    std::vector<std::size_t> at(able.size(), 0), way(able.size());
    for (bool more = true; more;) {
      for (std::size_t i = 0; i < able.size(); ++i) way[i] = able[i][at[i]];
      fewest = std::min(fewest, changes(way));
      std::size_t i = 0;
      while (i < able.size() && ++at[i] == able[i].size()) at[i++] = 0;
      more = i < able.size();
    }
    EXPECT_EQ(changes(taken), fewest);
  }
}

}  // namespace
}  // namespace smelt::comm
