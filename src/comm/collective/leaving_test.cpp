// Ranks that leave while others need them: nobody waits for them, in no operation, whoever leaves how and when; and
// ranks that leave when nobody needs them any more, which nobody notices.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "base/process.hpp"
#include "comm/collective/collective_check.hpp"
#include "comm/collective/forked_ranks.hpp"
#include "smelt/machine.hpp"
#include "smelt/schedule.hpp"

namespace smelt {
namespace {

using test::fork_ranks;
using test::fresh_name;
using test::names_left;
using test::options_for;
using test::setting;
using test::wait_for;
using test::ZeroedSharedValue;

/// A second is promised; the machine may be busy with something else.
constexpr std::uint64_t longest_wait_ns = 5'000'000'000;
constexpr int most_ranks = 8;

void pause_us(std::uint64_t us) { std::this_thread::sleep_for(std::chrono::microseconds(us)); }

/// How a rank ends.
enum class LeaveKind {
  detaches,     ///< gives its rank up; its process and its communicator stay
  destroys,     ///< its communicator, too
  attends_not,  ///< never attaches, and destroys its communicator
  ends,         ///< its thread, while it still has the rank
  exits,        ///< its process, by exit(3), with all that it has
  is_killed,
};
const char* name_of(LeaveKind way) {
  const char* const names[] = {"detaches", "destroys", "attends not", "ends", "exits", "is killed"};
  return names[static_cast<int>(way)];
}
/// A rank that has left has said so, else it is found dead.
bool leaves(LeaveKind way) { return way != LeaveKind::ends && way != LeaveKind::is_killed; }

/// How a collective is called. The last one never waits.
enum class CallStyle { blocking, started, persistent, prepared, asked };
constexpr CallStyle manners[] = {CallStyle::blocking, CallStyle::started, CallStyle::persistent, CallStyle::prepared,
                                 CallStyle::asked};

struct CollectiveCall {
  Operation operation = Operation::barrier;
  std::size_t count = 1;  ///< elements of 8 bytes
  CallStyle style = CallStyle::blocking;
  Sync sync = Sync::loose;
  int root = 0;
  std::string algorithm{};

  std::string describe() const {
    const char* const how[] = {"blocking", "started", "persistent", "prepared", "asked"};
    return std::string(to_string(operation)) + " of " + std::to_string(count) + ", root " + std::to_string(root) +
           ", " + how[static_cast<int>(style)] + ", " + to_string(sync) + " " + algorithm;
  }
  /// Whether no rank can finish it before all others have begun.
  bool needs_all() const {
    return operation == Operation::barrier || operation == Operation::allreduce || operation == Operation::allgather ||
           operation == Operation::alltoall || operation == Operation::two_phase_commit || sync == Sync::strict;
  }
};

/// One rank's buffers, and the calls on them.
class Caller {
 public:
  Caller(const CollectiveCall& tested, int size)
      : tested_(tested),
        in_(tested.count * (has_rank_blocks(tested.operation) ? static_cast<std::size_t>(size) : 1), 1),
        out_(in_.size(), 1) {}

  Status once(Rank& rank) {
    const Collective call = describe();
    switch (tested_.style) {
      case CallStyle::blocking: return rank.run(call);
      case CallStyle::started: return rank.start(call).wait();
      case CallStyle::persistent: {
        auto request = rank.prepare(call);
        if (const Status status = request.start(); status != Status::ok) return status;
        return request.wait();
      }
      case CallStyle::prepared: return rank.prepare(call).run(call.in, call.out);
      case CallStyle::asked: {
        auto request = rank.start(call);
        for (bool done = false;; std::this_thread::yield()) {
          const Status status = request.test(&done);
          if (done) return status;
        }
      }
    }
    return Status::invalid_argument;
  }

  /// What an allreduce has come to.
  std::uint64_t result() const { return out_[0]; }

  Collective describe() {
    const auto add = sum<std::uint64_t>();
    const std::size_t count = tested_.count, bytes = count * 8;
    auto* const in = in_.data();
    auto* const out = out_.data();
    Collective call;
    switch (tested_.operation) {
      case Operation::barrier: break;
      case Operation::broadcast: call = Collective::broadcast(out, bytes, tested_.root); break;
      case Operation::reduce: call = Collective::reduce(in, out, count, add, tested_.root); break;
      case Operation::allreduce: call = Collective::allreduce(in, out, count, add); break;
      case Operation::two_phase_commit:
        call = Collective::two_phase_commit(
            out, bytes, [](const void*, void*) { return true; }, nullptr, &committed_, tested_.root);
        break;
      case Operation::scatter: call = Collective::scatter(in, out, bytes, tested_.root); break;
      case Operation::gather: call = Collective::gather(in, out, bytes, tested_.root); break;
      case Operation::allgather: call = Collective::allgather(in, out, bytes); break;
      case Operation::alltoall: call = Collective::alltoall(in, out, bytes); break;
      case Operation::reduce_scatter: call = Collective::reduce_scatter(in, out, count, add); break;
      case Operation::scan: call = Collective::scan(in, out, count, add); break;
      case Operation::exscan: call = Collective::exscan(in, out, count, add); break;
    }
    call.sync = tested_.sync;
    return call;
  }

