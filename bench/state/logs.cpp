// Question: how fast are appends to smelt's replicated log beside other logs within a process? Against the crates raft
// and omnipaxos, three replicas whose messages are theirs over crossbeam channels: how long does one append take, and
// how many are done per second with 64 and 512 under way? Against the crate node-replication, two threads with a
// replica each: how long does an append take, by one while the other one follows, and by both?
// Method: commands of 64 bytes, a sum as state. Three replicas: the client's thread leads, on the first PU; the other two
// share the second one; an append ends when the leader has applied it. The crates' followers either poll and yield or
// sleep in their channel, two contestants. No time passes for their nodes (no heartbeats, no elections), and their logs
// are memory. smelt's survives the death of threads (`crash`) or not (`none`). Everybody begins anew in each turn,
// warms up, and does as many appends as take some 20 ms. All take turns in each round; per log the median over the
// rounds, and the median of its ratio to smelt in the same round. The sum of what has been applied is checked.
// Expected shape: an append is a compare-and-swap and a store in memory that all see, in place of two messages between
// threads; many under way let the others put them together.
//
//   bench_logs [--crates LIBRARY] [--rounds N] [--ms N] [--json FILE]
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "smelt/communicator.hpp"
#include "smelt/replicated_log.hpp"
#include "state/crates.hpp"
#include "state/turns.hpp"

namespace {

using bench::turns::Clock;
using bench::turns::pin;

struct Options {
  const char *crates = nullptr, *json = nullptr;
  int rounds = 7, milliseconds = 20;
};

/// The command of all logs. It adds `term`.
struct Add {
  std::uint64_t term = 1, rest[7] = {};
};
static_assert(sizeof(Add) == 64);

struct Sum {
  using Command = Add;
  std::uint64_t value = 0;
  std::uint64_t apply(const Add& add) { return value += add.term; }
};

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "bench_logs: %s\n", what.c_str());
  std::exit(1);
}

std::uint64_t ns_since(Clock::time_point begin) {
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(Clock::now() - begin).count());
}

/// As many as raft may have under way (raft_log.rs); the other crates have no limit.
constexpr std::uint32_t most_under_way = 4096;

smelt::ReplicatedLog make_log(int size, smelt::Faults faults, std::uint32_t command_bytes) {
  smelt::CommunicatorOptions communicator_options;
  communicator_options.pin = false;
  communicator_options.search_ms = 1;
  auto communicator = smelt::Communicator::create(size, communicator_options);
  if (!communicator) fail(communicator.error().message);
  smelt::LogOptions options;
  options.faults = faults;
  options.leader = 0;
  options.requests = most_under_way;
  options.command_bytes = command_bytes;
  auto log = smelt::ReplicatedLog::create(*communicator, options);
  if (!log) fail(log.error().message);
  return std::move(*log);
}

// ---- three replicas
// ---------------------------------------------------------------------------------------------------

/// A log in use, whose client is the calling thread.
struct Running {
  virtual ~Running() = default;
  /// Appends, at most `window` under way at a time. Returns the sum of all appends since the beginning.
  virtual std::uint64_t append(std::uint64_t window, std::uint64_t count) = 0;
};

class SmeltLog : public Running {
 public:
  explicit SmeltLog(smelt::Faults faults)
      : log_(make_log(3, faults, sizeof(Add))), mine_(*log_.attach(0, {&sum_, apply, nullptr, nullptr})) {
    for (int rank = 1; rank < 3; ++rank) {
      others_.emplace_back([this, rank] {
        pin(1);
        std::uint64_t sum = 0;
        auto replica = log_.attach(rank, {&sum, apply, nullptr, nullptr});
        ready_.fetch_add(1);
        replica->serve(stop_);
      });
    }
    while (ready_.load() != 2) std::this_thread::yield();
  }
  ~SmeltLog() override {
    stop_.store(true);
    for (auto& other : others_) other.join();
  }
  std::uint64_t append(std::uint64_t window, std::uint64_t count) override {
    const Add one;
    std::optional<smelt::Ticket> last;
    for (std::uint64_t i = 0; i < count; ++i) {
      if (window == 1) {
        if (mine_.append(&one, sizeof one) != smelt::Status::ok) fail(mine_.failure());
        continue;
      }
      smelt::Ticket ticket;
      if (mine_.start(&one, sizeof one, &ticket) != smelt::Status::ok) fail(mine_.failure());
      if (i % window != window - 1 && i + 1 != count) continue;
      if (mine_.wait(ticket) != smelt::Status::ok) fail(mine_.failure());
    }
    appended_ += count;
    while (mine_.delivered() < appended_) mine_.progress();
    return sum_;
  }

