// A short measurement of the machine that the tests run on. Checks plausibility, not timings.
#include "smelt/measure.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "base/clock.hpp"
#include "machine/topology/affinity.hpp"
#include "measure/channel_timer.hpp"

namespace smelt {
namespace {

/// Copies may be missing only if there was no time for all of them.
void expect_sane_copies(const Machine& machine) {
  if (!machine.copy) return;
  const auto& copy = *machine.copy;
  for (std::size_t i = 0; i < machine.size(); ++i) {
    for (std::size_t j = 0; j < machine.size(); ++j) {
      EXPECT_GE(copy.startup_ns(i, j), 0.0);
      for (const Matrix* rate : {&copy.cached_ns_per_kib, &copy.shared_ns_per_kib, &copy.memory_ns_per_kib}) {
        EXPECT_GT((*rate)(i, j), 0.0);
        EXPECT_LT((*rate)(i, j), 1e7);
      }
      EXPECT_GT(copy_ns(machine, i, j, 1 << 20), copy_ns(machine, i, j, 1 << 10));
    }
  }
  EXPECT_GT(copy.add_ns_per_kib, 0.0);
  for (const auto* slowdowns : {&copy.cached_contention, &copy.shared_contention, &copy.memory_contention}) {
    EXPECT_EQ(slowdowns->size() > 1, machine.size() > 1);
    EXPECT_THAT(*slowdowns, testing::Each(testing::Ge(1.0)));
  }
  if (copy.process) {
    EXPECT_GT(copy.process->call_ns, 0.0);
  }
}

void expect_sane(const Machine& machine) {
  const auto n = machine.size();
  ASSERT_GE(n, 1u);
  ASSERT_TRUE(machine.has_costs());
  ASSERT_TRUE(machine.rtt_ns && machine.propagation_ns && machine.exchange_ns);
  ASSERT_TRUE(machine.send_spread && machine.recv_spread);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      if (i == j) {
        for (const Matrix* matrix : {&machine.send_ns, &machine.recv_ns, &*machine.rtt_ns, &*machine.exchange_ns}) {
          EXPECT_EQ((*matrix)(i, j), 0.0);
        }
        continue;
      }
      for (const Matrix* matrix : {&machine.send_ns, &machine.recv_ns, &*machine.rtt_ns, &*machine.exchange_ns}) {
        EXPECT_GT((*matrix)(i, j), 0.0);
        EXPECT_LT((*matrix)(i, j), 1e9);
      }
      EXPECT_GE((*machine.propagation_ns)(i, j), 0.0);
      EXPECT_EQ((*machine.exchange_ns)(i, j), (*machine.exchange_ns)(j, i));
      EXPECT_EQ((*machine.rtt_ns)(i, j), (*machine.rtt_ns)(j, i));
      for (const Matrix* matrix : {&*machine.send_spread, &*machine.recv_spread}) {
        EXPECT_TRUE(std::isfinite((*matrix)(i, j)));
        EXPECT_GE((*matrix)(i, j), 0.0);
      }
    }
  }
  // Bursts may be missing if other processes left no time for a whole round.
  EXPECT_THAT(machine.send_burst_ns.size(), testing::AnyOf(0u, n > 1 ? 16u : 0u));
  EXPECT_THAT(machine.send_burst_ns, testing::Each(testing::Ge(0.0)));
  EXPECT_THAT(machine.recv_burst_ns.size(), testing::AnyOf(0u, n > 1 ? 16u : 0u));
  EXPECT_THAT(machine.recv_burst_ns, testing::Each(testing::Ge(0.0)));
  EXPECT_EQ(machine.send_gap_ns.has_value(), !machine.send_burst_ns.empty());
  EXPECT_EQ(machine.recv_gap_ns.has_value(), !machine.recv_burst_ns.empty());
  EXPECT_EQ(machine.poll_ns.size(), 5u);
  EXPECT_THAT(machine.poll_ns, testing::Each(testing::Ge(0.0)));
  if (machine.switch_ns) {
    EXPECT_GT(*machine.switch_ns, 0.0);
  }
  expect_sane_copies(machine);
  // May be missing for the same reason.
  if (machine.call_ns) {
    EXPECT_GT(n, 1u);
    EXPECT_GE(*machine.call_ns, 0.0);
    EXPECT_LT(*machine.call_ns, 1e6);
  }
  EXPECT_GT(machine.tsc_ghz, 0.0);
  EXPECT_THAT(machine.measured_at, testing::MatchesRegex("20..-..-..T..:..:..Z"));
  EXPECT_FALSE(machine.name.empty());
  EXPECT_FALSE(machine.fingerprint.empty());
}

