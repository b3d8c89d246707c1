// A log that is kept, whose processes are all killed at once: at random moments, at each numbered store of the
// protocol, and while they begin again. What was acknowledged is there afterwards, each command once, in the same
// order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/patience_test_util.hpp"
#include "base/segment.hpp"
#include "smelt/replicated_log.hpp"
#include "state/log/kept.hpp"
#include "state/log/points.hpp"

namespace smelt {
namespace {

using namespace std::chrono_literals;

constexpr int ranks = 3;
constexpr std::size_t most_entries = 1 << 20;
constexpr std::uint64_t without_end = UINT64_MAX;

int lives() {
  const char* text = std::getenv("SMELT_TEST_DEATHS");
  return text == nullptr ? 60 : std::max(1, std::atoi(text));
}

/// What the processes tell the test, over all lives. Zeroed.
struct Board {
  std::atomic<int> point, occurrence, passed;  ///< all are killed when one passes `point` for the `occurrence`-th time
  std::atomic<int> life;                       ///< whose processes are all there
  std::atomic<std::uint64_t> started[ranks], acknowledged[ranks];
  std::atomic<std::uint64_t> hashes[most_entries];  ///< of all entries up to an index; 0: nobody has delivered it
};
Board* board = nullptr;

void die_here(int point) {
  if (point == board->point.load() && board->passed.fetch_add(1) + 1 == board->occurrence.load()) {
    kill(0, SIGKILL);  // the process group: all ranks
    pause();
  }
}

struct Command {
  std::uint64_t client = 0, number = 0;
};

/// What a replica keeps; larger than a page.
struct State {
  std::uint64_t index = 0, hash = 1;
  std::array<std::uint64_t, ranks> counts{};
  std::array<std::uint64_t, 1000> rest{};
};

[[noreturn]] void complain(const std::string& what) {
  fprintf(stderr, "%s\n", what.c_str());
  _exit(50);
}

void apply(void* context, const Entry& entry) {
  auto& state = *static_cast<State*>(context);
  Command command;
  std::memcpy(&command, entry.data, sizeof command);
  if (entry.index != state.index || command.number != state.counts[command.client] + 1) {
    complain("index " + std::to_string(entry.index) + " after " + std::to_string(state.index) + ", number " +
             std::to_string(command.number) + " after " + std::to_string(state.counts[command.client]));
  }
  state.counts[command.client] = command.number;
  state.hash = (state.hash * 6364136223846793005u + command.client * 1000003 + command.number) | 1;
  std::uint64_t known = 0;
  if (state.index >= most_entries) complain("more entries than the test has room for");
  if (!board->hashes[state.index].compare_exchange_strong(known, state.hash) && known != state.hash) {
    complain("another entry at index " + std::to_string(entry.index));
  }
  ++state.index;
}
void save(void* context, std::vector<std::byte>& bytes) {
  const auto* from = static_cast<const std::byte*>(context);
  bytes.insert(bytes.end(), from, from + sizeof(State));
}
void load(void* context, std::span<const std::byte> bytes) {
  ASSERT_EQ(bytes.size(), sizeof(State));
  std::memcpy(context, bytes.data(), sizeof(State));
  const auto& state = *static_cast<State*>(context);
  if (state.index != 0 && board->hashes[state.index - 1].load() != state.hash) complain("another state was saved");
}

LogOptions options() {
  LogOptions options;
  options.entries = 64;
  options.requests = 8;
  options.leader = 0;
  options.keep = true;
  return options;
}

/// One rank in one life: checks what it finds, and appends `appends` commands.
int run_rank(const std::string& name, int rank, std::uint64_t appends) {
  const int own[] = {rank};
  state::log::on_point = die_here;
  auto log = ReplicatedLog::create_shared(name, ranks, own, options(), 20.0);
  // Told once of those that were killed while they met.
  if (!log && log.error().status == Status::broken) {
    log = ReplicatedLog::create_shared(name, ranks, own, options(), 20.0);
  }
  if (!log) return fprintf(stderr, "%s\n", log.error().message.c_str()), 51;
  State state;
  auto replica = log->attach(rank, {&state, apply, save, load});
  if (!replica) return fprintf(stderr, "%s\n", replica.error().message.c_str()), 52;
  const auto well = [&](Status status) {
    if (status != Status::ok) complain("rank " + std::to_string(rank) + ": " + replica->failure());
  };
  std::uint64_t point = 0;
  // Its own commands that were started and not decided come first.
  std::uint64_t number = replica->started();
  while (state.counts[rank] < number) well(replica->progress());
  well(replica->read_point(&point));
  well(replica->catch_up(point));
  for (int client = 0; client < ranks; ++client) {
    if (state.counts[client] < board->acknowledged[client].load() && client == rank) complain("an entry was lost");
  }
  if (number > board->started[rank].load()) complain("a command that nobody started");
  for (std::uint64_t count = 0; count < appends; ++count) {
    const Command command{static_cast<std::uint64_t>(rank), ++number};
    board->started[rank].store(number);
    well(replica->append(&command, sizeof command));
    board->acknowledged[rank].store(number);
  }
  // Others may need this replica to go on.
  for (int client = 0; client < ranks; ++client) {
    while (state.counts[client] < board->acknowledged[client].load()) well(replica->progress());
  }
  const auto until = std::chrono::steady_clock::now() + 20ms;
  while (std::chrono::steady_clock::now() < until) well(replica->progress());
  return 0;
}

int files_of(const std::string& name) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    files += entry.path().filename().string().find(name) != std::string::npos ? 1 : 0;
  }
  return files;
}