 private:
  static void apply(void* context, const smelt::Entry& entry) {
    Add add;
    std::memcpy(&add, entry.data, sizeof add);
    *static_cast<std::uint64_t*>(context) += add.term;
  }
  std::uint64_t sum_ = 0, appended_ = 0;
  smelt::ReplicatedLog log_;
  smelt::Replica mine_;
  std::atomic<bool> stop_{false};
  std::atomic<int> ready_{0};
  std::vector<std::thread> others_;
};

class CrateLog : public Running {
 public:
  CrateLog(const bench::Crates& crates, const char* kind, bool polls)
      : append_(crates.get<std::uint64_t(void*, std::uint64_t, std::uint64_t)>("peers_log_append")),
        close_(crates.get<void(void*)>("peers_log_close")) {
    pin(1);  // Followers run where their maker does.
    log_ = crates.get<void*(const char*, bool)>("peers_log_open")(kind, polls);
  }
  ~CrateLog() override { close_(log_); }
  std::uint64_t append(std::uint64_t window, std::uint64_t count) override { return append_(log_, window, count); }

 private:
  std::uint64_t (*append_)(void*, std::uint64_t, std::uint64_t);
  void (*close_)(void*);
  void* log_ = nullptr;
};

struct Contestant {
  std::string name;
  /// Nanoseconds of an append, in one turn.
  std::function<double()> turn;
};

/// Nanoseconds of an append, with a log that `open` makes.
double timed(const std::function<std::unique_ptr<Running>()>& open, std::uint64_t window, const Options& options) {
  const auto log = open();
  pin(0);
  const double whole = options.milliseconds * 1e6;
  std::uint64_t total = 0;
  // A quarter of the time to warm up, which also tells how many make the turn.
  for (std::uint64_t count = 64;; count *= 2) {
    const auto begin = Clock::now();
    const std::uint64_t sum = log->append(window, count);
    const auto took = static_cast<double>(ns_since(begin));
    if (sum != (total += count)) fail("a wrong sum");
    if (took >= whole) return took / static_cast<double>(count);
    if (took >= whole / 4)
      count = std::max(count, static_cast<std::uint64_t>(whole / took * static_cast<double>(count) / 2));
  }
}

/// In a thread of its own: who makes a log may run everywhere, as a log that is made asks what that is.
double turn(const std::function<std::unique_ptr<Running>()>& open, std::uint64_t window, const Options& options) {
  double result = 0;
  std::thread([&] { result = timed(open, window, options); }).join();
  return result;
}

std::vector<Contestant> three_replicas(const bench::Crates& crates, std::uint64_t window, const Options& options) {
  std::vector<Contestant> all;
  const auto add = [&](const char* name, std::function<std::unique_ptr<Running>()> open) {
    all.push_back({name, [=, &options] { return turn(open, window, options); }});
  };
  add("smelt", [] { return std::make_unique<SmeltLog>(smelt::Faults::crash); });
  add("smelt, none", [] { return std::make_unique<SmeltLog>(smelt::Faults::none); });
  if (!crates) return all;
  add("raft, polling", [&] { return std::make_unique<CrateLog>(crates, "raft", true); });
  add("raft, sleeping", [&] { return std::make_unique<CrateLog>(crates, "raft", false); });
  add("omnipaxos, polling", [&] { return std::make_unique<CrateLog>(crates, "omnipaxos", true); });
  add("omnipaxos, sleeping", [&] { return std::make_unique<CrateLog>(crates, "omnipaxos", false); });
  return all;
}

// ---- two threads
// ------------------------------------------------------------------------------------------------------

