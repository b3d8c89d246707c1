#include "comm/fork_join/fork_join_team.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <memory>
#include <random>
#include <thread>
#include <tuple>
#include <vector>

namespace smelt::comm {
namespace {

WaitConfig short_waits(int size, int parallelism) {
  auto config = make_wait_config(size, parallelism, "auto");
  config.awake_ns = 20'000;  // so that tests see sleepers
  return config;
}

/// Runs body(member) on `size` threads; member 0 is the caller.
template <class Body>
void on_members(int size, const Body& body) {
  std::vector<std::thread> threads;
  for (int m = 1; m < size; ++m) threads.emplace_back([&, m] { body(m); });
  body(0);
  for (auto& thread : threads) thread.join();
}

/// (members, parallelism): both forms, each with fewer, as many and more threads than this machine runs.
class ForkJoinTeamTest : public testing::TestWithParam<std::tuple<int, int>> {
 protected:
  int size() const { return std::get<0>(GetParam()); }
  int parallelism() const { return std::get<1>(GetParam()); }
  std::unique_ptr<ForkJoinTeam> make() const {
    return std::make_unique<ForkJoinTeam>(size(), parallelism(), short_waits(size(), parallelism()));
  }
  int rounds() const { return size() > 8 ? 60 : 600; }
};

TEST_P(ForkJoinTeamTest, BarrierSeparatesTurns) {
  const auto team = make();
  std::vector<int> values(static_cast<std::size_t>(size()));  // plain: the sanitizer sees what a barrier loses
  std::atomic<int> wrong{0};
  on_members(size(), [&](int m) {
    for (int turn = 0; turn < rounds(); ++turn) {
      values[static_cast<std::size_t>(m)] = turn;
      if (!team->barrier(m)) ++wrong;
      for (int v : values) wrong += v != turn;
      if (!team->barrier(m)) ++wrong;
    }
  });
  EXPECT_EQ(wrong, 0);
}

// One member leaves after some barriers: those are passed by all, the next one by nobody.
TEST_P(ForkJoinTeamTest, BarrierWaitsAfterAnyNumberOfRegions) {
  const auto team = make();
  for (std::uint32_t phases : {0x80000000U, 0xc0000000U, 0xfffffffeU}) {
    team->reset(phases);
    std::atomic<int> here{0}, wrong{0};
    on_members(size(), [&](int m) {
      for (int turn = 1; turn <= 4; ++turn) {
        if (m == 1) std::this_thread::sleep_for(std::chrono::milliseconds(2));
        ++here;
        if (!team->barrier(m) || here < turn * size()) ++wrong;
      }
    });
    EXPECT_EQ(wrong, 0);
  }
}

TEST_P(ForkJoinTeamTest, NoMemberWaitsForOneThatHasLeft) {
  std::mt19937 random(5);
  for (int turn = 0; turn < 40; ++turn) {
    const auto team = make();
    const int who = static_cast<int>(random() % static_cast<unsigned>(size())), before = static_cast<int>(random() % 3);
    const auto pause = std::chrono::microseconds(random() % 2 * (random() % 400));
    std::atomic<int> wrong{0};
    on_members(size(), [&](int m) {
      for (int i = 0; i < before; ++i) wrong += !team->barrier(m);
      if (m == who) {
        std::this_thread::sleep_for(pause);
        return team->leave(m);
      }
      wrong += team->barrier(m) || team->left() != who;
      wrong += team->barrier(m);
    });
    ASSERT_EQ(wrong, 0);
  }
}

// The same in regions: of the others, and of member 0, which waits for them in its join.
TEST_P(ForkJoinTeamTest, NoJoinWaitsForAMemberThatHasLeft) {
  for (int turn = 0; turn < 20; ++turn) {
    const auto team = make();
    const int who = turn % size();
    std::atomic<int> wrong{0};
    on_members(size(), [&](int m) {
      Work work{[](void*) {}, nullptr};
      if (m == 0) {
        team->fork(work);
        if (who == 0) return team->leave(0);
        wrong += team->join() || team->left() != who;
        return;
      }
      wrong += team->receive(m).function == nullptr;
      if (m == who) return team->leave(m);
      wrong += team->receive(m).function != nullptr || team->left() != who;
    });
    ASSERT_EQ(wrong, 0);
  }
}

TEST_P(ForkJoinTeamTest, RegionsBeginAndEndTogether) {
  const auto team = make();
  struct Shared {
    ForkJoinTeam& team;
    std::vector<int> done;
    int turn = 0;
  } shared{*team, std::vector<int>(static_cast<std::size_t>(size()))};
  std::atomic<int> wrong{0};
  on_members(size(), [&](int m) {
    if (m != 0) {
      for (Work work = team->receive(m); work.function != nullptr; work = team->receive(m)) {
        auto& region = *static_cast<Shared*>(work.data);
        region.done[static_cast<std::size_t>(m)] = region.turn;
        if (region.turn % 3 == 0) wrong += !region.team.barrier(m);
      }
      return;
    }
    for (int turn = 1; turn <= rounds(); ++turn) {
      shared.turn = turn;
      if (turn % 100 == 0) std::this_thread::sleep_for(std::chrono::microseconds(500));  // all others fall asleep
      team->fork({[](void*) {}, &shared});
      shared.done[0] = turn;
      if (turn % 3 == 0) wrong += !team->barrier(0);
      wrong += !team->join();
      for (int v : shared.done) wrong += v != turn;
    }
    team->fork({});
  });
  EXPECT_EQ(wrong, 0);
}

/// Every claim has one winner, whoever is ahead, and a region's words are those of its fork.
TEST_P(ForkJoinTeamTest, ClaimsHaveOneWinnerAndWordsAreCopied) {
  const auto team = make();
  constexpr int claims = 7;
  std::atomic<int> wrong{0};
  std::vector<int> wins(claims);  // plain: each by its winner alone
  const auto play = [&](int m, const std::uintptr_t* words, int turn) {
    for (std::size_t w = 0; w < most_words; ++w) wrong += words[w] != static_cast<std::uintptr_t>(turn) * 10 + w;
    for (int c = 0; c < claims; ++c) {
      if (team->claim(m)) ++wins[static_cast<std::size_t>(c)];
    }
    if (team->claim(m)) team->handed() = &wins[static_cast<std::size_t>(turn % claims)];
    wrong += !team->barrier(m);
    wrong += team->handed() != &wins[static_cast<std::size_t>(turn % claims)];
    for (int each : wins) wrong += each != turn;
  };
  on_members(size(), [&](int m) {
    if (m != 0) {
      int turn = 0;
      for (Work work = team->receive(m); work.function != nullptr; work = team->receive(m)) {
        play(m, static_cast<const std::uintptr_t*>(work.data), ++turn);
      }
      return;
    }
    for (int turn = 1; turn <= rounds(); ++turn) {
      std::uintptr_t words[most_words];
      for (std::size_t w = 0; w < most_words; ++w) words[w] = static_cast<std::uintptr_t>(turn) * 10 + w;
      team->fork({[](void*) {}, words}, most_words);
      std::uintptr_t own[most_words];
      std::copy(std::begin(words), std::end(words), own);
      for (auto& word : words) word = 0;  // the others have a copy
      play(0, own, turn);
      wrong += !team->join();
    }
    team->fork({});
  });
  EXPECT_EQ(wrong, 0);
}

/// All meet in the fallback from the phase on that somebody called off, in none before, and nobody twice.
TEST_P(ForkJoinTeamTest, CallingOffMovesAllMembersAtOnce) {
  const auto team = make();
  std::barrier fallback(size());
  std::atomic<int> wrong{0};
  for (int trial = 0; trial < rounds() / 6; ++trial) {
    std::vector<std::atomic<int>> values(static_cast<std::size_t>(size()));
    std::minstd_rand random(static_cast<unsigned>(trial));
    const int phases = 8, off = static_cast<int>(random() % phases), who = static_cast<int>(random()) % size();
    on_members(size(), [&](int m) {
      for (int phase = 0; phase < phases; ++phase) {
        // Sometimes two call off the same phase.
        if (phase == off && (m == who || (trial % 3 == 0 && m == 0))) {
          if (trial % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));  // the others sleep
          team->call_off(m);
        }
        values[static_cast<std::size_t>(m)].store(phase, std::memory_order_relaxed);
        const bool ours = team->barrier(m);
        wrong += ours != (phase < off);
        if (!ours) fallback.arrive_and_wait();
        for (const auto& v : values) wrong += v.load(std::memory_order_relaxed) < phase;
      }
    });
    EXPECT_TRUE(team->called_off());
    team->reset();
    EXPECT_FALSE(team->called_off());
  }
  EXPECT_EQ(wrong, 0);
}

TEST_P(ForkJoinTeamTest, CallingOffAJoinReleasesAllMembers) {
  const auto team = make();
  std::atomic<int> wrong{0};
  for (int trial = 0; trial < rounds() / 6; ++trial) {
    const int regions = trial % 5 + 1, who = trial % size();
    on_members(size(), [&](int m) {
      int region = 0;
      if (m == 0) {
        for (bool ours = true; ours;) {
          team->fork({[](void*) {}, nullptr});
          if (++region == regions && who == 0) team->call_off(0);
          ours = team->join();
        }
      } else {
        for (Work work = team->receive(m); work.function != nullptr; work = team->receive(m)) {
          if (++region == regions && m == who) team->call_off(m);
        }
      }
      wrong += region != regions;
    });
    team->reset();
  }
  EXPECT_EQ(wrong, 0);
}

INSTANTIATE_TEST_SUITE_P(Sizes, ForkJoinTeamTest,
                         testing::Values(std::tuple(2, 2), std::tuple(2, 1), std::tuple(3, 3), std::tuple(5, 8),
                                         std::tuple(8, 2), std::tuple(8, 8), std::tuple(23, 23), std::tuple(64, 2)),
                         [](const auto& info) {
                           return std::to_string(std::get<0>(info.param)) + "On" +
                                  std::to_string(std::get<1>(info.param));
                         });

/// Members that only a wake-up brings on; a lost one would hang.
WaitConfig sleepers() {
  auto config = make_wait_config(2, 2, "sleep");
  config.longest_sleep_ns = 600'000'000'000;
  return config;
}

TEST(ForkJoinPairTest, SleepersAreWoken) {
  constexpr int rounds = 20'000;
  ForkJoinTeam team(2, 2, sleepers());
  std::atomic<int> wrong{0};
  on_members(2, [&](int m) {
    for (int turn = 0; turn < rounds; ++turn) wrong += !team.barrier(m);
  });
  EXPECT_EQ(wrong, 0);
}

TEST(ForkJoinPairTest, SleepersAreWokenByCallingOff) {
  constexpr int rounds = 20'000;
  ForkJoinTeam team(2, 2, sleepers());
  std::barrier<> outside(2);
  std::atomic<int> wrong{0}, here{0};
  on_members(2, [&](int m) {
    for (int turn = 0; turn < rounds; ++turn) {
      ++here;  // awake, so that the one falls asleep while the other calls off
      for (int looks = 0; here < 2 * (turn + 1); ++looks)
        looks < 1000 ? wait_detail::relax() : std::this_thread::yield();
      if (turn % 2 == m) {
        for (int i = turn % 64; i > 0; --i) wait_detail::relax();
        team.call_off(m);
      }
      wrong += team.barrier(m);
      outside.arrive_and_wait();
      if (m == 0) team.reset();
      outside.arrive_and_wait();
    }
  });
  EXPECT_EQ(wrong, 0);
}

/// Pairs that take each other's PUs in the midst of their pairwise barrier.
TEST(ForkJoinPairTest, BarriersSeparateTurnsAmongManyPairs) {
  constexpr int pairs = 4, rounds = 500;
  struct Pair {
    ForkJoinTeam team{2, 2, short_waits(2, 2)};
    int values[2] = {};
  };
  std::vector<std::unique_ptr<Pair>> all;
  for (int p = 0; p < pairs; ++p) all.push_back(std::make_unique<Pair>());
  std::atomic<int> wrong{0};
  on_members(2 * pairs, [&](int m) {
    Pair& own = *all[static_cast<std::size_t>(m / 2)];
    for (int turn = 0; turn < rounds; ++turn) {
      own.values[m % 2] = turn;
      wrong += !own.team.barrier(m % 2);
      wrong += own.values[0] != turn || own.values[1] != turn;
      wrong += !own.team.barrier(m % 2);
    }
  });
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace smelt::comm
