// Communicators over processes: collectives against a straightforward computation, deaths, shrinking, and
// nothing left behind.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <random>
#include <set>
#include <string>
#include <thread>

#include "base/clock.hpp"
#include "comm/collective_check.hpp"
#include "comm/forked_ranks.hpp"
#include "smelt/schedule.hpp"

namespace smelt {
namespace {

using test::Case;
using test::CollectiveCheck;
using test::fork_ranks;
using test::fresh_name;
using test::options_for;
using test::run_cases;
using test::wait_for;

#ifdef __SANITIZE_THREAD__
constexpr std::uint64_t death_rounds = 15;  // processes start slowly there
#else
constexpr std::uint64_t death_rounds = 60;
#endif

/// Names of segments in /dev/shm that do not go away; those of programs that run at the same time come and go.
int names_left() {
  std::set<std::filesystem::path> names;
  const std::string mine = "smelt-" + std::to_string(getuid()) + "-";
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    if (entry.path().filename().string().starts_with(mine)) names.insert(entry.path());
  }
  for (int wait = 0; wait < 200 && !names.empty(); ++wait) {
    std::erase_if(names, [](const auto& name) { return !std::filesystem::exists(name); });
    if (!names.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return static_cast<int>(names.size());
}

std::vector<Case> all_operations(int ranks, bool irregular) {
  std::vector<Case> cases;
  int turn = 0;
  for (const Operation operation :
       {Operation::broadcast, Operation::reduce, Operation::allreduce, Operation::scatter, Operation::gather,
        Operation::allgather, Operation::alltoall, Operation::reduce_scatter, Operation::scan, Operation::exscan}) {
    for (const std::size_t count :
         {std::size_t{0}, std::size_t{1}, std::size_t{9}, std::size_t{300}, std::size_t{5000}, std::size_t{70000}}) {
      Case one{.operation = operation, .count = count};
      one.root = turn % ranks;
      one.sync = turn % 4 == 3 ? Sync::strict : Sync::loose;
      one.manner = static_cast<test::Manner>(turn % 3);
      one.irregular = irregular && has_rank_blocks(operation) && count < 10000;
      one.reduction = turn % 3 == 0 ? test::matrix_product() : sum<std::uint64_t>();
      cases.push_back(one);
      ++turn;
    }
  }
  return cases;
}

class Processes : public testing::TestWithParam<int> {};

TEST_P(Processes, DoEveryOperation) {
  const int size = GetParam();
  for (const bool irregular : {false, true}) {
    const auto name = fresh_name();
    const auto cases = all_operations(size, irregular);
    const auto pids = fork_ranks(size, [&](int rank) { return run_cases(name, size, rank, cases, "chosen"); });
    EXPECT_EQ(wait_for(pids), std::vector<int>(static_cast<std::size_t>(size), 0));
  }
  EXPECT_EQ(names_left(), 0);
}

INSTANTIATE_TEST_SUITE_P(Sizes, Processes, testing::Values(1, 2, 3, 4, 7));

TEST(ProcessesByAlgorithm, EveryOneGivesTheRightResult) {
  const std::vector<Access> access = {Access::channels, Access::staged, Access::direct};
  for (const auto& info : algorithms()) {
    if (info.operation == Operation::barrier) continue;
    for (const auto each : info.access) {
      Recipe recipe{.algorithm = info.name, .access = each};
      std::vector<Case> cases;
      for (const std::size_t count : {1, 120, 5000, 20000}) {
        cases.push_back({.operation = info.operation,
                         .count = count,
                         .root = static_cast<int>(count % 4),
                         .reduction = sum<std::uint64_t>()});
      }
      const auto name = fresh_name();
      const auto pids = fork_ranks(4, [&](int rank) {
        return run_cases(name, 4, rank, cases, to_string(recipe), options_for(to_string(recipe)));
      });
      EXPECT_EQ(wait_for(pids), std::vector<int>(4, 0)) << to_string(recipe);
    }
  }
}

TEST(ProcessesInRandomSequences, OnSeveralCommunicatorsAtOnce) {
  const auto name = fresh_name();
  const auto pids = fork_ranks(6, [&](int rank) {
    const int mine[] = {rank};
    auto comm = Communicator::create_shared(name, 6, mine, options_for());
    auto attached = comm->attach(rank);
    const auto problem = test::random_sequence(*attached, test::setting("SMELT_TEST_SEED", 7), 200);
    if (!problem.empty()) fprintf(stderr, "rank %d: %s\n", rank, problem.c_str());
    return problem.empty() ? 0 : 1;
  });
  EXPECT_EQ(wait_for(pids), std::vector<int>(6, 0));
}

TEST(ProcessesWithThreads, EachBringsSeveralRanks) {
  const auto name = fresh_name();
  const auto cases = all_operations(5, false);
  const auto pids = fork_ranks(2, [&](int process) {
    const std::vector<int> mine = process == 0 ? std::vector<int>{0, 3} : std::vector<int>{1, 2, 4};
    auto comm = Communicator::create_shared(name, 5, mine, options_for());
    if (!comm) return 2;
    std::atomic<int> wrong{0};
    const auto ran = comm->run([&](Rank& rank) {
      for (std::size_t i = 0; i < cases.size() && wrong == 0; ++i) {
        std::string problem;
        CollectiveCheck checked(cases[i], 5, rank.rank(), i + 1);
        if (!checked.run(rank, problem)) ++wrong;
      }
    });
    return ran && wrong == 0 ? 0 : 1;
  });
  EXPECT_EQ(wait_for(pids), std::vector<int>(2, 0));
}

TEST(ProcessesOverMemfd, Meet) {
  const int fd = memfd_create("smelt-test", MFD_CLOEXEC);
  const auto pids = fork_ranks(3, [&](int rank) {
    const int mine[] = {rank};
    auto comm = Communicator::create_shared(fd, 3, mine, options_for());
    if (!comm) return 2;
    auto attached = comm->attach(rank);
    std::uint64_t one = 1, total = 0;
    return attached->allreduce(&one, &total, 1, sum<std::uint64_t>()) == Status::ok && total == 3 ? 0 : 1;
  });
  close(fd);
  EXPECT_EQ(wait_for(pids), std::vector<int>(3, 0));
}

/// What a survivor does: collectives until one fails, then it shrinks and goes on, `rounds` times in all.
int survive(const std::string& name, int size, int rank, std::uint64_t seed, int rounds) {
  const int mine[] = {rank};
  auto comm = Communicator::create_shared(name, size, mine, options_for());
  // Somebody died while they were meeting; who comes after that waits for the others in vain.
  if (!comm) return comm.error().status == Status::broken || comm.error().status == Status::timed_out ? 40 : 41;
  auto first = comm->attach(rank);
  if (!first) return 42;
  Rank member = std::move(*first);
  std::mt19937_64 random(seed);
  std::vector<std::uint64_t> in(3000, 1), out(3000 * static_cast<std::size_t>(size));
  for (int i = 0; i < rounds;) {
    const auto count = std::size_t{1} << random() % 11;
    Status status = Status::ok;
    switch (random() % 4) {
      case 0:
        status = member.allreduce(in.data(), out.data(), count, sum<std::uint64_t>());
        if (status == Status::ok && out[0] != static_cast<std::uint64_t>(member.size())) return 43;
        break;
      case 1:
        status = member.barrier();
        break;
      case 2:
        status = member.allgather(in.data(), out.data(), count * 8);
        break;
      default:
        status = member.broadcast(in.data(), count * 8,
                                  static_cast<int>(random() % static_cast<std::uint64_t>(member.size())));
    }
    ++i;
    if (status == Status::ok) continue;
    if (status != Status::broken) return 44;
    if (member.failure().find("died") == std::string::npos) {
      fprintf(stderr, "failure: %s\n", member.failure().c_str());
      return 45;
    }
    if (member.barrier() != Status::broken) return 46;  // later ones fail at once
    auto smaller = member.shrink();
    if (!smaller) {
      fprintf(stderr, "shrink: %s\n", smaller.error().message.c_str());
      return 47;
    }
    member = std::move(*smaller);
    random.seed(seed + static_cast<std::uint64_t>(member.size()));
    i = 0;
  }
  return 0;
}

TEST(Deaths, SurvivorsAreToldShrinkAndGoOn) {
  std::mt19937_64 random(test::setting("SMELT_TEST_SEED", 11));
  const int size = 4;
  const auto rounds = test::setting("SMELT_TEST_DEATHS", death_rounds);
  std::uint64_t killed = 0, untouched = 0;  // at their work; done before
  for (std::uint64_t round = 0; round < rounds; ++round) {
    const auto name = fresh_name();
    const std::uint64_t seed = random();
    auto pids = fork_ranks(size, [&](int rank) { return survive(name, size, rank, seed, 300); });
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 30'000));
    const auto victim = random() % size;
    kill(pids[victim], SIGKILL);
    if (round % 3 == 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 3'000));
      kill(pids[(victim + 1) % size], SIGKILL);
    }
    const auto results = wait_for(pids);
    for (std::size_t rank = 0; rank < results.size(); ++rank) {
      const int result = results[rank];
      EXPECT_TRUE(result == 0 || result == -SIGKILL || result == 40)
          << "round " << round << " rank " << rank << ": " << result;
      killed += result == -SIGKILL;
    }
    untouched += std::count(results.begin(), results.end(), -SIGKILL) == 0;
  }
  RecordProperty("killed", std::to_string(killed));
  RecordProperty("rounds_without_a_death", std::to_string(untouched));
  EXPECT_EQ(names_left(), 0);
}

TEST(Deaths, AreNoticedWithinASecond) {
  const auto name = fresh_name();
  const auto pids = fork_ranks(3, [&](int rank) {
    const int mine[] = {rank};
    auto comm = Communicator::create_shared(name, 3, mine, options_for());
    auto member = comm->attach(rank);
    member->barrier();
    if (rank == 1) raise(SIGKILL);
    const auto before = monotonic_ns();
    const Status status = member->barrier();
    const bool soon = monotonic_ns() - before < 1'000'000'000;
    return status == Status::broken && soon && member->failure().find("rank 1") != std::string::npos ? 0 : 1;
  });
  EXPECT_EQ(wait_for(pids), (std::vector<int>{0, -SIGKILL, 0}));
}

TEST(Deaths, ThreadThatEndsAsAMemberIsNoticed) {
  SynthSpec spec;
  spec.cores = 4;
  const Machine machine = *synthesize_machine(spec);
  auto comm = *Communicator::create(machine, whole_machine(machine), options_for());
  std::vector<std::thread> threads;
  std::vector<Rank*> leaked(4, nullptr);
  std::atomic<int> good{0};
  for (int r = 0; r < 4; ++r) {
    threads.emplace_back([&, r] {
      auto* rank = new Rank(std::move(*comm.attach(r)));
      leaked[static_cast<std::size_t>(r)] = rank;
      if (rank->barrier() != Status::ok || r == 2) return;  // rank 2's thread ends while it is a member
      if (rank->barrier() != Status::broken) return;
      if (rank->failure().find("rank 2") == std::string::npos) return;
      auto smaller = rank->shrink();
      if (!smaller || smaller->size() != 3) return;
      std::uint64_t one = 1, total = 0;
      if (smaller->allreduce(&one, &total, 1, sum<std::uint64_t>()) == Status::ok && total == 3) ++good;
      delete rank;
      leaked[static_cast<std::size_t>(r)] = nullptr;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(good, 3);
  delete leaked[2];
}

TEST(SharedErrors, SayWhatIsWrong) {
  const int mine[] = {0};
  EXPECT_EQ(Communicator::create_shared("", 2, mine).error().status, Status::invalid_argument);
  EXPECT_EQ(Communicator::create_shared("a/b", 2, mine).error().status, Status::invalid_argument);
  EXPECT_EQ(Communicator::create_shared("x", 0, mine).error().status, Status::invalid_argument);
  const int outside[] = {2};
  EXPECT_EQ(Communicator::create_shared("x", 2, outside).error().status, Status::invalid_argument);
}

}  // namespace
}  // namespace smelt
