// The real timer of copies on this machine. Checks structure, not timings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "machine/topology/affinity.hpp"
#include "measure/copy_campaign.hpp"
#include "measure/copy_timer.hpp"

namespace smelt::measure {
namespace {

using testing::AllOf;
using testing::Each;
using testing::Ge;
using testing::Lt;
using testing::SizeIs;

class MemoryTimerTest : public testing::Test {
 protected:
  void SetUp() override {
    auto discovered = discover_machine();
    const auto allowance = discover_allowance();
    ASSERT_TRUE(discovered && allowance);
    machine_ = std::move(*discovered);
    std::erase_if(machine_.pus, [&](const Pu& pu) {
      return std::find(allowance->pus.begin(), allowance->pus.end(), pu.os_index) == allowance->pus.end();
    });
    last_ = static_cast<int>(machine_.size()) - 1;
  }
  double soon() { return monotonic_s() + 10.0; }

  Machine machine_;
  int last_ = 0;
};

TEST_F(MemoryTimerTest, CopiesOfOwnAndOthersData) {
  MemoryTimer timer(machine_);
  for (const std::size_t bytes : {64ul, 4096ul, 1ul << 20, 4096ul}) {
    for (const int writer : {0, last_}) {
      const auto samples = timer.time_copies(writer, last_, bytes, 5, soon());
      ASSERT_TRUE(samples) << samples.error().message;
      EXPECT_THAT(*samples, AllOf(SizeIs(5), Each(Ge(0.0)), Each(Lt(1e10))));
    }
  }
}

TEST_F(MemoryTimerTest, Additions) {
  MemoryTimer timer(machine_);
  const auto samples = timer.time_additions(0, 1 << 16, 7, soon());
  ASSERT_TRUE(samples) << samples.error().message;
  EXPECT_THAT(*samples, AllOf(SizeIs(7), Each(Ge(0.0))));
}

TEST_F(MemoryTimerTest, EveryCopierIsCompared) {
  MemoryTimer timer(machine_);
  std::vector<int> pus;
  for (int i = 0; i <= std::min(last_, 7); ++i) pus.push_back(i);
  const auto samples = timer.time_together(pus, 1 << 18, 9, soon());
  ASSERT_TRUE(samples) << samples.error().message;
  EXPECT_THAT(*samples, AllOf(SizeIs(9), Each(testing::Gt(0.0))));
}

TEST_F(MemoryTimerTest, ARewriteIsComparedWithAWriteOfOwnLines) {
  if (last_ == 0) GTEST_SKIP() << "needs two PUs";
  MemoryTimer timer(machine_);
  const auto samples = timer.time_rewrites(last_, 0, 1 << 14, 7, soon());
  ASSERT_TRUE(samples) << samples.error().message;
  EXPECT_THAT(*samples, SizeIs(7));
  const auto added = timer.time_combined_rewrites(last_, 0, 1 << 14, 7, soon());
  ASSERT_TRUE(added) << added.error().message;
  EXPECT_THAT(*added, SizeIs(7));
  const auto combined = timer.time_combinations(last_, 0, 1 << 14, 7, soon());
  ASSERT_TRUE(combined) << combined.error().message;
  EXPECT_THAT(*combined, AllOf(SizeIs(7), Each(testing::Gt(0.0))));
  EXPECT_EQ(timer.time_rewrites(0, last_, 4096, 5, monotonic_s()).error().status, Status::timed_out);
}

TEST_F(MemoryTimerTest, ManyPusUseOneCacheAndOneLine) {
  if (last_ == 0) GTEST_SKIP() << "needs two PUs";
  MemoryTimer timer(machine_);
  std::vector<int> pus;
  for (int i = 0; i <= std::min(last_, 3); ++i) pus.push_back(i);
  const auto handed_out = timer.time_source(0, std::span(pus).subspan(1), 1 << 14, 7, soon());
  ASSERT_TRUE(handed_out) << handed_out.error().message;
  EXPECT_THAT(*handed_out, AllOf(SizeIs(7), Each(testing::Gt(0.0))));
  const auto counted = timer.time_counted_barriers(pus, 5, soon());
  ASSERT_TRUE(counted) << counted.error().message;
  EXPECT_THAT(*counted, AllOf(SizeIs(5), Each(testing::Gt(0.0))));
  const auto changed = timer.time_changes(0, last_, 1 << 14, 7, soon());
  ASSERT_TRUE(changed) << changed.error().message;
  EXPECT_THAT(*changed, SizeIs(7));
  EXPECT_EQ(timer.time_source(0, std::span(pus).subspan(1), 4096, 5, monotonic_s()).error().status, Status::timed_out);
}

TEST_F(MemoryTimerTest, ReadersOfTheSamePagesOfAnotherProcess) {
  MemoryTimer timer(machine_);
  const int readers[] = {last_};
  const auto samples = timer.time_process_source(0, readers, 1 << 16, 5, soon());
  if (samples) {
    EXPECT_THAT(*samples, AllOf(SizeIs(5), Each(testing::Gt(0.0))));
  } else {
    EXPECT_THAT(samples.error().status, testing::AnyOf(Status::permission_denied, Status::not_supported));
  }
  EXPECT_EQ(timer.time_process_source(0, readers, 4096, 5, monotonic_s()).error().status, Status::timed_out);
  EXPECT_EQ(waitpid(-1, nullptr, __WALL | WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD) << "a child was left";
}

std::atomic<int> child_signals{0};

TEST_F(MemoryTimerTest, ProcessCopiesLeaveNoTrace) {
  struct sigaction counting = {}, before;
  counting.sa_handler = [](int) { child_signals.fetch_add(1, std::memory_order_relaxed); };
  ASSERT_EQ(sigaction(SIGCHLD, &counting, &before), 0);
  const auto affinity = this_thread_affinity();
  MemoryTimer timer(machine_);
  const auto samples = timer.time_process_copies(last_, 0, 1 << 16, 5, soon());
  if (samples) {
    EXPECT_THAT(*samples, AllOf(SizeIs(5), Each(testing::Gt(0.0))));
  } else {
    EXPECT_THAT(samples.error().status, testing::AnyOf(Status::permission_denied, Status::not_supported));
  }
  EXPECT_EQ(waitpid(-1, nullptr, __WALL | WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD) << "a child was left";
  EXPECT_EQ(child_signals.load(), 0) << "the program's handler was disturbed";
  const auto after = this_thread_affinity();
  ASSERT_TRUE(affinity && after);
  EXPECT_EQ(*after, *affinity);
  sigaction(SIGCHLD, &before, nullptr);
  // Later copies use the same buffers.
  EXPECT_TRUE(timer.time_copies(0, last_, 1 << 16, 3, soon()));
}

TEST_F(MemoryTimerTest, AWholeCampaignOfSmallCopies) {
  constexpr CopyEffort small{4096, 65536, 262144, 1 << 20, 1 << 20, 1, 2};
  MemoryTimer timer(machine_);
  const auto costs = run_copy_campaign(machine_, timer, small, monotonic_s() + 120.0);
  ASSERT_TRUE(costs) << costs.error().message;
  EXPECT_EQ(costs->memory_bytes, 1 << 20);
  for (const auto* slowdowns : {&costs->cached_contention, &costs->shared_contention, &costs->memory_contention}) {
    EXPECT_EQ(slowdowns->front(), 1.0);
    EXPECT_TRUE(std::is_sorted(slowdowns->begin(), slowdowns->end()));
  }
  machine_.copy = *costs;
  const auto parsed = parse_machine(format_machine(machine_), "memory");
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->copy, machine_.copy);
  const auto last = static_cast<std::size_t>(last_);
  EXPECT_GT(copy_ns(machine_, 0, last, 1 << 20), copy_ns(machine_, 0, last, 1 << 12));
}

TEST_F(MemoryTimerTest, ADeadlineInThePastEndsSoon) {
  MemoryTimer timer(machine_);
  const double start_s = monotonic_s();
  std::vector<int> pus = {0};
  if (last_ > 0) pus.push_back(last_);
  EXPECT_EQ(timer.time_copies(0, last_, 4096, 1'000'000, start_s + 0.01).error().status, Status::timed_out);
  EXPECT_EQ(timer.time_copies(0, last_, 4096, 5, start_s).error().status, Status::timed_out);
  EXPECT_EQ(timer.time_together(pus, 4096, 5, start_s).error().status, Status::timed_out);
  EXPECT_EQ(timer.time_process_copies(0, last_, 4096, 5, start_s).error().status, Status::timed_out);
  EXPECT_LT(monotonic_s() - start_s, 10.0);
  EXPECT_EQ(waitpid(-1, nullptr, __WALL | WNOHANG), -1) << "a child was left";
}

TEST_F(MemoryTimerTest, AMissingPuIsAnError) {
  machine_.pus[0].os_index = 100'000;
  MemoryTimer timer(machine_);
  for (const auto& samples :
       {timer.time_copies(0, last_, 4096, 5, soon()), timer.time_process_copies(last_, 0, 4096, 5, soon())}) {
    ASSERT_FALSE(samples);
    EXPECT_NE(samples.error().status, Status::timed_out) << samples.error().message;
  }
}

}  // namespace
}  // namespace smelt::measure
