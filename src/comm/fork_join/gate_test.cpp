#include "comm/fork_join/gate.hpp"

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
bool wait_at(Gate& gate, Waiter& waiter, bool at_once = true) {
  if (at_once && gate.complete()) return true;
  const auto ticket = gate.arrive();
  gate.pass(ticket, waiter);
  return ticket.last;
}

template <class Body>
void in_threads(std::size_t count, Body body) {
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < count; ++i) threads.emplace_back(body, i);
  for (auto& thread : threads) thread.join();
}

TEST(Gate, OneThreadPassesAlone) {
  Gate gate(1);
  Waiter waiter;
  for (std::uint32_t round = 0; round < 3; ++round) {
    const auto ticket = gate.arrive();
    EXPECT_EQ(ticket.round, round);
    EXPECT_TRUE(ticket.last);
    gate.pass(ticket, waiter);
  }
  EXPECT_TRUE(gate.drain(waiter));
}

TEST(Gate, NobodyPassesBeforeAllHaveArrivedAndOneIsLast) {
  for (const std::size_t threads : {2u, 3u, 8u}) {
    constexpr std::uint64_t rounds = 300;
    Gate gate(static_cast<std::uint32_t>(threads));
    std::vector<std::uint64_t> written(threads, 0);  // plain: the gate orders
    std::atomic<std::uint64_t> lasts{0}, wrong{0};
    in_threads(threads, [&](std::size_t me) {
      auto waiter = waiter_of(threads);
      for (std::uint64_t round = 1; round <= rounds; ++round) {
        written[me] = round;
        lasts += wait_at(gate, waiter, round % 3 != me % 3);
        for (const auto each : written) wrong += each != round;
        lasts += wait_at(gate, waiter, round % 2 == 0);
      }
    });
    EXPECT_EQ(lasts, 2 * rounds);
    EXPECT_EQ(wrong, 0u);
  }
}

TEST(Gate, ThreadsThatComeTooEarlyCountForTheNextRound) {
  Gate gate(2);
  const auto first = gate.arrive(), second = gate.arrive();  // round 0 is complete, not open
  const auto third = gate.arrive(), fourth = gate.arrive();  // round 1, too
  EXPECT_EQ(third.round, 1u);
  EXPECT_FALSE(third.last);
  EXPECT_TRUE(fourth.last);
  Waiter waiter;
  gate.pass(fourth, waiter);  // opens before the one of round 0 does
  gate.pass(first, waiter);
  gate.pass(second, waiter);
  gate.pass(third, waiter);
  EXPECT_TRUE(gate.drain(waiter));
}

// More threads than a round needs, none of which knows the others.
TEST(Gate, AnyThreadsMeet) {
  constexpr std::size_t threads = 6;
  constexpr int waits = 3000;
  Gate gate(2);
  std::atomic<int> lasts{0}, left{waits};
  in_threads(threads, [&](std::size_t) {
    auto waiter = waiter_of(threads);
    for (int turn = left.fetch_sub(1); turn > 0; turn = left.fetch_sub(1))
      lasts += wait_at(gate, waiter, turn % 3 != 0);
  });
  EXPECT_EQ(lasts, waits / 2);
  Waiter waiter;
  EXPECT_TRUE(gate.drain(waiter));
}

class GateAmong : public testing::TestWithParam<Among> {};

TEST_P(GateAmong, SleepersAreWoken) {
  constexpr int rounds = 200;
  Gate gate(4, GetParam());
  EXPECT_EQ(gate.count(), 4u);
  in_threads(4, [&](std::size_t me) {
    WaitConfig config;
    config.mode = WaitMode::sleep;
    config.longest_sleep_ns = 600'000'000'000;  // a lost wake-up would hang
    Waiter waiter(config);
    for (int i = 0; i < rounds; ++i) {
      if (i % 4 == static_cast<int>(me)) std::this_thread::sleep_for(std::chrono::microseconds(100));
      wait_at(gate, waiter, i % 8 < 4);
    }
  });
  Waiter waiter;
  EXPECT_TRUE(gate.drain(waiter));
}
INSTANTIATE_TEST_SUITE_P(Gate, GateAmong, testing::Values(Among::processes, Among::threads));

