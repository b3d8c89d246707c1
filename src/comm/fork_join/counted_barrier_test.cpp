#include "comm/fork_join/counted_barrier.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <new>
#include <random>
#include <thread>
#include <vector>

namespace smelt::comm {
namespace {

Waiter waiter_of(std::size_t threads) {
  return Waiter(make_wait_config(static_cast<int>(threads), static_cast<int>(std::thread::hardware_concurrency())));
}

/// In one step where that is possible, or in two.
bool wait_at(CountedBarrier& barrier, Waiter& waiter, bool at_once = true) {
  if (at_once && barrier.complete()) return true;
  const auto ticket = barrier.arrive();
  barrier.pass(ticket, waiter);
  return ticket.last;
}

template <class Body>
void in_threads(std::size_t count, Body body) {
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < count; ++i) threads.emplace_back(body, i);
  for (auto& thread : threads) thread.join();
}

TEST(CountedBarrier, OneThreadPassesAlone) {
  CountedBarrier barrier(1);
  Waiter waiter;
  for (std::uint32_t round = 0; round < 3; ++round) {
    const auto ticket = barrier.arrive();
    EXPECT_EQ(ticket.round, round);
    EXPECT_TRUE(ticket.last);
    barrier.pass(ticket, waiter);
  }
  EXPECT_TRUE(barrier.drain(waiter));
}

TEST(CountedBarrier, NoThreadPassesBeforeAllHaveArrivedAndOneIsLast) {
  for (const std::size_t threads : {2u, 3u, 8u}) {
    constexpr std::uint64_t rounds = 300;
    CountedBarrier barrier(static_cast<std::uint32_t>(threads));
    std::vector<std::uint64_t> written(threads, 0);  // plain: the barrier orders
    std::atomic<std::uint64_t> lasts{0}, wrong{0};
    in_threads(threads, [&](std::size_t me) {
      auto waiter = waiter_of(threads);
      for (std::uint64_t round = 1; round <= rounds; ++round) {
        written[me] = round;
        lasts += wait_at(barrier, waiter, round % 3 != me % 3);
        for (const auto each : written) wrong += each != round;
        lasts += wait_at(barrier, waiter, round % 2 == 0);
      }
    });
    EXPECT_EQ(lasts, 2 * rounds);
    EXPECT_EQ(wrong, 0u);
  }
}

TEST(CountedBarrier, ThreadsThatComeTooEarlyCountForTheNextRound) {
  CountedBarrier barrier(2);
  const auto first = barrier.arrive(), second = barrier.arrive();  // round 0 is complete, not open
  const auto third = barrier.arrive(), fourth = barrier.arrive();  // round 1, too
  EXPECT_EQ(third.round, 1u);
  EXPECT_FALSE(third.last);
  EXPECT_TRUE(fourth.last);
  Waiter waiter;
  barrier.pass(fourth, waiter);  // opens before the one of round 0 does
  barrier.pass(first, waiter);
  barrier.pass(second, waiter);
  barrier.pass(third, waiter);
  EXPECT_TRUE(barrier.drain(waiter));
}

// More threads than a round needs, none of which knows the others.
TEST(CountedBarrier, AnyThreadsMayTakePart) {
  constexpr std::size_t threads = 6;
  constexpr int waits = 3000;
  CountedBarrier barrier(2);
  std::atomic<int> lasts{0}, left{waits};
  in_threads(threads, [&](std::size_t) {
    auto waiter = waiter_of(threads);
    for (int turn = left.fetch_sub(1); turn > 0; turn = left.fetch_sub(1))
      lasts += wait_at(barrier, waiter, turn % 3 != 0);
  });
  EXPECT_EQ(lasts, waits / 2);
  Waiter waiter;
  EXPECT_TRUE(barrier.drain(waiter));
}

class CountedBarrierScope : public testing::TestWithParam<FutexScope> {};

TEST_P(CountedBarrierScope, SleepersAreWoken) {
  constexpr int rounds = 200;
  CountedBarrier barrier(4, GetParam());
  EXPECT_EQ(barrier.count(), 4u);
  in_threads(4, [&](std::size_t me) {
    WaitConfig config;
    config.mode = WaitMode::sleep;
    config.longest_sleep_ns = 600'000'000'000;  // a lost wake-up would hang
    Waiter waiter(config);
    for (int i = 0; i < rounds; ++i) {
      if (i % 4 == static_cast<int>(me)) std::this_thread::sleep_for(std::chrono::microseconds(100));
      wait_at(barrier, waiter, i % 8 < 4);
    }
  });
  Waiter waiter;
  EXPECT_TRUE(barrier.drain(waiter));
}
INSTANTIATE_TEST_SUITE_P(CountedBarrier, CountedBarrierScope,
                         testing::Values(FutexScope::processes, FutexScope::threads));

// Whoever comes out first destroys the barrier and overwrites its memory while others are still on their way out.
TEST(CountedBarrier, MemoryIsFreeAfterDraining) {
  constexpr std::size_t threads = 3;
  constexpr std::size_t rounds = 500;
  struct Place {
    std::unique_ptr<CountedBarrier> barrier = std::make_unique<CountedBarrier>(3);
    std::atomic<bool> taken{false};
  };
  std::vector<Place> places(rounds);
  in_threads(threads, [&](std::size_t) {
    auto waiter = waiter_of(threads);
    for (auto& place : places) {
      wait_at(*place.barrier, waiter, (&place - places.data()) % 2 == 0);
      if (place.taken.exchange(true)) continue;
      EXPECT_TRUE(place.barrier->drain(waiter));
      place.barrier.reset();
    }
  });
}

TEST(CountedBarrier, OnlyTheLastOfTheRoundInProgressCompletesIt) {
  CountedBarrier barrier(2);
  EXPECT_FALSE(barrier.complete());
  const auto first = barrier.arrive();
  EXPECT_TRUE(barrier.complete());
  const auto second = barrier.arrive(), third = barrier.arrive();  // round 1 is complete, not open
  EXPECT_FALSE(barrier.complete());
  const auto fourth = barrier.arrive();
  EXPECT_FALSE(barrier.complete());  // it would be the last of round 2 but one
  EXPECT_EQ(second.round, 1u);
  EXPECT_TRUE(third.last);
  EXPECT_EQ(fourth.round, 2u);
  Waiter waiter;
  barrier.pass(third, waiter);
  for (const auto& ticket : {first, second}) barrier.pass(ticket, waiter);
  EXPECT_TRUE(barrier.complete());
  barrier.pass(fourth, waiter);
  EXPECT_TRUE(barrier.drain(waiter));
}

TEST(CountedBarrier, RefusesToDrainUnderAnIncompleteRound) {
  CountedBarrier barrier(2);
  const auto first = barrier.arrive();
  Waiter waiter;
  EXPECT_FALSE(barrier.drain(waiter));
  barrier.pass(barrier.arrive(), waiter);
  barrier.pass(first, waiter);
  EXPECT_TRUE(barrier.drain(waiter));
}

Waiter sleeper() {
  WaitConfig config;
  config.mode = WaitMode::sleep;
  config.longest_sleep_ns = 600'000'000'000;  // a lost wake-up would hang
  return Waiter(config);
}

// Each thread comes to some rounds, and then one leaves: all rounds that it came to are passed, the next one is not.
TEST(CountedBarrier, NoThreadPassesAfterADeparture) {
  std::mt19937 random(7);
  for (const std::size_t threads : {2u, 3u, 8u}) {
    for (int turn = 0; turn < 60; ++turn) {
      CountedBarrier barrier(static_cast<std::uint32_t>(threads),
                             turn % 2 == 0 ? FutexScope::threads : FutexScope::processes);
      const std::uint32_t rounds = random() % 4;
      const auto pause = std::chrono::microseconds(random() % 3 * (random() % 300));
      std::atomic<std::uint32_t> passed{0}, told{0};
      in_threads(threads, [&](std::size_t me) {
        auto waiter = turn % 3 == 0 ? waiter_of(threads) : sleeper();
        for (std::uint32_t round = 0; round < rounds; ++round) {
          passed += barrier.complete() || barrier.pass(barrier.arrive(), waiter);
        }
        if (me == 1) {
          std::this_thread::sleep_for(pause);
          return barrier.leave(waiter);
        }
        told += !barrier.complete() && !barrier.pass(barrier.arrive(), waiter);
        told += !barrier.complete() && !barrier.pass(barrier.arrive(), waiter);
      });
      ASSERT_EQ(passed, rounds * threads);
      ASSERT_EQ(told, 2 * (threads - 1));
      Waiter waiter;
      ASSERT_TRUE(barrier.drain(waiter));
    }
  }
}

TEST(CountedBarrier, LeavingWaitsForARoundThatIsComplete) {
  CountedBarrier barrier(2);
  const auto first = barrier.arrive(), second = barrier.arrive();
  std::atomic<bool> left{false};
  std::thread leaver([&] {
    Waiter waiter;
    barrier.leave(waiter);
    left = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(left);
  Waiter waiter;
  EXPECT_TRUE(barrier.pass(second, waiter));
  EXPECT_TRUE(barrier.pass(first, waiter));
  leaver.join();
  EXPECT_FALSE(barrier.pass(barrier.arrive(), waiter));
  EXPECT_TRUE(barrier.drain(waiter));
}

TEST(CountedBarrier, WorksBetweenProcesses) {
  constexpr int rounds = 500;
  struct Shared {
    CountedBarrier barrier{2};
    int number = 0;
  };
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* shared = new (memory) Shared;
  const auto play = [shared](int me) {
    WaitConfig config;
    config.mode = WaitMode::sleep;
    config.longest_sleep_ns = 600'000'000'000;  // a lost wake-up would hang
    Waiter waiter(config);
    for (int i = 0; i < rounds; ++i) {
      if (i % 2 == me) ++shared->number;
      wait_at(shared->barrier, waiter);
    }
  };
  const pid_t child = fork();
  if (child == 0) {
    play(1);
    _exit(0);
  }
  play(0);
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(shared->number, rounds);
  munmap(memory, sizeof(Shared));
}

}  // namespace
}  // namespace smelt::comm