TEST(Measure, ThisMachine) {
  const auto affinity = this_thread_affinity();
  ASSERT_TRUE(affinity);
  MeasureOptions options;
  options.quick = true;
  options.budget_s = 5.0;
  int reports = 0;
  options.progress = [&](const MeasureProgress& progress) {
    ++reports;
    EXPECT_GE(progress.fraction, 0.0);
    EXPECT_LE(progress.fraction, 1.0);
  };
  const auto start_ns = monotonic_ns();
  const auto machine = measure_machine(options);
  ASSERT_TRUE(machine) << machine.error().message;
  EXPECT_LT(static_cast<double>(monotonic_ns() - start_ns) * 1e-9,
            120.0);  // a generous limit, since other programs may use the PUs
  EXPECT_GE(reports, 1);
  expect_sane(*machine);
  const auto allowance = discover_allowance();
  ASSERT_TRUE(allowance);
  EXPECT_EQ(machine->size(), allowance->pus.size());
  const auto after = this_thread_affinity();
  ASSERT_TRUE(after);
  EXPECT_EQ(*after, *affinity);
  // The measured machine can be saved and loaded.
  const auto parsed = parse_machine(format_machine(*machine), "memory");
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->size(), machine->size());
  EXPECT_EQ(parsed->measured_at, machine->measured_at);
}

TEST(Measure, OnePuOfSeveral) {
  const SavedAffinity saved;
  const auto affinity = this_thread_affinity();
  ASSERT_TRUE(affinity);
  ASSERT_TRUE(set_this_thread_affinity({affinity->front()}));
  MeasureOptions options;
  options.quick = true;
  const auto machine = measure_machine(options);
  ASSERT_TRUE(machine) << machine.error().message;
  ASSERT_EQ(machine->size(), 1u);
  EXPECT_EQ(machine->pus[0].os_index, affinity->front());
  expect_sane(*machine);
}

TEST(Measure, BadBudgets) {
  for (double budget_s : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    MeasureOptions options;
    options.budget_s = budget_s;
    const auto machine = measure_machine(options);
    ASSERT_FALSE(machine);
    EXPECT_EQ(machine.error().status, Status::invalid_argument);
  }
}

TEST(Measure, MeasuredOnceThenCached) {
  const auto directory = std::filesystem::path(testing::TempDir()) / "smelt-measure-test-cache";
  std::filesystem::remove_all(directory);
  ASSERT_EQ(setenv("SMELT_CACHE_DIR", directory.c_str(), 1), 0);
  MeasureOptions options;
  options.quick = true;
  options.budget_s = 5.0;
  int reports = 0;
  options.progress = [&](const MeasureProgress&) { ++reports; };
  const auto first = measured_machine(options);
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_GE(reports, 1);
  reports = 0;
  const auto second = measured_machine(options);
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ(reports, 0);
  EXPECT_EQ(second->measured_at, first->measured_at);
  EXPECT_EQ(second->pus, first->pus);
  unsetenv("SMELT_CACHE_DIR");
  std::filesystem::remove_all(directory);
}

/// The real timer on two PUs of this machine.
class ChannelTimerTest : public testing::Test {
 protected:
  void SetUp() override {
    auto discovered = discover_machine();
    const auto allowance = discover_allowance();
    ASSERT_TRUE(discovered && allowance);
    machine_ = std::move(*discovered);
    std::erase_if(machine_.pus, [&](const Pu& pu) {
      return std::find(allowance->pus.begin(), allowance->pus.end(), pu.os_index) == allowance->pus.end();
    });
    if (machine_.size() < 2) GTEST_SKIP() << "needs two PUs";
  }
  Machine machine_;
};

TEST_F(ChannelTimerTest, ARoundHasSamplesOfEveryCost) {
  measure::ChannelTimer timer(machine_, true);
  const auto round = timer.time_pair(0, 1, timer.now_s() + 5.0);
  ASSERT_TRUE(round) << round.error().message;
  for (const auto& samples : round->values) {
    EXPECT_GE(samples.size(), 6u);
    EXPECT_THAT(samples, testing::Each(testing::Lt(5e9)));
  }
}