class KeptLog : public testing::Test {
 protected:
  void SetUp() override {
    segment_ = *Segment::anonymous(sizeof(Board));
    board = new (segment_.data()) Board();
    static int number = 0;
    name_ = "log-keep-" + std::to_string(getpid()) + "-" + std::to_string(number++);
  }
  void TearDown() override {
    static_cast<void>(remove_log(name_));
    EXPECT_EQ(files_of(name_), 0);
  }

  /// A life: true if all ranks were killed, false if all have come to their end. Kills them after `kill_after_us`.
  bool live(std::uint64_t appends, long kill_after_us) {
    const int life = board->life.load() + 1;
    std::vector<pid_t> pids;
    for (int rank = 0; rank < ranks; ++rank) {
      const pid_t pid = fork();
      if (pid == 0) {
        // One that begins earlier may kill the group before the others are in it.
        while (board->life.load() != life) std::this_thread::sleep_for(20us);
        _exit(run_rank(name_, rank, appends));
      }
      setpgid(pid, pids.empty() ? pid : pids[0]);
      pids.push_back(pid);
    }
    board->life.store(life);
    if (kill_after_us >= 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(kill_after_us));
      kill(-pids[0], SIGKILL);
    }
    int killed = 0;
    test::Patience patience(10s);
    for (const pid_t pid : pids) {
      int status = 0;
      while (waitpid(pid, &status, WNOHANG) == 0) {
        if (patience.is_over()) {
          ADD_FAILURE() << "hangs";
          kill(-pids[0], SIGKILL);
          waitpid(pid, &status, 0);
          break;
        }
        std::this_thread::sleep_for(100us);
      }
      if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
        ++killed;
      } else {
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << WEXITSTATUS(status);
      }
    }
    EXPECT_TRUE(killed == 0 || killed == ranks);
    return killed == ranks;
  }

  Segment segment_;
  std::string name_;
};

