#include "comm/group/membership.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <random>
#include <set>
#include <thread>

#include "base/segment.hpp"

namespace smelt::comm {
namespace {

void sleep_us(int us) { std::this_thread::sleep_for(std::chrono::microseconds(us)); }

// A registry in memory that forked children share.
struct Registry {
  explicit Registry(int ranks)
      : segment(*Segment::anonymous(Membership::bytes(ranks))), members(segment.data(), ranks) {}
  Segment segment;
  Membership members;
};

pid_t fork_child(const std::function<void()>& body) {
  const pid_t pid = fork();
  if (pid == 0) {
    body();
    _exit(0);
  }
  return pid;
}

void reap(pid_t pid) { waitpid(pid, nullptr, 0); }

void kill_and_reap(pid_t pid) {
  kill(pid, SIGKILL);
  reap(pid);
}

// Waits until `condition`; false if it has not come true for far longer than it should take.
bool eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < 30'000; ++i) {
    if (condition()) return true;
    sleep_us(1000);
  }
  return false;
}

// Asks a failure detector as seldom as a sleeping waiter does; true if it saw a death within a second.
bool seen_by_sleeper(FailureDetector& detector) {
  for (int i = 0; i < 20; ++i) {
    if (detector.check()) return true;
    sleep_us(50'000);
  }
  return false;
}

// No death in so many looks, with pauses after which each look is a real one.
bool all_quiet(FailureDetector& detector) {
  for (int i = 0; i < 30; ++i) {
    if (detector.check()) return false;
    sleep_us(2000);
  }
  return true;
}

TEST(Membership, RanksJoinOnceAndLeave) {
  Registry registry(3);
  Membership& members = registry.members;
  EXPECT_TRUE(members.survivors().empty());
  ASSERT_TRUE(members.join(1));
  EXPECT_TRUE(members.present(1));
  EXPECT_EQ(members.process(1).pid, getpid());
  EXPECT_EQ(members.thread(1), gettid());
  EXPECT_EQ(members.join(1).error().status, Status::invalid_argument);
  EXPECT_EQ(members.join(3).error().status, Status::invalid_argument);
  EXPECT_EQ(members.join(-1).error().status, Status::invalid_argument);
  EXPECT_EQ(members.survivors(), std::vector<int>{1});
  members.leave(1);
  EXPECT_EQ(members.state(1), MemberState::left);
  EXPECT_FALSE(members.join(1));
  EXPECT_FALSE(members.mark_dead(1));
  members.leave(0);
  EXPECT_EQ(members.state(0), MemberState::absent);
  EXPECT_EQ(members.first_dead(), -1);
}

TEST(Membership, DeathIsFinalAndTheFirstIsRecorded) {
  Registry registry(3);
  Membership& members = registry.members;
  for (int rank = 0; rank < 2; ++rank) ASSERT_TRUE(members.join(rank));
  EXPECT_TRUE(members.mark_dead(1));
  EXPECT_FALSE(members.mark_dead(1));
  EXPECT_TRUE(members.mark_dead(0));
  members.leave(0);
  EXPECT_EQ(members.state(0), MemberState::dead);
  EXPECT_TRUE(members.mark_absent_dead(2));
  EXPECT_FALSE(members.join(2));
  EXPECT_EQ(members.first_dead(), 1);
  EXPECT_TRUE(members.survivors().empty());
}

TEST(Membership, OneOfManyRacersGetsTheRank) {
  for (int round = 0; round < 50; ++round) {
    Registry registry(1);
    std::atomic<int> winners{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] { winners += registry.members.join(0) ? 1 : 0; });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(winners, 1);
  }
}

TEST(Membership, AForkedChildCannotLeaveForItsParent) {
  Registry registry(1);
  ASSERT_TRUE(registry.members.join(0));
  reap(fork_child([&] { registry.members.leave(0); }));
  EXPECT_TRUE(registry.members.present(0));
}

class DetectorMethods : public testing::TestWithParam<FailureDetector::Method> {};

INSTANTIATE_TEST_SUITE_P(FailureDetector, DetectorMethods,
                         testing::Values(FailureDetector::Method::automatic, FailureDetector::Method::proc));

