#include "smelt/floor.hpp"

#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "base/clock.hpp"
#include "machine/topology/affinity.hpp"

namespace smelt {
namespace {

TEST(FloorMoved, ByMoreThanAFifthOfEitherCost) {
  const Floor floor{100, 1000};
  EXPECT_FALSE(floor_moved(floor, floor));
  EXPECT_FALSE(floor_moved(floor, {119, 850}));
  EXPECT_TRUE(floor_moved(floor, {121, 1000}));
  EXPECT_TRUE(floor_moved({121, 1000}, floor)) << "either way";
  EXPECT_TRUE(floor_moved(floor, {100, 800})) << "1.25 times as fast";
  EXPECT_FALSE(floor_moved(floor, {})) << "not known";
  EXPECT_FALSE(floor_moved({0, 1000}, {50, 1000})) << "one PU then, two now";
  EXPECT_FALSE(Floor{}.known());
  EXPECT_TRUE((Floor{0, 1}).known());
}

/// As probe_floor(); asks again while the machine is too busy for the probe's threads to get their PUs within a second.
Result<Floor> probed(std::span<const int> pus, double time_s) {
  auto floor = probe_floor(pus, time_s);
  for (int more = 19; more > 0 && !floor && floor.error().status == Status::timed_out; --more) {
    floor = probe_floor(pus, time_s);
  }
  return floor;
}

TEST(ProbeFloor, TimesALineAndArithmetic) {
  const auto before = this_thread_affinity();
  ASSERT_TRUE(before);
  const auto start = monotonic_ns();
  const auto floor = probed(*before, 0.01);
  ASSERT_TRUE(floor) << floor.error().message;
  EXPECT_GE(monotonic_ns() - start, before->size() > 1 ? 10'000'000u : 5'000'000u) << "half of the time for each part";
  EXPECT_GT(floor->work_ns, 100.0) << "thousands of multiplications";
  if (before->size() > 1) {
    EXPECT_GT(floor->line_ns, 1.0);
  } else {
    EXPECT_EQ(floor->line_ns, 0.0);
  }
  EXPECT_EQ(*this_thread_affinity(), *before);
}

TEST(ProbeFloor, OnePuHasNoLine) {
  const auto allowed = this_thread_affinity();
  ASSERT_TRUE(allowed);
  const auto floor = probed(std::vector{allowed->front(), allowed->front()}, 0.002);
  ASSERT_TRUE(floor) << floor.error().message;
  EXPECT_EQ(floor->line_ns, 0.0);
  EXPECT_GT(floor->work_ns, 100.0);
}

TEST(ProbeFloor, RefusesPusThatDoNotExist) {
  EXPECT_FALSE(probe_floor({}));
  const auto allowed = this_thread_affinity();
  ASSERT_TRUE(allowed);
  const auto refused = probe_floor(std::vector{allowed->front(), 100000});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message, "");
}

}  // namespace
}  // namespace smelt