 private:
  const CollectiveCall& tested_;
  std::vector<std::uint64_t> in_, out_;
  bool committed_ = false;
};

/// What the ranks of one round and the test tell each other.
struct SharedRound {
  int size = 0, leaver = 0, calls = 0;  ///< that the leaver makes before it leaves
  LeaveKind way = LeaveKind::detaches;
  std::uint64_t seed = 0;
  std::atomic<std::uint64_t> process[most_ranks];
  std::atomic<bool> working[most_ranks];
  std::atomic<std::uint64_t> left_ns;  ///< 0: not yet
  std::atomic<std::uint64_t> longest_ns;
  std::atomic<int> finished;  ///< survivors

  void introduce(int rank) { process[rank] = test::process_word(getpid(), ProcessId::self()->start_ticks); }
  std::vector<std::uint64_t> processes() const {
    std::vector<std::uint64_t> known;
    for (const auto& each : process) {
      if (each != 0) known.push_back(each);
    }
    return known;
  }
  void note_wait(std::uint64_t begun_ns) {
    const auto now = monotonic_ns(), left = left_ns.load();
    const auto waited = left == 0 ? 0 : now - std::min(now, std::max(begun_ns, left));
    auto longest = longest_ns.load();
    while (waited > longest && !longest_ns.compare_exchange_weak(longest, waited)) {}
  }
  /// Whether the text says who is missing, and how it ended.
  bool names_leaver(const std::string& text) const {
    const std::string rank = "rank " + std::to_string(leaver);
    if (leaves(way)) return text.find(rank + " has left") != std::string::npos;
    return text.find(rank) != std::string::npos &&
           (text.find("died") != std::string::npos || text.find("ended") != std::string::npos);
  }
};

/// Ends the test if a round takes for ever, and says which.
class Watchdog {
 public:
  explicit Watchdog(std::string what) : what_(std::move(what)), thread_([this] { watch(); }) {}
  Watchdog(const Watchdog&) = delete;
  ~Watchdog() {
    over_ = true;
    thread_.join();
  }

