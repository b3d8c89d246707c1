// The copy campaign with a timer whose costs are known.
#include "measure/copy_campaign.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <set>

namespace smelt::measure {
namespace {

constexpr CopyEffort small_effort{16384, 262144, 4194304, 67108864, 67108864, 3, 5};

/// Returns the costs in `truth` with noise and interrupts, on a virtual clock.
class FakeCopyTimer : public CopyTimer {
 public:
  explicit FakeCopyTimer(Machine truth) : truth_(std::move(truth)) {}

  double now_s() override { return now_; }

  Result<std::vector<double>> time_copies(int writer, int reader, std::size_t size_bytes, int count,
                                          double deadline_s) override {
    pairs_.insert({writer, reader});
    return samples(copy_ns(truth_, at(writer), at(reader), static_cast<double>(size_bytes)), count, deadline_s);
  }

  Result<std::vector<double>> time_process_copies(int writer, int reader, std::size_t size_bytes, int count,
                                                  double deadline_s) override {
    if (denied != Status::ok) return Error{denied, "not here"};
    return samples(process_copy_ns(truth_, at(writer), at(reader), static_cast<double>(size_bytes)), count, deadline_s);
  }

  Result<std::vector<double>> time_additions(int pu, std::size_t size_bytes, int count, double deadline_s) override {
    return samples(combine_ns(truth_, at(pu), at(pu), static_cast<double>(size_bytes)), count, deadline_s);
  }

  Result<std::vector<double>> time_together(std::span<const int> pus, std::size_t size_bytes, int count,
                                            double deadline_s) override {
    EXPECT_EQ(std::set<int>(pus.begin(), pus.end()).size(), pus.size()) << "a PU twice";
    teams.emplace_back(pus.begin(), pus.end());
    team_bytes = std::max(team_bytes, pus.size() * size_bytes);
    const auto bytes = static_cast<double>(size_bytes);
    const double slower = copy_ns(truth_, 0, 1, bytes, static_cast<int>(pus.size())) / copy_ns(truth_, 0, 1, bytes);
    return samples(slower, count, deadline_s);
  }

  std::size_t pairs_timed() const { return pairs_.size(); }

  double round_s = 0.01;
  double noise = 0.01;
  std::function<double(int round)> disturbance = [](int) { return 1.0; };  ///< factor on the times of all copies
  Status denied = Status::ok;
  std::vector<std::vector<int>> teams;
  std::size_t team_bytes = 0;

 private:
  static std::size_t at(int pu) { return static_cast<std::size_t>(pu); }

  Result<std::vector<double>> samples(double center, int count, double deadline_s) {
    now_ += round_s;
    if (now_ > deadline_s) return Error{Status::timed_out, "late"};
    center *= disturbance(rounds_++);
    std::vector<double> values;
    for (int k = 0; k < count; ++k) values.push_back(center * (1.0 + noise * normal_(random_)));
    if (count > 4) values[1] += 10'000.0;  // an interrupt
    return values;
  }

