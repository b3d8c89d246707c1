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
#include <iterator>
#include <numeric>
#include <random>
#include <string>
#include <thread>

#include "base/clock.hpp"
#include "base/copy.hpp"
#include "base/process.hpp"
#include "base/segment.hpp"
#include "comm/collective/collective_check.hpp"
#include "comm/collective/forked_ranks.hpp"
#include "smelt/machine.hpp"
#include "smelt/schedule.hpp"

namespace smelt {
namespace {

using test::Case;
using test::CollectiveCheck;
using test::fork_ranks;
using test::fresh_name;
using test::knows;
using test::names_left;
using test::options_for;
using test::process_word;
using test::run_cases;
using test::wait_for;

#ifdef __SANITIZE_THREAD__
constexpr std::uint64_t death_rounds = 15;  // processes start slowly there
#else
constexpr std::uint64_t death_rounds = 60;
#endif
/// A second is promised; the machine may be busy with something else.
constexpr std::uint64_t longest_wait_ns = 5'000'000'000;

/// Tombstones of that name with an audience (comm/group/tombstones.hpp).
int tombstones_left(const std::string& name) {
  std::error_code none;
  const std::filesystem::directory_iterator tombstones(cache_path({}).parent_path() / "ended", none), end;
  return static_cast<int>(
      std::count_if(tombstones, end, [&](const auto& entry) { return entry.path().string().ends_with("-" + name); }));
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
      one.style = static_cast<test::CallStyle>(turn % 3);
      one.irregular = irregular && has_rank_blocks(operation) && count < 10000;
      one.reduction = turn % 3 == 0 ? test::matrix_product() : sum<std::uint64_t>();
      cases.push_back(one);
      ++turn;
    }
  }
  return cases;
}

/// What the processes of one round and their parent tell each other.
struct Round {
  static constexpr int ranks = 8;  ///< at most
  static constexpr int dying = 4;  ///< ranks of the rounds with deaths
  std::atomic<std::uint64_t> process[ranks];
  std::atomic<bool> created[ranks];  ///< has its communicator, or has been refused one
  std::atomic<std::uint32_t> victims;
  std::atomic<std::uint64_t> killed_ns;  ///< 0: not yet
  std::atomic<std::uint64_t> longest_ns[ranks];

  void introduce(int rank) { process[rank] = process_word(getpid(), ProcessId::self()->start_ticks); }
  std::vector<std::uint64_t> processes() const {
    std::vector<std::uint64_t> known;
    std::copy_if(process, process + ranks, std::back_inserter(known), [](const auto& each) { return each != 0; });
    return known;
  }

  /// Whether an operation ended as it should when somebody has died: broken, soon, and saying who.
  bool told(int rank, std::uint64_t begun_ns, Status status, const std::string& message, bool names_victim = true) {
    const auto now = monotonic_ns();
    const auto waited = now - std::clamp(killed_ns.load(), begun_ns, now);
    longest_ns[rank] = std::max(longest_ns[rank].load(), waited);
    bool named = !names_victim && message.find("died") != std::string::npos;
    for (int victim = 0; victim < ranks; ++victim) {
      named |=
          (victims >> victim & 1) != 0 && message.find("rank " + std::to_string(victim) + " ") != std::string::npos;
    }
    if (status == Status::broken && named && waited < longest_wait_ns) return true;
    fprintf(stderr, "rank %d: status %d after %.3f s: %s\n", rank, static_cast<int>(status),
            static_cast<double>(waited) * 1e-9, message.c_str());
    return false;
  }
};

/// A rendezvous as its name is seen from outside.
class RendezvousObserver {
 public:
  explicit RendezvousObserver(const std::string& name) : path_("/smelt-" + std::to_string(geteuid()) + "-" + name) {}
  bool has_come(std::uint64_t process) {
    if (segment_.data() == nullptr) {
      auto found = Segment::open_named(path_);
      if (!found) return false;
      segment_ = std::move(*found);
    }
    return process != 0 && knows(segment_, process);
  }

 private:
  std::string path_;
  Segment segment_;
};

