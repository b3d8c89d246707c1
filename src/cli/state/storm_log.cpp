// smelt storm log: processes share a replicated log under load while some are killed or stopped at random moments. Then
// the logs of the others are checked. Uses the public interface alone.
//
// Checks after every round: no acknowledged command is missing in any living replica; each client's commands were
// delivered in their order, each once; all replicas, including dead ones, delivered the same entries as far as they
// came; appends and read points agree with real time; no process hung; no file is left.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cli/command.hpp"
#include "cli/document.hpp"
#include "cli/parser.hpp"
#include "cli/state/storm_process.hpp"
#include "cli/terminal.hpp"
#include "smelt/replicated_log.hpp"

namespace smelt::cli {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr int most_ranks = 16;
constexpr std::size_t most_entries = 1 << 16, most_events = 1 << 12;
constexpr auto patience = 10s;
constexpr int exit_refused = 60, exit_nobody_up_to_date = 61, exit_out_of_order = 62;

struct StormOptions {
  int rounds = 60, ranks = 4;
  double seed = 1, rate = 0;
  std::string faults = "crash", configuration = "cas";
  bool json = false;
};

/// An append or a read point, with the times of its call and return.
struct Event {
  std::int64_t begin_ns = 0, end_ns = 0;
  std::uint64_t index = 0;
  bool is_read = false;
};

/// State that the processes of a round share. Zeroed.
struct Board {
  std::atomic<int> attached, leader;
  std::atomic<bool> enough, quiet, over;  ///< quiet: nobody appends any more
  std::atomic<int> stage[most_ranks];     ///< 1: appends no more, 2: has delivered all
  std::atomic<std::uint64_t> started[most_ranks], acknowledged[most_ranks];
  std::atomic<std::uint64_t> delivered[most_ranks][most_ranks];  ///< by replica, then client
  std::atomic<std::uint64_t> hashes[most_ranks]
                                   [most_entries];  ///< hash of all entries up to an index; 0: not delivered there
  std::atomic<std::size_t> events_used[most_ranks];
  Event events[most_ranks][most_events];
};

struct Tally {
  int kills = 0, leaders_killed = 0, stops = 0, violations = 0, hangs = 0, files = 0, without_state = 0;
  std::uint64_t appends = 0;
};

std::int64_t now_ns() { return std::chrono::nanoseconds(Clock::now().time_since_epoch()).count(); }

// ---- A process of a round

struct Numbered {
  std::uint64_t client = 0, number = 0;
};

struct State {
  std::uint64_t index = 0, hash = 1;
  std::array<std::uint64_t, most_ranks> counts{};
};

/// Checks the order of entries while they are delivered.
struct Recorder {
  Board& board;
  int rank;
  State state{};