TEST_P(DetectorMethods, SeesAKilledProcessBeforeItIsReaped) {
  Registry registry(4);
  Membership& members = registry.members;
  ASSERT_TRUE(members.join(0));
  FailureDetector detector(members, GetParam());
  EXPECT_FALSE(detector.check());
  const pid_t victim = fork_child([&] {
    if (!members.join(1) || !members.join(3)) _exit(1);
    pause();
  });
  const pid_t other = fork_child([&] {
    if (!members.join(2)) _exit(1);
    pause();
  });
  ASSERT_TRUE(eventually([&] { return members.present(3) && members.present(2); }));
  EXPECT_TRUE(all_quiet(detector));
  kill(victim, SIGKILL);
  EXPECT_TRUE(seen_by_sleeper(detector));
  EXPECT_EQ(members.survivors(), (std::vector<int>{0, 2}));
  EXPECT_EQ(members.state(1), MemberState::dead);
  EXPECT_EQ(members.state(3), MemberState::dead);
  EXPECT_TRUE(members.first_dead() == 1 || members.first_dead() == 3);
  kill_and_reap(other);
  EXPECT_TRUE(eventually([&] { return detector.check() && !members.present(2); }));
  reap(victim);
}

TEST_P(DetectorMethods, SeesEarlierDeaths) {
  Registry registry(2);
  reap(fork_child([&] {
    (void)registry.members.join(1);
    kill(getpid(), SIGKILL);
  }));
  ASSERT_TRUE(registry.members.present(1));
  FailureDetector detector(registry.members, GetParam());
  EXPECT_TRUE(seen_by_sleeper(detector));
  EXPECT_EQ(registry.members.first_dead(), 1);
}

TEST_P(DetectorMethods, EndingWithoutLeavingIsADeath) {
  Registry registry(2);
  Membership& members = registry.members;
  FailureDetector detector(members, GetParam());
  reap(fork_child([&] {
    (void)members.join(0);
    members.leave(0);
  }));
  EXPECT_TRUE(all_quiet(detector));
  reap(fork_child([&] { (void)members.join(1); }));
  EXPECT_TRUE(seen_by_sleeper(detector));
  EXPECT_EQ(members.first_dead(), 1);
  EXPECT_EQ(members.state(0), MemberState::left);
}

// The first thread ends, others go on: the process is a zombie in /proc, but lives.
TEST_P(DetectorMethods, AProcessLivesAsLongAsOneOfItsThreads) {
  Registry registry(1);
  const pid_t child = fork_child([&] {
    (void)registry.members.join(0);
    std::thread([] { pause(); }).detach();
    syscall(SYS_exit, 0);  // of this thread only
  });
  ASSERT_TRUE(eventually([&] { return registry.members.present(0); }));
  sleep_us(20'000);
  FailureDetector detector(registry.members, GetParam());
  EXPECT_TRUE(all_quiet(detector));
  kill_and_reap(child);
  EXPECT_TRUE(seen_by_sleeper(detector));
}

TEST_P(DetectorMethods, ARecycledPidIsNotTheMember) {
  Registry registry(1);
  const pid_t child = fork_child([&] {
    (void)registry.members.join(0);
    pause();
  });
  ASSERT_TRUE(eventually([&] { return registry.members.present(0); }));
  const ProcessId id = registry.members.process(0);
  EXPECT_EQ(liveness_of(id), Liveness::alive);
  EXPECT_EQ(liveness_of({id.pid, id.start_ticks + 1}), Liveness::dead);
  // As if the member had started a tick earlier and another process had its pid now.
  const std::uint64_t word = id.start_ticks << 24 | static_cast<std::uint64_t>(id.pid) << 2 | 1;
  bool changed = false;
  for (auto* at = reinterpret_cast<std::uint64_t*>(registry.segment.data());
       !changed && at < reinterpret_cast<std::uint64_t*>(registry.segment.data() + Membership::bytes(1)); ++at) {
    if (*at == word) {
      *at -= 1 << 24;
      changed = true;
    }
  }
  ASSERT_TRUE(changed);
  FailureDetector detector(registry.members, GetParam());
  EXPECT_TRUE(seen_by_sleeper(detector));
  EXPECT_EQ(registry.members.state(0), MemberState::dead);
  kill_and_reap(child);
}

TEST_P(DetectorMethods, KilledAtRandomMomentsOfJoiningAndLeaving) {
  std::mt19937 random(1);
  for (int round = 0; round < 80; ++round) {
    Registry registry(64);
    Membership& members = registry.members;
    FailureDetector detector(members, GetParam());
    const pid_t child = fork_child([&] {
      for (int rank = 0; rank < 64; ++rank) {
        (void)members.join(rank);
        if (rank % 2 == 1) members.leave(rank);
      }
      pause();
    });
    sleep_us(static_cast<int>(random() % 600));
    detector.check();
    kill_and_reap(child);
    const bool any = !members.survivors().empty();
    ASSERT_TRUE(!any || eventually([&] { return detector.check(); })) << "round " << round;
    ASSERT_TRUE(members.survivors().empty());
    for (int rank = 0; rank < 64; rank += 2) ASSERT_NE(members.state(rank), MemberState::left);
  }
}

TEST(FailureDetector, ManyThreadsMayAsk) {
  Registry registry(2);
  ASSERT_TRUE(registry.members.join(0));
  FailureDetector detector(registry.members);
  const pid_t child = fork_child([&] {
    (void)registry.members.join(1);
    pause();
  });
  ASSERT_TRUE(eventually([&] { return registry.members.present(1); }));
  std::vector<std::thread> threads;
  std::atomic<int> saw{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      if (eventually([&] { return detector.check(); })) ++saw;
    });
  }
  sleep_us(5000);
  kill_and_reap(child);
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(saw, 4);
}

