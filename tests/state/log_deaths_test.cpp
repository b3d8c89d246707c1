// The replicated log over processes that are killed: at every numbered store of the protocol, and in the recovery from
// another death. No acknowledged command is lost, none is executed twice, all replicas agree, no process hangs, and no
// file is left.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "base/patience_test_util.hpp"
#include "base/segment.hpp"
#include "smelt/replicated_log.hpp"
#include "state/log/points.hpp"

namespace smelt {
namespace {

using namespace std::chrono_literals;

constexpr int most_ranks = 5;
int ranks = 4;
constexpr int lazy_rank = 3;
constexpr std::uint64_t appends = 200;
constexpr std::size_t most_entries = most_ranks * appends + 1;
constexpr int last_point = 24, last_of_majority = 32;

/// The process that passes `point` for the `occurrence`-th time, counted over all processes, is killed, or stopped
/// until the others have gone round the log.
struct Kill {
  int point = 0, occurrence = 0;
  int signal = SIGKILL;
  std::atomic<int> passed{0};
};

/// Reports of the processes to the test. Initially zero.
struct Board {
  Kill kills[2];
  std::atomic<std::uint64_t> started[most_ranks], acknowledged[most_ranks];
  std::atomic<int> done[most_ranks];
  std::atomic<bool> appended, over;  ///< all appends of live ranks have returned; all of these have been delivered
  std::atomic<int> passed[last_of_majority + 1];
  /// By rank: a hash of all entries up to an index; 0: not delivered there.
  std::atomic<std::uint64_t> hashes[most_ranks][most_entries];
  std::atomic<std::uint64_t> counts[most_ranks][most_ranks];  ///< by rank, then client: how many it delivered
};

Board* board = nullptr;

void die_here(int point) {
  board->passed[point].fetch_add(1);
  for (auto& order : board->kills) {
    if (order.point != point || order.passed.fetch_add(1) + 1 != order.occurrence) continue;
    kill(getpid(), order.signal);
  }
}

struct Command {
  std::uint64_t client = 0, number = 0;
};

/// The state of a replica.
struct State {
  std::uint64_t index = 0, hash = 1;
  std::array<std::uint64_t, most_ranks> counts{};
};

struct Recorder {
  int rank = 0;
  State state;

  static void apply(void* context, const Entry& entry) {
    auto& [rank, state] = *static_cast<Recorder*>(context);
    Command command;
    std::memcpy(&command, entry.data, sizeof command);
    const bool in_order = entry.index == state.index && command.number == state.counts[command.client] + 1 &&
                          command.client == static_cast<std::uint64_t>(entry.client);
    if (!in_order) {
      fprintf(stderr, "rank %d: index %zu (expected %zu): client %zu, number %zu after %zu\n", rank, entry.index,
              state.index, command.client, command.number, state.counts[command.client]);
      _exit(50);
    }
    state.counts[command.client] = command.number;
    board->counts[rank][command.client].store(command.number);
    state.hash = (state.hash * 6364136223846793005u + command.client * 1000003 + command.number) | 1;
    board->hashes[rank][state.index++].store(state.hash);
  }
  static void save(void* context, std::vector<std::byte>& bytes) {
    const auto* from = reinterpret_cast<const std::byte*>(&static_cast<Recorder*>(context)->state);
    bytes.insert(bytes.end(), from, from + sizeof(State));
  }
  static void load(void* context, std::span<const std::byte> bytes) {
    auto& [rank, state] = *static_cast<Recorder*>(context);
    std::memcpy(&state, bytes.data(), sizeof state);
    for (int client = 0; client < ranks; ++client) board->counts[rank][client].store(state.counts[client]);
  }
};

/// The exit status of a rank that cannot continue. All up-to-date ranks may have been killed while it was evicted.
constexpr int nobody_to_come_back_by = 60;
int explain(const Replica& replica) {
  if (replica.failure().find("no replica that is up to date lives") != std::string::npos) return nobody_to_come_back_by;
  fprintf(stderr, "rank %d: %s\n", replica.rank(), replica.failure().c_str());
  return 53;
}

int run_rank(const std::string& name, int rank, const LogOptions& options) {
  const int own[] = {rank};
  auto log = ReplicatedLog::create_shared(name, ranks, own, options, 20.0);
  if (!log) return fprintf(stderr, "%s\n", log.error().message.c_str()), 51;
  Recorder machine{rank, {}};
  auto replica = log->attach(rank, {&machine, &Recorder::apply, &Recorder::save, &Recorder::load});
  if (!replica) return 52;
  state::log::on_point = die_here;
  for (std::uint64_t number = 1; number <= appends; ++number) {
    const Command command{static_cast<std::uint64_t>(rank), number};
    if (rank == lazy_rank && number == 20) std::this_thread::sleep_for(20ms);
    board->started[rank].store(number);
    if (replica->append(&command, sizeof command) != Status::ok) return explain(*replica);
    board->acknowledged[rank].store(number);
  }
  board->done[rank].store(1);
  if (replica->serve(board->appended) != Status::ok) return explain(*replica);
  std::uint64_t point = 0;
  if (replica->read_point(&point) != Status::ok || replica->catch_up(point) != Status::ok) return explain(*replica);
  board->done[rank].store(2);
  // An evicted replica needs an up-to-date one for its return.
  return replica->serve(board->over) == Status::ok ? 0 : explain(*replica);
}

int names_left(const std::string& name) {
  int left = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    left += entry.path().filename().string().find(name) != std::string::npos;
  }
  return left;
}

class Deaths : public testing::Test {
 protected:
  void SetUp() override {
    segment_ = *Segment::anonymous(sizeof(Board));
    board = new (segment_.data()) Board();
  }