  Machine truth_;
  double now_ = 1000.0;
  int rounds_ = 0;
  std::mt19937_64 random_{1};
  std::normal_distribution<double> normal_;
  std::set<std::pair<int, int>> pairs_;
};

/// Costs that depend only on the closest level that two PUs share.
Machine truth_of(const SynthSpec& spec) {
  auto machine = *synthesize_machine(spec);
  const auto n = machine.size();
  CopyCosts copy;
  copy.chunk_bytes = 16384;
  copy.cached_bytes = 262144;
  copy.shared_bytes = 4194304;
  copy.memory_bytes = 67108864;
  copy.startup_ns = copy.chunk_ns_per_kib = copy.cached_ns_per_kib = Matrix(n);
  copy.shared_ns_per_kib = copy.memory_ns_per_kib = Matrix(n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      const Pu &from = machine.pus[i], &to = machine.pus[j];
      const double far = i == j                           ? 1.0
                         : from.numa_node == to.numa_node ? 2.0
                         : from.package == to.package     ? 3.0
                         : from.package < to.package      ? 4.0
                                                          : 5.0;
      copy.startup_ns(i, j) = 30.0 * far;
      copy.chunk_ns_per_kib(i, j) = 20.0 * far;
      copy.cached_ns_per_kib(i, j) = 30.0 * far;
      copy.shared_ns_per_kib(i, j) = 50.0 * far;
      copy.memory_ns_per_kib(i, j) = 90.0 * far;
    }
  }
  for (double slower = 1.0, copiers = 1.0;; copiers *= 2, slower *= 1.4) {
    copy.cached_contention.push_back(1.0);
    copy.shared_contention.push_back(1.0);
    copy.memory_contention.push_back(slower);
    if (copiers >= static_cast<double>(n)) break;
  }
  copy.add_ns_per_kib = 44.0;
  copy.process = ProcessCopyCosts{800.0, 50.0};
  machine.copy = std::move(copy);
  return machine;
}

Machine unmeasured(Machine machine) {
  machine.copy.reset();
  return machine;
}

void expect_near(const Matrix& found, const Matrix& truth, double tolerance) {
  ASSERT_EQ(found.size(), truth.size());
  for (std::size_t i = 0; i < truth.size(); ++i) {
    for (std::size_t j = 0; j < truth.size(); ++j) {
      ASSERT_NEAR(found(i, j), truth(i, j), tolerance * truth(i, j)) << i << " " << j;
    }
  }
}

TEST(CopyCampaign, CopiesContradictMessagesIfPusHaveMoved) {
  auto machine = *synthesize_machine({.cores = 2});
  CopyCosts copy = *truth_of({.cores = 2}).copy;
  const double message =
      machine.send_ns(0, 1) + machine.recv_ns(0, 1) + (machine.propagation_ns ? (*machine.propagation_ns)(0, 1) : 0.0);
  for (const auto& [share, agrees] : {std::pair{0.5, true}, {0.04, false}, {1.5, true}, {2.3, false}}) {
    copy.startup_ns(0, 1) = copy.startup_ns(1, 0) = share * message;
    EXPECT_EQ(agrees_with_messages(machine, copy), agrees) << share;
  }
  copy.startup_ns(1, 0) = 0.5 * message;
  EXPECT_FALSE(agrees_with_messages(machine, copy)) << "one direction is enough";
}

// What comes after the campaign has time as well.
TEST(CopyCampaign, SweepsEndWhereOthersShallFollow) {
  const auto truth = truth_of({.packages = 2, .numa_per_package = 2, .cores = 4});
  FakeCopyTimer all(truth), one(truth);
  CopyEffort effort = small_effort;
  const double start_s = all.now_s(), begun_s = one.now_s();
  ASSERT_TRUE(run_copy_campaign(unmeasured(truth), all, effort, start_s + 100.0));
  effort.more_until_s = begun_s;
  const auto found = run_copy_campaign(unmeasured(truth), one, effort, begun_s + 100.0);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_LT(one.now_s() - begun_s, all.now_s() - start_s);
}

TEST(CopyCampaign, FindsTheCostsOfEveryPair) {
  const auto truth = truth_of({.packages = 2, .numa_per_package = 2, .cores = 4});
  FakeCopyTimer timer(truth);
  const auto found = run_copy_campaign(unmeasured(truth), timer, small_effort, timer.now_s() + 100.0);
  ASSERT_TRUE(found) << found.error().message;
  const auto& costs = *truth.copy;
  EXPECT_EQ(found->cached_bytes, 262144.0);
  EXPECT_EQ(found->memory_bytes, 67108864.0);
  expect_near(found->startup_ns, costs.startup_ns, 0.1);
  expect_near(found->chunk_ns_per_kib, costs.chunk_ns_per_kib, 0.1);
  expect_near(found->cached_ns_per_kib, costs.cached_ns_per_kib, 0.1);
  expect_near(found->shared_ns_per_kib, costs.shared_ns_per_kib, 0.1);
  expect_near(found->memory_ns_per_kib, costs.memory_ns_per_kib, 0.1);
  EXPECT_NEAR(found->add_ns_per_kib, costs.add_ns_per_kib, 3.0);
  ASSERT_TRUE(found->process);
  EXPECT_NEAR(found->process->call_ns, 800.0, 50.0);
  EXPECT_NEAR(found->process->ns_per_kib, 50.0, 5.0);
  // The resulting machine can be saved.
  auto machine = unmeasured(truth);
  machine.copy = *found;
  EXPECT_TRUE(parse_machine(format_machine(machine), "memory"));
}

/// The result of a campaign of nine sweeps on two cores. In some phases, all times are multiplied by a factor.
CopyCosts found_in(std::function<double(int round)> disturbance) {
  const auto truth = truth_of({.cores = 2});
  FakeCopyTimer timer(truth);
  timer.disturbance = std::move(disturbance);
  auto effort = small_effort;
  effort.sweeps = 9;
  const auto found = run_copy_campaign(unmeasured(truth), timer, effort, timer.now_s() + 100.0);
  EXPECT_TRUE(found) << found.error().message;
  return found ? *found : CopyCosts();
}

void expect_the_truth(const CopyCosts& found) {
  const auto truth = *truth_of({.cores = 2}).copy;
  expect_near(found.startup_ns, truth.startup_ns, 0.1);
  expect_near(found.chunk_ns_per_kib, truth.chunk_ns_per_kib, 0.1);
  expect_near(found.cached_ns_per_kib, truth.cached_ns_per_kib, 0.1);
  expect_near(found.shared_ns_per_kib, truth.shared_ns_per_kib, 0.1);
  expect_near(found.memory_ns_per_kib, truth.memory_ns_per_kib, 0.1);
  EXPECT_NEAR(found.add_ns_per_kib, truth.add_ns_per_kib, 3.0);
  ASSERT_TRUE(found.process);
  EXPECT_NEAR(found.process->call_ns, truth.process->call_ns, 50.0);
  EXPECT_NEAR(found.process->ns_per_kib, truth.process->ns_per_kib, 5.0);
}

// Disturbances: another program, or a hypervisor that runs both PUs on one core, which makes copies cheap.
TEST(CopyCampaign, ADisturbedPhaseIsIgnored) {
  constexpr int length = 55;  // rounds; a sweep has 15
  for (const double factor : {2.0, 0.3}) {
    for (int start = 0; start <= 90; start += 10) {
      SCOPED_TRACE(testing::Message() << factor << " times as long from round " << start);
      const auto in_phase = [start](int round) { return start <= round && round < start + length; };
      expect_the_truth(found_in([&](int round) { return in_phase(round) ? factor : 1.0; }));
    }
  }
}

TEST(CopyCampaign, ContentionForEveryNumberOfCopiers) {
  const auto truth = truth_of({.cores = 6, .smt = 2});
  FakeCopyTimer timer(truth);
  const auto found = run_copy_campaign(unmeasured(truth), timer, small_effort, timer.now_s() + 100.0);
  ASSERT_TRUE(found) << found.error().message;
  for (const auto* list : {&found->cached_contention, &found->shared_contention, &found->memory_contention}) {
    ASSERT_EQ(list->size(), 5u);  // 1, 2, 4, 8, 12
    EXPECT_EQ(list->front(), 1.0);
    EXPECT_TRUE(std::is_sorted(list->begin(), list->end()));
  }
  EXPECT_LT(found->cached_contention.back(), 1.05);
  EXPECT_GT(found->memory_contention.back(), found->memory_contention[1]);
  EXPECT_LE(timer.team_bytes, std::max(small_effort.team_bytes, 12 * 4 * small_effort.cached_bytes));
  ASSERT_GE(timer.teams.size(), 4u);
  std::set<int> cores;
  for (const int pu : timer.teams[1]) cores.insert(truth.pus[static_cast<std::size_t>(pu)].core);
  EXPECT_EQ(cores.size(), 4u) << "four copiers on four cores";
}

// Something else that runs for a while makes every comparison of that time dearer.
TEST(CopyCampaign, AMomentOfOtherWorkIsNoContention) {
  const Machine truth = truth_of({.cores = 8});
  const std::size_t levels = 3;
  FakeCopyTimer timer(truth);
  timer.disturbance = [&](int) { return timer.teams.empty() || timer.teams.size() > levels ? 1.0 : 3.0; };
  const auto found = run_copy_campaign(unmeasured(truth), timer, small_effort, timer.now_s() + 1000.0);
  ASSERT_TRUE(found);
  ASSERT_EQ(found->cached_contention.size(), levels + 1);
  EXPECT_LT(found->cached_contention.back(), 1.1);
}

TEST(CopyCampaign, LargeMachinesAreTimedByClass) {
  const auto truth = truth_of({.packages = 2, .numa_per_package = 2, .cores = 64});
  FakeCopyTimer timer(truth);
  const auto found = run_copy_campaign(unmeasured(truth), timer, small_effort, timer.now_s() + 100.0);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_LT(timer.pairs_timed(), 60u);
  expect_near(found->cached_ns_per_kib, truth.copy->cached_ns_per_kib, 0.1);
}

TEST(CopyCampaign, TooManyNodesAreTimedByLevel) {
  const auto truth = truth_of({.packages = 8, .numa_per_package = 4, .cores = 8});
  FakeCopyTimer timer(truth);
  const double start_s = timer.now_s();
  const auto found = run_copy_campaign(unmeasured(truth), timer, small_effort, start_s + 5.0);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_LE(timer.now_s(), start_s + 5.1);
  // The classes for own data, the same node and the same package do not distinguish nodes.
  for (const auto& [from, to] : {std::pair(3, 3), std::pair(0, 1), std::pair(0, 7)}) {
    const auto i = static_cast<std::size_t>(from), j = static_cast<std::size_t>(to);
    EXPECT_NEAR(found->cached_ns_per_kib(i, j), truth.copy->cached_ns_per_kib(i, j), 9.0);
  }
}

TEST(CopyCampaign, IsCompleteOrTimesOut) {
  const auto truth = truth_of({.packages = 2, .cores = 4});
  int complete = 0, late = 0;
  for (double budget_s = 0.0; budget_s < 2.0; budget_s += 0.05) {
    FakeCopyTimer timer(truth);
    const auto found = run_copy_campaign(unmeasured(truth), timer, small_effort, timer.now_s() + budget_s);
    if (found) {
      ++complete;
      EXPECT_TRUE(found->process);
      EXPECT_EQ(found->memory_contention.size(), 4u);
      EXPECT_GT(found->memory_ns_per_kib(0, 7), 0.0);
    } else {
      ++late;
      EXPECT_EQ(found.error().status, Status::timed_out);
    }
  }
  EXPECT_GT(complete, 0);
  EXPECT_GT(late, 0);
}

TEST(CopyCampaign, ForbiddenProcessCopiesAreLeftOut) {
  const auto truth = truth_of({.cores = 2});
  for (const auto denied : {Status::permission_denied, Status::not_supported}) {
    FakeCopyTimer timer(truth);
    timer.denied = denied;
    const auto found = run_copy_campaign(unmeasured(truth), timer, small_effort, timer.now_s() + 100.0);
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_FALSE(found->process);
  }
  FakeCopyTimer timer(truth);
  timer.denied = Status::io_error;
  EXPECT_FALSE(run_copy_campaign(unmeasured(truth), timer, small_effort, timer.now_s() + 100.0));
}

TEST(CopyCampaign, OnePu) {
  const auto truth = truth_of({.cores = 1});
  FakeCopyTimer timer(truth);
  const auto found = run_copy_campaign(unmeasured(truth), timer, small_effort, timer.now_s() + 100.0);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->memory_contention, std::vector<double>{1.0});
  EXPECT_TRUE(timer.teams.empty());
}

TEST(CopyEffort, SizesAscendAndFit) {
  for (const bool quick : {true, false}) {
    for (const std::uint64_t memory : {0ull, 64ull << 20, 2ull << 30, 1ull << 40}) {
      Machine machine = *synthesize_machine({.cores = 2});
      machine.numa_nodes = {{0, memory}};
      const auto effort = copy_effort(machine, quick);
      EXPECT_GT(effort.chunk_bytes, 0u);
      EXPECT_GT(effort.cached_bytes, effort.chunk_bytes);
      EXPECT_GT(effort.shared_bytes, effort.cached_bytes);
      EXPECT_GT(effort.memory_bytes, effort.shared_bytes);
      EXPECT_LE(effort.memory_bytes, 64u << 20);
      EXPECT_EQ(effort.sweeps, quick ? 1 : 9);
    }
  }
}

}  // namespace
}  // namespace smelt::measure