// ---- threads

// A thread that joins rank 0, guards it, and runs `body`.
struct GuardedThread {
  explicit GuardedThread(const std::function<void(ThreadExitGuard&)>& body)
      : thread([this, body] {
          EXPECT_TRUE(registry->members.join(0));
          ThreadExitGuard own(registry->members, 0, registry);
          guard = std::move(own);
          body(guard);
        }) {}
  std::shared_ptr<Registry> registry = std::make_shared<Registry>(1);
  ThreadExitGuard guard;
  std::thread thread;
};

TEST(ThreadExitGuard, AThreadThatReturnsAsAMemberIsDead) {
  GuardedThread member([](ThreadExitGuard&) {});
  member.thread.join();
  EXPECT_EQ(member.registry->members.state(0), MemberState::dead);
  EXPECT_EQ(member.registry->members.first_dead(), 0);
}

TEST(ThreadExitGuard, SoIsOneThatCallsPthreadExit) {
  GuardedThread member([](ThreadExitGuard&) { pthread_exit(nullptr); });
  member.thread.join();
  EXPECT_EQ(member.registry->members.first_dead(), 0);
}

TEST(ThreadExitGuard, SoIsOneThatIsCancelled) {
  GuardedThread member([](ThreadExitGuard&) {
    for (;;) pause();
  });
  ASSERT_TRUE(eventually([&] { return member.registry->members.present(0); }));
  pthread_cancel(member.thread.native_handle());
  member.thread.join();
  EXPECT_EQ(member.registry->members.first_dead(), 0);
}

TEST(ThreadExitGuard, LeavingFirstIsNoDeath) {
  GuardedThread* self = nullptr;
  std::atomic<bool> go{false};
  GuardedThread member([&](ThreadExitGuard& guard) {
    while (!go) std::this_thread::yield();
    guard.release();
    self->registry->members.leave(0);
  });
  self = &member;
  go = true;
  member.thread.join();
  EXPECT_EQ(member.registry->members.state(0), MemberState::left);
  EXPECT_EQ(member.registry->members.first_dead(), -1);
}

TEST(ThreadExitGuard, AnotherThreadMayRelease) {
  std::atomic<bool> go{false}, inside{false};
  GuardedThread member([&](ThreadExitGuard&) {
    inside = true;
    while (!go) std::this_thread::yield();
  });
  while (!inside) std::this_thread::yield();
  ThreadExitGuard moved = std::move(member.guard);
  moved.release();
  member.registry->members.leave(0);
  go = true;
  member.thread.join();
  EXPECT_EQ(member.registry->members.first_dead(), -1);
}

TEST(ThreadExitGuard, TheMemoryMayGoFirst) {
  auto owner = std::make_shared<Registry>(1);
  std::weak_ptr<Registry> memory = owner;
  std::atomic<bool> bound{false}, gone{false};
  std::thread thread([&] {
    ThreadExitGuard guard(owner->members, 0, memory);
    bound = true;
    while (!gone) std::this_thread::yield();
    pthread_exit(nullptr);
  });
  while (!bound) std::this_thread::yield();
  owner.reset();
  gone = true;
  thread.join();
  EXPECT_TRUE(memory.expired());
}

