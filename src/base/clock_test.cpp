#include "base/clock.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

namespace smelt {
namespace {

TEST(Clock, TicksNeverGoBack) {
  auto last = ticks();
  for (int i = 0; i < 10000; ++i) {
    const auto now = ticks();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST(Clock, RateIsPlausible) {
  EXPECT_GT(ticks_per_ns(), 0.001);  // 1 MHz
  EXPECT_LT(ticks_per_ns(), 20.0);   // 20 GHz
  EXPECT_EQ(ticks_per_ns(), ticks_per_ns());
}

TEST(Clock, TheDateIsThatOfTheSystemWhateverTheTimeZone) {
  const char* zone = std::getenv("TZ");
  const std::string former = zone != nullptr ? zone : "";
  setenv("TZ", "EAST-5", 1);
  tzset();
  const std::time_t before = std::time(nullptr);
  std::tm parts{};
  const std::string text = utc_now();
  zone != nullptr ? setenv("TZ", former.c_str(), 1) : unsetenv("TZ");
  tzset();
  const char* end = strptime(text.c_str(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  ASSERT_NE(end, nullptr) << text;
  EXPECT_EQ(*end, '\0') << text;
  EXPECT_GE(timegm(&parts), before);
  EXPECT_LE(timegm(&parts), std::time(nullptr));
}

TEST(Clock, AStepShowsInIntervalsThatAreMultiplesOfIt) {
  const auto step_of = [](std::vector<std::uint64_t> intervals) { return step_of_intervals(intervals); };
  EXPECT_NEAR(step_of({26, 52, 51, 26, 1, 25, 52, 77, 4000}), 25.8, 0.3);
  EXPECT_EQ(step_of({24, 24, 26, 24, 24}), 1.0);                    // a clock that takes that long to read
  EXPECT_EQ(step_of({20, 26, 31, 37, 44, 55}), 1.0);                // no multiples
  EXPECT_DOUBLE_EQ(step_of({100, 100, 200, 215, 200}), 815.0 / 8);  // within the tolerance
  EXPECT_EQ(step_of({100, 100, 200, 216, 200}), 1.0);               // not
  std::vector<std::uint64_t> single(96, 100);
  single.insert(single.end(), 4, 200);
  EXPECT_EQ(step_of(single), 1.0) << "too few are multiples: they may be interrupts";
  single.insert(single.end(), 2, 200);
  EXPECT_DOUBLE_EQ(step_of(single), 10'800.0 / 108);
  EXPECT_EQ(step_of({0, 1, 0}), 1.0);
  EXPECT_EQ(step_of({}), 1.0);
  EXPECT_GE(clock_step(), 1.0);
  EXPECT_EQ(clock_step(), clock_step());
}

// Of 130 ticks that a reading takes, a clock in steps of 100 shows 100 or 200.
TEST(Clock, AStepIsFoundByReadingTheClock) {
  static std::uint64_t time = 5'000'000;
  EXPECT_NEAR(step_of_clock([]() noexcept { return (time += 130) / 100 * 100; }), 100, 1e-9);
  EXPECT_EQ(step_of_clock([]() noexcept { return time += 130; }), 1.0);
}

// Clocks that show the same time, one in nanoseconds, one in thirds of them; reading one takes 20 ns.
struct InterruptedClocks {
  static inline std::uint64_t now = 0, readings = 0, interrupted = 0;
  static std::uint64_t ns() noexcept {
    now += ++readings == interrupted ? 4'000'000 : 20;
    return now;
  }
  static std::uint64_t ticks() noexcept { return 3 * ns(); }
};

TEST(Clock, ARateSurvivesAnInterruptionAtAnyReading) {
  constexpr std::uint64_t window_ns = 20'000, all_readings = window_ns / 20 + 2 * 15;
  for (std::uint64_t reading = 1; reading <= all_readings; ++reading) {
    InterruptedClocks::readings = 0;
    InterruptedClocks::interrupted = reading;
    EXPECT_NEAR(rate_of_clocks({InterruptedClocks::ticks, InterruptedClocks::ns}, window_ns), 3, 1e-9) << reading;
  }
  EXPECT_GE(InterruptedClocks::readings, all_readings / 2);
}

TEST(Clock, RatesAreThatOfTheSystemsClock) {
  for (int attempt = 0;; ++attempt) {  // this thread may be interrupted between two stamps
    const auto start_ns = monotonic_ns(), start = ticks();
    while (monotonic_ns() - start_ns < 10'000'000) {}
    const auto end = ticks(), end_ns = monotonic_ns();
    const double rate = static_cast<double>(end - start) / static_cast<double>(end_ns - start_ns);
    const bool near = std::abs(ticks_per_ns() / rate - 1) < 0.02 && std::abs(rough_ticks_per_ns() / rate - 1) < 0.1;
    if (near || attempt == 20) {
      EXPECT_NEAR(ticks_per_ns() / rate, 1, 0.02);
      EXPECT_NEAR(rough_ticks_per_ns() / rate, 1, 0.1);
      break;
    }
  }
}

}  // namespace
}  // namespace smelt
