#include "measure/campaign.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <set>

namespace smelt::measure {
namespace {

/// A timer that returns the costs of a known machine with noise and interrupts, on a virtual clock.
class FakeTimer : public PairTimer {
 public:
  explicit FakeTimer(Machine truth) : truth_(std::move(truth)) {}

  double now_s() override { return now_; }

  Result<Round> time_pair(int a, int b, double deadline_s) override {
    EXPECT_NE(a, b);
    if (fail_pair) return Error{Status::not_found, "no such PU"};
    const double takes = round_s * (stall_every > 0 && ++rounds_ % stall_every == 0 ? 100.0 : 1.0);
    if (now_ + takes > deadline_s) {
      now_ = std::max(now_, deadline_s) + overrun_s;
      return Error{Status::timed_out, "late"};
    }
    now_ += takes;
    timed_.emplace(std::min(a, b), std::max(a, b));
    const auto i = static_cast<std::size_t>(a), j = static_cast<std::size_t>(b);
    const double address = 1.0 + address_noise * normal_(random_);
    Round round;
    for (std::size_t c = 0; c < cost_count; ++c) {
      double center = 0.0;
      switch (static_cast<Cost>(c)) {
        case Cost::send_forward: center = truth_.send_ns(i, j); break;
        case Cost::recv_forward: center = truth_.recv_ns(i, j); break;
        case Cost::send_backward: center = truth_.send_ns(j, i); break;
        case Cost::recv_backward: center = truth_.recv_ns(j, i); break;
        // The counters of the two PUs differ by 7 ns.
        case Cost::lone_forward: center = lone(i, j) + 7.0; break;
        case Cost::lone_backward: center = lone(i, j) - 7.0; break;
        case Cost::round_trip: center = (*truth_.rtt_ns)(i, j); break;
        case Cost::exchange: center = (*truth_.exchange_ns)(i, j); break;
      }
      for (int k = 0; k < 16; ++k) {
        const bool interrupted = k % 8 == 3;
        round.values[c].push_back(interrupted ? 9'000.0 : center * address * (1.0 + noise * normal_(random_)));
      }
    }
    return round;
  }

  Result<std::vector<double>> time_burst(int sender, std::span<const int> receivers, int channels,
                                         double deadline_s) override {
    EXPECT_FALSE(receivers.empty());
    EXPECT_EQ(std::set<int>(receivers.begin(), receivers.end()).size(), receivers.size());
    for (int receiver : receivers) EXPECT_NE(receiver, sender);
    if (now_ + round_s > deadline_s) return Error{Status::timed_out, "late"};
    now_ += round_s;
    std::vector<double> totals;
    for (int k = 1; k <= channels; ++k)
      totals.push_back(burst_send_ns * k + 20.0 * std::max(0, k - 8) + normal_(random_));
    return totals;
  }

  /// The first message costs 30 ns, each further one that waits behind it 4 ns.
  Result<std::vector<double>> time_receive_burst(int receiver, std::span<const int> senders, int channels,
                                                 double deadline_s) override {
    for (const int sender : senders) EXPECT_NE(sender, receiver);
    if (now_ + round_s > deadline_s) return Error{Status::timed_out, "late"};
    now_ += round_s;
    std::vector<double> totals;
    for (int k = 0; k < channels; ++k) totals.push_back(30.0 + 4.0 * k + 0.1 * normal_(random_));
    return totals;
  }

  /// The second line costs as much as the first, others a tenth, to PUs of odd numbers `odd_lines` times as much.
  Result<std::vector<double>> time_lines(int a, int b, int lines, double deadline_s) override {
    EXPECT_NE(a, b);
    if (now_ + round_s > deadline_s) return Error{Status::timed_out, "late"};
    now_ += round_s + more_lines_s;
    ++lines_rounds;
    std::vector<double> costs;
    for (int length = 1; length <= lines; length *= 2) {
      const double more_ns = (length > 1 ? 50.0 : 0.0) + 5.0 * std::max(0, length - 2);
      costs.push_back(50.0 + more_ns * (b % 2 != 0 ? odd_lines : 1.0) + 0.1 * normal_(random_));
    }
    return costs;
  }

  /// The second reader waits for another 100 ns, each further one for 5 ns more.
  Result<std::vector<double>> time_fan_out(int writer, std::span<const int> readers, double deadline_s) override {
    for (const int reader : readers) EXPECT_NE(reader, writer);
    if (now_ + round_s > deadline_s) return Error{Status::timed_out, "late"};
    now_ += round_s;
    std::vector<double> later;
    for (std::size_t k = 1; k <= readers.size(); k *= 2)
      later.push_back(k == 1 ? 0.0 : 90.0 + 5.0 * static_cast<double>(k));
    return later;
  }

  Result<std::vector<double>> time_receive_row(int, std::span<const int> senders, double deadline_s) override {
    if (now_ + round_s > deadline_s) return Error{Status::timed_out, "late"};
    now_ += round_s;
    std::vector<double> totals;
    const double absence_ns = rows_timed_++ < disturbed_rows ? 300'000.0 : 0.0;
    for (std::size_t k = 0; k < senders.size(); ++k) {
      totals.push_back(200.0 + (k > 0 ? 90.0 : 0.0) + 10.0 * double(k) + absence_ns);
    }
    return totals;
  }

  Result<std::vector<double>> time_polls(int, int channels) override {
    std::vector<double> costs;
    for (int count = 1; count <= channels; count *= 2) costs.push_back(2.0 * count);
    return costs;
  }

  Result<double> time_switch(int, double deadline_s) override {
    if (now_ + round_s > deadline_s) return Error{Status::timed_out, "late"};
    return switches_timed_++ < disturbed_switches ? 6400.0 : 1500.0;
  }

  Result<double> time_process_switch(int, double deadline_s) override {
    if (now_ + round_s > deadline_s) return Error{Status::timed_out, "late"};
    return 2500.0;
  }

  int rows_timed() const { return rows_timed_; }

  double odd_lines = 1.0, more_lines_s = 0.0;
  int lines_rounds = 0;
  int disturbed_switches = 0;  ///< the first ones, by another program
  int disturbed_rows = 0;      ///< of receives, likewise
  std::size_t pairs_timed() const { return timed_.size(); }

  double burst_send_ns = 5.0;  ///< of the first eight
  double round_s = 0.0007;
  double noise = 0.03;
  double address_noise = 0.02;
  double overrun_s = 0.0;
  int stall_every = 0;
  bool fail_pair = false;

 private:
  double lone(std::size_t i, std::size_t j) const { return 0.55 * (*truth_.rtt_ns)(i, j); }

  Machine truth_;
  double now_ = 1000.0;
  int rounds_ = 0, switches_timed_ = 0;
  int rows_timed_ = 0;
  std::mt19937_64 random_{1};
  std::normal_distribution<double> normal_;
  std::set<std::pair<int, int>> timed_;
};

Machine truth_of(const SynthSpec& spec) {
  auto machine = synthesize_machine(spec);
  EXPECT_TRUE(machine);
  const auto n = machine->size();
  machine->rtt_ns = machine->exchange_ns = Matrix(n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      if (i == j) continue;
      const double there = machine->send_ns(i, j) + machine->recv_ns(i, j);
      const double back = machine->send_ns(j, i) + machine->recv_ns(j, i);
      (*machine->rtt_ns)(i, j) = 1.2 * (there + back);
      (*machine->exchange_ns)(i, j) = 0.7 * (there + back);
    }
  }
  return *machine;
}

Machine without_costs(Machine machine) {
  machine.send_ns = machine.recv_ns = Matrix();
  machine.rtt_ns = machine.exchange_ns = std::nullopt;
  machine.method.clear();
  return machine;
}

double largest_relative_difference(const Matrix& a, const Matrix& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a(i, i), 0.0);
    for (std::size_t j = 0; j < a.size(); ++j) {
      if (i != j) largest = std::max(largest, std::abs(a(i, j) - b(i, j)) / b(i, j));
    }
  }
  return largest;
}

