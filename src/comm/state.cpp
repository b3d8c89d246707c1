#include "comm/state.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

#include "base/error.hpp"
#include "base/settings.hpp"
#include "comm/endpoint.hpp"
#include "machine/memory.hpp"
#include "smelt/settings.hpp"

namespace smelt::comm {
namespace {

constexpr Operation all_operations[] = {Operation::broadcast, Operation::reduce, Operation::barrier,
                                        Operation::allreduce, Operation::two_phase_commit};

/// Costs of a reduction seen as a broadcast running backwards: the parent "sends" for as long as it
/// receives from the child, the child "receives" for as long as it sends.
Machine mirror(const Machine& machine) {
  Machine mirrored = machine;
  const auto transpose = [&](const Matrix& from, Matrix& to) {
    for (std::size_t i = 0; i < from.size(); ++i) {
      for (std::size_t j = 0; j < from.size(); ++j) to(i, j) = from(j, i);
    }
  };
  transpose(machine.recv_ns, mirrored.send_ns);
  transpose(machine.send_ns, mirrored.recv_ns);
  if (machine.propagation_ns) transpose(*machine.propagation_ns, *mirrored.propagation_ns);
  return mirrored;
}

/// Binomial tree on rank numbers. Rank r's subtree is a run of ranks that starts at r, so that
/// combining own value, first child, second child, ... (ascending) keeps rank order.
///
///   0 -+- 1                      children stored descending:
///      +- 2 --- 3                combination runs through them backwards
///      +- 4 -+- 5
///            +- 6 --- 7
Tree rank_order_tree(int size) {
  Tree tree;
  tree.children.resize(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    auto& children = tree.children[static_cast<std::size_t>(rank)];
    for (int step = 1; rank + step < size && rank % (2 * step) == 0; step *= 2) {
      children.insert(children.begin(), rank + step);
    }
  }
  return tree;
}

void add_tree_pairs(const Tree& tree, std::set<std::pair<int, int>>& pairs) {
  for (int parent = 0; parent < tree.size(); ++parent) {
    for (int child : tree.children[static_cast<std::size_t>(parent)]) {
      pairs.insert({parent, child});
      pairs.insert({child, parent});
    }
  }
}

int distinct_pus(const Group& group) {
  return static_cast<int>(std::set<int>(group.pus.begin(), group.pus.end()).size());
}

}  // namespace

Result<Arena> Arena::map(std::size_t bytes, int numa_os_index) {
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) {
    return make_error(Status::out_of_memory, "communicator: mapping {} bytes for channels: {}", bytes,
                      std::strerror(errno));
  }
  Arena arena(static_cast<std::byte*>(base), bytes);
  if (numa_os_index >= 0) {
    // A model of another machine may name NUMA nodes that are not here; then the kernel chooses.
    auto bound = bind_to_numa_node(base, bytes, numa_os_index);
    if (!bound && bound.error().status != Status::not_found) return bound.error();
  }
  return arena;
}

Arena::~Arena() {
  if (base_ != nullptr) munmap(base_, bytes_);
}

State::State(const Machine& machine, const Group& group, const CommunicatorOptions& options)
    : machine(machine),
      group(group),
      options(options),
      mirrored_machine(mirror(machine)),
      progress(static_cast<std::size_t>(group.size())),
      flat_barrier(static_cast<std::uint32_t>(group.size())) {}

State::~State() = default;

Result<std::shared_ptr<State>> State::create(const Machine& machine, const Group& group,
                                             const CommunicatorOptions& options) {
  if (group.size() == 0) return Error{Status::invalid_argument, "communicator: the group is empty"};
  for (int pu : group.pus) {
    if (pu < 0 || static_cast<std::size_t>(pu) >= machine.size()) {
      return make_error(Status::invalid_argument,
                        "communicator: the group names PU index {}, but the machine has {} PUs", pu, machine.size());
    }
  }
  if (!machine.has_costs()) {
    return make_error(Status::invalid_argument,
                      "communicator: machine '{}' has no costs; measure it or load a measured model", machine.name);
  }
  std::shared_ptr<State> state(new State(machine, group, options));
  auto timeout =
      options.timeout_s >= 0.0 ? std::optional(options.timeout_s) : parse_seconds(setting_value("SMELT_TIMEOUT"));
  if (!timeout) {
    return make_error(Status::invalid_argument, "SMELT_TIMEOUT={}: not a number of seconds >= 0",
                      setting_value("SMELT_TIMEOUT"));
  }
  state->timeout_s = *timeout;
  if (auto planned = state->make_plans(); !planned) return planned.error();
  if (auto connected = state->make_channels(); !connected) return connected.error();
  return state;
}

