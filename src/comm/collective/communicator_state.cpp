#include "comm/collective/communicator_state.hpp"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <set>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/settings.hpp"
#include "channel/line.hpp"
#include "comm/collective/endpoint.hpp"
#include "comm/collective/profile_lookup.hpp"
#include "machine/topology/memory.hpp"
#include "plan/candidates.hpp"
#include "plan/schedule/schedule_internal.hpp"
#include "plan/simulator/counted_barrier.hpp"
#include "plan/simulator/simulate_schedule.hpp"
#include "smelt/settings.hpp"

namespace smelt::comm {
namespace {

constexpr Operation all_operations[] = {Operation::broadcast, Operation::reduce, Operation::barrier,
                                        Operation::allreduce, Operation::two_phase_commit};

/// Costs of a reduction as a reversed broadcast: the parent "sends" for as long as it receives from the child, and the
/// child "receives" for as long as it sends.
Machine mirror(const Machine& machine) {
  Machine mirrored = machine;
  mirrored.send_ns = machine.recv_ns.transposed();
  mirrored.recv_ns = machine.send_ns.transposed();
  if (machine.propagation_ns) mirrored.propagation_ns = machine.propagation_ns->transposed();
  mirrored.send_gap_ns.reset();
  mirrored.recv_gap_ns.reset();
  if (machine.recv_gap_ns) mirrored.send_gap_ns = machine.recv_gap_ns->transposed();
  if (machine.send_gap_ns) mirrored.recv_gap_ns = machine.send_gap_ns->transposed();
  return mirrored;
}

/// Binomial tree on rank numbers. The subtree of rank r is a range of ranks that starts at r, so combining the own
/// value with the children in ascending order keeps rank order.
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

int distinct_pus(const Group& group) {
  return static_cast<int>(std::set<int>(group.pus.begin(), group.pus.end()).size());
}

}  // namespace

CommunicatorState::CommunicatorState(const Machine& machine, const Group& group, const CommunicatorOptions& options)
    : machine(machine), group(group), options(options), mirrored_machine(mirror(machine)) {}

CommunicatorState::~CommunicatorState() {
  // Endpoints first, since they access the shared memory. After leaving, no rank relies on the ranks of this process.
  endpoints.clear();
  if (processes_) {
    for (int rank : own_ranks_) members_->leave(rank);
  }
}

Result<double> CommunicatorState::timeout_of(const CommunicatorOptions& options) {
  if (std::isnan(options.timeout_s)) return Error{Status::invalid_argument, "communicator: timeout_s: not a number"};
  if (options.timeout_s >= 0.0) return options.timeout_s;
  if (auto timeout = parse_seconds(setting_value("SMELT_TIMEOUT"))) return *timeout;
  return make_error(Status::invalid_argument, "SMELT_TIMEOUT={}: not a number of seconds from 0 to 1e9",
                    setting_value("SMELT_TIMEOUT"));
}

Result<std::shared_ptr<CommunicatorState>> CommunicatorState::planned(const Machine& machine, const Group& group,
                                                                      const CommunicatorOptions& options) {
  if (group.size() == 0) return Error{Status::invalid_argument, "communicator: the group is empty"};
  for (int pu : group.pus) {
    if (pu < 0 || static_cast<std::size_t>(pu) >= machine.size()) {
      return make_error(Status::invalid_argument,
                        "communicator: the group names PU index {}, but the machine has {} PUs", pu, machine.size());
    }
  }
  if (group.size() > Membership::most_ranks) {
    return make_error(Status::invalid_argument, "communicator: {} ranks; at most {} are possible", group.size(),
                      Membership::most_ranks);
  }
  if (!machine.has_costs()) {
    return make_error(Status::invalid_argument,
                      "communicator: machine '{}' has no costs; measure it or load a measured model", machine.name);
  }
  std::shared_ptr<CommunicatorState> state(new CommunicatorState(machine, group, options));
  auto timeout = timeout_of(options);
  if (!timeout) return timeout.error();
  state->timeout_s = *timeout;
  if (auto made = state->make_plans(); !made) return made.error();
  return state;
}

Result<std::shared_ptr<CommunicatorState>> CommunicatorState::create(const Machine& machine, const Group& group,
                                                                     const CommunicatorOptions& options) {
  auto made = planned(machine, group, options);
  if (!made) return made.error();
  auto state = std::move(*made);
  const auto members_bytes = (Membership::bytes(group.size()) + 4095) / 4096 * 4096;
  auto segment = Segment::anonymous(SharedLayout::bytes(group.size()) + members_bytes);
  if (!segment) return segment.error();
  state->segment_ = std::move(*segment);
  state->layout = SharedLayout(state->segment_.data(), group.size());
  place_memory(machine, group, state->layout, bind_to_numa_node);
  state->members_.emplace(state->segment_.data() + SharedLayout::bytes(group.size()), group.size());
  for (int rank = 0; rank < group.size(); ++rank) {
    if (auto joined = state->members_->join(rank); !joined) return joined.error();
    state->own_ranks_.push_back(rank);
  }
  if (auto ready = state->make_endpoints(state->own_ranks_); !ready) return ready.error();
  return state;
}

Result<void> CommunicatorState::make_plans() {
  auto tuned = profile_for(machine, group, options);
  if (!tuned) return tuned.error();
  profile = std::move(*tuned);
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
  if (auto done = plan_for_late_ranks(); !done) return done.error();
  auto allowance = discover_allowance();
  if (!allowance) return allowance.error();
  // Bound ranks have PUs that this process may not use. The quota applies to all of them together.
  if (!options.pus.empty()) allowance->pus.assign(group.pus.begin(), group.pus.end());
  parallelism = std::min(allowance->parallelism(), distinct_pus(group));
  complete_plans();
  return {};
}

/// Trees in which late ranks are leaves, so that only one message is left to send when they arrive. Used if they are
/// faster on the model.
Result<void> CommunicatorState::plan_for_late_ranks() {
  if (options.late_ns.empty()) return {};
  const auto ranks = static_cast<std::size_t>(group.size());
  const bool sensible = std::all_of(options.late_ns.begin(), options.late_ns.end(),
                                    [](double late) { return late >= 0.0 && std::isfinite(late); });
  if (options.late_ns.size() != ranks || !sensible) {
    return make_error(Status::invalid_argument, "communicator: late_ns: {} numbers for {} ranks, or one below 0",
                      options.late_ns.size(), ranks);
  }
  for (const Operation operation : {Operation::broadcast, Operation::reduce}) {
    const bool down = operation == Operation::broadcast;
    Plan& plan = plans[static_cast<int>(operation)];
    Tree tree = down ? *plan.broadcast_tree : *plan.reduce_tree;
    tree = plan::tree_for_late_ranks(machine, group, operation, tree, options.late_ns);
    plan::Problem problem(machine, group, operation);
    plan::Solution solution{"late", down ? std::nullopt : std::optional(tree),
                            down ? std::optional(tree) : std::nullopt, 0.0};
    auto made = plan::make_plan_of(problem, group, std::move(solution), false);
    if (!made) return made.error();
    plan = std::move(*made);
    plan.reason = "planned for ranks that enter late";
  }
  return {};
}

/// Derives what depends on plans and parallelism.
void CommunicatorState::complete_plans() {
  const auto& wanted = options.barrier;
  const bool crowded = group.size() > parallelism;
  // On a shared PU each message of a tree costs a context switch. Plans do not model that; the choices for single
  // operations do.
  commits_in_parts = options.topology == "best" && crowded;
  flat_barrier_used =
      group.size() > 1 && (wanted == "flat" || (wanted.empty() && options.topology == "best" && crowded));
  ordered_tree = rank_order_tree(group.size());
}

/// The parts of an operation that consists of others, as Endpoint runs them.
Result<RankedRecipe> CommunicatorState::predict(Operation operation, std::size_t bytes) const {
  if (auto checked = plan::check_simulation(machine, group, {}); !checked) return checked.error();
  if (operation == Operation::barrier && flat_barrier_used) {
    return RankedRecipe{{}, plan::counted_barrier_ns(machine, group, processes_)};
  }
  if (operation == Operation::two_phase_commit && (commits_in_parts || bytes > channel::line_payload)) {
    const auto proposal = predict(Operation::broadcast, bytes);
    const auto votes = predict(Operation::allreduce, 1);
    if (!proposal) return proposal;
    if (!votes) return votes;
    return RankedRecipe{{}, proposal->predicted_ns + votes->predicted_ns};
  }
  if (operation == Operation::barrier || operation == Operation::two_phase_commit) {
    return RankedRecipe{{}, plans[static_cast<std::size_t>(operation)].predicted_ns};
  }
  Collective call;
  call.operation = operation;
  call.count = bytes;
  call.element_bytes = 1;
  const SelectedRecipe* const choice = selector->choose(call);
  if (choice == nullptr) return make_error(Status::out_of_memory, "predict: out of memory");
  auto request = plan::make_request(machine, group, choice->recipe, 0, selector->trees());
  if (!request) return request.error();
  auto times = simulate(machine, group, *request, bytes, 1, selector->config().reach, options.late_ns);
  if (!times) return times.error();
  return RankedRecipe{choice->recipe, times->total_ns};
}

/// Time from call to call of ranks that take turns on their PUs.
Result<RankedRecipe> CommunicatorState::predict_loop(Operation operation, std::size_t bytes, bool barriers) const {
  auto predicted = predict(operation, bytes);
  if (!predicted) return predicted;
  const bool commits = operation == Operation::two_phase_commit;
  if (!flat_barrier_used || !crowded() || (commits && !commits_in_parts) || !options.late_ns.empty()) {
    const Result<RankedRecipe> barrier = barriers ? predict(Operation::barrier, 0) : RankedRecipe();
    if (!barrier) return barrier;
    predicted->predicted_ns += barrier->predicted_ns;
    if (!predicted->recipe.algorithm.empty()) {
      const auto more_ns = inputs_ns(predicted->recipe, bytes);
      if (!more_ns) return more_ns.error();
      predicted->predicted_ns += *more_ns;
    }
    return predicted;
  }
  plan::ScheduleSimulator simulator(machine, group, selector->config().reach);
  const auto barrier_ns = simulator.run_barriers();
  if (!barrier_ns) return barrier_ns.error();
  if (operation == Operation::barrier) return RankedRecipe{{}, (barriers ? 2 : 1) * *barrier_ns};
  if (commits) {
    // The votes are waited for by all ranks, as a barrier is.
    const auto proposal = predict_loop(Operation::broadcast, bytes, true);
    const auto votes = predict_loop(Operation::allreduce, 1, barriers);
    if (!proposal) return proposal;
    if (!votes) return votes;
    return RankedRecipe{{}, proposal->predicted_ns - *barrier_ns + votes->predicted_ns};
  }
  const auto request = plan::make_request(machine, group, predicted->recipe, 0, selector->trees());
  if (!request) return request.error();
  const auto period_ns = simulator.run_loop(*request, bytes, 1, barriers);
  if (!period_ns) return period_ns.error();
  return RankedRecipe{predicted->recipe, *period_ns + simulator.inputs_ns(*request, bytes, 1)};
}

/// What it costs to write the inputs of the next call.
Result<double> CommunicatorState::inputs_ns(const Recipe& recipe, std::size_t bytes) const {
  const auto request = plan::make_request(machine, group, recipe, 0, selector->trees());
  if (!request) return request.error();
  return plan::ScheduleSimulator(machine, group, selector->config().reach).inputs_ns(*request, bytes, 1);
}

bool CommunicatorState::crowded() const {
  return std::set<int>(group.pus.begin(), group.pus.end()).size() < group.pus.size();
}

void place_memory(const Machine& machine, const Group& group, const SharedLayout& layout, Placement bind) {
  if (machine.numa_nodes.size() < 2) return;
  for (int rank = 0; rank < group.size(); ++rank) {
    const auto& pu = machine.pus[static_cast<std::size_t>(group.pus[static_cast<std::size_t>(rank)])];
    const auto node = static_cast<std::size_t>(pu.numa_node);
    if (node >= machine.numa_nodes.size()) continue;
    // A model of another machine may name NUMA nodes that do not exist here. Then the kernel chooses.
    (void)bind(layout.part(rank), layout.part_bytes(), machine.numa_nodes[node].os_index);
  }
}

Result<void> CommunicatorState::make_endpoints(std::span<const int> ranks) {
  const auto mode = options.wait.empty() ? setting_value("SMELT_WAIT") : options.wait;
  if (!parse_wait_mode(mode)) {
    return make_error(Status::invalid_argument, "communicator: {}'{}': must be spin, yield, sleep or auto",
                      options.wait.empty() ? "SMELT_WAIT=" : "wait mode ", mode);
  }
  RecipeSelector::SelectorConfig config{.machine = &machine, .group = &group, .plans = plans};
  config.late_ns = options.late_ns;
  config.reach = {StagingRing::most_chunk_bytes, StagingRing::bytes / StagingRing::most_chunk_bytes, processes_};
  config.direct = layout.control().no_direct.load(std::memory_order_relaxed) == 0;
  if (!options.algorithm.empty()) {
    auto recipe = parse_recipe(options.algorithm);
    if (!recipe) return recipe.error();
    auto request = make_request(machine, group, *recipe);
    if (!request) return request.error();
    config.fixed = *recipe;
  }
  config.profile = std::move(profile);
  selector = std::make_unique<RecipeSelector>(std::move(config));
  WaitConfig wait = make_wait_config(group.size(), parallelism, mode, processes_);
  // With long messages ranks wait for milliseconds. A rank that sleeps meanwhile halts its PU, and resumes late and
  // with cold caches.
  constexpr std::uint64_t awake_ns = 10'000'000;
  if (wait.ranks_per_pu <= 1.0) {
    wait.awake_ns = awake_ns;
  } else {
    wait.wait_began = &layout.control().wait_began;
  }
  constexpr std::uint64_t idle_every_ns = 200'000;
  if (options.idle != nullptr || options.poll != nullptr) wait.longest_sleep_ns = idle_every_ns;
  endpoints.resize(static_cast<std::size_t>(group.size()));
  for (int rank : ranks) {
    endpoints[static_cast<std::size_t>(rank)] = std::make_unique<Endpoint>(*this, rank, wait);
    endpoints[static_cast<std::size_t>(rank)]->compile();
  }
  return {};
}

/// Threads record their own end. The agreement needs a failure detector, which watches no process here.
FailureDetector* CommunicatorState::own_detector() {
  const std::lock_guard lock(subgroups_mutex_);
  if (!idle_detector_) idle_detector_.emplace(*members_);
  return &*idle_detector_;
}

void CommunicatorState::fail(Status status, const std::string& message, std::uint64_t last_call) noexcept {
  ControlBlock& control = layout.control();
  // Before the status, which publishes it. Also if the communicator is broken already: fewer calls may be left.
  auto lost = control.calls_lost.load(std::memory_order_relaxed);
  while (lost < ~last_call && !control.calls_lost.compare_exchange_weak(lost, ~last_call, std::memory_order_relaxed)) {}
  if (control.failing.exchange(1, std::memory_order_relaxed) != 0) {
    // Another thread is writing the message. No thread returns before the status is set, even if that one is killed.
    const auto until = monotonic_ns() + 100'000'000;
    while (this->status() == Status::ok && monotonic_ns() < until) sched_yield();
    int working = static_cast<int>(Status::ok);
    control.status.compare_exchange_strong(working, static_cast<int>(status), std::memory_order_release,
                                           std::memory_order_relaxed);
    return;
  }
  const auto length = std::min(message.size(), ControlBlock::text_bytes - 1);
  std::memcpy(control.failure, message.data(), length);
  control.failure[length] = '\0';
  // Pairs with the acquire in status(): a thread that sees the status can read the message.
  control.status.store(static_cast<int>(status), std::memory_order_release);
}

std::uint32_t CommunicatorState::departure(int rank, int own) const noexcept {
  if (const auto left = members_->departure(rank, members_->attendance(own)); left != 0) return left;
  const std::uint32_t theirs = members_->attendance(rank);
  if (theirs % 2 != 0) return 0;
  // `own` may have been passed between threads, so attendances cannot be compared. But the rank was attached if it has
  // entered the collective that `own` is in.
  const auto calls = Progress::calls(layout.progress(rank).position.load(std::memory_order_relaxed));
  if (theirs != 0) return calls > endpoints[static_cast<std::size_t>(own)]->calls_before() ? theirs : 0;
  if (!parent_) return 0;
  const auto whole = parent_->whole.lock();
  const int number = parent_->members[static_cast<std::size_t>(rank)];
  const bool gone = whole == nullptr || whole->members_->departure(number, parent_->attendance) != 0 ||
                    !whole->members_->present(number);
  // A rank attaches to the subgroup before it leaves the parent. The departure from the parent has been acquired, so a
  // rank that is not attached will not come.
  return gone && members_->attendance(rank) == 0 ? Membership::for_good : 0;
}

void CommunicatorState::fail_after_departure(int rank, std::uint64_t last_call) noexcept {
  fail(Status::broken, fmt::format("rank {} has left", rank), last_call);
}

void CommunicatorState::close() noexcept {
  // Sequentially consistent, as in given_up(): if a rank detaches at the same time, at least one of both sees the
  // other.
  closed_.store(true);
  for (const int rank : own_ranks_) {
    if (!endpoints[static_cast<std::size_t>(rank)]->attached.load()) members_->leave(rank);
  }
}

void CommunicatorState::given_up(int rank) noexcept {
  // Also a release: pairs with the exchange in Communicator::attach() and publishes the endpoint's private state to the
  // next thread.
  endpoints[static_cast<std::size_t>(rank)]->attached.store(false);
  if (closed_.load()) members_->leave(rank);
}

std::string CommunicatorState::failure() const {
  return status() == Status::ok ? std::string() : layout.control().failure;
}

std::string CommunicatorState::describe_late_rank(int waiting_rank, int peer) const {
  std::vector<std::uint64_t> positions;
  for (int rank = 0; rank < group.size(); ++rank) {
    positions.push_back(layout.progress(rank).position.load(std::memory_order_relaxed));
  }
  const auto least = std::min_element(positions.begin(), positions.end(),
                                      [](auto a, auto b) { return Progress::calls(a) < Progress::calls(b); });
  const auto mine = positions[static_cast<std::size_t>(waiting_rank)];
  auto late = static_cast<int>(least - positions.begin());
  // All ranks have entered this call, so the peer is the one that does not progress in it.
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

Group CommunicatorState::part_of(std::span<const int> members) const {
  Group part;
  for (int rank : members) part.pus.push_back(group.pus[static_cast<std::size_t>(rank)]);
  return part;
}

CommunicatorOptions CommunicatorState::options_for(std::span<const int> members) const {
  CommunicatorOptions result = options;
  if (!options.late_ns.empty()) {
    result.late_ns.clear();
    for (int rank : members) result.late_ns.push_back(options.late_ns[static_cast<std::size_t>(rank)]);
  }
  if (!options.algorithm.empty()) {
    auto recipe = parse_recipe(options.algorithm);
    if (!recipe || !make_request(machine, part_of(members), *recipe)) result.algorithm.clear();
  }
  return result;
}

Result<std::shared_ptr<CommunicatorState>> CommunicatorState::subgroup(const std::vector<int>& members, int call,
                                                                       int new_rank) {
  if (processes_) {
    std::string purpose = fmt::format("group{}", call);
    if (members.size() <= 24) {
      for (int member : members) purpose += fmt::format("-{}", member);
    } else {
      std::uint64_t hash = 14695981039346656037u;  // FNV-1a
      for (int member : members) hash = (hash ^ static_cast<std::uint64_t>(member)) * 1099511628211u;
      purpose += fmt::format("-{}-{:016x}", members.size(), hash);
    }
    return split(purpose, members, new_rank);
  }
  const std::lock_guard lock(subgroups_mutex_);
  const auto key = std::pair(members, call);
  auto found = subgroups_.find(key);
  if (found == subgroups_.end()) {
    auto created = create(machine, part_of(members), options_for(members));
    if (!created) return created.error();
    const int own = members[static_cast<std::size_t>(new_rank)];
    (*created)->parent_ = ParentCommunicator{weak_from_this(), members, members_->attendance(own)};
    found = subgroups_.emplace(key, PendingSubgroup{std::move(*created), 0}).first;
  }
  auto state = found->second.state;
  if (++found->second.joined == members.size()) subgroups_.erase(found);
  return state;
}

}  // namespace smelt::comm