// The last owner of the memory, which also owns the guard, goes while the thread ends.
TEST(ThreadExitGuard, EndAndReleaseMayBeConcurrent) {
  struct Owner {
    Registry registry{1};
    ThreadExitGuard guard;
  };
  for (int round = 0; round < 300; ++round) {
    auto owner = std::make_shared<Owner>();
    std::atomic<bool> bound{false};
    std::thread thread([&bound, watched = std::weak_ptr<Owner>(owner)] {
      const auto mine = watched.lock();
      (void)mine->registry.members.join(0);
      mine->guard = ThreadExitGuard(mine->registry.members, 0, watched);
      bound = true;
    });
    while (!bound) std::this_thread::yield();
    owner.reset();
    thread.join();
  }
}

TEST(ThreadExitGuard, AForkedChildThatExitsAffectsNoRank) {
  Registry registry(1);
  const auto memory = std::shared_ptr<void>(&registry, [](void*) {});
  ThreadExitGuard guard;  // not on the stack of the thread, whose end in the child would release it
  std::thread([&] {
    ASSERT_TRUE(registry.members.join(0));
    guard = ThreadExitGuard(registry.members, 0, memory);
    const pid_t child = fork();
    if (child == 0) pthread_exit(nullptr);  // runs the destructors of thread_local objects
    reap(child);
    EXPECT_TRUE(registry.members.present(0));
  }).join();
  EXPECT_FALSE(registry.members.present(0));
}

// ---- agreement

using Set = std::vector<int>;

Set all_ranks(int ranks) {
  Set set;
  for (int rank = 0; rank < ranks; ++rank) set.push_back(rank);
  return set;
}

TEST(Agreement, AllLivingRanksAgree) {
  for (int ranks = 1; ranks <= 17; ++ranks) {
    Registry registry(ranks);
    FailureDetector detector(registry.members);
    for (int rank = 0; rank < ranks; ++rank) ASSERT_TRUE(registry.members.join(rank));
    Set expected = all_ranks(ranks);
    if (ranks > 2) {
      registry.members.mark_dead(1);
      expected.erase(expected.begin() + 1);
    }
    std::vector<Set> got(static_cast<std::size_t>(ranks));
    std::vector<std::thread> threads;
    for (const int rank : expected) {
      threads.emplace_back([&, rank] {
        auto set = registry.members.agree_on_survivors(rank, detector, 0.0);
        ASSERT_TRUE(set) << set.error().message;
        got[static_cast<std::size_t>(rank)] = *set;
      });
    }
    for (auto& thread : threads) thread.join();
    for (const int rank : expected) EXPECT_EQ(got[static_cast<std::size_t>(rank)], expected) << ranks;
  }
}

TEST(Agreement, TheDeadCannotTakePart) {
  Registry registry(2);
  FailureDetector detector(registry.members);
  ASSERT_TRUE(registry.members.join(0) && registry.members.join(1));
  registry.members.mark_dead(1);
  EXPECT_EQ(registry.members.agree_on_survivors(1, detector, 0.0).error().status, Status::invalid_argument);
  EXPECT_EQ(registry.members.agree_on_survivors(2, detector, 0.0).error().status, Status::invalid_argument);
}

TEST(Agreement, LateRanksGetAnError) {
  Registry registry(70);
  FailureDetector detector(registry.members);
  for (const int rank : {3, 64, 69}) ASSERT_TRUE(registry.members.join(rank));
  auto first = registry.members.agree_on_survivors(69, detector, 0.01);
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(*first, Set{69});
  EXPECT_EQ(registry.members.agree_on_survivors(3, detector, 0.0).error().status, Status::timed_out);
  EXPECT_EQ(*registry.members.agree_on_survivors(69, detector, 0.0), Set{69});
}

// A rank that has arrived dies while the others write their proposals: some count it, some do not.
// In the largest registry, since there a proposal takes longest.
TEST(Agreement, ADeathBetweenTwoProposalsKeepsAgreement) {
  constexpr int victim = 500;
  int counted = 0;
  for (int round = 0; round < 300; ++round) {
    Registry registry(Membership::most_ranks);
    Membership& members = registry.members;
    FailureDetector detector(members);
    for (const int rank : {0, 1, victim}) ASSERT_TRUE(members.join(rank));
    Set got[2];
    std::atomic<int> ready{0};
    const auto meet_at_start = [&] {
      ++ready;
      while (ready < 2) {}
    };
    std::thread dying([&] { (void)members.agree_on_survivors(victim, detector, 0.0); });
    std::thread other([&] {
      meet_at_start();
      got[1] = *members.agree_on_survivors(1, detector, 0.0);
    });
    std::thread marker([&] {
      while (ready < 2) std::this_thread::yield();
      for (int i = 0; i < round * 16; ++i) std::atomic_signal_fence(std::memory_order_seq_cst);
      members.mark_dead(victim);
    });
    meet_at_start();
    got[0] = *members.agree_on_survivors(0, detector, 0.0);
    for (auto* thread : {&dying, &other, &marker}) thread->join();
    ASSERT_EQ(got[0], got[1]) << round;
    counted += static_cast<int>(got[0].size()) - 2;
  }
  RecordProperty("counted", counted);
}

