#include "shims/mpi/pending/step_pace.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <thread>

namespace smelt::shims::mpi {
namespace {

/// A clock that takes 10 to look at, and steps of `cost`.
class Steps {
  auto clock() {
    return [this] {
      ++looks;
      return now_ += 10;
    };
  }

 public:
  explicit Steps(std::uint64_t cost) : cost_(cost) {
    pace_.measure([this] { now_ += cost_; }, clock());
  }

  /// The share of the time that steps take, in parts per thousand, for calls that take `call`.
  std::uint64_t share(std::uint64_t part, std::uint64_t call) {
    std::uint64_t steps = 0;
    const std::uint64_t begin = now_;
    for (int i = 0; i < 10000; ++i) {
      now_ += call;
      if (!pace_.is_due(part, clock())) continue;
      now_ += cost_;
      ++steps;
      pace_.took_step(clock());
    }
    return 1000 * steps * cost_ / (now_ - begin);
  }
  std::uint64_t looks = 0;

 private:
  std::uint64_t cost_, now_ = 1000000;
  StepPace pace_;
};

TEST(StepPace, StepsThatTakeLongTakeASmallPartOfTheTime) {
  Steps steps(600);
  for (const std::uint64_t part : {4, 64}) {
    const std::uint64_t share = steps.share(part, 100);
    EXPECT_LE(share, 1000 / part);
    EXPECT_GE(share, 1000 / (part + 2));
  }
  EXPECT_GE(steps.share(64, 100000), 5U) << "one after each call that takes longer than that";
}

TEST(StepPace, AllOtherStepsAreDueAndTheClockIsNotLookedAt) {
  Steps steps(78);
  steps.looks = 0;
  EXPECT_EQ(steps.share(64, 100), 438U);
  EXPECT_EQ(steps.looks, 0U);
  EXPECT_LT(Steps(79).share(64, 100), 20U);
}

/// A step that is interrupted while it is measured does not count.
TEST(StepPace, TheShortestTimeCounts) {
  std::uint64_t now = 0, steps = 0;
  const auto clock = [&] { return now += 10; };
  StepPace pace;
  pace.measure([&] { now += ++steps == 3 ? 1000000 : 100; }, clock);
  EXPECT_TRUE(pace.is_due(64, clock));
  pace.took_step(clock);
  EXPECT_FALSE(pace.is_due(64, clock));
  now += 64 * 110;
  EXPECT_TRUE(pace.is_due(64, clock));
}

TEST(StepPace, AStepThatEndsWhileTheClockIsLookedAtCounts) {
  std::uint64_t now = 0;
  const auto clock = [&] { return now += 10; };
  StepPace pace;
  pace.measure([&] { now += 600; }, clock);
  const auto other_steps = [&] {
    const std::uint64_t seen = clock();
    now += 600;
    pace.took_step(clock);
    return seen;
  };
  EXPECT_FALSE(pace.is_due(64, other_steps));
}

/// Whoever takes a step, it counts for all.
TEST(StepPace, ThreadsShareThePace) {
  std::atomic<std::uint64_t> now{0}, steps{0};
  const auto clock = [&] { return now.fetch_add(10) + 10; };
  const auto step = [&] { now.fetch_add(600); };
  StepPace pace;
  pace.measure(step, clock);
  const auto call = [&] {
    for (int i = 0; i < 5000; ++i) {
      now.fetch_add(100);
      if (!pace.is_due(64, clock)) continue;
      step();
      ++steps;
      pace.took_step(clock);
    }
  };
  std::thread other(call);
  call();
  other.join();
  EXPECT_GT(steps.load(), 0U);
  EXPECT_LE(steps.load(), 2 * (now.load() / (64 * 600) + 1)) << "two threads may find the same step due";
}

TEST(StepPace, BeforeItIsMeasuredEveryStepIsDue) {
  StepPace pace;
  const auto clock = [] { return std::uint64_t{0}; };
  pace.took_step(clock);
  EXPECT_TRUE(pace.is_due(64, clock));
}

}  // namespace
}  // namespace smelt::shims::mpi