  static void apply(void* context, const Entry& entry) {
    auto& [board, rank, state] = *static_cast<Recorder*>(context);
    Numbered command;
    std::memcpy(&command, entry.data, sizeof command);
    const bool in_order = entry.index == state.index && command.client == static_cast<std::uint64_t>(entry.client) &&
                          command.number == state.counts[command.client] + 1;
    if (!in_order) _exit(exit_out_of_order);
    state.counts[command.client] = command.number;
    state.hash = (state.hash * 6364136223846793005u + command.client * 1000003 + command.number) | 1;
    if (state.index < most_entries) board.hashes[rank][state.index].store(state.hash, std::memory_order_relaxed);
    ++state.index;
    board.delivered[rank][command.client].store(command.number, std::memory_order_relaxed);
  }
  static void save(void* context, std::vector<std::byte>& bytes) {
    const auto* from = reinterpret_cast<const std::byte*>(&static_cast<Recorder*>(context)->state);
    bytes.insert(bytes.end(), from, from + sizeof(State));
  }
  static void load(void* context, std::span<const std::byte> bytes) {
    auto& [board, rank, state] = *static_cast<Recorder*>(context);
    std::memcpy(&state, bytes.data(), sizeof state);
    for (std::size_t client = 0; client < most_ranks; ++client)
      board.delivered[rank][client].store(state.counts[client]);
  }
};

int explain(const Replica& replica) {
  return replica.failure().find("no replica that is up to date") != std::string::npos ? exit_nobody_up_to_date
                                                                                      : exit_refused;
}

void record(Board& board, int rank, std::int64_t begin_ns, std::uint64_t index, bool is_read) {
  const std::size_t used = board.events_used[rank].load(std::memory_order_relaxed);
  if (used == most_events || index == Replica::unknown_index) return;
  board.events[rank][used] = {begin_ns, now_ns(), index, is_read};
  board.events_used[rank].store(used + 1, std::memory_order_release);
}

Status append_until_enough(Board& board, Replica& replica, double rate) {
  const int rank = replica.rank();
  const auto began = Clock::now();
  for (std::uint64_t number = 1; !board.enough.load(std::memory_order_relaxed); ++number) {
    if (replica.delivered() >= most_entries - 1024) break;  // no room to record more deliveries
    const Numbered command{static_cast<std::uint64_t>(rank), number};
    board.started[rank].store(number);
    std::uint64_t index = 0;
    std::int64_t begin = now_ns();
    if (const Status status = replica.append(&command, sizeof command, &index); status != Status::ok) return status;
    record(board, rank, begin, index, false);
    board.acknowledged[rank].store(number);
    if (number % 4 == 0) {
      begin = now_ns();
      if (const Status status = replica.read_point(&index); status != Status::ok) return status;
      record(board, rank, begin, index, true);
    }
    if (number % 64 == 1) board.leader.store(replica.configuration().leader);
    while (rate > 0 && !board.enough.load() &&
           std::chrono::duration<double>(Clock::now() - began).count() < static_cast<double>(number) / rate) {
      if (const Status status = replica.progress(); status != Status::ok) return status;
      std::this_thread::sleep_for(20us);
    }
  }
  return Status::ok;
}

int run_rank(Board& board, const std::string& name, int rank, const StormOptions& options,
             const LogOptions& log_options) {
  auto log = ReplicatedLog::create_shared(name, options.ranks, std::span(&rank, 1), log_options, 20.0);
  if (!log) return exit_refused;
  Recorder recorder{board, rank};
  auto replica = log->attach(rank, {&recorder, &Recorder::apply, &Recorder::save, &Recorder::load});
  if (!replica) return exit_refused;
  board.attached.fetch_add(1);
  if (append_until_enough(board, *replica, options.rate) != Status::ok) return explain(*replica);
  board.stage[rank].store(1);
  // A read point from before the last append of another rank need not include that.
  if (replica->serve(board.quiet) != Status::ok) return explain(*replica);
  std::uint64_t point = 0;
  if (replica->read_point(&point) != Status::ok || replica->catch_up(point) != Status::ok) return explain(*replica);
  board.stage[rank].store(2);
  return replica->serve(board.over) == Status::ok ? 0 : explain(*replica);
}

// ---- a round, in the process that started it

class Round {
 public:
  Round(Board& board, const StormOptions& options, int number, std::mt19937_64& random, Tally& tally)
      : board_(board),
        options_(options),
        random_(random),
        tally_(tally),
        processes_(static_cast<std::size_t>(options.ranks)) {
    name_ = fmt::format("storm-{}-{}", getpid(), number);
  }