Status subgroup_of_all(Rank& member) {
  std::vector<int> all(static_cast<std::size_t>(member.size()));
  std::iota(all.begin(), all.end(), 0);
  auto group = member.subgroup(all);
  return group ? Status::ok : group.error().status;
}

class Processes : public testing::TestWithParam<int> {};

TEST_P(Processes, DoEveryOperation) {
  const int size = GetParam();
  for (const bool irregular : {false, true}) {
    const auto name = fresh_name();
    const auto cases = all_operations(size, irregular);
    const test::ZeroedSharedValue<Round> round;
    const auto pids = fork_ranks(size, [&](int rank) {
      round->introduce(rank);
      return run_cases(name, size, rank, cases, "chosen");
    });
    EXPECT_EQ(wait_for(pids), std::vector<int>(static_cast<std::size_t>(size), 0));
    EXPECT_EQ(names_left(round->processes()), 0);
  }
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
        // The second time at distances at which the string instruction is slow, and other ways are taken.
        for (const std::size_t apart : {0, 16}) {
          cases.push_back({.operation = info.operation,
                           .count = count,
                           .root = static_cast<int>(count % 4),
                           .apart = apart,
                           .reduction = sum<std::uint64_t>()});
        }
      }
      const auto name = fresh_name();
      const auto pids = fork_ranks(4, [&](int rank) {
        copy_detail::strings = copy_detail::Strings::slow;  // whatever this CPU is like
        return run_cases(name, 4, rank, cases, to_string(recipe), options_for(to_string(recipe)));
      });
      EXPECT_EQ(wait_for(pids), std::vector<int>(4, 0)) << to_string(recipe);
    }
  }
}

TEST(ProcessesByAlgorithm, WriteEveryChunkWhereItBelongs) {
  const std::string recipe = test::puts_in_chunks;
  for (const int size : {2, 3}) {
    const auto name = fresh_name();
    const auto pids = fork_ranks(size, [&](int rank) {
      return run_cases(name, size, rank, test::around_chunks_of_puts(), recipe, options_for(recipe));
    });
    EXPECT_EQ(wait_for(pids), std::vector<int>(static_cast<std::size_t>(size), 0));
  }
}