TEST(MeasurementCampaign, SmallMachineAllPairs) {
  SynthSpec spec;
  spec.packages = 2;
  spec.cores = 4;
  spec.smt = 2;
  spec.jitter = 0.2;  // every pair is different
  const auto truth = truth_of(spec);
  FakeTimer timer(truth);
  const auto measured = run_campaign(without_costs(truth), timer, {});
  ASSERT_TRUE(measured) << measured.error().message;
  EXPECT_EQ(timer.pairs_timed(), 16u * 15u / 2u);
  EXPECT_EQ(measured->method, "measured");
  EXPECT_EQ(measured->pus, truth.pus);
  EXPECT_LT(largest_relative_difference(measured->send_ns, truth.send_ns), 0.06);
  EXPECT_LT(largest_relative_difference(measured->recv_ns, truth.recv_ns), 0.06);
  EXPECT_LT(largest_relative_difference(*measured->rtt_ns, *truth.rtt_ns), 0.06);
  EXPECT_LT(largest_relative_difference(*measured->exchange_ns, *truth.exchange_ns), 0.06);
  for (std::size_t i = 0; i < 16; ++i) {
    for (std::size_t j = 0; j < 16; ++j) {
      if (i == j) continue;
      EXPECT_EQ((*measured->exchange_ns)(i, j), (*measured->exchange_ns)(j, i));
      EXPECT_GT((*measured->send_spread)(i, j), 0.0);
      EXPECT_LT((*measured->recv_spread)(i, j), 0.2);
      const double lone = measured->send_ns(i, j) + measured->recv_ns(i, j) + (*measured->propagation_ns)(i, j);
      EXPECT_NEAR(lone / (0.55 * (*truth.rtt_ns)(i, j)), 1.0, 0.06);
    }
  }
}

