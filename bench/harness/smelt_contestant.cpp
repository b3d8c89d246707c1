#include "harness/smelt_contestant.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <optional>
#include <utility>
#include <vector>

#include "base/cacheline.hpp"
#include "base/error.hpp"
#include "harness/contest.hpp"
#include "harness/contestants.hpp"
#include "harness/timing.hpp"
#include "smelt/channel.hpp"
#include "smelt/communicator.hpp"
#include "smelt/machine.hpp"
#include "smelt/plan.hpp"

namespace smelt::bench {
namespace {

// ---------------------------------------------------------------- the floor

/// Alone on its cache line, and on the one that is fetched with it.
struct alignas(separation_bytes) LoneLine {
  std::atomic<std::uint64_t> number{0};
};

/// Latency depends on where a line has its home in the last-level cache, and a ring goes through
/// many lines: so do the bare ones, a stretch of operations on each.
constexpr std::uint64_t lone_lines = 64;
using LoneLines = std::array<LoneLine, lone_lines>;
inline LoneLine& line_of(LoneLines& lines, std::uint64_t operation) { return lines[operation / 256 % lone_lines]; }

inline void spin_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

/// A number goes back and forth in one cache line; operation i is one way, half of the ping-pong.
/// The pause keeps the waiting side from asking for the line while the other is about to write it.
struct FloorKernel {
  void prepare(std::uint64_t, Effort) {}
  void operate(std::uint64_t i) {
    LoneLine& line = line_of(lines, i);
    if (static_cast<int>(i % 2) == rank) {
      line.number.store(i + 1, std::memory_order_release);  // pairs with the other rank's load
    } else {
      while (line.number.load(std::memory_order_acquire) != i + 1) spin_pause();  // pairs with the other rank's store
    }
  }
  std::uint64_t read() const { return 0; }
  bool starts() const { return true; }
  void settle() {}
  bool check(std::uint64_t) const { return true; }
  bool check_fully(std::uint64_t i) const { return line_of(lines, i).number.load(std::memory_order_relaxed) >= i + 1; }
  int rank;
  LoneLines& lines;
};

/// What a channel cannot beat: one flag each way, each on a line that one side alone writes.
/// Operation i is the round trip.
struct FlagKernel {
  void prepare(std::uint64_t, Effort) {}
  void operate(std::uint64_t i) {
    auto& own = line_of(flags[rank], i).number;
    auto& other = line_of(flags[1 - rank], i).number;
    if (rank == 0) own.store(i + 1, std::memory_order_release);           // pairs with rank 1's load
    while (other.load(std::memory_order_acquire) != i + 1) spin_pause();  // pairs with the other's store
    if (rank == 1) own.store(i + 1, std::memory_order_release);           // pairs with rank 0's load
  }
  std::uint64_t read() const { return 0; }
  bool starts() const { return true; }
  void settle() {}
  bool check(std::uint64_t) const { return true; }
  bool check_fully(std::uint64_t i) const {
    return line_of(flags[1 - rank], i).number.load(std::memory_order_relaxed) >= i + 1;
  }
  int rank;
  std::array<LoneLines, 2>& flags;
};

/// Runs the floor or the flags: two ranks on two PUs, whatever the other contestants measure.
template <class Kernel, class Shared>
int run_bare(WorkerSpec spec, Shared& shared) {
  spec.threads = 2;
  spec.operation = spec.name;
  spec.method = "loop";
  if (spec.pus.size() < 2 || spec.pus[0] == spec.pus[1]) return fail_worker("a ping-pong needs two PUs");
  auto control = Control::create(2);
  if (!control) return fail_worker(control.error().message);
  bool good = true;
  run_threads(spec, [&](int rank) {
    const bool served = serve_kernel(Member{spec, *control, rank}, Kernel{rank, shared});
    if (rank == 0) good = served;
  });
  return good ? 0 : 1;
}

int run_floor(const WorkerSpec& spec) {
  LoneLines lines;
  return run_bare<FloorKernel>(spec, lines);
}

int run_flags(const WorkerSpec& spec) {
  std::array<LoneLines, 2> flags;
  return run_bare<FlagKernel>(spec, flags);
}

// ---------------------------------------------------------------- channels

/// One channel each way; the ranks share the two ends' wrapper but not the ends.
struct SmeltChannels {
  void send(int rank, const void* data, std::size_t bytes) { sender[rank]->send(data, bytes); }
  void receive(int rank, void* data, std::size_t bytes) { receiver[rank]->recv(data, bytes); }
  alignas(separation_bytes) std::array<std::optional<Sender>, 2> sender;      ///< of rank r
  alignas(separation_bytes) std::array<std::optional<Receiver>, 2> receiver;  ///< of rank r
};

int run_channel(const WorkerSpec& spec) {
  ChannelOptions options;
  if (spec.name == "smelt/fastforward") options.transport = Transport::fastforward;
  if (spec.oversubscribed()) options.ranks_per_pu = 2.0;
  SmeltChannels ops;
  for (int from = 0; from < 2; ++from) {
    auto channel = Channel::create(options);
    if (!channel) return fail_worker(channel.error().message);
    auto sender = channel->sender();
    auto receiver = channel->receiver();
    if (!sender || !receiver) return fail_worker("the ends of a new channel cannot be taken");
    ops.sender[from].emplace(*std::move(sender));
    ops.receiver[1 - from].emplace(*std::move(receiver));
  }
  auto control = Control::create(2);
  if (!control) return fail_worker(control.error().message);
  bool good = true;
  run_threads(spec, [&](int rank) {
    const bool served = serve_channel(Member{spec, *control, rank}, ops);
    if (rank == 0) good = served;
  });
  return good ? 0 : 1;
}

// ---------------------------------------------------------------- collectives

/// Strict synchronization is asked for by the call; the loose one is what the plain calls have.
struct SmeltCollectives {
  void barrier() { rank.barrier(); }
  void broadcast(void* data, std::size_t bytes) {
    strict ? run(Collective::broadcast(data, bytes)) : rank.broadcast(data, bytes);
  }
  void reduce(const double* in, double* out, std::size_t count) {
    strict ? run(Collective::reduce(in, out, count, sum<double>())) : rank.reduce(in, out, count, sum<double>());
  }
  void allreduce(const double* in, double* out, std::size_t count) {
    strict ? run(Collective::allreduce(in, out, count, sum<double>())) : rank.allreduce(in, out, count, sum<double>());
  }
  void scatter(const void* in, void* out, std::size_t block) { run(Collective::scatter(in, out, block)); }
  void gather(const void* in, void* out, std::size_t block) { run(Collective::gather(in, out, block)); }
  void allgather(const void* in, void* out, std::size_t block) { run(Collective::allgather(in, out, block)); }
  void alltoall(const void* in, void* out, std::size_t block) { run(Collective::alltoall(in, out, block)); }
  void reduce_scatter(const double* in, double* out, std::size_t count) {
    run(Collective::reduce_scatter(in, out, count, sum<double>()));
  }
  void scan(const double* in, double* out, std::size_t count) { run(Collective::scan(in, out, count, sum<double>())); }
  void exscan(const double* in, double* out, std::size_t count) {
    run(Collective::exscan(in, out, count, sum<double>()));
  }
  bool two_phase_commit(void* proposal, std::size_t bytes, bool vote) {
    bool committed = false;
    const auto tell = [](const void*, void* context) { return *static_cast<bool*>(context); };
    strict ? run(Collective::two_phase_commit(proposal, bytes, tell, &vote, &committed))
           : rank.two_phase_commit(proposal, bytes, tell, &vote, &committed);
    return committed;
  }