TEST_F(ChannelTimerTest, AllChannelsOfABurstAreUsed) {
  measure::ChannelTimer timer(machine_, true);
  for (std::size_t threads = 1; threads < std::min<std::size_t>(machine_.size(), 4); ++threads) {
    std::vector<int> receivers;
    for (std::size_t t = 1; t <= threads; ++t) receivers.push_back(static_cast<int>(t));
    const auto totals = timer.time_burst(0, receivers, 16, timer.now_s() + 5.0);
    ASSERT_TRUE(totals) << totals.error().message;
    EXPECT_EQ(totals->size(), 16u);
  }
}

// The receivers share a PU, if there are only two: what counts is that exactly the last one replies.
TEST_F(ChannelTimerTest, ARowOfSendsHasAReceiverForEach) {
  measure::ChannelTimer timer(machine_, true);
  const int receivers[] = {1, 1, 1};
  const auto totals = timer.time_burst(0, receivers, 3, timer.now_s() + 20.0);
  ASSERT_TRUE(totals) << totals.error().message;
  EXPECT_THAT(*totals, testing::SizeIs(3));
}

TEST_F(ChannelTimerTest, ReadersOfALineAreTimedByPowersOfTwo) {
  measure::ChannelTimer timer(machine_, true);
  for (const auto& [readers, sizes] : {std::pair{1, 1}, {2, 2}, {3, 2}, {4, 3}, {5, 3}}) {
    const std::vector<int> pus(static_cast<std::size_t>(readers), 1);
    const auto later = timer.time_fan_out(0, pus, timer.now_s() + 20.0);
    ASSERT_TRUE(later) << later.error().message;
    EXPECT_THAT(*later, testing::SizeIs(static_cast<std::size_t>(sizes))) << readers;
    EXPECT_EQ(later->front(), 0.0);
    EXPECT_TRUE(std::is_sorted(later->begin(), later->end()));
  }
  EXPECT_EQ(timer.time_fan_out(0, std::vector{1, 1}, timer.now_s() - 1.0).error().status, Status::timed_out);
}

TEST_F(ChannelTimerTest, RowsOfMessagesThatComeAtOnce) {
  measure::ChannelTimer timer(machine_, true);
  for (const std::size_t senders : {1u, 2u}) {
    const auto rows = timer.time_receive_row(0, std::vector<int>(senders, 1), timer.now_s() + 20.0);
    ASSERT_TRUE(rows) << rows.error().message;
    EXPECT_THAT(*rows, testing::SizeIs(senders));
  }
  EXPECT_EQ(timer.time_receive_row(0, std::vector{1, 1}, timer.now_s() - 1.0).error().status, Status::timed_out);
}

TEST_F(ChannelTimerTest, SwitchesBetweenProcessesLeaveNoChild) {
  measure::ChannelTimer timer(machine_, true);
  const auto took = timer.time_process_switch(0, timer.now_s() + 30.0);
  ASSERT_TRUE(took) << took.error().message;
  EXPECT_GT(*took, 0.0);
  EXPECT_EQ(timer.time_process_switch(0, timer.now_s() - 1.0).error().status, Status::timed_out);
  EXPECT_EQ(waitpid(-1, nullptr, __WALL | WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD) << "a child was left";
}

TEST_F(ChannelTimerTest, ADeadlineInThePastEndsSoon) {
  measure::ChannelTimer timer(machine_, false);
  const auto affinity = this_thread_affinity();
  // Many short rounds. None may take longer than its deadline and some slack.
  for (double allowed_s : {-1.0, 0.0, 50e-6}) {
    const double start_s = timer.now_s();
    const auto round = timer.time_pair(1, 0, start_s + allowed_s);
    if (!round) {
      EXPECT_EQ(round.error().status, Status::timed_out);
    }
    EXPECT_LT(timer.now_s() - start_s, 5.0);
  }
  const auto after = this_thread_affinity();
  ASSERT_TRUE(affinity && after);
  EXPECT_EQ(*after, *affinity);
}

TEST_F(ChannelTimerTest, AMissingPuIsAnError) {
  machine_.pus[1].os_index = 100'000;
  measure::ChannelTimer timer(machine_, true);
  for (const auto& [a, b] : {std::pair(0, 1), std::pair(1, 0)}) {
    const auto round = timer.time_pair(a, b, timer.now_s() + 5.0);
    ASSERT_FALSE(round);
    EXPECT_NE(round.error().status, Status::timed_out) << round.error().message;
  }
  const auto totals = timer.time_burst(0, std::vector{1}, 4, timer.now_s() + 5.0);
  ASSERT_FALSE(totals);
  EXPECT_NE(totals.error().status, Status::timed_out) << totals.error().message;
}

}  // namespace
}  // namespace smelt
