#include "smelt/inspect.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>

#include "base/patience_test_util.hpp"
#include "comm/collective/forked_ranks.hpp"

namespace smelt {
namespace {

using State = RankActivity::State;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

/// The communicator of that name, once `condition` holds of it; an empty one after half a minute.
CommunicatorActivity when(const std::string& name, const std::function<bool(const CommunicatorActivity&)>& condition) {
  for (test::Patience patience(std::chrono::seconds(30)); !patience.is_over();) {
    const auto found = inspect_communicators();
    EXPECT_TRUE(found) << found.error().message;
    for (const auto& activity : *found) {
      if (activity.name == name && condition(activity)) return activity;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ADD_FAILURE() << name << " did not come to that";
  return {};
}

/// So many wait, each in the call of that number; the others have entered none after `others`.
auto waiting_ranks(int count, std::uint64_t call = 1, std::uint64_t others = 0) {
  return [=](const CommunicatorActivity& activity) {
    const auto in_call = [&](const auto& rank) { return rank.waiting && rank.calls == call; };
    const auto elsewhere = [&](const auto& rank) { return !rank.waiting && rank.calls == others; };
    return std::count_if(activity.ranks.begin(), activity.ranks.end(), in_call) == count &&
           std::count_if(activity.ranks.begin(), activity.ranks.end(), elsewhere) ==
               static_cast<std::ptrdiff_t>(activity.ranks.size()) - count;
  };
}

/// Rank processes that end when the parent says so, at the latest when it is done with them.
class Ranks {
 public:
  template <class Body>
  Ranks(const std::string& name, int size, const Body& body) {
    pids_ = test::fork_ranks(size, [&](int rank) {
      const int mine[] = {rank};
      auto options = test::options_for();
      options.timeout_s = 0.0;
      auto comm = Communicator::create_shared(name, size, mine, options);
      auto member = comm->attach(rank);
      body(*member);
      return 0;
    });
  }
  ~Ranks() {
    for (const pid_t pid : pids_) kill(pid, SIGKILL);
    test::wait_for(pids_);
  }
  pid_t operator[](int rank) const { return pids_[static_cast<std::size_t>(rank)]; }

 private:
  std::vector<pid_t> pids_;
};

void sleep_for_ever() {
  for (;;) pause();
}

TEST(ProcessInspection, NamesTheLateRank) {
  const auto name = test::fresh_name();
  const Ranks ranks(name, 3, [](Rank& member) {
    double in = 1, out = 0;
    member.allreduce(&in, &out, 1, sum<double>());
    if (member.rank() == 1) sleep_for_ever();
    member.barrier();
  });
  const auto seen = when(name, waiting_ranks(2, 2, 1));
  ASSERT_EQ(seen.ranks.size(), 3u);
  EXPECT_EQ(seen.status, Status::ok);
  for (int rank = 0; rank < 3; ++rank) {
    SCOPED_TRACE(rank);
    const auto& one = seen.ranks[static_cast<std::size_t>(rank)];
    EXPECT_EQ(one.rank, rank);
    EXPECT_EQ(one.process, ranks[rank]);
    EXPECT_EQ(one.thread, ranks[rank]);
    EXPECT_EQ(one.state, State::present);
    EXPECT_TRUE(one.attached);
    EXPECT_EQ(one.waiting, rank != 1);
    EXPECT_EQ(one.calls, rank == 1 ? 1u : 2u);
    EXPECT_EQ(one.operation, rank == 1 ? Operation::allreduce : Operation::barrier);
  }
  EXPECT_GT(seen.ranks[0].waiting_ns, 0.0);
  const auto findings = diagnose(seen);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_THAT(findings[0], HasSubstr("for rank 1, which entered allreduce (call 1) last"));
}

TEST(ProcessInspection, ReportsStoppedAndDeadProcesses) {
  const auto name = test::fresh_name();
  const Ranks ranks(name, 3, [](Rank& member) {
    if (member.rank() == 2) sleep_for_ever();
    member.barrier();
    sleep_for_ever();
  });
  (void)when(name, waiting_ranks(2));
  kill(ranks[2], SIGSTOP);
  const auto stopped = when(name, [](const auto& seen) { return seen.ranks[2].state == State::stopped; });
  EXPECT_THAT(diagnose(stopped)[0], HasSubstr("is stopped"));
  kill(ranks[2], SIGKILL);
  const auto broken = when(name, [](const auto& seen) { return seen.status != Status::ok; });
  EXPECT_EQ(broken.ranks[2].state, State::dead);
  EXPECT_THAT(broken.failure, HasSubstr("rank 2"));
  EXPECT_THAT(diagnose(broken), ElementsAre(HasSubstr("broken"), HasSubstr("rank 2 (process")));
}

TEST(ProcessInspection, ReportsRanksThatCallDifferentOperations) {
  const auto name = test::fresh_name();
  const Ranks ranks(name, 2, [](Rank& member) {
    double value = 1, total = 0;
    if (member.rank() == 0) {
      member.reduce(&value, &total, 1, sum<double>(), 0);
    } else {
      member.broadcast(&value, sizeof value, 0);
    }
    sleep_for_ever();
  });
  const auto seen = when(name, waiting_ranks(2));
  EXPECT_THAT(diagnose(seen), ElementsAre(HasSubstr("as call 1 rank 0 called reduce, rank 1 broadcast")));
}

TEST(ProcessInspection, FindsCommunicatorsWithoutAName) {
  const int fd = memfd_create("smelt-test", MFD_CLOEXEC);
  const auto pids = test::fork_ranks(2, [&](int rank) {
    const int mine[] = {rank};
    auto comm = Communicator::create_shared(fd, 2, mine, test::options_for());
    auto member = comm->attach(rank);
    sleep_for_ever();
    return 0;
  });
  close(fd);
  const auto seen = when("", [&](const auto& each) { return each.ranks[0].process == pids[0]; });
  EXPECT_THAT(diagnose(seen), IsEmpty());
  for (const pid_t pid : pids) kill(pid, SIGKILL);
  test::wait_for(pids);
  // Other programs' communicators may come and go meanwhile.
  const auto later = inspect_communicators();
  EXPECT_TRUE(std::none_of(later->begin(), later->end(), [&](const auto& each) { return each.id == seen.id; }));
}

// ---- what is made of it, without processes

CommunicatorActivity four_ranks_in(Operation operation, std::uint64_t calls) {
  CommunicatorActivity activity;
  for (int rank = 0; rank < 4; ++rank) {
    RankActivity one;
    one.rank = rank;
    one.process = 100 + rank;
    one.state = State::present;
    one.attached = true;
    one.calls = calls;
    one.operation = operation;
    activity.ranks.push_back(one);
  }
  return activity;
}

void let_wait(RankActivity& rank, std::optional<int> peer = std::nullopt) {
  rank.waiting = true;
  rank.peer = peer;
}

TEST(Diagnosis, IsEmptyWhileNoRankWaits) { EXPECT_THAT(diagnose(four_ranks_in(Operation::barrier, 7)), IsEmpty()); }

TEST(Diagnosis, NamesAnUntakenRank) {
  auto activity = four_ranks_in(Operation::barrier, 7);
  for (const int rank : {0, 1, 3}) let_wait(activity.ranks[static_cast<std::size_t>(rank)]);
  activity.ranks[2].calls = 6;
  activity.ranks[2].attached = false;
  EXPECT_THAT(diagnose(activity), ElementsAre("ranks 0, 1 and 3 wait for rank 2, which no thread has taken"));
}

TEST(Diagnosis, NamesARankThatHasNotBegun) {
  auto activity = four_ranks_in(Operation::broadcast, 1);
  let_wait(activity.ranks[3], 0);
  activity.ranks[0].calls = 0;
  EXPECT_THAT(diagnose(activity), ElementsAre("rank 3 waits for rank 0, which has entered no call yet"));
}

TEST(Diagnosis, DoesNotBlameUnawaitedRanksInTheSameCall) {
  auto activity = four_ranks_in(Operation::broadcast, 5);
  let_wait(activity.ranks[3]);
  EXPECT_THAT(diagnose(activity), IsEmpty());
}

TEST(Diagnosis, FindsACycle) {
  auto activity = four_ranks_in(Operation::alltoall, 3);
  let_wait(activity.ranks[0], 1);
  let_wait(activity.ranks[1], 2);
  let_wait(activity.ranks[2], 1);
  EXPECT_THAT(diagnose(activity), ElementsAre(testing::StartsWith("ranks 1 and 2 wait for each other")));
}

TEST(Diagnosis, PutsDeathsFirst) {
  auto activity = four_ranks_in(Operation::alltoall, 3);
  let_wait(activity.ranks[0], 1);
  activity.ranks[1].state = State::finished;
  activity.ranks[2].state = State::left;
  EXPECT_THAT(diagnose(activity), ElementsAre("rank 1 (process 101) ended", "rank 2 (process 102) left"));
}

}  // namespace
}  // namespace smelt