TEST(Agreement, EveryRankOfTheLargestRegistryHasAProposal) {
  for (const int rank : {0, 511, 1023}) {
    Registry registry(Membership::most_ranks);
    FailureDetector detector(registry.members);
    for (int other = 0; other < Membership::most_ranks; ++other) {
      if (other == rank) continue;
      ASSERT_EQ(registry.members.mark_absent_dead(other), true);
    }
    ASSERT_TRUE(registry.members.join(rank));
    EXPECT_EQ(*registry.members.agree_on_survivors(rank, detector, 0.0), Set{rank});
  }
}

// What the children of one round leave behind.
struct Outcome {
  std::atomic<bool> go;
  std::atomic<int> called[32];
  std::atomic<int> returned[32];
  bool member[32][32];
};

void agree_in_thread(Membership members, FailureDetector& detector, int rank, Outcome& outcome) {
  outcome.called[rank] = 1;
  auto set = members.agree_on_survivors(rank, detector, 0.0);
  if (!set) return;
  for (const int other : *set) outcome.member[rank][other] = true;
  outcome.returned[rank] = 1;
}

// Each process holds two ranks; one of them is dead from the start, others are killed meanwhile.
void run_with_kills(unsigned seed, int processes, int kills) {
  std::mt19937 random(seed);
  const int ranks = 2 * processes;
  Registry registry(ranks);
  const Segment memory = *Segment::anonymous(sizeof(Outcome));
  auto& outcome = *reinterpret_cast<Outcome*>(memory.data());
  std::vector<pid_t> children;
  for (int p = 0; p < processes; ++p) {
    children.push_back(fork_child([&] {
      Membership members = registry.members;
      if (!members.join(2 * p) || !members.join(2 * p + 1)) _exit(1);
      while (!outcome.go) sched_yield();
      FailureDetector detector(members);
      std::thread second([&] { agree_in_thread(members, detector, 2 * p + 1, outcome); });
      agree_in_thread(members, detector, 2 * p, outcome);
      second.join();
    }));
  }
  ASSERT_TRUE(eventually([&] { return static_cast<int>(registry.members.survivors().size()) == ranks; }));
  std::set<int> killed;
  outcome.go = true;
  sleep_us(static_cast<int>(random() % 300));
  while (static_cast<int>(killed.size()) < kills) {
    const int victim = static_cast<int>(random() % static_cast<unsigned>(processes));
    if (!killed.insert(victim).second) continue;
    kill(children[static_cast<std::size_t>(victim)], SIGKILL);
    sleep_us(static_cast<int>(random() % 500));
  }
  for (const pid_t child : children) reap(child);
  int reference = -1;
  for (int rank = 0; rank < ranks; ++rank) {
    const bool lived = killed.count(rank / 2) == 0;
    ASSERT_TRUE(!lived || outcome.returned[rank] == 1) << "rank " << rank << " seed " << seed;
    if (outcome.returned[rank] == 0) continue;
    if (reference < 0) reference = rank;
    for (int other = 0; other < ranks; ++other) {
      ASSERT_EQ(outcome.member[rank][other], outcome.member[reference][other]) << "seed " << seed;
      const bool is_member = outcome.member[rank][other];
      ASSERT_TRUE(!is_member || outcome.called[other] == 1) << "seed " << seed;
      ASSERT_TRUE(is_member || killed.count(other / 2) != 0) << "seed " << seed;
    }
  }
}

TEST(Agreement, HoldsForDeathsAtAnyMoment) {
  for (unsigned seed = 0; seed < 200 && !HasFatalFailure(); ++seed) {
    const int processes = 2 + static_cast<int>(seed % 4);
    run_with_kills(seed, processes, 1 + static_cast<int>(seed) % (processes - 1));
  }
}

}  // namespace
}  // namespace smelt::comm
