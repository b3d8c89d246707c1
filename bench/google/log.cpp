// Question: what does an append to the replicated log take, beside a channel's round trip between the same two PUs;
// what do deaths cost that are survived; and how long is it from the kill of a leader to the first commit of the next
// one? Method: two threads on two PUs that they keep, rank 0 leads. One of them is timed, the other delivers in a loop.
// `commit`: the timed one leads, and has delivered its own command. `commit_remote`: the other one leads; until the
// command is known here. `update_remote`: until it has been executed here by Replicated<T>. `pipelined`: 64 under way,
// by the leader. Fail-over: three processes; the leader kills itself right after a commit; the others spin and append;
// from before the kill to the first commit that returns in another epoch. Expected shape: commit a quarter of a round
// trip; remote at most twice it; crash as none; fail-over far below a millisecond.
#include <benchmark/benchmark.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "smelt/channel.hpp"
#include "smelt/communicator.hpp"
#include "smelt/replicated_log.hpp"

namespace {

using smelt::Faults;
using smelt::Status;

constexpr int size = 2;

/// What the process may use; threads inherit what their maker has bound itself to.
const cpu_set_t allowed = [] {
  cpu_set_t set;
  sched_getaffinity(0, sizeof set, &set);
  return set;
}();

void stay_on(int which) {
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    if (seen++ == which) CPU_SET(cpu, &one);
  }
  sched_setaffinity(0, sizeof one, &one);
}

/// Keeps the affinity of the thread that measures.
class OnPu {
 public:
  explicit OnPu(int which) {
    sched_getaffinity(0, sizeof before_, &before_);
    stay_on(which);
  }
  OnPu(const OnPu&) = delete;
  ~OnPu() { sched_setaffinity(0, sizeof before_, &before_); }

 private:
  cpu_set_t before_;
};

struct Sum {
  using Command = std::uint64_t;
  std::uint64_t value = 0;
  std::uint64_t apply(const Command& more) { return value += more; }
};

smelt::ReplicatedLog make_log(Faults faults, std::uint32_t command_bytes, const std::string& algorithm = "1paxos") {
  smelt::CommunicatorOptions communicator_options;
  communicator_options.pin = false;
  communicator_options.search_ms = 1;
  auto communicator = smelt::Communicator::create(size, communicator_options);
  smelt::LogOptions options;
  if (algorithm == "1paxos") options.faults = faults;
  options.algorithm = algorithm;
  options.leader = 0;
  options.command_bytes = command_bytes;
  return *smelt::ReplicatedLog::create(*communicator, options);
}

/// The other rank, on the other PU: delivers until it is told to stop.
class Other {
 public:
  Other(smelt::ReplicatedLog& log, int rank) {
    thread_ = std::thread([this, &log, rank] {
      stay_on(1);
      auto sum = smelt::Replicated<Sum>::attach(log, rank);
      ready_.store(true);
      sum->replica().serve(stop_);
      last_ = sum->local().value;
    });
    while (!ready_.load()) std::this_thread::yield();
  }
  std::uint64_t stop() {
    stop_.store(true);
    thread_.join();
    return last_;
  }

 private:
  std::atomic<bool> ready_{false}, stop_{false};
  std::uint64_t last_ = 0;
  std::thread thread_;
};

void round_trip(benchmark::State& state) {
  const OnPu here(0);
  auto there = smelt::Channel::create(), back = smelt::Channel::create();
  std::thread echo([in = there->receiver(), out = back->sender()]() mutable {
    stay_on(1);
    for (std::uint64_t number = 1; number != 0;) {
      in->recv(&number, sizeof number);
      out->send(&number, sizeof number);
    }
  });
  auto out = there->sender();
  auto in = back->receiver();
  for (std::uint64_t number = 1; auto _ : state) {
    out->send(&number, sizeof number);
    in->recv(&number, sizeof number);
  }
  std::uint64_t last = 0;
  out->send(&last, sizeof last);
  echo.join();
}

void commit(benchmark::State& state, Faults faults, int rank, const char* algorithm) {
  const OnPu here(0);
  const auto bytes = static_cast<std::uint32_t>(state.range(0));
  auto log = make_log(faults, bytes, algorithm);
  std::vector<std::byte> command(bytes);
  const std::uint64_t one = 1;
  std::memcpy(command.data(), &one, sizeof one);
  std::uint64_t sum = 0;
  const auto apply = [](void* context, const smelt::Entry& entry) {
    std::uint64_t more = 0;
    std::memcpy(&more, entry.data, sizeof more);
    *static_cast<std::uint64_t*>(context) += more;
  };
  std::optional<smelt::Replica> replica;
  std::atomic<bool> stop{false}, ready{false};
  replica.emplace(*log.attach(rank, {&sum, apply, nullptr, nullptr}));
  std::uint64_t others = 0;
  std::thread other([&] {
    stay_on(1);
    auto second = log.attach(1 - rank, {&others, apply, nullptr, nullptr});
    ready.store(true);
    second->serve(stop);
  });
  while (!ready.load()) std::this_thread::yield();
  std::uint64_t done = 0;
  for (auto _ : state) {
    if (replica->append(command.data(), bytes) != Status::ok) state.SkipWithError("append failed");
    ++done;
  }
  while (replica->delivered() < done) replica->progress();
  if (sum != done) state.SkipWithError("not all were delivered");
  stop.store(true);
  other.join();
}

void update_remote(benchmark::State& state) {
  const OnPu here(0);
  auto log = make_log(Faults::crash, 56);
  auto mine = smelt::Replicated<Sum>::attach(log, 1);
  Other other(log, 0);
  std::uint64_t expected = 0;
  for (auto _ : state) {
    auto sum = mine->update(std::uint64_t{1});
    if (!sum || *sum != ++expected) state.SkipWithError("wrong sum");
  }
  other.stop();
}