TEST(MeasurementCampaign, BurstShowsTheWriteBuffer) {
  SynthSpec spec;
  spec.cores = 17;  // 16 receivers
  const auto truth = truth_of(spec);
  FakeTimer timer(truth);
  const auto measured = run_campaign(without_costs(truth), timer, {});
  ASSERT_TRUE(measured);
  ASSERT_EQ(measured->send_burst_ns.size(), 16u);
  for (std::size_t k = 0; k < 16; ++k) EXPECT_NEAR(measured->send_burst_ns[k], k < 8 ? 5.0 : 25.0, 1.0) << k;
}

TEST(MeasurementCampaign, BurstsGiveGapsOfAllPairs) {
  SynthSpec spec;
  spec.packages = 2;
  spec.cores = 3;
  const auto truth = truth_of(spec);
  FakeTimer timer(truth);
  timer.burst_send_ns = 60.0;
  const auto measured = run_campaign(without_costs(truth), timer, {});
  ASSERT_TRUE(measured);
  ASSERT_EQ(measured->lines_ns.size(), 9u);
  const double lengths_ns[] = {50.0, 100.0, 110.0, 130.0, 170.0};
  for (std::size_t k = 0; k < 5; ++k) EXPECT_NEAR(measured->lines_ns[k], lengths_ns[k], 1.0) << k;
  EXPECT_EQ(measured->fan_out_ns, (std::vector<double>{0.0, 100.0, 110.0}));  // of five readers
  ASSERT_EQ(measured->recv_burst_ns.size(), 16u);
  for (std::size_t k = 0; k < 16; ++k) EXPECT_NEAR(measured->recv_burst_ns[k], k == 0 ? 30.0 : 4.0, 1.0) << k;
  ASSERT_TRUE(measured->send_gap_ns && measured->recv_gap_ns);
  const auto message = [&](std::size_t i, std::size_t j) {
    return measured->send_ns(i, j) + (*measured->propagation_ns)(i, j) + measured->recv_ns(i, j);
  };
  double messages = 0.0, recv = 0.0, send_gap = 0.0, recv_gap = 0.0;  // sums over the pairs of the bursts
  for (std::size_t other = 1; other < 6; ++other) {
    messages += message(0, other);
    recv += measured->recv_ns(other, 0);
    send_gap += (*measured->send_gap_ns)(0, other);
    recv_gap += (*measured->recv_gap_ns)(other, 0);
  }
  EXPECT_NEAR(recv_gap / 5, 4.0, 0.2);
  ASSERT_EQ(measured->send_burst_ns.size(), 5u);  // a row of sends has a receiver for each
  EXPECT_NEAR(send_gap / 5, 60.0, 1.0);
  for (std::size_t i = 0; i < 6; ++i) {
    for (std::size_t j = 0; j < 6; ++j) {
      EXPECT_NEAR((*measured->recv_gap_ns)(i, j), measured->recv_ns(i, j) * recv_gap / recv, 1e-9);
      EXPECT_NEAR((*measured->send_gap_ns)(i, j), message(i, j) * send_gap / messages, 1e-9);
    }
  }
  EXPECT_EQ(measured->recv_row_ns, (std::vector<double>{200, 100, 10, 10, 10}));
  EXPECT_EQ(measured->poll_ns, (std::vector<double>{2, 4, 8, 16, 32}));
  EXPECT_EQ(measured->switch_ns, 1500.0);
  EXPECT_EQ(measured->process_switch_ns, 2500.0);
}