Result<void> State::make_plans() {
  const auto& wanted = options.barrier;
  if (!wanted.empty() && wanted != "tree" && wanted != "dissemination" && wanted != "flat") {
    return make_error(Status::invalid_argument, "communicator: barrier '{}': must be tree, dissemination or flat",
                      wanted);
  }
  for (Operation operation : all_operations) {
    PlanOptions plan_options;
    plan_options.topology = options.topology;
    plan_options.search_ms = options.search_ms;
    const bool synchronizing = operation == Operation::barrier || operation == Operation::allreduce;
    if (options.topology == "dissemination" && !synchronizing) plan_options.topology = "best";
    if (operation == Operation::barrier && wanted == "dissemination") plan_options.topology = "dissemination";
    auto plan = make_plan(machine, group, operation, plan_options);
    if (plan && operation == Operation::barrier && wanted == "tree" && !plan->broadcast_tree) {
      plan = plan_from_tree(machine, group, operation, *plans[static_cast<int>(Operation::broadcast)].broadcast_tree);
    }
    if (!plan) return plan.error();
    plans[static_cast<int>(operation)] = std::move(*plan);
  }
  auto allowance = discover_allowance();
  if (!allowance) return allowance.error();
  parallelism = std::min(allowance->parallelism(), distinct_pus(group));
  const bool crowded = group.size() > parallelism;
  flat_barrier_used =
      group.size() > 1 && (wanted == "flat" || (wanted.empty() && options.topology == "best" && crowded));
  ordered_tree = rank_order_tree(group.size());
  return {};
}

std::vector<std::pair<int, int>> channel_pairs(const State& state) {
  std::set<std::pair<int, int>> pairs;
  for (const Plan& plan : state.plans) {
    if (plan.reduce_tree) add_tree_pairs(*plan.reduce_tree, pairs);
    if (plan.broadcast_tree) add_tree_pairs(*plan.broadcast_tree, pairs);
    for (int rank = 0; rank < state.group.size(); ++rank) {
      for (const Step& step : plan.steps[static_cast<std::size_t>(rank)]) {
        pairs.insert(step.kind == Step::Kind::send ? std::pair(rank, step.peer) : std::pair(step.peer, rank));
      }
    }
  }
  add_tree_pairs(state.ordered_tree, pairs);
  return {pairs.begin(), pairs.end()};
}