  void run() {
    begin();
    wait_until([&] { return board_.attached.load() == options_.ranks; });
    const int actions = pick(1, 3);
    for (int i = 0; i < actions; ++i) {
      std::this_thread::sleep_for(std::chrono::microseconds(pick(200, 15000)));
      act();
    }
    // The others make progress: each living process has commands acknowledged after the last death.
    std::vector<std::uint64_t> before;
    for (int rank = 0; rank < options_.ranks; ++rank) before.push_back(board_.acknowledged[rank].load());
    wait_until([&] {
      return all([&](int rank) {
        return board_.acknowledged[rank].load() >= before[index(rank)] + 3 || board_.stage[rank].load() > 0;
      });
    });
    board_.enough.store(true);
    wait_until([&] { return all([&](int rank) { return board_.stage[rank].load() >= 1; }); });
    board_.quiet.store(true);
    wait_until([&] { return all([&](int rank) { return board_.stage[rank].load() == 2; }); });
    board_.over.store(true);
    wait_until([&] { return all([](int) { return false; }); });
    end();
  }

 private:
  struct Process {
    pid_t pid = 0;
    bool ended = false, killed = false;
    int exit_code = 0;
  };

  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }
  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

  void begin() {
    std::memset(static_cast<void*>(&board_), 0, sizeof board_);
    LogOptions log_options;
    log_options.entries = 256;
    log_options.requests = 64;
    log_options.faults = options_.faults == "stop" ? Faults::stop : Faults::crash;
    log_options.configuration = options_.configuration;
    log_options.leader = pick(0, options_.ranks - 1);
    board_.leader.store(*log_options.leader);
    for (int rank = 0; rank < options_.ranks; ++rank) {
      processes_[index(rank)].pid =
          start_storm_process([&] { return run_rank(board_, name_, rank, options_, log_options); });
    }
  }

  void collect() {
    for (auto& process : processes_) {
      int status = 0;
      if (process.ended || waitpid(process.pid, &status, WNOHANG) != process.pid) continue;
      process.ended = true;
      process.killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
      process.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }
  }

  /// Of those that live.
  template <class Condition>
  bool all(Condition condition) {
    for (int rank = 0; rank < options_.ranks; ++rank) {
      if (!processes_[index(rank)].ended && !condition(rank)) return false;
    }
    return true;
  }

  template <class Condition>
  void wait_until(Condition condition) {
    const auto limit = Clock::now() + patience;
    for (collect(); !condition(); collect()) {
      if (Clock::now() > limit) {
        ++tally_.hangs;
        for (auto& process : processes_) {
          if (!process.ended) kill(process.pid, SIGKILL);
        }
        for (auto& process : processes_) {
          if (!process.ended) waitpid(process.pid, nullptr, 0), process.ended = process.killed = true;
        }
        return;
      }
      std::this_thread::sleep_for(100us);
    }
  }

  int living() {
    collect();
    return static_cast<int>(
        std::count_if(processes_.begin(), processes_.end(), [](const auto& one) { return !one.ended; }));
  }

  void kill_rank(int rank) {
    Process& process = processes_[index(rank)];
    if (process.ended) return;
    tally_.leaders_killed += rank == board_.leader.load();
    ++tally_.kills;
    kill(process.pid, SIGKILL);
    waitpid(process.pid, nullptr, 0);
    process.ended = process.killed = true;
  }

  int some_rank() {
    int rank = pick(0, options_.ranks - 1);
    while (processes_[index(rank)].ended) rank = (rank + 1) % options_.ranks;
    return rank;
  }

  void stop_rank(int rank) {
    if (processes_[index(rank)].ended) rank = some_rank();
    ++tally_.stops;
    kill(processes_[index(rank)].pid, SIGSTOP);
    std::this_thread::sleep_for(std::chrono::milliseconds(pick(5, 150)));
    kill(processes_[index(rank)].pid, SIGCONT);
  }

  /// With "paxos", a majority must live. Otherwise one suffices; but with Faults::stop, stopped processes may have been
  /// evicted, and return only while others live.
  int least_living() const {
    if (options_.configuration == "paxos") return options_.ranks / 2 + 1;
    return options_.faults == "stop" ? 2 : 1;
  }