  void order(int which, int point, int occurrence, int signal = SIGKILL) {
    board->kills[which].signal = signal;
    board->kills[which].point = point;
    board->kills[which].occurrence = occurrence;
  }

  /// Runs all ranks to their end, and checks the results.
  void run(const LogOptions& options) {
    static int number = 0;
    const std::string name = "log-deaths-" + std::to_string(getpid()) + "-" + std::to_string(number++);
    std::vector<pid_t> pids;
    for (int rank = 0; rank < ranks; ++rank) {
      const pid_t pid = fork();
      if (pid == 0) _exit(run_rank(name, rank, options));
      pids.push_back(pid);
    }
    std::vector<bool> killed(ranks), ended(ranks);
    test::Patience patience(10s);
    int left = ranks, stopped = -1;
    std::uint64_t delivered_at_stop = 0;
    while (left > 0) {
      int least_done = 2, least_done_of_others = 2;
      for (int rank = 0; rank < ranks; ++rank) {
        if (ended[rank]) continue;
        if (rank != stopped) least_done_of_others = std::min(least_done_of_others, board->done[rank].load());
        int status = 0;
        const pid_t changed = waitpid(pids[rank], &status, WNOHANG | WUNTRACED);
        if (changed == pids[rank] && WIFSTOPPED(status)) {
          stopped = rank;
          delivered_at_stop = most_delivered();
        } else if (changed == pids[rank]) {
          ended[rank] = true;
          killed[rank] = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
          const bool all_may_be_gone =
              options.configuration == "cas" && (board->kills[1].point != 0 || options.faults == Faults::stop);
          if (all_may_be_gone && WIFEXITED(status) && WEXITSTATUS(status) == nobody_to_come_back_by)
            killed[rank] = true;
          EXPECT_TRUE(killed[rank] || (WIFEXITED(status) && WEXITSTATUS(status) == 0))
              << "rank " << rank << ": status " << WEXITSTATUS(status);
          --left;
        }
        if (!ended[rank]) least_done = std::min(least_done, board->done[rank].load());  // one that stops now, too
      }
      if (stopped >= 0 && (least_done_of_others >= 1 || most_delivered() >= delivered_at_stop + 3 * options.entries)) {
        kill(pids[stopped], SIGCONT);
        stopped = -1;
      }
      if (least_done >= 1) board->appended.store(true);
      if (least_done >= 2) board->over.store(true);
      if (patience.is_over()) {
        ADD_FAILURE() << "hangs; done: " << board->done[0] << board->done[1] << board->done[2] << board->done[3];
        for (int rank = 0; rank < ranks; ++rank) {
          if (!ended[rank]) kill(pids[rank], SIGKILL), waitpid(pids[rank], nullptr, 0);
        }
        break;
      }
      std::this_thread::sleep_for(100us);
    }
    EXPECT_EQ(names_left(name), 0);
    check(killed);
  }

 private:
  static std::uint64_t most_delivered() {
    std::uint64_t most = 0;
    for (const auto& of_rank : board->counts) {
      std::uint64_t sum = 0;
      for (const auto& count : of_rank) sum += count.load();
      most = std::max(most, sum);
    }
    return most;
  }

  static void check(const std::vector<bool>& killed) {
    for (int rank = 0; rank < ranks; ++rank) {
      if (killed[rank]) continue;
      EXPECT_EQ(board->done[rank].load(), 2) << "rank " << rank;
      for (int client = 0; client < ranks; ++client) {
        const auto executed = board->counts[rank][client].load();
        EXPECT_GE(executed, board->acknowledged[client].load()) << "rank " << rank << " lost one of client " << client;
        EXPECT_LE(executed, board->started[client].load());
      }
    }
    for (std::size_t index = 0; index < most_entries; ++index) {
      std::uint64_t known = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const auto hash = board->hashes[rank][index].load();
        if (hash == 0) continue;
        if (known == 0) known = hash;
        ASSERT_EQ(hash, known) << "rank " << rank << " differs at index " << index;
      }
    }
  }