void read_local(benchmark::State& state) {
  const OnPu here(0);
  auto log = make_log(Faults::crash, 56);
  auto mine = smelt::Replicated<Sum>::attach(log, 1);
  Other other(log, 0);
  if (!mine->update(std::uint64_t{1})) state.SkipWithError("no update");
  for (auto _ : state) {
    auto sum = mine->read([](const Sum& now) { return now.value; });
    if (!sum || *sum != 1) state.SkipWithError("wrong sum");
  }
  other.stop();
}

void pipelined(benchmark::State& state, int rank) {
  const OnPu here(0);
  constexpr std::uint64_t depth = 64;
  auto log = make_log(Faults::crash, 56);
  std::uint64_t delivered = 0;
  const auto count = [](void* context, const smelt::Entry&) { ++*static_cast<std::uint64_t*>(context); };
  std::optional<smelt::Replica> replica;
  replica.emplace(*log.attach(rank, {&delivered, count, nullptr, nullptr}));
  Other other(log, 1 - rank);
  std::uint64_t started = 0;
  for (auto _ : state) {
    smelt::Ticket ticket;
    for (std::uint64_t i = 0; i < depth; ++i, ++started) {
      const std::uint64_t one = 1;
      if (replica->start(&one, sizeof one, &ticket) != Status::ok) state.SkipWithError("start failed");
    }
    if (replica->wait(ticket) != Status::ok) state.SkipWithError("wait failed");
  }
  while (replica->delivered() < started) replica->progress();
  if (delivered != started) state.SkipWithError("not all were delivered");
  other.stop();
  state.SetItemsProcessed(static_cast<std::int64_t>(started));
}

std::int64_t now_ns() { return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count(); }

struct Board {
  std::atomic<int> ready;
  std::atomic<std::int64_t> killed_ns, first_ns;
};

int live_through_a_kill(Board& board, const std::string& name, int rank) {
  smelt::LogOptions options;
  options.leader = 0;
  options.wait = "spin";
  auto log = smelt::ReplicatedLog::create_shared(name, 3, std::span(&rank, 1), options, 20.0);
  if (!log) return 1;
  auto sum = smelt::Replicated<Sum>::attach(*log, rank);
  board.ready.fetch_add(1);
  while (board.ready.load() < 3) sum->replica().progress();
  for (int i = 0; rank == 0; ++i) {
    if (!sum->update(std::uint64_t{1})) return 1;
    if (i < 200) continue;
    board.killed_ns.store(now_ns());
    raise(SIGKILL);
  }
  // The last rank only looks on: two cores, two that work.
  if (rank == 2)
    return sum->replica().serve([](void* shared) { return static_cast<Board*>(shared)->first_ns.load() != 0; },
                                &board) == Status::ok
               ? 0
               : 1;
  while (sum->replica().configuration().epoch == 1) {
    if (!sum->update(std::uint64_t{1})) return 1;
  }
  board.first_ns.store(now_ns());
  return 0;
}

void fail_over(benchmark::State& state) {
  void* memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto& board = *static_cast<Board*>(memory);
  std::vector<double> times;
  int number = 0;
  for (auto _ : state) {
    std::memset(memory, 0, sizeof(Board));
    const std::string name = "bench-log-" + std::to_string(getpid()) + "-" + std::to_string(number++);
    for (int rank = 0; rank < 3; ++rank) {
      if (fork() == 0) _exit(live_through_a_kill(board, name, rank));
    }
    int ended = 0, status = 0;
    while (wait(&status) > 0) ended += WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (ended != 2) state.SkipWithError("the others did not go on");
    times.push_back(static_cast<double>(board.first_ns.load() - board.killed_ns.load()) * 1e-9);
    state.SetIterationTime(times.back());
  }
  munmap(memory, sizeof(Board));
  std::sort(times.begin(), times.end());
  if (times.empty()) return;
  state.counters["median_ms"] = times[times.size() / 2] * 1e3;
  state.counters["p99_ms"] = times[std::min(times.size() - 1, times.size() * 99 / 100)] * 1e3;
}

BENCHMARK(round_trip)->UseRealTime();
BENCHMARK_CAPTURE(commit, leader_crash, Faults::crash, 0, "1paxos")->Arg(8)->Arg(56)->Arg(64)->Arg(1000)->UseRealTime();
BENCHMARK_CAPTURE(commit, leader_none, Faults::none, 0, "1paxos")->Arg(64)->UseRealTime();
BENCHMARK_CAPTURE(commit, leader_stop, Faults::stop, 0, "1paxos")->Arg(64)->UseRealTime();
BENCHMARK_CAPTURE(commit, leader_broadcast, Faults::none, 0, "broadcast")->Arg(64)->UseRealTime();
BENCHMARK_CAPTURE(commit, remote_crash, Faults::crash, 1, "1paxos")->Arg(8)->Arg(64)->UseRealTime();
BENCHMARK_CAPTURE(commit, remote_none, Faults::none, 1, "1paxos")->Arg(64)->UseRealTime();
BENCHMARK(update_remote)->UseRealTime();
BENCHMARK(read_local)->UseRealTime();
BENCHMARK_CAPTURE(pipelined, leader, 0)->UseRealTime();
BENCHMARK_CAPTURE(pipelined, remote, 1)->UseRealTime();
BENCHMARK(fail_over)->UseManualTime()->Iterations(200)->Unit(benchmark::kMillisecond);

}  // namespace