  void act() {
    const int least = least_living();
    const int leader = std::max(0, board_.leader.load());
    switch (pick(0, options_.faults == "stop" ? 5 : 3)) {
      case 0:
        if (living() > least) kill_rank(leader);
        break;
      case 1:
        if (living() > least) kill_rank(some_rank());
        break;
      case 2:  // the leader and another process at once
        if (living() > least + 1) kill_rank(leader), kill_rank(some_rank());
        break;
      case 3:
        while (options_.faults != "stop" && living() > least) kill_rank(some_rank());
        break;
      case 4: stop_rank(leader); break;
      default: stop_rank(some_rank());
    }
  }

  void violated(const std::string& what) {
    ++tally_.violations;
    print_error(fmt::format("storm: {}: {}", name_, what));
  }

  void end() {
    for (int rank = 0; rank < options_.ranks; ++rank) {
      const Process& process = processes_[index(rank)];
      tally_.appends += board_.acknowledged[rank].load();
      if (process.killed) continue;
      if (process.exit_code == exit_nobody_up_to_date) {
        ++tally_.without_state;
      } else if (process.exit_code != 0) {
        violated(fmt::format("rank {} ended with status {}{}", rank, process.exit_code,
                             process.exit_code == exit_out_of_order ? ": a command was missing, or came twice" : ""));
      } else {
        check_complete(rank);
      }
    }
    check_equal();
    check_time();
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
      tally_.files += entry.path().filename().string().find(name_) != std::string::npos;
    }
  }

  void check_complete(int rank) {
    for (int client = 0; client < options_.ranks; ++client) {
      const auto delivered = board_.delivered[rank][client].load();
      if (delivered < board_.acknowledged[client].load()) {
        violated(fmt::format("rank {} has {} commands of rank {}, {} were acknowledged", rank, delivered, client,
                             board_.acknowledged[client].load()));
      }
      if (delivered > board_.started[client].load())
        violated(fmt::format("rank {} has commands that nobody gave", rank));
    }
  }

  void check_equal() {
    for (std::size_t at = 0; at < most_entries; ++at) {
      std::uint64_t known = 0;
      for (int rank = 0; rank < options_.ranks; ++rank) {
        const auto hash = board_.hashes[rank][at].load();
        if (hash != 0 && known != 0 && hash != known)
          return violated(fmt::format("rank {} differs at index {}", rank, at));
        if (hash != 0) known = hash;
      }
    }
  }

  /// An append that returned before another call began has a smaller index than that append, or lies below that read
  /// point. An append that began after a read point returned does not lie below it.
  void check_time() {
    struct Moment {
      std::int64_t ns;
      bool is_end;
      const Event* event;
    };
    std::vector<Moment> moments;
    for (int rank = 0; rank < options_.ranks; ++rank) {
      for (std::size_t i = 0; i < board_.events_used[rank].load(); ++i) {
        const Event& event = board_.events[rank][i];
        moments.push_back({event.begin_ns, false, &event});
        moments.push_back({event.end_ns, true, &event});
      }
    }
    std::sort(moments.begin(), moments.end(),
              [](const Moment& a, const Moment& b) { return a.ns != b.ns ? a.ns < b.ns : a.is_end < b.is_end; });
    std::uint64_t known = 0;  // number of entries that the log had for certain, by the calls that have returned
    std::vector<std::pair<const Event*, std::uint64_t>> under_way;
    for (const Moment& moment : moments) {
      const Event& event = *moment.event;
      if (!moment.is_end) {
        under_way.emplace_back(&event, known);
        continue;
      }
      const auto found =
          std::find_if(under_way.begin(), under_way.end(), [&](const auto& one) { return one.first == &event; });
      if (event.index < found->second) {
        violated(fmt::format("{} {} was given out when {} entries were known", event.is_read ? "read point" : "index",
                             event.index, found->second));
        return;
      }
      known = std::max(known, event.is_read ? event.index : event.index + 1);
      under_way.erase(found);
    }
  }

  Board& board_;
  const StormOptions& options_;
  std::mt19937_64& random_;
  Tally& tally_;
  std::vector<Process> processes_;
  std::string name_;
};