  Segment segment_;
};

LogOptions options() {
  LogOptions options;
  options.entries = 64;
  options.requests = 4;
  options.leader = 0;
  options.evict_after_s = 0.003;
  return options;
}

TEST_F(Deaths, NobodyDies) {
  run(options());
  for (const int client : {0, 1, 2, 3}) EXPECT_EQ(board->counts[0][client].load(), appends);
  for (int point = 1; point <= last_point; ++point) {
    const bool needs_a_death = (point >= 7 && point <= 9) || point == 24;
    EXPECT_TRUE(needs_a_death || board->passed[point].load() > 0) << "point " << point;
  }
}

class AtPoint : public Deaths, public testing::WithParamInterface<int> {};

TEST_P(AtPoint, OneIsKilled) {
  for (const int occurrence : {1, 2, 7, 50, 333}) {
    SCOPED_TRACE(occurrence);
    SetUp();
    order(0, GetParam(), occurrence);
    run(options());
    if (HasFailure()) return;
  }
}

TEST_P(AtPoint, OneIsKilledAfterTheLeaderWas) {
  constexpr int decided = 6;
  for (const int occurrence : {1, 3, 40}) {
    SCOPED_TRACE(occurrence);
    SetUp();
    order(0, decided, 60);
    order(1, GetParam(), GetParam() == decided ? 60 + occurrence : occurrence);
    run(options());
    if (HasFailure()) return;
  }
}

TEST_P(AtPoint, OneIsKilledWhereLateOnesAreSuspected) {
  LogOptions late = options();
  late.faults = Faults::stop;
  late.suspect_after_s = 0.0002;
  for (const int occurrence : {1, 20}) {
    SCOPED_TRACE(occurrence);
    SetUp();
    order(0, GetParam(), occurrence);
    run(late);
    if (HasFailure()) return;
  }
}

TEST_P(AtPoint, OneIsStoppedForLong) {
  LogOptions late = options();
  late.faults = Faults::stop;
  late.suspect_after_s = 0.0005;
  late.evict_after_s = 0.05;  // else one that waits for a PU is out, and the stopped one may be the only one up to date
  for (const int occurrence : {1, 3, 30}) {
    SCOPED_TRACE(occurrence);
    SetUp();
    order(0, GetParam(), occurrence, SIGSTOP);
    run(late);
    if (HasFailure()) return;
  }
  for (int time = 0; time < 4 && !HasFailure(); ++time) {
    SetUp();
    order(0, 6, 60);  // the leader is killed: another one takes over
    order(1, GetParam(), GetParam() == 6 ? 61 : 1, SIGSTOP);
    run(late);
  }
}

INSTANTIATE_TEST_SUITE_P(Points, AtPoint, testing::Range(1, last_point + 1));

/// A majority must agree to another leader: of four, one may be killed or stopped; of five, two may.
class OfAMajorityAtPoint : public Deaths, public testing::WithParamInterface<int> {
 protected:
  ~OfAMajorityAtPoint() override { ranks = 4; }
};

TEST_P(OfAMajorityAtPoint, OneIsKilled) {
  LogOptions majority = options();
  majority.configuration = "paxos";
  for (const int occurrence : {1, 2, 50}) {
    SCOPED_TRACE(occurrence);
    SetUp();
    order(0, GetParam(), occurrence);
    run(majority);
    if (HasFailure()) return;
  }
}

TEST_P(OfAMajorityAtPoint, OneIsKilledAfterTheLeaderWas) {
  constexpr int decided = 6;
  ranks = 5;
  LogOptions majority = options();
  majority.configuration = "paxos";
  for (const int occurrence : {1, 2, 3}) {
    SCOPED_TRACE(occurrence);
    SetUp();
    order(0, decided, 60);
    order(1, GetParam(), GetParam() == decided ? 60 + occurrence : occurrence);
    run(majority);
    if (HasFailure()) return;
  }
}

TEST_P(OfAMajorityAtPoint, OneIsKilledOrStoppedWhereLateOnesAreSuspected) {
  LogOptions late = options();
  late.configuration = "paxos";
  late.faults = Faults::stop;
  late.suspect_after_s = 0.0003;
  for (const int signal : {SIGKILL, SIGSTOP}) {
    SCOPED_TRACE(signal);
    for (const int occurrence : {1, 3, 20}) {
      SCOPED_TRACE(occurrence);
      SetUp();
      order(0, GetParam(), occurrence, signal);
      run(late);
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Points, OfAMajorityAtPoint,
                         testing::Values(3, 4, 6, 7, 8, 9, 10, 11, 12, 14, 17, 20, 24, 30, 31, 32));

}  // namespace
}  // namespace smelt