 private:
  /// Looks again after a tenth of the time that has passed, so that the end of a round waits for it little longer.
  void watch() {
    const auto begun = monotonic_ns();
    while (!over_) {
      const auto passed_us = (monotonic_ns() - begun) / 1000;
      pause_us(std::clamp<std::uint64_t>(passed_us / 10, 500, 100'000));
      if (passed_us < 60'000'000) continue;
      fprintf(stderr, "hangs: %s\n", what_.c_str());
      std::abort();
    }
  }
  std::string what_;
  std::atomic<bool> over_{false};
  std::thread thread_;
};

/// A rank that goes on until it is told that another one has ended. 0, or what is wrong.
int survive(SharedRound& shared, const CollectiveCall& tested, Rank& rank) {
  const auto complain = [&](int code, const std::string& what) {
    fprintf(stderr, "rank %d: %s (%s, rank %d of %d %s, seed %llu)\n", rank.rank(), what.c_str(),
            tested.describe().c_str(), shared.leaver, shared.size, name_of(shared.way),
            static_cast<unsigned long long>(shared.seed));
    return code;
  };
  Caller caller(tested, shared.size);
  shared.working[rank.rank()] = true;
  constexpr int most = 200'000;
  for (int call = 0; call < most; ++call) {
    const auto begun = monotonic_ns();
    const Status status = caller.once(rank);
    shared.note_wait(begun);
    if (status == Status::ok) {
      if (tested.needs_all() && call >= shared.calls && shared.way != LeaveKind::is_killed) {
        return complain(1, "call " + std::to_string(call + 1) + " without the leaver");
      }
      if (tested.operation == Operation::allreduce && caller.result() != static_cast<std::uint64_t>(shared.size)) {
        return complain(2, "wrong sum");
      }
      continue;
    }
    if (status != Status::broken) return complain(3, "status " + std::to_string(static_cast<int>(status)));
    if (!shared.names_leaver(rank.failure())) return complain(4, "failure: " + rank.failure());
    if (rank.barrier() != Status::broken) return complain(5, "not broken for ever");
    if (!tested.algorithm.empty()) return 0;  // not every one there is can do with a rank less
    auto smaller = rank.shrink();
    shared.note_wait(begun);
    if (!smaller) return complain(6, "shrink: " + smaller.error().message);
    std::uint64_t one = 1, total = 0;
    if (smaller->allreduce(&one, &total, 1, sum<std::uint64_t>()) != Status::ok) {
      return complain(7, "after shrinking: " + smaller->failure());
    }
    if (total != static_cast<std::uint64_t>(shared.size - 1)) return complain(8, "survivors: " + std::to_string(total));
    ++shared.finished;
    return 0;
  }
  return complain(9, "never told");
}

/// What the one that leaves does before: some calls, and some time.
void work_before_leaving(SharedRound& shared, const CollectiveCall& tested, Rank& rank) {
  Caller caller(tested, shared.size);
  shared.working[rank.rank()] = true;
  for (int call = 0; shared.way == LeaveKind::is_killed || call < shared.calls; ++call) {
    if (caller.once(rank) != Status::ok) break;
  }
  std::mt19937_64 random(shared.seed);
  pause_us(random() % 3 * (random() % 1000));
}

Communicator threads_of(int size, const CommunicatorOptions& options) {
  SynthSpec spec;
  spec.cores = 8;
  const Machine machine = *synthesize_machine(spec);
  Group group = whole_machine(machine);
  group.pus.resize(static_cast<std::size_t>(size));
  return std::move(*Communicator::create(machine, group, options));
}

CommunicatorOptions options_of(const CollectiveCall& tested) {
  auto options = options_for(tested.algorithm);
  options.timeout_s = 0;  // news alone must end the waits
  return options;
}

void round_of_threads(SharedRound& shared, const CollectiveCall& tested) {
  const Watchdog watchdog(tested.describe() + ", threads, " + name_of(shared.way));
  auto comm = std::make_unique<Communicator>(threads_of(shared.size, options_of(tested)));
  std::vector<std::unique_ptr<Rank>> kept(static_cast<std::size_t>(shared.size));
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int number = 0; number < shared.size; ++number) {
    threads.emplace_back([&, number] {
      auto& rank = kept[static_cast<std::size_t>(number)];
      rank = std::make_unique<Rank>(std::move(*comm->attach(number)));
      if (number != shared.leaver) {
        wrong += survive(shared, tested, *rank) != 0;
        rank.reset();
        return;
      }
      work_before_leaving(shared, tested, *rank);
      shared.left_ns = monotonic_ns();
      if (leaves(shared.way)) rank.reset();
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0) << tested.describe() << ", seed " << shared.seed;
}

/// One process of a round; its exit status.
int take_part(SharedRound& shared, const CollectiveCall& tested, const std::string& name, int number) {
  shared.introduce(number);
  const int mine[] = {number};
  auto made = Communicator::create_shared(name, shared.size, mine, options_of(tested));
  if (!made) {
    fprintf(stderr, "rank %d: %s\n", number, made.error().message.c_str());
    return 20;
  }
  auto comm = std::make_unique<Communicator>(std::move(*made));
  if (number != shared.leaver) {
    auto rank = comm->attach(number);
    return rank ? survive(shared, tested, *rank) : 21;
  }
  if (shared.way != LeaveKind::attends_not) {
    auto rank = comm->attach(number);
    if (!rank) return 22;
    work_before_leaving(shared, tested, *rank);
    shared.left_ns = monotonic_ns();
    if (shared.way == LeaveKind::exits) exit(0);
  } else {
    shared.left_ns = monotonic_ns();
  }
  if (shared.way != LeaveKind::detaches) comm.reset();
  while (shared.finished < shared.size - 1) pause_us(500);  // it lives on
  return 0;
}

void round_of_processes(SharedRound& shared, const CollectiveCall& tested) {
  const auto name = fresh_name();
  fflush(stdout);  // else those that exit() print it, too
  const auto pids = fork_ranks(shared.size, [&](int number) { return take_part(shared, tested, name, number); });
  std::vector<int> wanted(pids.size(), 0), results;
  {
    const Watchdog watchdog(tested.describe() + ", processes, " + name_of(shared.way));
    if (shared.way == LeaveKind::is_killed) {
      std::mt19937_64 random(shared.seed);
      for (int rank = 0; rank < shared.size; ++rank) {
        while (!shared.working[rank]) pause_us(50);
      }
      pause_us(random() % 3000);
      shared.left_ns = monotonic_ns();
      kill(pids[static_cast<std::size_t>(shared.leaver)], SIGKILL);
      wanted[static_cast<std::size_t>(shared.leaver)] = -SIGKILL;
    }
    results = wait_for(pids);
  }
  EXPECT_EQ(results, wanted) << tested.describe() << ", " << name_of(shared.way) << ", seed " << shared.seed;
  EXPECT_EQ(names_left(shared.processes()), 0);
}

constexpr Operation operations[] = {Operation::barrier,   Operation::broadcast,      Operation::reduce,
                                    Operation::allreduce, Operation::scatter,        Operation::gather,
                                    Operation::alltoall,  Operation::allgather,      Operation::scan,
                                    Operation::exscan,    Operation::reduce_scatter, Operation::two_phase_commit};

/// A line, a few, stages, long: what is long in all is long in each block, too.
constexpr std::size_t counts[] = {1, 200, 5000, 70000};

class Rounds {
 public:
  /// `what` is counted and reported; null: not.
  explicit Rounds(const char* what = nullptr) : what_(what), seed_(setting("SMELT_TEST_SEED", 23)), random_(seed_) {}

  CollectiveCall next(Operation operation, std::size_t count, int size) {
    CollectiveCall tested{.operation = operation, .count = count};
    if (count == counts[3] && has_rank_blocks(operation)) tested.count /= static_cast<std::size_t>(size);
    tested.style = manners[turn_++ % std::size(manners)];
    tested.sync = random_() % 4 == 0 ? Sync::strict : Sync::loose;
    tested.root = static_cast<int>(random_() % static_cast<std::uint64_t>(size));
    return tested;
  }
  /// Long calls before the leaver's last one take time and use no other memory than the first few.
  static void shorten(SharedRound& shared, std::size_t count) {
    if (count == counts[3]) shared.calls %= 4;
  }
  int size() { return 2 + static_cast<int>(random_() % (most_ranks - 1)); }
  void prepare(SharedRound& shared, LeaveKind way, int size) {
    shared.size = size;
    shared.way = way;
    shared.leaver = static_cast<int>(random_() % static_cast<std::uint64_t>(size));
    shared.calls = way == LeaveKind::attends_not ? 0 : static_cast<int>(random_() % 4 * (random_() % 20));
    shared.seed = random_();
  }
  void count(const SharedRound& shared) {
    ++rounds_;
    longest_ns_ = std::max(longest_ns_, shared.longest_ns.load());
    EXPECT_LT(shared.longest_ns.load(), longest_wait_ns);
  }
  ~Rounds() {
    if (what_ == nullptr) return;
    printf("%s: %d rounds with seed %llu; longest wait for one that had left: %.1f ms\n", what_, rounds_,
           static_cast<unsigned long long>(seed_), static_cast<double>(longest_ns_) * 1e-6);
  }

 private:
  const char* what_;
  std::uint64_t seed_;
  std::mt19937_64 random_;
  int turn_ = 0, rounds_ = 0;
  std::uint64_t longest_ns_ = 0;
};

TEST(Leaving, ThreadsGetTheErrorInEveryOperation) {
  Rounds rounds("threads");
  for (const LeaveKind way : {LeaveKind::detaches, LeaveKind::ends}) {
    for (const Operation operation : operations) {
      for (const std::size_t count : counts) {
        if (operation == Operation::barrier && count > counts[1]) continue;
        const ZeroedSharedValue<SharedRound> shared;
        const int size = rounds.size();
        rounds.prepare(*shared, way, size);
        Rounds::shorten(*shared, count);
        round_of_threads(*shared, rounds.next(operation, count, size));
        rounds.count(*shared);
        if (HasFailure()) return;
      }
    }
  }
}

TEST(ProcessesLeaving, TheErrorIsReturnedInEveryOperation) {
  Rounds rounds("processes");
  for (const Operation operation : operations) {
    for (const std::size_t count : {counts[0], counts[2], counts[3]}) {
      for (const LeaveKind way :
           {LeaveKind::detaches, LeaveKind::destroys, LeaveKind::attends_not, LeaveKind::exits, LeaveKind::is_killed}) {
        if (operation == Operation::barrier && count > counts[0]) continue;
        const ZeroedSharedValue<SharedRound> shared;
        const int size = rounds.size();
        rounds.prepare(*shared, way, size);
        Rounds::shorten(*shared, count);
        round_of_processes(*shared, rounds.next(operation, count, size));
        rounds.count(*shared);
        if (HasFailure()) return;
      }
    }
  }
}

TEST(Leaving, IsNoticedInEveryAlgorithm) {
  Rounds rounds("algorithms");
  for (const auto& info : algorithms()) {
    if (info.operation == Operation::barrier) continue;
    for (const Access access : info.access) {
      for (const std::size_t count : {counts[0], counts[3]}) {
        const ZeroedSharedValue<SharedRound> shared;
        const int size = 4;  // for which there are all
        rounds.prepare(*shared, LeaveKind::detaches, size);
        Rounds::shorten(*shared, count);
        CollectiveCall tested = rounds.next(info.operation, count, size);
        tested.algorithm = to_string(Recipe{.algorithm = info.name, .access = access});
        round_of_threads(*shared, tested);
        rounds.count(*shared);
        if (HasFailure()) return;
      }
    }
  }
}

// Each makes the same calls and leaves at once, while slow ones are at the last call still, or have not entered it.
// Whoever waits for those sees again and again that the fast ones have left.
int make_all_calls(Rank& rank, const std::vector<CollectiveCall>& deeds, std::uint64_t seed) {
  std::mt19937_64 random(seed + static_cast<std::uint64_t>(rank.rank()));
  for (const CollectiveCall& tested : deeds) {
    Caller caller(tested, rank.size());
    // Longer than a sleeper sleeps, sometimes.
    if (&tested == &deeds.back() && random() % 3 == 0) pause_us(random() % 4 == 0 ? 130'000 : random() % 2000);
    const Status status = caller.once(rank);
    if (status == Status::ok) continue;
    fprintf(stderr, "rank %d: %s: %s\n", rank.rank(), tested.describe().c_str(), rank.failure().c_str());
    return 1;
  }
  return 0;
}

std::vector<CollectiveCall> some_deeds(Rounds& rounds, int size, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<CollectiveCall> deeds;
  const auto number = 1 + random() % 4;
  for (std::uint64_t i = 0; i < number; ++i) {
    deeds.push_back(
        rounds.next(operations[random() % std::size(operations)], counts[random() % std::size(counts)], size));
  }
  return deeds;
}

TEST(Leaving, AfterTheLastOperationBreaksNothingAmongThreads) {
  Rounds rounds("last operations of threads");
  for (int turn = 0; turn < 60 && !HasFailure(); ++turn) {
    const ZeroedSharedValue<SharedRound> shared;
    const int size = rounds.size();
    rounds.prepare(*shared, LeaveKind::detaches, size);
    const auto deeds = some_deeds(rounds, size, shared->seed);
    const Watchdog watchdog("last operation of threads: " + deeds.back().describe());
    auto comm = threads_of(size, options_of(deeds[0]));
    std::vector<std::thread> threads;
    std::atomic<int> wrong{0};
    for (int number = 0; number < size; ++number) {
      threads.emplace_back([&, number] {
        Rank rank = std::move(*comm.attach(number));
        wrong += make_all_calls(rank, deeds, shared->seed);
      });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0) << "seed " << shared->seed;
    rounds.count(*shared);
  }
}

TEST(ProcessesLeaving, AfterTheLastOperationBreaksNothing) {
  Rounds rounds("last operations of processes");
  for (int turn = 0; turn < 40 && !HasFailure(); ++turn) {
    const ZeroedSharedValue<SharedRound> shared;
    const int size = rounds.size();
    rounds.prepare(*shared, LeaveKind::destroys, size);
    const auto deeds = some_deeds(rounds, size, shared->seed);
    const auto name = fresh_name();
    fflush(stdout);
    const auto pids = fork_ranks(size, [&](int number) {
      const int mine[] = {number};
      auto comm = Communicator::create_shared(name, size, mine, options_of(deeds[0]));
      if (!comm) return 2;
      // Some free all, some a rank alone, some nothing before their process ends.
      auto* const attached = new Rank(std::move(*comm->attach(number)));
      const int wrong = make_all_calls(*attached, deeds, shared->seed);
      if (number % 3 == 0) exit(wrong);
      delete attached;
      if (number % 3 == 1) _exit(wrong);
      return wrong;
    });
    const Watchdog watchdog("last operation of processes: " + deeds.back().describe());
    EXPECT_EQ(wait_for(pids), std::vector<int>(static_cast<std::size_t>(size), 0)) << "seed " << shared->seed;
    rounds.count(*shared);
  }
}

/// Lets the other rank send its last message, and leave, between a look at what is awaited and one at who has left.
struct DepartureAfterLook {
  std::atomic<int> stage{0};  ///< 1: the other one may go on; 2: it has left
  static void let_it_leave(void* self) {
    auto& between = *static_cast<DepartureAfterLook*>(self);
    if (between.stage == 0) between.stage = 1;
    while (between.stage != 2) std::this_thread::yield();
  }
};

TEST(Leaving, ADepartureAfterTheLastMessageBreaksNothing) {
  for (const std::string wait : {"auto", "spin", "yield", "sleep"}) {
    for (const CallStyle style : {CallStyle::blocking, CallStyle::started, CallStyle::prepared}) {
      for (const std::size_t count : {1, 20, 200}) {  // the root waits for nobody
        DepartureAfterLook between;
        auto options = options_of({});
        options.wait = wait;
        options.idle = DepartureAfterLook::let_it_leave;
        options.idle_context = &between;
        const CollectiveCall tested{.operation = Operation::broadcast, .count = count, .style = style, .root = 1};
        const Watchdog watchdog("between looks: " + tested.describe() + " " + wait);
        auto comm = threads_of(2, options);
        std::thread other([&] {
          auto rank = std::make_unique<Rank>(std::move(*comm.attach(1)));
          while (between.stage != 1) std::this_thread::yield();
          Caller caller(tested, 2);
          const Status status = caller.once(*rank);
          EXPECT_EQ(status, Status::ok) << rank->failure();
          rank.reset();
          between.stage = 2;
        });
        Rank rank = std::move(*comm.attach(0));
        Caller caller(tested, 2);
        EXPECT_EQ(caller.once(rank), Status::ok) << tested.describe() << ", " << wait << ": " << rank.failure();
        other.join();
      }
    }
  }
}

/// One rank leaves after a collective, and one learns of that in the next, while a late one has not finished the first.
class LateRank {
 public:
  static constexpr int size = 4;

  LateRank(const CollectiveCall& tested, std::mt19937_64& random) : tested_(tested), inside_(random() % 2 == 0) {
    std::iota(roles_, roles_ + size, 0);
    std::shuffle(roles_, roles_ + size, random);
  }

  /// Whether the late rank had not finished when another one was told of the departure.
  bool run() {
    auto options = options_of(tested_);
    options.idle = stay_away;
    options.idle_context = this;
    auto comm = threads_of(size, options);
    EXPECT_TRUE(comm.run([this](Rank& rank) { take_part(std::move(rank)); }));
    return in_time_;
  }

 private:
  int leaver() const { return roles_[0]; }
  int informed() const { return roles_[1]; }
  int late() const { return roles_[2]; }

  void take_part(Rank rank) {
    number_ = rank.rank();
    if (number_ != late()) {
      pause_us(1000);  // a late one that is inside waits by then
    } else if (!inside_) {
      stay_away(this);
    }
    Caller caller(tested_, size);
    EXPECT_EQ(caller.once(rank), Status::ok) << describe() << rank.failure();
    if (tested_.operation == Operation::allreduce) {
      EXPECT_EQ(caller.result(), static_cast<std::uint64_t>(size)) << describe();
    }
    if (number_ == leaver()) return;
    Status status = Status::ok;
    for (int turn = 0; turn < 2; ++turn) status = rank.barrier();
    EXPECT_EQ(status, Status::broken) << describe();
    EXPECT_EQ(rank.failure(), "rank " + std::to_string(leaver()) + " has left") << describe();
    if (number_ == informed()) told_ = true;
  }

  /// For a while, as others may need the late one before they can finish.
  static void stay_away(void* self) {
    auto& me = *static_cast<LateRank*>(self);
    if (number_ != me.late() || me.stayed_.exchange(true)) return;
    for (int i = 0; i < 50 && !me.told_; ++i) pause_us(100);
    me.in_time_ = me.told_.load();
  }

  std::string describe() const {
    return tested_.describe() + ", rank " + std::to_string(number_) + ", left: " + std::to_string(leaver()) +
           ", told: " + std::to_string(informed()) + ", late: " + std::to_string(late()) +
           (inside_ ? " inside: " : " to come: ");
  }

  const CollectiveCall& tested_;
  const bool inside_;
  int roles_[size];
  std::atomic<bool> told_{false}, stayed_{false}, in_time_{false};
  static inline thread_local int number_ = 0;
};

TEST(Leaving, LateRanksFinishWhatOthersHaveFinished) {
  Rounds rounds;
  std::mt19937_64 random(setting("SMELT_TEST_SEED", 23));
  int in_time = 0;
  for (const auto& info : algorithms()) {
    for (const Access access : info.access) {
      for (const std::size_t count : {counts[0], counts[0], counts[0], counts[1], counts[2], counts[3]}) {
        CollectiveCall tested = rounds.next(info.operation, count, LateRank::size);
        tested.algorithm = to_string(Recipe{.algorithm = info.name, .access = access});
        const Watchdog watchdog("a late rank: " + tested.describe());
        in_time += LateRank(tested, random).run();
        if (HasFailure()) return;
      }
    }
  }
  printf("told of a departure while another rank was late: %d times\n", in_time);
  EXPECT_GT(in_time, 0);
}

// Rank 0 sends to 1, 1 to 2, 2 to 3. Rank 2 learns that rank 0 has left, from the text that rank 1 caused, and does not
// forward what rank 3 waits for.
TEST(Leaving, NobodyWaitsForARankThatShrinksAtOnce) {
  CollectiveCall tested{.operation = Operation::broadcast};
  tested.algorithm = "broadcast_tree+channels+tree=chain";
  auto comm = threads_of(4, options_of(tested));
  const Watchdog watchdog("shrinking at once");
  std::atomic<std::uint64_t> longest_ns{0};
  const auto ran = comm.run([&](Rank& given) {
    auto rank = std::make_unique<Rank>(std::move(given));
    const int number = rank->rank();
    Caller caller(tested, 4);
    if (number == 2) {
      while (rank->failure().empty()) pause_us(100);
    } else {
      EXPECT_EQ(caller.once(*rank), number == 3 ? Status::broken : Status::ok) << number;
    }
    if (number == 0) return rank.reset();
    if (number == 1) {
      EXPECT_EQ(rank->barrier(), Status::broken);
    }
    const auto begun = monotonic_ns();
    auto smaller = rank->shrink();
    ASSERT_TRUE(smaller) << number << ": " << smaller.error().message;
    EXPECT_EQ(smaller->size(), 3);
    EXPECT_EQ(smaller->barrier(), Status::ok);
    for (auto longest = longest_ns.load(), now = monotonic_ns(); now - begun > longest;) {
      if (longest_ns.compare_exchange_weak(longest, now - begun)) break;
    }
  });
  EXPECT_TRUE(ran);
  EXPECT_LT(longest_ns.load(), longest_wait_ns);
}

TEST(Leaving, EndsStartedCollectives) {
  auto comm = threads_of(3, options_of({}));
  const Watchdog watchdog("started when left");
  std::uint64_t totals[3] = {};
  const auto ran = comm.run([&](Rank& rank) {
    static const std::uint64_t one = 1;
    auto own = std::make_unique<Rank>(std::move(rank));
    Request request = own->start(Collective::allreduce(&one, &totals[own->rank()], 1, sum<std::uint64_t>()));
    own.reset();
    EXPECT_EQ(request.wait(), Status::ok);
  });
  EXPECT_TRUE(ran);
  for (const auto total : totals) EXPECT_EQ(total, 3u);
}

// A process that ends with an operation that it has started and not waited for: its part may lack, and nobody waits for
// it. What is on its stack is gone then, so it cannot be done at the end.
TEST(ProcessesLeaving, WithSomethingStarted) {
  Rounds rounds("processes that end with something started");
  for (const Operation operation : operations) {
    for (const std::size_t count : {counts[0], counts[3]}) {
      const ZeroedSharedValue<SharedRound> shared;
      rounds.prepare(*shared, LeaveKind::exits, 3);
      const CollectiveCall tested{.operation = operation, .count = count};
      const auto name = fresh_name();
      fflush(stdout);
      const auto pids = fork_ranks(3, [&](int number) {
        shared->introduce(number);
        const int mine[] = {number};
        static auto comm = Communicator::create_shared(name, 3, mine, options_of(tested));
        static auto rank = comm->attach(number);
        static Caller caller(tested, 3);
        if (number == shared->leaver) {
          auto* const request = new Request(rank->start(caller.describe()));
          shared->left_ns = monotonic_ns();
          exit(request == nullptr ? 1 : 0);
        }
        Status status = Status::ok;
        for (int call = 0; status == Status::ok && call < 200'000; ++call) {
          const auto begun = monotonic_ns();
          status = caller.once(*rank);
          shared->note_wait(begun);
        }
        if (status == Status::broken && shared->names_leaver(rank->failure())) return 0;
        fprintf(stderr, "%d of %d: status %d, %s\n", number, shared->leaver, static_cast<int>(status),
                rank->failure().c_str());
        return 1;
      });
      const Watchdog watchdog("something started: " + tested.describe());
      EXPECT_EQ(wait_for(pids), std::vector<int>(3, 0)) << tested.describe();
      EXPECT_EQ(names_left(shared->processes()), 0);
      rounds.count(*shared);
    }
  }
}

TEST(Leaving, IsResetWhenAllAttachAgain) {
  auto comm = threads_of(4, options_of({}));
  for (int round = 0; round < 30; ++round) {
    const auto ran = comm.run([&](Rank& rank) {
      if (rank.rank() == round % 4) pause_us(300);  // others wait for one that left the last time
      EXPECT_EQ(rank.barrier(), Status::ok) << rank.failure();
      EXPECT_EQ(rank.barrier(), Status::ok) << rank.failure();
    });
    EXPECT_TRUE(ran);
  }
  std::atomic<int> told{0};
  const auto ran = comm.run([&](Rank& rank) {
    if (rank.rank() != 2) told += rank.barrier() == Status::broken && rank.failure() == "rank 2 has left";
  });
  EXPECT_TRUE(ran);
  EXPECT_EQ(told, 3);
}

// Rank 0 goes from thread to thread, so that it has been attached more often than the other.
TEST(Leaving, IsDetectedByARankThatAttachedTwice) {
  auto comm = threads_of(2, options_of({}));
  const Watchdog watchdog("a rank that came twice");
  std::thread other([&] {
    auto rank = comm.attach(1);
    while (rank->barrier() == Status::ok && rank->barrier() == Status::ok) {
      pause_us(100'000);
      return;
    }
  });
  {
    auto rank = comm.attach(0);
    EXPECT_EQ(rank->barrier(), Status::ok);
  }
  auto again = comm.attach(0);
  EXPECT_EQ(again->barrier(), Status::ok);
  EXPECT_EQ(again->barrier(), Status::broken);
  EXPECT_EQ(again->failure(), "rank 1 has left");
  other.join();
}

TEST(Leaving, ADestroyedCommunicatorCountsAsLeft) {
  auto comm = std::make_unique<Communicator>(threads_of(3, options_of({})));
  const Watchdog watchdog("a communicator that is gone");
  auto rank = comm->attach(0);
  auto other = comm->attach(1);
  comm.reset();
  std::thread waiting([&] {
    EXPECT_EQ(other->barrier(), Status::broken);
    EXPECT_EQ(other->failure(), "rank 2 has left");
    EXPECT_TRUE(other->shrink());
  });
  EXPECT_EQ(rank->barrier(), Status::broken);
  auto smaller = rank->shrink();
  ASSERT_TRUE(smaller) << smaller.error().message;
  EXPECT_EQ(smaller->size(), 2);
  waiting.join();
}

TEST(ProcessesLeaving, AForkedChildDoesNotLeave) {
  const auto name = fresh_name();
  const auto pids = fork_ranks(2, [&](int number) {
    const int mine[] = {number};
    auto comm = Communicator::create_shared(name, 2, mine, options_of({}));
    auto rank = std::make_unique<Rank>(std::move(*comm->attach(number)));
    if (rank->barrier() != Status::ok) return 1;
    if (number == 1) {
      const pid_t child = fork();
      if (child == 0) {
        rank.reset();
        comm = Error{Status::ok, ""};
        _exit(0);
      }
      waitpid(child, nullptr, 0);
      pause_us(150'000);
    }
    return rank->barrier() == Status::ok ? 0 : 2;
  });
  const Watchdog watchdog("a forked child");
  EXPECT_EQ(wait_for(pids), std::vector<int>(2, 0));
}

std::vector<int> all_of(int size) {
  std::vector<int> all(static_cast<std::size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

/// Makes a part of all while rank `leaver` leaves instead; 0 if told so.
int make_a_part(Rank& rank, int leaver) {
  auto part = rank.subgroup(all_of(rank.size()));
  const std::string told = "rank " + std::to_string(leaver) + " has left";
  if (!part) return part.error().status == Status::broken && part.error().message == told ? 0 : 1;
  return part->barrier() == Status::broken && part->failure() == told ? 0 : 2;
}

TEST(ProcessesLeaving, DuringTheCreationOfASubgroup) {
  std::mt19937_64 random(setting("SMELT_TEST_SEED", 23));
  for (int turn = 0; turn < 20 && !HasFailure(); ++turn) {
    const int size = 2 + turn % 5, leaver = static_cast<int>(random() % static_cast<std::uint64_t>(size));
    const auto late_us = random() % 2000;
    const Watchdog watchdog("subgroup");
    auto threads = threads_of(size, options_of({}));
    std::atomic<int> wrong{0};
    EXPECT_TRUE(threads.run([&](Rank& rank) {
      if (rank.rank() == leaver) return pause_us(late_us);
      wrong += make_a_part(rank, leaver) != 0;
    }));
    EXPECT_EQ(wrong, 0);
    const ZeroedSharedValue<SharedRound> shared;
    const auto name = fresh_name();
    const auto pids = fork_ranks(size, [&](int number) {
      shared->introduce(number);
      const int mine[] = {number};
      auto comm = Communicator::create_shared(name, size, mine, options_of({}));
      auto rank = std::make_unique<Rank>(std::move(*comm->attach(number)));
      if (rank->barrier() != Status::ok) return 10;
      if (number != leaver) {
        const int result = make_a_part(*rank, leaver);
        ++shared->finished;
        return result;
      }
      pause_us(late_us);
      rank.reset();
      if (turn % 2 == 0) comm = Error{Status::ok, ""};
      while (shared->finished < size - 1) pause_us(500);
      return 0;
    });
    EXPECT_EQ(wait_for(pids), std::vector<int>(static_cast<std::size_t>(size), 0));
    EXPECT_EQ(names_left(shared->processes()), 0);
  }
}

// Members that have their part may leave the whole.
TEST(ProcessesLeaving, LeavingTheParentIsNotLeavingTheSubgroup) {
  const Watchdog watchdog("leaving the whole");
  const auto part_of = [](Rank rank) {
    auto part = rank.subgroup(all_of(rank.size()));
    if (!part) return 1;
    { const Rank gone = std::move(rank); }
    if (part->rank() == 0) pause_us(130'000);
    return part->barrier() == Status::ok ? 0 : 2;
  };
  auto threads = threads_of(3, options_of({}));
  std::atomic<int> wrong{0};
  EXPECT_TRUE(threads.run([&](Rank& rank) { wrong += part_of(std::move(rank)); }));
  EXPECT_EQ(wrong, 0);
  for (int turn = 0; turn < 10; ++turn) {
    const auto name = fresh_name();
    const auto pids = fork_ranks(3, [&](int number) {
      const int mine[] = {number};
      auto comm = Communicator::create_shared(name, 3, mine, options_of({}));
      return part_of(std::move(*comm->attach(number)));
    });
    EXPECT_EQ(wait_for(pids), std::vector<int>(3, 0));
  }
}

// After one rank has left, a second one leaves instead of shrinking with the others.
TEST(ProcessesLeaving, DuringShrink) {
  std::mt19937_64 random(setting("SMELT_TEST_SEED", 23));
  std::uint64_t longest_ns = 0;
  for (int turn = 0; turn < 20 && !HasFailure(); ++turn) {
    const int size = 3 + turn % 4;
    const auto late_us = random() % 3000;
    const ZeroedSharedValue<SharedRound> shared;
    const auto one = [&](Rank rank) {
      if (rank.barrier() != Status::ok) return 1;
      const int number = rank.rank();
      if (number == 0) return 0;
      if (rank.barrier() != Status::broken) return 2;
      if (number == 1) {
        pause_us(late_us);
        shared->left_ns = monotonic_ns();
        return 0;
      }
      const auto begun = monotonic_ns();
      auto smaller = rank.shrink();
      if (!smaller) return 3;
      // Rank 1 is gone for all, or for none.
      const Status status = smaller->barrier();
      shared->note_wait(begun);
      ++shared->finished;
      return status == Status::ok && smaller->size() == size - 2 ? 0 : 4;
    };
    const Watchdog watchdog("shrink");
    auto threads = threads_of(size, options_of({}));
    std::atomic<int> wrong{0};
    EXPECT_TRUE(threads.run([&](Rank& rank) { wrong += one(std::move(rank)) != 0; }));
    EXPECT_EQ(wrong, 0);
    shared->finished = 0;
    const auto name = fresh_name();
    const auto pids = fork_ranks(size, [&](int number) {
      shared->introduce(number);
      const int mine[] = {number};
      auto comm = Communicator::create_shared(name, size, mine, options_of({}));
      const int result = one(std::move(*comm->attach(number)));
      while (number <= 1 && shared->finished < size - 2) pause_us(500);
      return result;
    });
    EXPECT_EQ(wait_for(pids), std::vector<int>(static_cast<std::size_t>(size), 0));
    EXPECT_EQ(names_left(shared->processes()), 0);
    longest_ns = std::max(longest_ns, shared->longest_ns.load());
  }
  printf("longest wait for one that left instead of shrinking: %.1f ms\n", static_cast<double>(longest_ns) * 1e-6);
  EXPECT_LT(longest_ns, longest_wait_ns);
}

// One leaves a communicator while the others use it, and waits for them in the next one of that name.
TEST(ProcessesLeaving, ForANewCommunicatorOfThatName) {
  std::mt19937_64 random(setting("SMELT_TEST_SEED", 23));
  for (int turn = 0; turn < 15 && !HasFailure(); ++turn) {
    const int size = 2 + turn % 4, leaver = static_cast<int>(random() % static_cast<std::uint64_t>(size));
    const auto late_us = random() % 2000;
    const ZeroedSharedValue<SharedRound> shared;
    const auto name = fresh_name();
    const auto pids = fork_ranks(size, [&](int number) {
      shared->introduce(number);
      const int mine[] = {number};
      for (int time = 0; time < 4; ++time) {
        auto comm = Communicator::create_shared(name, size, mine, options_for());
        if (!comm) {
          fprintf(stderr, "%s\n", comm.error().message.c_str());
          return 1;
        }
        auto rank = comm->attach(number);
        std::uint64_t one = 1, total = 0;
        if (rank->allreduce(&one, &total, 1, sum<std::uint64_t>()) != Status::ok) return 2;
        if (total != static_cast<std::uint64_t>(size)) return 3;
        if (time == 3) return 0;
        if (number == leaver) {
          pause_us(late_us);
          continue;
        }
        Status status = Status::ok;
        while (status == Status::ok) status = rank->barrier();
        if (status != Status::broken || rank->failure() != "rank " + std::to_string(leaver) + " has left") return 4;
      }
      return 5;
    });
    const Watchdog watchdog("the same name again");
    EXPECT_EQ(wait_for(pids), std::vector<int>(static_cast<std::size_t>(size), 0));
    EXPECT_EQ(names_left(shared->processes()), 0);
  }
}

// A process that cannot set up its side of a communicator that all have come to.
TEST(ProcessesLeaving, DuringCreation) {
  const auto name = fresh_name();
  const ZeroedSharedValue<SharedRound> shared;
  const auto pids = fork_ranks(3, [&](int number) {
    shared->introduce(number);
    const int mine[] = {number};
    auto options = options_of({});
    if (number == 1) options.wait = "no such way";
    auto comm = Communicator::create_shared(name, 3, mine, options);
    if (number == 1) {
      while (shared->finished < 2) pause_us(500);
      return comm ? 1 : 0;
    }
    const int told = !comm                                               ? comm.error().status == Status::broken ? 0 : 2
                     : comm->attach(number)->barrier() == Status::broken ? 0
                                                                         : 3;
    ++shared->finished;
    return told;
  });
  const Watchdog watchdog("creation");
  EXPECT_EQ(wait_for(pids), std::vector<int>(3, 0));
  EXPECT_EQ(names_left(shared->processes()), 0);
}

}  // namespace
}  // namespace smelt