TEST(ProcessesWithDataAtRest, WriteLongResultsWhereTheyBelong) {
  for (const int size : {2, 3}) {
    for (const std::string recipe : {"", "broadcast_pipeline+staged+chunk=8192", "gather_flat+staged+chunk=16384",
                                     "allgather_flat+staged+chunk=8192", "alltoall_flat+staged+chunk=4096"}) {
      const auto name = fresh_name();
      const auto pids = fork_ranks(size, [&](int rank) {
        return run_cases(name, size, rank, test::long_results_at_rest(size), recipe,
                         recipe.empty() ? options_for() : options_for(recipe));
      });
      EXPECT_EQ(wait_for(pids), std::vector<int>(static_cast<std::size_t>(size), 0)) << recipe;
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
int survive(Round& round, const std::string& name, int size, int rank, std::uint64_t seed, int rounds) {
  round.introduce(rank);
  std::mt19937_64 random(seed);
  // Every now and then somebody comes when it is all over.
  const auto late_us = random() % 4 == 0 ? 20'000 : 500;
  std::mt19937_64 own(seed + static_cast<std::uint64_t>(rank));
  std::this_thread::sleep_for(std::chrono::microseconds(own() % late_us));
  const int mine[] = {rank};
  auto begun = monotonic_ns();
  auto comm = Communicator::create_shared(name, size, mine, options_for());
  round.created[rank] = true;
  if (!comm) return round.told(rank, begun, comm.error().status, comm.error().message) ? 40 : 41;
  auto first = comm->attach(rank);
  if (!first) return 42;
  Rank member = std::move(*first);
  std::vector<std::uint64_t> in(3000, 1), out(3000 * static_cast<std::size_t>(size));
  for (int i = 0; i < rounds;) {
    const auto count = std::size_t{1} << random() % 11;
    Status status = Status::ok;
    begun = monotonic_ns();
    switch (random() % 5) {
      case 0:
        status = member.allreduce(in.data(), out.data(), count, sum<std::uint64_t>());
        if (status == Status::ok && out[0] != static_cast<std::uint64_t>(member.size())) return 43;
        break;
      case 1: status = member.barrier(); break;
      case 2: status = member.allgather(in.data(), out.data(), count * 8); break;
      case 3:
        if (i % 16 == 0) status = subgroup_of_all(member);
        break;
      default:
        status = member.broadcast(in.data(), count * 8,
                                  static_cast<int>(random() % static_cast<std::uint64_t>(member.size())));
    }
    ++i;
    if (status == Status::ok) continue;
    // In a smaller communicator ranks have other numbers.
    if (!round.told(rank, begun, status, member.failure(), member.size() == size)) return 44;
    begun = monotonic_ns();
    if (member.barrier() != Status::broken) return 46;  // later ones fail at once
    if (!round.told(rank, begun, Status::broken, member.failure(), false)) return 48;
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

/// Kills a rank some time after it has come (before that nobody can know of it), or after all are at work.
void kill_after_it_came(Round& round, RendezvousObserver& seen, int rank, pid_t pid, int delay_us,
                        bool at_work = false) {
  const auto pause = [] { std::this_thread::sleep_for(std::chrono::microseconds(20)); };
  while (!round.created[rank] && !seen.has_come(round.process[rank])) pause();
  while (at_work && std::count(round.created, round.created + Round::dying, true) < Round::dying) pause();
  std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
  if (round.killed_ns == 0) round.killed_ns = monotonic_ns();
  kill(pid, SIGKILL);
}

TEST(Deaths, SurvivorsAreToldShrinkAndGoOn) {
  std::mt19937_64 random(test::setting("SMELT_TEST_SEED", 11));
  const int size = Round::dying;
  const auto rounds = test::setting("SMELT_TEST_DEATHS", death_rounds);
  std::uint64_t killed = 0, untouched = 0, before_all_had_met = 0, longest_ns = 0;
  for (std::uint64_t turn = 0; turn < rounds && !HasFailure(); ++turn) {
    const auto name = fresh_name();
    const std::uint64_t seed = random();
    const test::ZeroedSharedValue<Round> round;
    RendezvousObserver seen(name);
    const int first = static_cast<int>(random() % size), second = (first + 1) % size;
    round->victims = 1u << first | (turn % 3 == 0 ? 1u << second : 0u);
    const auto pids = fork_ranks(size, [&](int rank) { return survive(*round, name, size, rank, seed, 300); });
    // Half of them while they meet.
    const int within_us = turn % 2 == 0 ? 1500 : 30'000;
    kill_after_it_came(*round, seen, first, pids[static_cast<std::size_t>(first)],
                       static_cast<int>(random() % static_cast<std::uint64_t>(within_us)), turn % 4 == 3);
    if (turn % 3 == 0) {
      kill_after_it_came(*round, seen, second, pids[static_cast<std::size_t>(second)],
                         static_cast<int>(random() % 3'000));
    }
    const auto results = wait_for(pids);
    for (std::size_t rank = 0; rank < results.size(); ++rank) {
      const int result = results[rank];
      EXPECT_TRUE(result == 0 || result == -SIGKILL || result == 40)
          << "round " << turn << " rank " << rank << ": " << result;
      killed += result == -SIGKILL;
      longest_ns = std::max<std::uint64_t>(longest_ns, round->longest_ns[rank]);
    }
    untouched += std::count(results.begin(), results.end(), -SIGKILL) == 0;
    before_all_had_met += std::count(results.begin(), results.end(), 40) != 0;
    // At once: a name that goes later was left by somebody.
    EXPECT_EQ(names_left(round->processes()), 0) << "round " << turn;
    EXPECT_EQ(tombstones_left(name), 0) << "round " << turn;
  }
  RecordProperty("killed", std::to_string(killed));
  RecordProperty("rounds_without_a_death", std::to_string(untouched));
  RecordProperty("rounds_with_a_death_before_all_had_met", std::to_string(before_all_had_met));
  RecordProperty("longest_wait_us", std::to_string(longest_ns / 1000));
  printf("%llu killed, in %llu rounds before all had met; longest wait of a survivor: %.1f ms\n",
         static_cast<unsigned long long>(killed), static_cast<unsigned long long>(before_all_had_met),
         static_cast<double>(longest_ns) * 1e-6);
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
    const bool soon = monotonic_ns() - before < longest_wait_ns;
    return status == Status::broken && soon && member->failure().find("rank 1") != std::string::npos ? 0 : 1;
  });
  EXPECT_EQ(wait_for(pids), (std::vector<int>{0, -SIGKILL, 0}));
}

// It has come to the rendezvous of a subgroup as the first; the others have other things to do.
TEST(Deaths, LeaveNoNameOfASubgroup) {
  const auto name = fresh_name();
  const test::ZeroedSharedValue<Round> round;
  const auto pids = fork_ranks(3, [&](int rank) {
    const int mine[] = {rank};
    auto comm = Communicator::create_shared(name, 3, mine, options_for());
    auto all = comm->attach(rank);
    round->introduce(rank);
    all->barrier();
    if (rank == 0) return static_cast<int>(subgroup_of_all(*all));
    return all->barrier() == Status::broken ? 0 : 1;
  });
  const auto wait_until = [](const auto& condition) {
    while (!condition()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  wait_until([&] { return round->processes().size() == 3 && names_left({round->process[0]}) == 1; });
  kill(pids[0], SIGKILL);
  EXPECT_EQ(wait_for(pids), (std::vector<int>{-SIGKILL, 0, 0}));
  EXPECT_EQ(names_left(round->processes()), 0);
}

// The dead rank has joined the communicator, but not come to the rendezvous of its part: only the communicator knows.
TEST(Deaths, EndTheCreationOfASubgroup) {
  for (const bool member : {true, false}) {
    const auto name = fresh_name();
    const test::ZeroedSharedValue<Round> round;
    round->victims = 1u << 2;
    const auto pids = fork_ranks(4, [&](int rank) {
      const int mine[] = {rank};
      auto comm = Communicator::create_shared(name, 4, mine, options_for());
      auto all = comm->attach(rank);
      round->introduce(rank);
      all->barrier();
      round->killed_ns = monotonic_ns();
      if (rank == 2) raise(SIGKILL);
      if (rank == 3) std::this_thread::sleep_for(std::chrono::milliseconds(100));  // when it is known already
      const auto begun = monotonic_ns();
      const std::vector<int> part = member ? std::vector<int>{3, 2, 1, 0} : std::vector<int>{3, 1, 0};
      auto group = all->subgroup(part);
      if (group) return member ? 1 : 2;
      return round->told(rank, begun, group.error().status, group.error().message) ? 0 : 3;
    });
    EXPECT_EQ(wait_for(pids), (std::vector<int>{0, 0, -SIGKILL, 0})) << member;
    EXPECT_EQ(names_left(round->processes()), 0);
  }
}

TEST(Deaths, ThreadThatEndsAsAMemberIsNoticed) {
  SynthSpec spec;
  spec.cores = 4;
  const Machine machine = *synthesize_machine(spec);
  auto comm = *Communicator::create(machine, whole_machine(machine), options_for());
  std::vector<std::thread> threads;
  std::vector<Rank*> leaked(4, nullptr);
  std::atomic<int> met{0}, good{0};
  for (int r = 0; r < 4; ++r) {
    threads.emplace_back([&, r] {
      auto* rank = new Rank(std::move(*comm.attach(r)));
      leaked[static_cast<std::size_t>(r)] = rank;
      if (rank->barrier() != Status::ok) return;
      // Rank 2's thread ends while it is a member; not while others are in the barrier, which that might break.
      for (++met; r == 2 && met < 4;) std::this_thread::yield();
      if (r == 2) return;
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

TEST(SharedErrors, NameTheCause) {
  const int mine[] = {0};
  EXPECT_EQ(Communicator::create_shared("", 2, mine).error().status, Status::invalid_argument);
  EXPECT_EQ(Communicator::create_shared("a/b", 2, mine).error().status, Status::invalid_argument);
  EXPECT_EQ(Communicator::create_shared("x", 0, mine).error().status, Status::invalid_argument);
  const int outside[] = {2};
  EXPECT_EQ(Communicator::create_shared("x", 2, outside).error().status, Status::invalid_argument);
}

}  // namespace
}  // namespace smelt
