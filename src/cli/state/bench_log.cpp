// smelt bench log: what an append to the replicated log takes, and how many there are per second.
//
// Each rank of the machine's cores has a replica, on a thread of its own. Loads: one rank appends, or all do; one
// append at a time, or 16 under way. Each algorithm and load gets a turn in each start, in a new random order, on a new
// log. Every replica delivers everything; the digest of what it has delivered is compared afterwards.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "cli/arguments.hpp"
#include "cli/command.hpp"
#include "cli/document.hpp"
#include "cli/plan/calls.hpp"
#include "cli/state/bench_state.hpp"
#include "cli/terminal.hpp"
#include "cli/version.hpp"
#include "smelt/communicator.hpp"
#include "smelt/replicated_log.hpp"

namespace smelt::cli {
namespace {

struct LogLoad {
  std::string algorithm;
  bool all_append = false;
  int under_way = 1;
  std::vector<double> turns_per_s{}, latencies_ns{};  ///< of each start: appends per second; median of a rank's appends

  static double median(std::vector<double> values) {
    std::ranges::sort(values);
    return values.empty() ? 0.0 : values[values.size() / 2];
  }
};

struct LogCommand {
  std::uint64_t client = 0, number = 0, rest[5] = {};
};

/// What a replica has applied, in a word.
struct LogDigest {
  std::uint64_t word = 0, count = 0;
  static void apply(void* self, const Entry& entry) {
    auto& digest = *static_cast<LogDigest*>(self);
    LogCommand command;
    std::memcpy(&command, entry.data, sizeof command);
    digest.word = (digest.word ^ (command.client << 48 ^ command.number)) * 0x9e3779b97f4a7c15u;
    ++digest.count;
  }
};

class LogTurn {
 public:
  LogTurn(ReplicatedLog& log, LogLoad& load, double time_s) : log_(log), load_(load), time_s_(time_s) {}

  void run(const std::vector<int>& pus) {
    digests_.resize(pus.size());
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < pus.size(); ++rank) {
      threads.emplace_back([this, rank, &pus] {
        (void)pin_this_thread(pus[rank]);
        of_rank(static_cast<int>(rank), static_cast<int>(pus.size()));
      });
    }
    for (auto& thread : threads) thread.join();
    for (const auto& digest : digests_) {
      if (digest.word != digests_.front().word || digest.count != digests_.front().count) {
        fail("replicas of '{}' have applied different commands", load_.algorithm);
      }
    }
    load_.turns_per_s.push_back(static_cast<double>(digests_.front().count) / longest_s_);
    load_.latencies_ns.push_back(latency_ns_);
  }

 private:
  void of_rank(int rank, int ranks) {
    auto replica = log_.attach(rank, {&digests_[static_cast<std::size_t>(rank)], &LogDigest::apply, nullptr, nullptr});
    if (!replica) fail("{}", replica.error().message);
    here_.fetch_add(1);
    while (here_.load() != ranks) std::this_thread::yield();
    if (rank == 0 || load_.all_append) append(*replica, rank);
    finished_.fetch_add(1);
    struct Ranks {
      std::atomic<int>& count;
      int all;
    } wait{finished_, ranks};
    const auto all = [](void* context) {
      const auto& waited = *static_cast<Ranks*>(context);
      return waited.count.load() == waited.all;
    };
    replica->serve(all, &wait);
    std::uint64_t point = 0;
    replica->read_point(&point);
    replica->catch_up(point);
    // The others may need this rank's part until they have caught up.
    gone_.fetch_add(1);
    wait.all = ranks;
    Ranks last{gone_, ranks};
    replica->serve(all, &last);
  }

