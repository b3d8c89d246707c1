// A rank that does not arrive is reported by name, and nobody hangs.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "smelt/communicator.hpp"

namespace smelt {
namespace {

Communicator with_timeout(int ranks, double timeout_s, const std::string& barrier) {
  SynthSpec spec;
  spec.cores = 8;
  const Machine machine = *synthesize_machine(spec);
  Group group = whole_machine(machine);
  group.pus.resize(static_cast<std::size_t>(ranks));
  CommunicatorOptions options;
  options.pin = false;
  options.timeout_s = timeout_s;
  options.barrier = barrier;
  return std::move(*Communicator::create(machine, group, options));
}

class Timeout : public testing::TestWithParam<const char*> {};

TEST_P(Timeout, NamesTheRankTheOperationAndTheCalls) {
  auto comm = with_timeout(4, 1.0, GetParam());  // longer than any of the others may be late on a busy machine
  std::atomic<int> freed{0};
  std::mutex mutex;
  std::vector<std::string> reports;
  const auto done = comm.run([&](Rank& rank) {
    int value = 0;
    ASSERT_EQ(rank.broadcast(&value, sizeof value, 0), Status::ok);
    ASSERT_EQ(rank.barrier(), Status::ok);
    if (rank.rank() == 3) {  // is there, but never comes
      while (freed < 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return;
    }
    const Status first = rank.barrier();
    const Status second = rank.broadcast(&value, sizeof value, 1);
    if (first == Status::timed_out && second == Status::timed_out) ++freed;
    const std::lock_guard lock(mutex);
    reports.push_back(rank.failure());
  });
  EXPECT_TRUE(done);
  EXPECT_EQ(freed, 3);
  ASSERT_EQ(reports.size(), 3u);
  for (const auto& report : reports) {
    EXPECT_EQ(report, reports[0]);
    EXPECT_NE(report.find("rank 3 (PU 3) did not arrive at barrier (call 3) within 1 s: it is 1 call behind"),
              std::string::npos)
        << report;
    EXPECT_NE(report.find("the last one it entered was barrier (call 2)"), std::string::npos) << report;
  }
}

INSTANTIATE_TEST_SUITE_P(Barriers, Timeout, testing::Values("tree", "dissemination", "flat"));

// A rank that is told that the communicator is broken may free its buffers.
TEST(Timeout, ReturnsBuffersWhenNobodyReadsThemAnyMore) {
  static std::atomic<int> reading;
  reading = 0;
  const Reduction slow{sizeof(double),
                       [](void*, const void*, std::size_t, void*) {
                         ++reading;
                         std::this_thread::sleep_for(std::chrono::milliseconds(1200));
                         --reading;
                       },
                       nullptr, true};
  SynthSpec spec;
  CommunicatorOptions options;
  options.pin = false;
  options.timeout_s = 0.1;
  options.algorithm = "reduce_flat+direct";
  const Machine machine = *synthesize_machine(spec);
  auto comm = Communicator::create(machine, Group{{0, 1}}, options);
  ASSERT_TRUE(comm) << comm.error().message;
  EXPECT_TRUE(comm->run([&](Rank& rank) {
    std::vector<double> in(1000), out(1000);
    const Status status = rank.reduce(in.data(), out.data(), in.size(), slow);
    if (rank.rank() == 0) return;
    EXPECT_EQ(status, Status::timed_out);
    EXPECT_EQ(reading, 0);
  }));
}

TEST(TimeoutOff, ALateRankIsWaitedFor) {
  auto comm = with_timeout(2, 0.0, "");
  const auto done = comm.run([](Rank& rank) {
    if (rank.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    EXPECT_EQ(rank.barrier(), Status::ok);
    EXPECT_EQ(rank.failure(), "");
  });
  EXPECT_TRUE(done);
}

/// Six waits, longer in all than the time-out of a second. Whether none of them timed out; nothing if the machine was
/// so busy that a single one may have been as long.
std::optional<bool> six_waits_pass() {
  using Clock = std::chrono::steady_clock;
  auto comm = with_timeout(2, 1.0, "");
  std::atomic<bool> passed{true};
  Clock::duration longest{};
  const auto done = comm.run([&](Rank& rank) {
    std::vector<char> data(1 << 16, static_cast<char>(rank.rank()));
    auto before = Clock::now();
    for (int part = 0; part < 6 && passed; ++part) {
      if (rank.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(200));
      if (rank.broadcast(data.data(), data.size(), 0) != Status::ok) passed = false;
      const auto now = Clock::now();
      if (rank.rank() == 0) longest = std::max(longest, now - before);
      before = now;
    }
  });
  EXPECT_TRUE(done || !passed);
  if (!passed && longest > std::chrono::milliseconds(500)) return std::nullopt;
  return passed.load();
}

TEST(Timeout, CountsWaitingNotWorking) {
  std::optional<bool> passed;
  for (int attempt = 0; attempt < 10 && !passed; ++attempt) passed = six_waits_pass();
  EXPECT_EQ(passed, true);
}

}  // namespace
}  // namespace smelt