// Whoever comes out first destroys the gate and overwrites its memory while others are still on their way out.
TEST(Gate, MemoryIsFreeAfterDraining) {
  constexpr std::size_t threads = 3;
  constexpr std::size_t rounds = 500;
  struct Place {
    std::unique_ptr<Gate> gate = std::make_unique<Gate>(3);
    std::atomic<bool> taken{false};
  };
  std::vector<Place> places(rounds);
  in_threads(threads, [&](std::size_t) {
    auto waiter = waiter_of(threads);
    for (auto& place : places) {
      wait_at(*place.gate, waiter, (&place - places.data()) % 2 == 0);
      if (place.taken.exchange(true)) continue;
      EXPECT_TRUE(place.gate->drain(waiter));
      place.gate.reset();
    }
  });
}

TEST(Gate, OnlyTheLastOfTheRoundInProgressCompletesIt) {
  Gate gate(2);
  EXPECT_FALSE(gate.complete());
  const auto first = gate.arrive();
  EXPECT_TRUE(gate.complete());
  const auto second = gate.arrive(), third = gate.arrive();  // round 1 is complete, not open
  EXPECT_FALSE(gate.complete());
  const auto fourth = gate.arrive();
  EXPECT_FALSE(gate.complete());  // it would be the last of round 2 but one
  EXPECT_EQ(second.round, 1u);
  EXPECT_TRUE(third.last);
  EXPECT_EQ(fourth.round, 2u);
  Waiter waiter;
  gate.pass(third, waiter);
  for (const auto& ticket : {first, second}) gate.pass(ticket, waiter);
  EXPECT_TRUE(gate.complete());
  gate.pass(fourth, waiter);
  EXPECT_TRUE(gate.drain(waiter));
}

TEST(Gate, RefusesToDrainUnderAnIncompleteRound) {
  Gate gate(2);
  const auto first = gate.arrive();
  Waiter waiter;
  EXPECT_FALSE(gate.drain(waiter));
  gate.pass(gate.arrive(), waiter);
  gate.pass(first, waiter);
  EXPECT_TRUE(gate.drain(waiter));
}

Waiter sleeper() {
  WaitConfig config;
  config.mode = WaitMode::sleep;
  config.longest_sleep_ns = 600'000'000'000;  // a lost wake-up would hang
  return Waiter(config);
}

// Each thread comes to some rounds, and then one leaves: all rounds that it came to are passed, the next one is not.
TEST(Gate, IsPassedByNobodyWhenAThreadHasLeft) {
  std::mt19937 random(7);
  for (const std::size_t threads : {2u, 3u, 8u}) {
    for (int turn = 0; turn < 60; ++turn) {
      Gate gate(static_cast<std::uint32_t>(threads), turn % 2 == 0 ? Among::threads : Among::processes);
      const std::uint32_t rounds = random() % 4;
      const auto pause = std::chrono::microseconds(random() % 3 * (random() % 300));
      std::atomic<std::uint32_t> passed{0}, told{0};
      in_threads(threads, [&](std::size_t me) {
        auto waiter = turn % 3 == 0 ? waiter_of(threads) : sleeper();
        for (std::uint32_t round = 0; round < rounds; ++round) {
          passed += gate.complete() || gate.pass(gate.arrive(), waiter);
        }
        if (me == 1) {
          std::this_thread::sleep_for(pause);
          return gate.leave(waiter);
        }
        told += !gate.complete() && !gate.pass(gate.arrive(), waiter);
        told += !gate.complete() && !gate.pass(gate.arrive(), waiter);
      });
      ASSERT_EQ(passed, rounds * threads);
      ASSERT_EQ(told, 2 * (threads - 1));
      Waiter waiter;
      ASSERT_TRUE(gate.drain(waiter));
    }
  }
}

TEST(Gate, LeavingWaitsForARoundThatIsComplete) {
  Gate gate(2);
  const auto first = gate.arrive(), second = gate.arrive();
  std::atomic<bool> left{false};
  std::thread leaver([&] {
    Waiter waiter;
    gate.leave(waiter);
    left = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(left);
  Waiter waiter;
  EXPECT_TRUE(gate.pass(second, waiter));
  EXPECT_TRUE(gate.pass(first, waiter));
  leaver.join();
  EXPECT_FALSE(gate.pass(gate.arrive(), waiter));
  EXPECT_TRUE(gate.drain(waiter));
}

TEST(Gate, WorksBetweenProcesses) {
  constexpr int rounds = 500;
  struct Shared {
    Gate gate{2};
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
      wait_at(shared->gate, waiter);
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