// Four other ends, of which two are slow.
TEST(MeasurementCampaign, LinesAreTheMeanOverTheOtherEnds) {
  SynthSpec spec;
  spec.cores = 5;
  FakeTimer timer(truth_of(spec));
  timer.odd_lines = 3.0;
  const auto measured = run_campaign(without_costs(truth_of(spec)), timer, {});
  ASSERT_TRUE(measured) << measured.error().message;
  ASSERT_GE(measured->lines_ns.size(), 3u);
  EXPECT_NEAR(measured->lines_ns[0], 50.0, 1.0);
  EXPECT_NEAR(measured->lines_ns[1], 50.0 + 2 * 50.0, 2.0);
  EXPECT_NEAR(measured->lines_ns[2], 50.0 + 2 * 60.0, 2.0);
}

// Of fifteen other ends each takes a twentieth of the budget: a tenth is for all of them.
TEST(MeasurementCampaign, LinesTakeNoLongerThanTheirShareOfTheBudget) {
  SynthSpec spec;
  spec.cores = 16;
  FakeTimer timer(truth_of(spec));
  MeasureOptions options;
  timer.more_lines_s = 0.05 * options.budget_s;
  const auto measured = run_campaign(without_costs(truth_of(spec)), timer, options);
  ASSERT_TRUE(measured) << measured.error().message;
  EXPECT_GE(timer.lines_rounds, 1);
  EXPECT_LE(timer.lines_rounds, 3);
  EXPECT_NEAR(measured->lines_ns[1], 100.0, 2.0);
}

// A program that has the PU when the campaign begins is gone later.
TEST(MeasurementCampaign, SwitchesAreTheLeastOfSeveralMoments) {
  SynthSpec spec;
  spec.cores = 2;
  FakeTimer timer(truth_of(spec));
  timer.disturbed_switches = 5;
  const auto measured = run_campaign(without_costs(truth_of(spec)), timer, {});
  ASSERT_TRUE(measured) << measured.error().message;
  EXPECT_EQ(measured->switch_ns, 1500.0);
}

// A program that takes PUs away in most rounds changes nothing; in all of them, rows stay unknown.
TEST(MeasurementCampaign, RowsAreTimedWhileAllThreadsRun) {
  SynthSpec spec;
  spec.cores = 6;
  const auto truth = truth_of(spec);
  FakeTimer usual(truth);
  ASSERT_TRUE(run_campaign(without_costs(truth), usual, {}));
  const int rounds = usual.rows_timed();
  ASSERT_GE(rounds, 4);

  FakeTimer timer(truth);
  timer.disturbed_rows = rounds - 1;
  const auto measured = run_campaign(without_costs(truth), timer, {});
  ASSERT_TRUE(measured) << measured.error().message;
  EXPECT_EQ(measured->recv_row_ns, (std::vector<double>{200, 100, 10, 10, 10}));

  FakeTimer never(truth);
  never.disturbed_rows = rounds;
  const auto without = run_campaign(without_costs(truth), never, {});
  ASSERT_TRUE(without) << without.error().message;
  EXPECT_TRUE(without->recv_row_ns.empty());
  EXPECT_EQ(without->fan_out_ns.size(), 3u);
}

TEST(MeasurementCampaign, GapsOfSendsAreNoShorterThanSends) {
  SynthSpec spec;
  spec.cores = 6;
  const auto truth = truth_of(spec);
  FakeTimer timer(truth);
  timer.burst_send_ns = 0.0;
  const auto measured = run_campaign(without_costs(truth), timer, {});
  ASSERT_TRUE(measured && measured->send_gap_ns);
  for (std::size_t i = 0; i < 6; ++i) {
    for (std::size_t j = 0; j < 6; ++j) EXPECT_EQ((*measured->send_gap_ns)(i, j), measured->send_ns(i, j));
  }
}

