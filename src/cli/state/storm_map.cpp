// smelt storm map: processes share a map under load while some are killed or stopped at random moments. Then the
// contents of the map are checked. Uses the public interface alone.
//
// Checks after every round: the answers for a few keys that all processes update are linearizable; each process's own
// keys have the values that were acknowledged; no key exists twice; no value is torn; no process hung; no file is left.
// In every fourth round the map is kept, all processes are killed at once, and others continue with it. The rounds take
// the sizes of values in turn: one word that is replaced in place, short copies, and long ones by wide moves. All bytes
// of a value follow from its key and its number.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include "cli/arguments.hpp"
#include "cli/command.hpp"
#include "cli/document.hpp"
#include "cli/interrupt.hpp"
#include "cli/parser.hpp"
#include "cli/state/storm_process.hpp"
#include "cli/terminal.hpp"
#include "smelt/map.hpp"

namespace smelt::cli {
namespace {

namespace storm_map {

using Clock = std::chrono::steady_clock;
using Number = std::uint64_t;
using namespace std::chrono_literals;

constexpr int most_clients = 64;  // in a round, consecutive and concurrent ones together
constexpr std::size_t most_events = 300, most_own_keys = 1000;
constexpr Number absent = ~Number{0};
constexpr auto patience = 10s;
constexpr int exit_refused = 60, exit_torn = 61;

struct Options {
  int rounds = 60, processes = 4, keys = 4, milliseconds = 60;
  double seed = 1;
  std::string faults = "crash", values = "8,16,100,1000", histories;
  bool json = false;
};

enum class Kind : unsigned char { get, put, erase, insert, compare_exchange, fetch_add };
constexpr const char* kind_names[] = {"get", "put", "erase", "insert", "compare_exchange", "fetch_add"};

/// A call on one of the common keys. `end` 0: its process died before the call returned.
struct Event {
  std::atomic<Number> begin, end;
  Number key, argument, expected, result;
  Kind kind;
  bool done;
};

struct Client {
  std::atomic<std::size_t> events_used;
  Event events[most_events];
  std::atomic<Number> acknowledged[most_own_keys];  ///< the value that was acknowledged last; 0: none
  std::atomic<Number> pending[most_own_keys];       ///< the value that is being set; 0: none, `absent`: being erased
  std::atomic<Number> operations;
};

struct Board {
  std::atomic<bool> over;
  Client clients[most_clients];
};

struct Tally {
  Number operations = 0, events = 0, kills = 0, stops = 0, violations = 0, hangs = 0, files = 0, takeovers = 0;
};

/// A value of so many bytes, not all of them whole words.
template <std::size_t bytes>
struct Filled {
  std::array<unsigned char, bytes> contents;
};

/// The value with this number of this key. The first word is the number.
template <class Value>
Value made(Number key, Number number) {
  Value value;
  auto* const target = reinterpret_cast<unsigned char*>(&value);
  Number word = number, next = number ^ (key + 1) * 0x9e3779b97f4a7c15u;
  for (std::size_t at = 0; at < sizeof(Value); at += sizeof word) {
    std::memcpy(target + at, &word, std::min(sizeof word, sizeof(Value) - at));
    next = next * 0x5851f42d4c957f2du + 0x14057b7ef767814fu;
    word = next ^ next >> 32;
  }
  return value;
}

/// The number of this key's value. None if bytes of it are from another value.
template <class Value>
std::optional<Number> number_of(Number key, const Value& value) {
  Number number;
  std::memcpy(&number, &value, sizeof number);
  const Value whole = made<Value>(key, number);
  if (std::memcmp(&value, &whole, sizeof value) != 0) return std::nullopt;
  return number;
}

/// Own keys of a process with values of this size, so that they are replaced often and need little memory.
template <class Value>
constexpr std::size_t own_keys = std::min(most_own_keys, std::size_t{100'000} / sizeof(Value));

Number own_key_of(Number process, std::size_t at) { return 1000 + process * most_own_keys + at; }

/// The current time. Later operations of this thread are not executed before, and earlier ones are visible.
Number stamp() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const auto now = static_cast<Number>(Clock::now().time_since_epoch().count());
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return now;
}

// ---- a process of a round

template <class Value>
class Worker {
 public:
  Worker(Map<Number, Value>& map, Board& board, const Options& options, int me, Number seed)
      : map_(map),
        board_(board),
        options_(options),
        mine_(board.clients[me]),
        me_(static_cast<Number>(me)),
        random_(seed) {}

  void work() {
    for (Number i = 1; !board_.over.load(std::memory_order_relaxed); ++i) {
      if (mine_.events_used.load(std::memory_order_relaxed) < most_events && random_() % 8 == 0) {
        common_key();
      } else if (random_() % 4 == 0) {
        other_key();
      } else {
        own_key(i);
      }
      mine_.operations.store(i, std::memory_order_relaxed);
    }
  }

 private:
  void own_key(Number i) {
    const std::size_t at = random_() % own_keys<Value>;
    const Number key = own_key_of(me_, at);
    const Number number = random_() % 4 == 0 ? absent : i;
    mine_.pending[at].store(number);
    const MapAnswer answer = number == absent ? map_.erase(key) : map_.put(key, made<Value>(key, number));
    if (!answer) _exit(exit_refused);
    mine_.acknowledged[at].store(number == absent ? 0 : number);
    mine_.pending[at].store(0);
  }

  /// A key of this process or an earlier one, which may be about to change it: a found value is whole, otherwise
  /// nothing is copied.
  void other_key() {
    const Number key = own_key_of(random_() % (me_ + 1), random_() % own_keys<Value>);
    Value value = made<Value>(key, absent);
    const bool found = map_.get(key, &value);
    if ((number_in(key, value) == absent) == found) _exit(exit_torn);
  }

  void common_key() {
    Event& event = mine_.events[mine_.events_used.load(std::memory_order_relaxed)];
    event.key = random_() % static_cast<Number>(options_.keys);
    event.kind = static_cast<Kind>(random_() % (std::is_arithmetic_v<Value> ? 6 : 5));
    event.argument = event.kind == Kind::fetch_add ? 1 + random_() % 3 : (me_ + 1) << 32 | ++numbers_;
    event.expected = last_seen_;
    event.begin.store(stamp());
    mine_.events_used.fetch_add(1);
    call(event);
    event.end.store(stamp());
  }

  void call(Event& event) {
    const Value fresh = made<Value>(event.key, event.argument);
    MapAnswer answer;
    switch (event.kind) {
      case Kind::get: {
        const auto found = map_.get(event.key);
        event.done = found.has_value();
        event.result = last_seen_ = found ? number_in(event.key, *found) : 0;
        return;
      }
      case Kind::put:
        answer = map_.put(event.key, fresh);
        event.done = true;
        break;
      case Kind::erase:
        answer = map_.erase(event.key);
        event.done = answer.found;
        break;
      case Kind::insert:
        answer = map_.insert(event.key, fresh);
        event.done = answer.changed;
        break;
      case Kind::compare_exchange: {
        Value expected = made<Value>(event.key, event.expected);
        answer = map_.compare_exchange(event.key, expected, fresh);
        event.done = answer.changed;
        event.result = last_seen_ = answer.found ? number_in(event.key, expected) : absent;
        break;
      }
      case Kind::fetch_add:
        if constexpr (std::is_arithmetic_v<Value>) answer = map_.fetch_add(event.key, event.argument, &event.result);
        event.done = true;
        break;
    }
    if (!answer) _exit(exit_refused);
  }

  static Number number_in(Number key, const Value& value) {
    const auto number = number_of(key, value);
    if (!number) _exit(exit_torn);
    return *number;
  }

  Map<Number, Value>& map_;
  Board& board_;
  const Options& options_;
  Client& mine_;
  Number me_, numbers_ = 0, last_seen_ = 0;
  std::mt19937_64 random_;
};

// ---- linearizability of a history

struct Call {
  Number begin, end, argument, expected, result;
  Kind kind;
  bool done;
};

/// Whether some sequence of these calls gives these answers, for one key and with each client's calls in their order.
class Search {
 public:
  explicit Search(std::vector<std::vector<Call>> clients) : clients_(std::move(clients)), next_(clients_.size(), 0) {}
  bool run() { return step(std::nullopt); }

 private:
  using Value = std::optional<Number>;

  static bool follows(const Call& call, Value& value) {
    const bool open = call.end == 0;
    const Value before = value;
    switch (call.kind) {
      case Kind::get: return open || (call.done ? before == Value(call.result) : !before);
      case Kind::put: value = call.argument; return true;
      case Kind::erase: value.reset(); return open || call.done == before.has_value();
      case Kind::insert:
        if (!before) value = call.argument;
        return open || call.done == !before;
      case Kind::compare_exchange: {
        const bool equal = before == Value(call.expected);
        if (equal) value = call.argument;
        return open || (call.done == equal && call.result == before.value_or(absent));
      }
      case Kind::fetch_add:
        value = before.value_or(0) + call.argument;
        return open || call.result == before.value_or(0);
    }
    return false;
  }

  bool step(Value value) {
    Number deadline = absent;  // the earliest end of a remaining call; the next call must begin before it
    bool over = true;
    std::string state;
    for (std::size_t client = 0; client < clients_.size(); ++client) {
      state += std::to_string(next_[client]) + ' ';
      if (next_[client] == clients_[client].size()) continue;
      const Call& head = clients_[client][next_[client]];
      if (head.end == 0) continue;
      over = false;
      deadline = std::min(deadline, head.end);
    }
    if (over) return true;
    state += value ? std::to_string(*value) : "-";
    if (!tried_.insert(std::move(state)).second) return false;
    for (std::size_t client = 0; client < clients_.size(); ++client) {
      if (next_[client] == clients_[client].size()) continue;
      const Call& head = clients_[client][next_[client]];
      Value after = value;
      if (head.begin > deadline || !follows(head, after)) continue;
      ++next_[client];
      if (step(after)) return true;
      --next_[client];
    }
    return false;
  }

  std::vector<std::vector<Call>> clients_;
  std::vector<std::size_t> next_;
  std::unordered_set<std::string> tried_{};
};

// ---- a round

char file_of_round[64] = "";

/// A map that is kept would outlive a storm that is interrupted.
void end_without_file(int number) {
  unlink(file_of_round);
  std::signal(number, SIG_DFL);
  std::raise(number);
}

template <class Value>
class Round {
 public:
  Round(Board& board, const Options& options, int number, std::mt19937_64& random, Tally& tally)
      : board_(board), options_(options), number_(number), random_(random), tally_(tally), keep_(number % 4 == 3) {
    name_ = fmt::format("storm-{}-{}", getpid(), number);
  }

  void run() {
    std::memset(static_cast<void*>(&board_), 0, sizeof board_);
    std::snprintf(file_of_round, sizeof file_of_round, "/dev/shm/smelt-map.%s", name_.c_str());
    auto map = create();
    if (!map) fail("{}", map.error().message);
    for (int i = 0; i < options_.processes; ++i) start();
    storm(options_.milliseconds);
    if (keep_) {
      for (auto& process : processes_) strike(process);
      map = Map<Number, Value>::create();  // gives up the last handle
      map = Map<Number, Value>::open(name_);
      if (!map) fail("{}", map.error().message);
      for (int i = 0; i < options_.processes; ++i) start();
      storm(options_.milliseconds / 2);
    }
    finish();
    check_own_keys(*map);
    check_history();
    tally_.takeovers += map->state().takeovers;
    if (keep_ && !remove_map(name_)) violated("the kept map is not there");
    if (std::filesystem::exists(file_of_round)) ++tally_.files;
  }

 private:
  struct Process {
    pid_t pid;
    bool alive = true;
  };

  Result<Map<Number, Value>> create() {
    return Map<Number, Value>::create_shared(name_, {.capacity = 0, .keep = keep_, .most_bytes = std::size_t{1} << 30});
  }

  void start() {
    if (started_ == most_clients) return;
    const int me = started_++;
    const Number seed = random_();
    const pid_t pid = start_storm_process([&] {
      alarm(60);
      auto map = Map<Number, Value>::attach(name_);
      if (!map) return exit_refused;
      Worker<Value>(*map, board_, options_, me, seed).work();
      return 0;
    });
    processes_.push_back({pid});
  }

  void strike(Process& process) {
    if (!process.alive) return;
    kill(process.pid, SIGKILL);
    waitpid(process.pid, nullptr, 0);
    process.alive = false;
    ++tally_.kills;
  }

  /// Kills processes, or stops them for a while, one after the other, and starts others in their place.
  void storm(int milliseconds) {
    const auto end = Clock::now() + std::chrono::milliseconds(milliseconds);
    while (Clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::microseconds(random_() % 8000));
      Process& victim = processes_[random_() % processes_.size()];
      if (!victim.alive) continue;
      if (options_.faults == "stop" && random_() % 2 == 0) {
        kill(victim.pid, SIGSTOP);
        std::this_thread::sleep_for(std::chrono::microseconds(random_() % 30'000));
        kill(victim.pid, SIGCONT);
        ++tally_.stops;
      } else if (started_ < most_clients) {
        strike(victim);
        start();
      }
    }
  }

  /// Waits until the living processes end by themselves, for at most `patience`.
  void finish() {
    board_.over.store(true);
    const auto end = Clock::now() + patience;
    for (auto& process : processes_) {
      int status = 0;
      while (process.alive && waitpid(process.pid, &status, WNOHANG) == 0) {
        if (Clock::now() > end) {
          ++tally_.hangs;
          kill(process.pid, SIGKILL);
          waitpid(process.pid, nullptr, 0);
          status = 0;
          break;
        }
        std::this_thread::sleep_for(1ms);
      }
      if (!process.alive) continue;
      process.alive = false;
      if (status == 0) continue;
      const bool torn = WIFEXITED(status) && WEXITSTATUS(status) == exit_torn;
      violated(torn ? "a value is torn" : fmt::format("a process ended with status {}", status));
    }
  }

  void check_own_keys(const Map<Number, Value>& map) {
    for (int i = 0; i < started_; ++i) {
      const Client& client = board_.clients[i];
      tally_.operations += client.operations.load();
      for (std::size_t at = 0; at < own_keys<Value>; ++at) {
        const Number key = own_key_of(static_cast<Number>(i), at);
        const auto value = map.get(key);
        const auto number = value ? number_of(key, *value) : std::optional<Number>(0);
        if (!number) violated(fmt::format("the value of key {} of process {} is torn", at, i));
        const Number found = number.value_or(absent);
        const Number promised = client.acknowledged[at].load(), pending = client.pending[at].load();
        const bool was_pending = pending != 0 && found == (pending == absent ? 0 : pending);
        if (number && found != promised && !was_pending) {
          violated(fmt::format("key {} of process {} has {}, not {}", at, i, found, promised));
        }
      }
    }
    std::set<Number> keys;
    map.for_each([&](Number key, const Value& value) {
      if (!keys.insert(key).second) violated(fmt::format("key {} is there twice", key));
      if (!number_of(key, value)) violated(fmt::format("the value of key {} is torn", key));
    });
  }

  void check_history() {
    for (Number key = 0; key < static_cast<Number>(options_.keys); ++key) {
      std::vector<std::vector<Call>> clients;
      for (int i = 0; i < started_; ++i) {
        const Client& client = board_.clients[i];
        std::vector<Call> calls;
        for (std::size_t at = 0; at < client.events_used.load(); ++at) {
          const Event& event = client.events[at];
          if (event.key != key) continue;
          calls.push_back(
              {event.begin, event.end, event.argument, event.expected, event.result, event.kind, event.done});
        }
        tally_.events += calls.size();
        clients.push_back(std::move(calls));
      }
      if (!Search(std::move(clients)).run()) violated(fmt::format("the answers for key {} are not linearizable", key));
    }
    if (!options_.histories.empty()) write_history();
  }

  /// One line for each call: client begin end kind key argument expected done result.
  void write_history() const {
    std::ofstream file(fmt::format("{}/round-{}.txt", options_.histories, number_));
    for (int i = 0; i < started_; ++i) {
      const Client& client = board_.clients[i];
      for (std::size_t at = 0; at < client.events_used.load(); ++at) {
        const Event& event = client.events[at];
        file << fmt::format("{} {} {} {} {} {} {} {} {}\n", i, event.begin.load(), event.end.load(),
                            kind_names[static_cast<int>(event.kind)], event.key, event.argument, event.expected,
                            event.done ? 1 : 0, event.result);
      }
    }
    if (!file.flush()) fail("cannot write to '{}'", options_.histories);
  }

  void violated(const std::string& what) {
    ++tally_.violations;
    print_error(fmt::format("storm: {}: {}", name_, what));
  }

  Board& board_;
  const Options& options_;
  int number_;
  std::mt19937_64& random_;
  Tally& tally_;
  bool keep_;
  std::string name_{};
  std::vector<Process> processes_{};
  int started_ = 0;
};

void print_tally(const Options& options, const Tally& tally) {
  if (options.json) {
    print(format_json({{"schema", "smelt-storm/1"},
                       {"rounds", options.rounds},
                       {"processes", options.processes},
                       {"seed", static_cast<Number>(options.seed)},
                       {"faults", options.faults},
                       {"values", options.values},
                       {"operations", tally.operations},
                       {"calls_checked", tally.events},
                       {"kills", tally.kills},
                       {"stops", tally.stops},
                       {"takeovers", tally.takeovers},
                       {"violations", tally.violations},
                       {"hangs", tally.hangs},
                       {"files_left", tally.files}}));
    return;
  }
  print(
      fmt::format("{} rounds of {} processes, seed {}: {} operations, {} killed, {} stopped, {} buckets taken over\n"
                  "{} calls checked: {} violations, {} hangs, {} files left\n",
                  options.rounds, options.processes, static_cast<Number>(options.seed), tally.operations, tally.kills,
                  tally.stops, tally.takeovers, tally.events, tally.violations, tally.hangs, tally.files));
}

template <class Value>
void run_round(Board& board, const Options& options, int number, std::mt19937_64& random, Tally& tally) {
  Round<Value>(board, options, number, random, tally).run();
}

struct ValueSize {
  const char* bytes;
  decltype(&run_round<Number>) run;
};
constexpr ValueSize all_sizes[] = {{"8", run_round<Number>},
                                   {"16", run_round<Filled<16>>},
                                   {"100", run_round<Filled<100>>},
                                   {"1000", run_round<Filled<1000>>}};

std::vector<ValueSize> sizes_of(const Options& options) {
  std::vector<ValueSize> sizes;
  for (const auto& name : split_names(options.values)) {
    const auto* const known = std::ranges::find(all_sizes, name, &ValueSize::bytes);
    if (known == std::end(all_sizes)) fail_usage("--values {}: must be some of 8, 16, 100, 1000", name);
    sizes.push_back(*known);
  }
  if (sizes.empty()) fail_usage("--values: empty; give sizes such as 16,1000");
  return sizes;
}

void run(const Options& options) {
  if (options.faults != "crash" && options.faults != "stop") {
    fail_usage("--faults {}: must be crash or stop", options.faults);
  }
  const auto sizes = sizes_of(options);
  void* memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) fail("no memory for the results of the processes");
  auto& board = *static_cast<Board*>(memory);
  std::mt19937_64 random(static_cast<Number>(options.seed));
  Tally tally;
  on_interrupt(end_without_file);
  for (int round = 0; round < options.rounds; ++round) {
    // Every fourth round is of another kind: also those take all sizes.
    const auto turn = static_cast<std::size_t>(round + round / 4);
    sizes[turn % sizes.size()].run(board, options, round, random, tally);
  }
  munmap(memory, sizeof(Board));
  print_tally(options, tally);
  if (tally.violations + tally.hangs + tally.files == 0) return;
  flush_output();
  fail("the map did not keep its promise; the seed is {}", static_cast<Number>(options.seed));
}

}  // namespace storm_map
}  // namespace

void add_storm_map(Parser& parser) {
  auto options = std::make_shared<storm_map::Options>();
  Command storm = parser.add_or_find("storm", "Kill processes at random moments and check what the others have");
  Command command = storm.add("map", "A map under load");
  command.integer("-n,--rounds", options->rounds, 1, 10'000'000, "rounds, each with a new map (default 60)");
  command.integer("-p,--processes", options->processes, 1, 32, "processes at a time (default 4)");
  command.integer("-k,--keys", options->keys, 1, 1000, "keys that all of them update (default 4)");
  command.integer("-t,--ms", options->milliseconds, 1, 1'000'000, "milliseconds of a round (default 60)");
  command.number("-s,--seed", options->seed, 0, 9e15, "of the random numbers (default 1)");
  command.text("-f,--faults", options->faults, "KIND",
               "crash: kills; stop: also SIGSTOP for up to 30 ms (default crash)");
  command.text("-v,--values", options->values, "BYTES,...",
               "sizes of values, which the rounds take in turn: some of 8, 16, 100, 1000 (default all)");
  command.text("--histories", options->histories, "DIR", "write each round's calls of the common keys there");
  command.flag("--json", options->json, "print JSON");
  command.footer(
      "Ends with status 1 if an acknowledged operation was lost, answers are not linearizable, a value is torn, a key\n"
      "is there twice, a process hung for 10 s, or a file was left in /dev/shm.\n");
  command.action([options] { storm_map::run(*options); });
}

}  // namespace smelt::cli