TEST_F(KeptLog, NothingIsLostWhenAllAreKilledAtAnyMoment) {
  std::mt19937 random(7);
  int killed = 0;
  for (int life = 0; life < lives() && !HasFailure(); ++life) {
    killed += live(without_end, std::uniform_int_distribution<long>(500, 12'000)(random)) ? 1 : 0;
  }
  EXPECT_EQ(killed, lives());
  EXPECT_FALSE(live(50, -1));
  for (int rank = 0; rank < ranks; ++rank) EXPECT_GE(board->acknowledged[rank].load(), 50u);
  const auto state = inspect_log(name_);
  ASSERT_TRUE(state) << state.error().message;
  EXPECT_GE(state->appended, ranks * 50u);
  EXPECT_GT(state->saved, 0u);
  EXPECT_EQ(state->state_bytes, sizeof(State));
  EXPECT_LE(files_of(name_), 2 + 1);  // a state that was replaced while its process was killed
}

class KeptLogAtPoint : public KeptLog, public testing::WithParamInterface<int> {};

TEST_P(KeptLogAtPoint, NothingIsLostWhenAllAreKilledThere) {
  ASSERT_FALSE(live(40, -1));
  const int point = GetParam();
  const bool once_a_life = (point >= 8 && point <= 10) || (point >= 24 && point <= 26);
  for (const int occurrence : {1, 2, 5, 40}) {
    if (occurrence > 1 && once_a_life) break;
    SCOPED_TRACE(occurrence);
    board->passed.store(0);
    board->occurrence.store(occurrence);
    board->point.store(point);
    EXPECT_TRUE(live(without_end, -1));
    board->point.store(0);
    EXPECT_FALSE(live(20, -1));
    if (HasFailure()) return;
  }
}

// Those that the failure-free log passes, and those of saving and beginning again.
INSTANTIATE_TEST_SUITE_P(Points, KeptLogAtPoint,
                         testing::Values(1, 2, 3, 4, 5, 6, 8, 9, 10, 13, 14, 24, 25, 26, 27, 28, 29));

// ---- In one process

struct Add {
  std::uint64_t key = 0, value = 0;
  std::uint64_t operator()(std::map<std::uint64_t, std::uint64_t>& map) const { return map[key] += value; }
};
using Sums = Replicated<std::map<std::uint64_t, std::uint64_t>, Add>;

Result<ReplicatedLog> open_alone(const std::string& name, const LogOptions& chosen = options()) {
  const int own[] = {0};
  LogOptions alone = chosen;
  return ReplicatedLog::create_shared(name, 1, own, alone, 5.0);
}

TEST_F(KeptLog, AStructureIsThereAgain) {
  for (std::uint64_t life = 0; life < 3; ++life) {
    auto log = open_alone(name_);
    ASSERT_TRUE(log) << log.error().message;
    auto sums = Sums::attach(*log, 0);
    ASSERT_TRUE(sums) << sums.error().message;
    for (std::uint64_t i = 0; i < 300; ++i) {
      const auto sum = sums->update(Add{i % 7, 1});
      ASSERT_TRUE(sum) << sum.error().message;
    }
    const auto total = sums->read([](const auto& map) {
      std::uint64_t all = 0;
      for (const auto& [key, value] : map) all += value;
      return all;
    });
    ASSERT_TRUE(total);
    EXPECT_EQ(*total, 300 * (life + 1));
  }
}

/// The saved state and the slots from its index on are all that was decided: none of these is free, after any update.
TEST_F(KeptLog, WhatIsNotSavedIsInTheLog) {
  namespace log = state::log;
  LogOptions options = smelt::options();
  options.requests = 4;
  auto made = open_alone(name_, options);
  ASSERT_TRUE(made) << made.error().message;
  auto sums = Sums::attach(*made, 0);
  ASSERT_TRUE(sums) << sums.error().message;
  const auto kept = log::Kept::look_at(name_);
  ASSERT_TRUE(kept) << kept.error().message;
  const log::Layout layout((*kept)->memory());
  std::uint64_t saved = 0, states = 0;
  for (std::uint64_t slots = 1; slots <= 400; ++slots) {
    ASSERT_TRUE(sums->update(Add{slots % 7, 1}));
    const std::uint64_t floor = log::Floor::index(layout.head().floor.load(), slots);
    const std::uint64_t index = (*kept)->index();
    states += index != saved ? 1 : 0;
    saved = index;
    ASSERT_LE(floor, saved) << "after " << slots << " slots";
    ASSERT_LE(slots, saved + options.entries);
    for (std::uint64_t slot = saved; slot < slots; ++slot) {
      const std::uint64_t word = layout.slot(slot).load();
      ASSERT_EQ(log::lap_of(word), layout.lap(slot)) << "slot " << slot << " of " << slots << ", saved " << saved;
      const std::uint64_t stamp = layout.cell(0, slot + 1)->load();  // one request in each slot
      ASSERT_EQ(log::request_of(stamp), slot + 1) << "of " << slots << ", saved " << saved;
    }
  }
  EXPECT_GE(states, 400 / options.entries);
}

TEST_F(KeptLog, TwoLivesDoNotOverlap) {
  auto log = open_alone(name_);
  ASSERT_TRUE(log) << log.error().message;
  const auto second = open_alone(name_);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().status, Status::broken);
  EXPECT_THAT(second.error().message, testing::HasSubstr("in use by process " + std::to_string(getpid())));
  const auto removed = remove_log(name_);
  ASSERT_FALSE(removed);
  EXPECT_EQ(removed.error().status, Status::broken);
  const auto state = inspect_log(name_);
  ASSERT_TRUE(state) << state.error().message;
  EXPECT_THAT(state->processes, testing::ElementsAre(getpid()));
}

TEST_F(KeptLog, WhatDoesNotFitIsRefused) {
  {
    auto log = open_alone(name_);
    ASSERT_TRUE(log) << log.error().message;
    const auto without_state = log->attach(0);
    ASSERT_FALSE(without_state);
    EXPECT_THAT(without_state.error().message, testing::HasSubstr("needs apply, save and load"));
  }
  LogOptions other = options();
  other.entries = 128;
  const auto another = open_alone(name_, other);
  ASSERT_FALSE(another);
  EXPECT_EQ(another.error().status, Status::invalid_argument);
  EXPECT_THAT(another.error().message, testing::HasSubstr("entries = 64"));
  other = options();
  other.algorithm = "broadcast";
  EXPECT_FALSE(open_alone(name_, other));
  EXPECT_TRUE(remove_log(name_));
  EXPECT_EQ(inspect_log(name_).error().status, Status::not_found);
  EXPECT_EQ(remove_log(name_).error().status, Status::not_found);
}

TEST_F(KeptLog, IsListed) {
  { auto log = open_alone(name_); }
  const auto all = list_logs();
  ASSERT_TRUE(all);
  const auto found = std::ranges::find(*all, name_, &LogState::name);
  ASSERT_NE(found, all->end());
  EXPECT_EQ(found->ranks, 1);
  EXPECT_EQ(found->replicas, 1);
  EXPECT_EQ(found->entries, 64u);
  EXPECT_TRUE(found->processes.empty());
}

}  // namespace
}  // namespace smelt