// A sender and a receiver: the share of the cost of sends that a store buffer does not hide.
TEST(MeasurementCampaign, GapsOfTwoPusAreOfSendsAlone) {
  SynthSpec spec;
  spec.cores = 2;
  const auto truth = truth_of(spec);
  FakeTimer timer(truth);
  timer.burst_send_ns = 60.0;
  const auto measured = run_campaign(without_costs(truth), timer, {});
  ASSERT_TRUE(measured && measured->send_gap_ns);
  EXPECT_TRUE(measured->fan_out_ns.empty());
  ASSERT_EQ(measured->send_burst_ns.size(), 16u);
  EXPECT_NEAR((*measured->send_gap_ns)(0, 1), (4 * 60.0 + 8 * 80.0) / 12, 1.0);
}

TEST(MeasurementCampaign, LargeMachineByClassWithinTheBudget) {
  SynthSpec spec;
  spec.packages = 4;
  spec.numa_per_package = 2;
  spec.cores = 64;
  spec.l3 = 8;
  spec.smt = 2;
  spec.jitter = 0.01;
  const auto truth = truth_of(spec);
  ASSERT_EQ(truth.size(), 512u);
  FakeTimer timer(truth);
  MeasureOptions options;
  options.budget_s = 10.0;
  const double start = timer.now_s();
  const auto measured = run_campaign(without_costs(truth), timer, options);
  ASSERT_TRUE(measured);
  EXPECT_LE(timer.now_s() - start, 10.0);
  EXPECT_EQ(measured->method, "measured-by-class");
  EXPECT_LT(timer.pairs_timed(), 2000u);
  EXPECT_LT(largest_relative_difference(measured->send_ns, truth.send_ns), 0.08);
  EXPECT_LT(largest_relative_difference(measured->recv_ns, truth.recv_ns), 0.08);
  EXPECT_LT(largest_relative_difference(*measured->exchange_ns, *truth.exchange_ns), 0.08);
}

TEST(MeasurementCampaign, FindsStructureThatTheTopologyDoesNotShow) {
  // Two groups of 4 L3 caches on two halves of a die. The topology has no unit for a half.
  SynthSpec spec;
  spec.cores = 128;
  spec.l3 = 8;
  auto truth = truth_of(spec);
  for (std::size_t i = 0; i < 128; ++i) {
    for (std::size_t j = 0; j < 128; ++j) {
      if ((truth.pus[i].l3 < 4) == (truth.pus[j].l3 < 4)) continue;
      for (Matrix* matrix : {&truth.send_ns, &truth.recv_ns, &*truth.rtt_ns, &*truth.exchange_ns})
        (*matrix)(i, j) *= 2.0;
    }
  }
  FakeTimer timer(truth);
  MeasureOptions options;
  options.budget_s = 5.0;
  const auto measured = run_campaign(without_costs(truth), timer, options);
  ASSERT_TRUE(measured);
  EXPECT_EQ(measured->method, "measured-by-class");
  EXPECT_LT(timer.pairs_timed(), 700u);
  EXPECT_LT(largest_relative_difference(*measured->rtt_ns, *truth.rtt_ns), 0.08);
}

TEST(MeasurementCampaign, TooLittleTimeStillGivesAModel) {
  // In a container in which a round takes 50 ms, a budget of 3 s suffices for some pairs only.
  SynthSpec spec;
  spec.packages = 2;
  spec.cores = 8;
  const auto truth = truth_of(spec);
  FakeTimer timer(truth);
  timer.round_s = 0.05;
  timer.overrun_s = 0.02;
  MeasureOptions options;
  options.budget_s = 3.0;
  const double start = timer.now_s();
  const auto measured = run_campaign(without_costs(truth), timer, options);
  ASSERT_TRUE(measured) << measured.error().message;
  EXPECT_LE(timer.now_s() - start, 3.1);
  EXPECT_EQ(measured->method, "measured-by-class");
  for (std::size_t i = 0; i < 16; ++i) {
    for (std::size_t j = 0; j < 16; ++j) EXPECT_EQ(measured->send_ns(i, j) > 0.0, i != j);
  }
}

TEST(MeasurementCampaign, NoTimeAtAllIsAnError) {
  const auto truth = truth_of(SynthSpec{});
  FakeTimer timer(truth);
  timer.round_s = 100.0;
  const auto measured = run_campaign(without_costs(truth), timer, {});
  ASSERT_FALSE(measured);
  EXPECT_EQ(measured.error().status, Status::timed_out);
  EXPECT_THAT(measured.error().message, testing::HasSubstr("budget"));
}