  /// By reference, as programs pass it: a copy reads in wide pieces what was just written in narrow ones, and waits for
  /// the stores before it, among them those to the peer's lines.
  Status run(const Collective& call) {
    if (!strict) return rank.run(call);
    Collective strictly = call;
    strictly.sync = Sync::strict;
    return rank.run(strictly);
  }
  Rank& rank;
  const bool strict;
};

bool is_strict(const WorkerSpec& spec) {
  return spec.name == "smelt/strict" || (spec.name != "smelt/loose" && spec.sync == "strict");
}

bool is_topology(const std::string& name) {
  const std::string plain = name.substr(0, name.find(':'));  // k-nomial:3
  for (const auto& topology : topologies()) {
    if (topology.name.substr(0, topology.name.find(':')) == plain) return true;
  }
  return false;
}

/// What follows the slash of a contestant's name: a topology, an algorithm of barriers, a fixed
/// algorithm of the operation, the late rank to plan for, or a way of synchronization, which is_strict() sees to.
CommunicatorOptions options_for(const WorkerSpec& spec) {
  CommunicatorOptions options;
  const auto slash = spec.name.find('/');
  const std::string variant = slash == std::string::npos ? "" : spec.name.substr(slash + 1);
  if (variant.empty() || variant == "loose" || variant == "strict") return options;
  if (variant == "late") {
    options.late_ns.assign(static_cast<std::size_t>(spec.threads), 0.0);
    if (spec.late_rank >= 0)
      options.late_ns[static_cast<std::size_t>(spec.late_rank)] = static_cast<double>(spec.late_ns);
    return options;
  }
  if (variant == "dissemination" || variant == "flat") {
    options.barrier = variant;
  } else if (is_topology(variant)) {
    options.topology = variant;
    options.barrier = "tree";
  } else {
    options.algorithm = variant;
  }
  return options;
}

/// On the given or the cached model; without one, on what the library assumes by itself.
Result<Communicator> make_communicator(const WorkerSpec& spec) {
  const auto options = options_for(spec);
  auto machine = spec.model.empty() ? load_cached_machine() : load_machine(spec.model);
  if (!machine && !spec.model.empty()) return machine.error();
  if (!machine) return Communicator::create(spec.threads, options);
  auto group = make_group(*machine, spec.pus);
  if (!group) return group.error();
  return Communicator::create(*machine, *group, options);
}

/// What the model predicts for what is timed. Between operations of a loop that would overlap there is a barrier.
std::optional<RankedRecipe> predict(const WorkerSpec& spec, const Communicator& communicator, Operation operation) {
  if (is_strict(spec) || spec.late_rank >= 0) return std::nullopt;
  const std::string method = spec.resolved_method();
  const auto predicted = method == "window"
                             ? communicator.predict(operation, spec.bytes)
                             : communicator.predict_loop(operation, spec.bytes, method == "loop+barrier");
  return predicted ? std::optional(*predicted) : std::nullopt;
}

/// Rank 0's report on the plan in use. Only short messages run along planned trees.
Introduction introduce(const WorkerSpec& spec, const Communicator& communicator) {
  Introduction introduction;
  const auto operation = parse_operation(spec.operation);
  if (!operation) return introduction;
  if (const auto predicted = predict(spec, communicator, *operation)) {
    introduction.facts.emplace_back("predicted_ns", fmt::format("{:.2f}", predicted->predicted_ns));
    if (!predicted->recipe.algorithm.empty()) introduction.facts.emplace_back("recipe", to_string(predicted->recipe));
  }
  const bool planned = runs_along_trees(spec.operation) && spec.bytes <= line_bytes;
  if (planned && !names_variant(spec.name, spec.operation)) {
    introduction.facts.emplace_back("plan", communicator.plan(*operation).topology);
  }
  return introduction;
}

int run_threads_of_smelt(const WorkerSpec& spec) {
  auto communicator = make_communicator(spec);
  if (!communicator) return fail_worker(communicator.error().message);
  auto control = Control::create(spec.threads);
  if (!control) return fail_worker(control.error().message);
  const Introduction introduction = introduce(spec, *communicator);
  bool good = true;
  auto ran = communicator->run([&](Rank& rank) {
    SmeltCollectives ops{rank, is_strict(spec)};
    const bool served = serve_collectives(Member{spec, *control, rank.rank()}, ops, introduction);
    if (rank.rank() == 0) good = served;
  });
  if (!ran) return fail_worker(ran.error().message);
  return good ? 0 : 1;
}

// ---------------------------------------------------------------- ranks that are processes

/// One process: its rank of the communicator that all of them make under the same name.
int serve_process(const WorkerSpec& spec, Control& control, int rank, const std::string& name,
                  const std::vector<int>& pids) {
  const int mine[] = {rank};
  auto communicator = Communicator::create_shared(name, spec.threads, mine, options_for(spec));
  if (!communicator) return fail_worker(communicator.error().message);
  auto place = communicator->attach(rank);
  if (!place) return fail_worker(place.error().message);
  Introduction introduction = rank == 0 ? introduce(spec, *communicator) : Introduction();
  introduction.pids = pids;
  SmeltCollectives ops{*place, is_strict(spec)};
  return serve_collectives(Member{spec, control, rank}, ops, introduction) ? 0 : 1;
}

/// This process is rank 0; the others are forked before anything here has threads, and see the same
/// Control. They die with this one.
int run_processes_of_smelt(const WorkerSpec& spec) {
  auto control = Control::create(spec.threads);
  if (!control) return fail_worker(control.error().message);
  const pid_t parent = getpid();
  const std::string name = fmt::format("smelt-bench-{}", parent);
  std::vector<int> pids = {parent};
  for (int rank = 1; rank < spec.threads; ++rank) {
    const pid_t child = fork();
    if (child < 0) return fail_worker("cannot start a process for each rank");
    if (child == 0) {
      prepare_worker_process();
      _exit(getppid() == parent ? serve_process(spec, *control, rank, name, {}) : 1);
    }
    pids.push_back(child);
  }
  const int status = serve_process(spec, *control, 0, name, pids);
  for (std::size_t r = 1; r < pids.size(); ++r) waitpid(pids[r], nullptr, 0);
  return status;
}

int run_collective(const WorkerSpec& spec) {
  return spec.processes ? run_processes_of_smelt(spec) : run_threads_of_smelt(spec);
}

}  // namespace

Result<std::vector<int>> team_pus(int threads) {
  auto machine = discover_machine();
  if (!machine) return machine.error();
  auto allowance = discover_allowance();
  if (!allowance) return allowance.error();
  auto group = default_group(*machine, *allowance, threads);
  if (!group) return group.error();
  std::vector<int> pus;
  for (int index : group->pus) pus.push_back(machine->pus[static_cast<std::size_t>(index)].os_index);
  return pus;
}

int run_smelt_worker(const std::vector<std::string>& arguments) {
  prepare_worker_process();
  auto spec = parse_worker_arguments(arguments);
  if (!spec) return fail_worker(spec.error().message);
  if (spec->name == floor_name) return run_floor(*spec);
  if (spec->name == flag_name) return run_flags(*spec);
  return spec->operation == "channel" ? run_channel(*spec) : run_collective(*spec);
}

}  // namespace smelt::bench