Result<void> State::make_channels() {
  const auto mode = options.wait.empty() ? setting_value("SMELT_WAIT") : options.wait;
  if (!parse_wait_mode(mode)) {
    return make_error(Status::invalid_argument, "communicator: wait mode '{}': must be spin, yield, sleep or auto",
                      mode);
  }
  const WaitConfig wait = make_wait_config(group.size(), parallelism, mode);
  for (int rank = 0; rank < group.size(); ++rank) endpoints.push_back(std::make_unique<Endpoint>(*this, rank, wait));

  // Memory lies on the receiver's NUMA node: it polls, the sender only passes by.
  const auto pairs = channel_pairs(*this);
  const auto stride = (channel::ump_bytes(channel_lines) + separation_bytes - 1) / separation_bytes * separation_bytes;
  const auto numa_of = [&](int rank) {
    return machine.pus[static_cast<std::size_t>(group.pus[static_cast<std::size_t>(rank)])].numa_node;
  };
  std::map<int, std::size_t> bytes_on;
  for (const auto& [sender, receiver] : pairs) bytes_on[numa_of(receiver)] += stride;
  std::map<int, std::byte*> next_on;
  for (const auto& [numa, bytes] : bytes_on) {
    const auto index = static_cast<std::size_t>(numa);
    const int os_index =
        machine.numa_nodes.size() > 1 && index < machine.numa_nodes.size() ? machine.numa_nodes[index].os_index : -1;
    auto arena = Arena::map(bytes, os_index);
    if (!arena) return arena.error();
    next_on[numa] = arena->at(0);
    arenas_.push_back(std::move(*arena));
  }

  std::map<std::pair<int, int>, std::byte*> memory;
  for (const auto& pair : pairs) {
    auto& next = next_on[numa_of(pair.second)];
    memory[pair] = next;
    next += stride;
  }
  const auto find = [&](int sender, int receiver) {
    const auto found = memory.find({sender, receiver});
    return found == memory.end() ? nullptr : found->second;
  };
  for (int rank = 0; rank < group.size(); ++rank) {
    auto& endpoint = *endpoints[static_cast<std::size_t>(rank)];
    std::set<int> peers;
    for (const auto& [sender, receiver] : pairs) {
      if (sender == rank) peers.insert(receiver);
      if (receiver == rank) peers.insert(sender);
    }
    for (int peer : peers) endpoint.add_link(peer, find(rank, peer), find(peer, rank));
    endpoint.compile();
  }
  return {};
}

void State::fail(Status status, const std::string& message) noexcept {
  const std::lock_guard lock(failure_mutex_);
  if (status_.load(std::memory_order_relaxed) != 0) return;
  failure_ = message;
  // Pairs with the acquire in status(): who sees the status can read what it left behind.
  status_.store(static_cast<int>(status), std::memory_order_release);
}

std::string State::failure() const {
  const std::lock_guard lock(failure_mutex_);
  return failure_;
}

std::string State::describe_late_rank(int waiting_rank, int peer) const {
  std::vector<std::uint64_t> positions;
  for (const Progress& each : progress) positions.push_back(each.position.load(std::memory_order_relaxed));
  const auto least = std::min_element(positions.begin(), positions.end(),
                                      [](auto a, auto b) { return Progress::calls(a) < Progress::calls(b); });
  const auto mine = positions[static_cast<std::size_t>(waiting_rank)];
  auto late = static_cast<int>(least - positions.begin());
  // All have entered this call: then it is the peer that does not go on inside it.
  if (Progress::calls(*least) == Progress::calls(mine) && peer >= 0) late = peer;
  const auto theirs = positions[static_cast<std::size_t>(late)];
  const auto behind = Progress::calls(mine) - Progress::calls(theirs);
  const auto pu = machine.pus[static_cast<std::size_t>(group.pus[static_cast<std::size_t>(late)])].os_index;
  const std::string last = Progress::calls(theirs) == 0
                               ? "it has not entered any collective"
                               : fmt::format("the last one it entered was {} (call {})",
                                             to_string(Progress::operation(theirs)), Progress::calls(theirs));
  return fmt::format("rank {} (PU {}) did not arrive at {} (call {}) within {} s: it is {} call{} behind rank {}; {}",
                     late, pu, to_string(Progress::operation(mine)), Progress::calls(mine), timeout_s, behind,
                     behind == 1 ? "" : "s", waiting_rank, last);
}

Result<std::shared_ptr<State>> State::subgroup(const std::vector<int>& members, int call) {
  const std::lock_guard lock(subgroups_mutex_);
  const auto key = std::pair(members, call);
  auto found = subgroups_.find(key);
  if (found == subgroups_.end()) {
    Group part;
    for (int rank : members) part.pus.push_back(group.pus[static_cast<std::size_t>(rank)]);
    auto created = create(machine, part, options);
    if (!created) return created.error();
    found = subgroups_.emplace(key, Pending{std::move(*created), 0}).first;
  }
  auto state = found->second.state;
  if (++found->second.joined == members.size()) subgroups_.erase(found);
  return state;
}

}  // namespace smelt::comm