TEST(MeasurementCampaign, StallsDoNotShow) {
  // Every 7th round waits for another process. The budget is kept nevertheless.
  SynthSpec spec;
  spec.cores = 6;
  const auto truth = truth_of(spec);
  FakeTimer timer(truth);
  timer.stall_every = 7;
  MeasureOptions options;
  options.budget_s = 6.0;
  const double start = timer.now_s();
  const auto measured = run_campaign(without_costs(truth), timer, options);
  ASSERT_TRUE(measured);
  EXPECT_LE(timer.now_s() - start, 6.0);
  EXPECT_LT(largest_relative_difference(measured->recv_ns, truth.recv_ns), 0.06);
}

TEST(MeasurementCampaign, ErrorsOfTheTimerAreReported) {
  const auto truth = truth_of(SynthSpec{});
  FakeTimer timer(truth);
  timer.fail_pair = true;
  const auto measured = run_campaign(without_costs(truth), timer, {});
  ASSERT_FALSE(measured);
  EXPECT_EQ(measured.error().message, "no such PU");
}

TEST(MeasurementCampaign, OnePu) {
  SynthSpec spec;
  spec.cores = 1;
  FakeTimer timer(truth_of(spec));
  const auto measured = run_campaign(without_costs(truth_of(spec)), timer, {});
  ASSERT_TRUE(measured);
  EXPECT_EQ(measured->send_ns, Matrix(1));
  EXPECT_EQ(*measured->exchange_ns, Matrix(1));
  EXPECT_EQ(measured->method, "measured");
  EXPECT_TRUE(measured->has_costs());
  EXPECT_FALSE(measured->send_gap_ns || measured->recv_gap_ns);
  EXPECT_EQ(measured->switch_ns, 1500.0) << "ranks may share it";
}

TEST(MeasurementCampaign, QuickTakesATenth) {
  SynthSpec spec;
  spec.cores = 16;
  const auto truth = truth_of(spec);
  const auto duration = [&](bool quick) {
    FakeTimer timer(truth);
    MeasureOptions options;
    options.quick = quick;
    const double start = timer.now_s();
    const auto measured = run_campaign(without_costs(truth), timer, options);
    EXPECT_TRUE(measured);
    EXPECT_LT(largest_relative_difference(measured->send_ns, truth.send_ns), quick ? 0.15 : 0.06);
    return timer.now_s() - start;
  };
  EXPECT_LT(duration(true), duration(false) / 4.0);
}

TEST(MeasurementCampaign, ProgressGrowsAFewTimesASecondAndEndsAtOne) {
  SynthSpec spec;
  spec.cores = 32;
  const auto truth = truth_of(spec);
  for (double budget_s : {0.5, 3.0, 30.0}) {
    FakeTimer timer(truth);
    std::vector<double> fractions;
    std::vector<double> times;
    MeasureOptions options;
    options.budget_s = budget_s;
    options.progress = [&](const MeasureProgress& progress) {
      EXPECT_FALSE(progress.phase.empty());
      EXPECT_GE(progress.eta_s, 0.0);
      EXPECT_LE(progress.eta_s, budget_s);
      fractions.push_back(progress.fraction);
      times.push_back(timer.now_s());
    };
    ASSERT_TRUE(run_campaign(without_costs(truth), timer, options));
    ASSERT_GE(fractions.size(), 2u);
    EXPECT_TRUE(std::is_sorted(fractions.begin(), fractions.end()));
    EXPECT_EQ(fractions.back(), 1.0);
    EXPECT_LT(fractions[fractions.size() - 2], 1.0);
    for (std::size_t i = 1; i + 1 < times.size(); ++i) EXPECT_GE(times[i] - times[i - 1], 0.2);
  }
}

TEST(BurstCosts, AreDifferencesAndNeverNegative) {
  EXPECT_THAT(burst_costs(std::vector{5.0, 10.0, 30.0}), testing::ElementsAre(5.0, 5.0, 20.0));
  const auto costs = burst_costs(std::vector{10.0, 9.0, 14.0, 12.0, 20.0});
  EXPECT_THAT(costs, testing::Each(testing::Ge(0.0)));
  EXPECT_DOUBLE_EQ(costs[0], 9.5);
  EXPECT_DOUBLE_EQ(costs[0] + costs[1] + costs[2] + costs[3] + costs[4], 20.0);
  EXPECT_TRUE(burst_costs({}).empty());
}

}  // namespace
}  // namespace smelt::measure