/// Nanoseconds that `count` appends take of each thread that appends.
std::uint64_t smelt_threads(bool both, std::uint64_t count, smelt::Faults faults) {
  auto log = make_log(2, faults, sizeof(Add) + 1);  // Replicated<T> adds a byte
  std::atomic<int> waiting{2}, appending{both ? 2 : 1};
  std::atomic<bool> well{true};
  std::uint64_t took[2] = {};
  const auto body = [&](int rank) {
    pin(rank);
    auto sum = smelt::Replicated<Sum>::attach(log, rank);
    if (!sum) fail(sum.error().message);
    waiting.fetch_sub(1);
    while (waiting.load() != 0) {}
    if (both || rank == 0) {
      const auto begin = Clock::now();
      for (std::uint64_t i = 0; i < count; ++i) {
        if (!sum->update(Add{})) well = false;
      }
      took[rank] = ns_since(begin);
      appending.fetch_sub(1);
    }
    sum->replica().serve([](void* left) { return static_cast<std::atomic<int>*>(left)->load() == 0; }, &appending);
    const auto seen = sum->read([](const Sum& now) { return now.value; });
    if (!seen || *seen != (both ? 2 * count : count)) well = false;
  };
  std::thread other(body, 1);
  std::thread first(body, 0);
  first.join();
  other.join();
  return well ? std::max(took[0], took[1]) : 0;
}

std::vector<Contestant> two_threads(const bench::Crates& crates, bool both, const Options& options) {
  std::vector<Contestant> all;
  const auto add = [&](const char* name, std::function<std::uint64_t(std::uint64_t)> run) {
    all.push_back({name, [=, &options] {
                     for (std::uint64_t count = 1024;; count *= 2) {
                       const std::uint64_t took = run(count);
                       if (took == 0) fail("a wrong sum");
                       if (static_cast<double>(took) < options.milliseconds * 1e6) continue;
                       return static_cast<double>(took) / static_cast<double>(both ? 2 * count : count);
                     }
                   }});
  };
  add("smelt", [=](std::uint64_t count) { return smelt_threads(both, count, smelt::Faults::none); });
  add("smelt, crash", [=](std::uint64_t count) { return smelt_threads(both, count, smelt::Faults::crash); });
  if (!crates) return all;
  auto* theirs = crates.get<std::uint64_t(bool, std::uint64_t, void (*)(int))>("peers_replication");
  add("node-replication", [=](std::uint64_t count) { return theirs(both, count, [](int client) { pin(client); }); });
  return all;
}

// ---- all of it
// --------------------------------------------------------------------------------------------------------

void compare(const std::string& what, const std::vector<Contestant>& all, const Options& options, std::FILE* json) {
  static const char* separator = "\n";
  std::map<std::string, std::vector<double>> times, ratios;
  for (int round = 0; round < options.rounds; ++round) {
    for (const auto& each : all) times[each.name].push_back(each.turn());
    for (const auto& each : all) ratios[each.name].push_back(times[each.name].back() / times[all[0].name].back());
  }
  std::printf("%s\n", what.c_str());
  for (const auto& each : all) {
    auto sorted = times[each.name];
    std::ranges::sort(sorted);
    const double ratio = bench::turns::median(ratios[each.name]);
    std::printf("  %-24s %9.1f ns   %7.2f times smelt's\n", each.name.c_str(), bench::turns::median(sorted), ratio);
    if (json == nullptr) continue;
    std::fprintf(json,
                 "%s {\"what\": \"%s\", \"log\": \"%s\", \"ns\": %.1f, \"lowest_ns\": %.1f, \"highest_ns\": %.1f, "
                 "\"smelt_ratio\": %.4f}",
                 separator, what.c_str(), each.name.c_str(), bench::turns::median(sorted), sorted.front(),
                 sorted.back(), ratio);
    separator = ",\n";
  }
  std::fflush(stdout);
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const char* value = argv[i + 1];
    if (name == "--crates") options.crates = value;
    if (name == "--rounds") options.rounds = std::atoi(value);
    if (name == "--ms") options.milliseconds = std::atoi(value);
    if (name == "--json") options.json = value;
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  const bench::Crates crates(options.crates);
  if (!crates) std::fprintf(stderr, "bench_logs: no --crates, without raft, omnipaxos and node-replication\n");
  std::FILE* json = options.json == nullptr ? nullptr : std::fopen(options.json, "w");
  if (json != nullptr) {
    std::fprintf(json, "{\"command_bytes\": %zu, \"rounds\": %d, \"turn_ms\": %d, \"cells\": [", sizeof(Add),
                 options.rounds, options.milliseconds);
  }
  for (const std::uint64_t window : {1, 64, 512}) {
    compare("three replicas, " + std::to_string(window) + " under way", three_replicas(crates, window, options),
            options, json);
  }
  compare("two threads, one appends", two_threads(crates, false, options), options, json);
  compare("two threads, both append", two_threads(crates, true, options), options, json);
  if (json != nullptr) {
    std::fprintf(json, "\n]}\n");
    std::fclose(json);
  }
}