  void append(Replica& replica, int rank) {
    using Clock = std::chrono::steady_clock;
    LogCommand command;
    command.client = static_cast<std::uint64_t>(rank);
    std::vector<Ticket> tickets(static_cast<std::size_t>(load_.under_way));
    std::vector<double> latencies;
    const auto begin = Clock::now();
    auto last = begin;
    for (std::uint64_t number = 0; std::chrono::duration<double>(last - begin).count() < time_s_; ++number) {
      command.number = number;
      Ticket& ticket = tickets[number % tickets.size()];
      if (number >= tickets.size()) replica.wait(ticket);
      replica.start(&command, sizeof command, &ticket);
      if (load_.under_way == 1) replica.wait(ticket);
      const auto now = Clock::now();
      if (latencies.size() < 100'000) latencies.push_back(std::chrono::duration<double, std::nano>(now - last).count());
      last = now;
    }
    for (const Ticket& ticket : tickets) {
      if (ticket.request != 0) replica.wait(ticket);
    }
    if (rank == 0) {
      longest_s_ = std::chrono::duration<double>(Clock::now() - begin).count();
      latency_ns_ = LogLoad::median(latencies);
    }
  }

  ReplicatedLog& log_;
  LogLoad& load_;
  double time_s_;
  std::vector<LogDigest> digests_;
  std::atomic<int> here_{0}, finished_{0}, gone_{0};
  double longest_s_ = 1.0, latency_ns_ = 0.0;
};

}  // namespace

void bench_log(const BenchState& arguments) {
  const Machine machine = load_model(arguments.model, false);
  const Group group = group_of(machine, arguments.model.empty(), arguments.ranks);
  std::vector<int> pus;
  for (const int pu : group.pus) pus.push_back(machine.pus[static_cast<std::size_t>(pu)].os_index);
  CommunicatorOptions options;
  options.pin = false;
  options.search_ms = 0;
  options.profile = "none";
  const Communicator communicator = take(Communicator::create(machine, group, options));
  std::vector<std::string> algorithms = split_names(arguments.only);
  if (algorithms.empty()) algorithms = {"1paxos", "broadcast"};
  std::vector<LogLoad> loads;
  for (const auto& algorithm : algorithms) {
    for (const bool all : {false, true}) {
      for (const int under_way : {1, 16}) loads.push_back({algorithm, all, under_way});
    }
  }
  const int starts = arguments.starts > 0 ? arguments.starts : 5;
  const double turn_s = (arguments.time_s > 0.0 ? arguments.time_s : 8.0) / starts / static_cast<double>(loads.size());
  std::vector<LogLoad*> order;
  for (auto& load : loads) order.push_back(&load);
  std::mt19937 random(1);
  for (int start = 0; start < starts; ++start) {
    std::ranges::shuffle(order, random);
    for (LogLoad* load : order) {
      LogOptions log_options;
      log_options.algorithm = load->algorithm;
      log_options.faults = Faults::none;
      auto log = take(ReplicatedLog::create(communicator, log_options));
      LogTurn(log, *load, turn_s).run(pus);
    }
  }
  if (!arguments.json) {
    print(fmt::format("{}  {} replicas, {} bytes a command, {}\n\n", styled(Style::title, "log"), pus.size(),
                      sizeof(LogCommand), machine.name));
    Table table("lrrrr");
    table.header({"", "append", "under way", "per s", "one append"});
    for (const auto& load : loads) {
      table.row({load.algorithm, load.all_append ? "all" : "one", std::to_string(load.under_way),
                 fmt::format("{:.3g} M", LogLoad::median(load.turns_per_s) / 1e6),
                 load.under_way == 1 ? format_time(LogLoad::median(load.latencies_ns)) : std::string("-")});
    }
    print(table.text());
    return;
  }
  Json results = Json::array();
  for (const auto& load : loads) {
    results.push_back({{"algorithm", load.algorithm},
                       {"appending", load.all_append ? static_cast<int>(pus.size()) : 1},
                       {"under_way", load.under_way},
                       {"per_s", LogLoad::median(load.turns_per_s)},
                       {"turns_per_s", load.turns_per_s},
                       {"median_ns", load.under_way == 1 ? Json(LogLoad::median(load.latencies_ns)) : Json()}});
  }
  print(format_json({{"benchmark", "log"},
                     {"replicas", pus.size()},
                     {"pus", pus},
                     {"command_bytes", sizeof(LogCommand)},
                     {"starts", starts},
                     {"turn_s", turn_s},
                     {"results", results},
                     {"machine", machine_identity(machine)},
                     {"commit", commit}}));
}

}  // namespace smelt::cli