void print_tally(const StormOptions& options, const Tally& tally) {
  if (options.json) {
    print(format_json({{"schema", "smelt-storm/1"},
                       {"rounds", options.rounds},
                       {"ranks", options.ranks},
                       {"seed", static_cast<std::uint64_t>(options.seed)},
                       {"faults", options.faults},
                       {"configuration", options.configuration},
                       {"appends", tally.appends},
                       {"kills", tally.kills},
                       {"leaders_killed", tally.leaders_killed},
                       {"stops", tally.stops},
                       {"violations", tally.violations},
                       {"hangs", tally.hangs},
                       {"files_left", tally.files},
                       {"evicted_without_a_way_back", tally.without_state}}));
    return;
  }
  print(
      fmt::format("{} rounds of {} ranks, seed {}: {} commands acknowledged, {} ranks killed ({} leaders), {} stopped\n"
                  "{} violations, {} hangs, {} files left\n",
                  options.rounds, options.ranks, static_cast<std::uint64_t>(options.seed), tally.appends, tally.kills,
                  tally.leaders_killed, tally.stops, tally.violations, tally.hangs, tally.files));
  if (tally.without_state > 0) {
    print(fmt::format("{} evicted ranks found no replica that was up to date\n", tally.without_state));
  }
}

void run(const StormOptions& options) {
  if (options.faults != "crash" && options.faults != "stop")
    fail_usage("--faults {}: must be crash or stop", options.faults);
  if (options.configuration != "cas" && options.configuration != "paxos")
    fail_usage("--configuration {}: must be cas or paxos", options.configuration);
  if (options.configuration == "paxos" && options.ranks < 3)
    fail_usage("--ranks {}: configuration paxos needs 3 or more", options.ranks);
  void* memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) fail("no memory for the results of the processes");
  auto& board = *static_cast<Board*>(memory);
  std::mt19937_64 random(static_cast<std::uint64_t>(options.seed));
  Tally tally;
  for (int round = 0; round < options.rounds; ++round) Round(board, options, round, random, tally).run();
  munmap(memory, sizeof(Board));
  print_tally(options, tally);
  const bool may_lose_state = options.faults == "stop" && options.configuration == "cas";
  const bool lost = !may_lose_state && tally.without_state > 0;
  if (tally.violations + tally.hangs + tally.files > 0 || lost) {
    flush_output();
    fail("the log did not keep its promise; the seed is {}", static_cast<std::uint64_t>(options.seed));
  }
}

}  // namespace

void add_storm_log(Parser& parser) {
  auto options = std::make_shared<StormOptions>();
  Command storm = parser.add_or_find("storm", "Kill processes at random moments and check what the others have");
  Command command = storm.add("log", "A replicated log under load");
  command.integer("-n,--rounds", options->rounds, 1, 10'000'000, "rounds, each with new processes (default 60)");
  command.integer("-r,--ranks", options->ranks, 2, most_ranks, "processes of a round (default 4)");
  command.number("-s,--seed", options->seed, 0, 9e15, "of the random numbers (default 1)");
  command.number("--rate", options->rate, 0, 1e9,
                 "commands per second of each process; 0: as fast as they can (default)");
  command.text("-f,--faults", options->faults, "KIND",
               "crash: kills; stop: also SIGSTOP for up to 150 ms (default crash)");
  command.text("-c,--configuration", options->configuration, "NAME",
               "cas: any one may live on; paxos: a majority does (default cas)");
  command.flag("--json", options->json, "print JSON");
  command.footer(
      "Ends with status 1 if an acknowledged command was lost, one was executed twice, replicas differ, answers\n"
      "contradict time, a process hung for 10 s, or a file was left in /dev/shm.\n");
  command.action([options] { run(*options); });
}

}  // namespace smelt::cli
