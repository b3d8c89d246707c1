#include "smelt/communicator.hpp"

#include <algorithm>
#include <exception>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "comm/collective/communicator_state.hpp"
#include "comm/collective/endpoint.hpp"
#include "comm/collective/profile_lookup.hpp"
#include "comm/group/default_model.hpp"
#include "machine/topology/affinity.hpp"

namespace smelt {
namespace {

Result<void> check_ranks(std::span<const int> ranks, int size, const char* call) {
  std::set<int> seen;
  if (ranks.empty()) return make_error(Status::invalid_argument, "{}: the list of ranks is empty", call);
  for (int rank : ranks) {
    if (rank < 0 || rank >= size) {
      return make_error(Status::invalid_argument, "{}: rank {} is not in 0..{}", call, rank, size - 1);
    }
    if (!seen.insert(rank).second) {
      return make_error(Status::invalid_argument, "{}: rank {} is named twice", call, rank);
    }
  }
  return {};
}

}  // namespace

Rank::Rank(std::shared_ptr<comm::CommunicatorState> state, int rank)
    : state_(std::move(state)), endpoint_(state_->endpoints[static_cast<std::size_t>(rank)].get()) {}

/// A rank that the calling thread attaches to immediately.
Rank::Rank(std::shared_ptr<comm::CommunicatorState> state, int rank, Attached) : Rank(std::move(state), rank) {
  endpoint_->attached.store(true, std::memory_order_relaxed);
  endpoint_->come();
  if (!state_->options.any_thread) endpoint_->guard = comm::ThreadExitGuard(state_->members(), rank, state_);
}

Rank::Rank(Rank&& other) noexcept
    : state_(std::move(other.state_)), endpoint_(std::exchange(other.endpoint_, nullptr)) {}

Rank& Rank::operator=(Rank&& other) noexcept {
  std::swap(state_, other.state_);
  std::swap(endpoint_, other.endpoint_);
  return *this;
}

Rank::~Rank() {
  if (endpoint_ == nullptr) return;
  endpoint_->guard.release();
  endpoint_->leave();
}

int Rank::rank() const noexcept { return endpoint_->rank(); }
int Rank::size() const noexcept { return state_->group.size(); }
std::string Rank::failure() const { return state_->failure(); }

Status Rank::run(const Collective& call) noexcept { return endpoint_->run(call); }

Status Rank::barrier() noexcept { return endpoint_->run_barrier(); }

Status Rank::broadcast(void* data, std::size_t bytes, int root) noexcept {
  return endpoint_->run_broadcast(data, bytes, root);
}

Status Rank::reduce(const void* in, void* result, std::size_t count, const Reduction& op, int root) noexcept {
  return endpoint_->run_reduce(in, result, count, op, root);
}

Status Rank::allreduce(const void* in, void* result, std::size_t count, const Reduction& op) noexcept {
  return endpoint_->run_allreduce(in, result, count, op);
}

Status Rank::two_phase_commit(void* proposal, std::size_t bytes, bool (*vote)(const void*, void*), void* context,
                              bool* committed, int root) noexcept {
  return run(Collective::two_phase_commit(proposal, bytes, vote, context, committed, root));
}

Request Rank::prepare(const Collective& call) {
  auto started = std::make_unique<comm::StartedCollective>();
  started->call = call;
  started->endpoint = endpoint_;
  started->done = true;
  started->status = comm::check(call, size(), rank());
  return Request(state_, std::move(started));
}

Request Rank::start(const Collective& call) {
  Request request = prepare(call);
  request.start();
  return request;
}

Request::Request(std::shared_ptr<comm::CommunicatorState> state, std::unique_ptr<comm::StartedCollective> started)
    : state_(std::move(state)), started_(std::move(started)) {}
Request::Request(Request&&) noexcept = default;

Request& Request::operator=(Request&& other) noexcept {
  std::swap(state_, other.state_);
  std::swap(started_, other.started_);
  return *this;
}

Request::~Request() {
  if (started_ != nullptr) wait();
}

Status Request::start() noexcept {
  if (!started_->done) return Status::invalid_argument;
  auto& endpoint = *started_->endpoint;
  if (const Status status = comm::check(started_->call, endpoint.size(), endpoint.rank()); status != Status::ok) {
    return started_->status = status;
  }
  if (!endpoint.startable(*started_)) return started_->status = Status::not_supported;
  endpoint.start(*started_);
  return Status::ok;
}

Status Request::test(bool* done) noexcept {
  if (!started_->done) started_->endpoint->progress_started();
  *done = started_->done;
  return started_->done ? started_->status : Status::ok;
}

Status Request::wait() noexcept { return started_->done ? started_->status : started_->endpoint->finish(*started_); }

Status Request::run(const void* in, void* out) noexcept {
  return started_->done ? started_->endpoint->run_prepared(*started_, in, out) : Status::invalid_argument;
}

Result<Rank> Rank::subgroup(std::span<const int> members) {
  if (auto checked = check_ranks(members, size(), "subgroup"); !checked) return checked.error();
  const std::vector<int> key(members.begin(), members.end());
  const auto self = std::find(key.begin(), key.end(), rank());
  if (self == key.end()) {
    return make_error(Status::invalid_argument, "subgroup: the calling rank {} is not among its members", rank());
  }
  auto state = state_->subgroup(key, endpoint_->subgroup_calls[key]++, static_cast<int>(self - key.begin()));
  if (!state) return state.error();
  return Rank(std::move(*state), static_cast<int>(self - key.begin()), Attached{});
}

Result<Rank> Rank::shrink() {
  int new_rank = 0;
  auto state = state_->shrunk(rank(), &new_rank);
  if (!state) return state.error();
  return Rank(std::move(*state), new_rank, Attached{});
}

Communicator::Communicator(std::shared_ptr<comm::CommunicatorState> state) : state_(std::move(state)) {}
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&& other) noexcept {
  if (this == &other) return *this;
  if (state_ != nullptr) state_->close();
  state_ = std::move(other.state_);
  return *this;
}
Communicator::~Communicator() {
  if (state_ != nullptr) state_->close();
}

Result<Communicator> Communicator::create(const Machine& machine, const Group& group,
                                          const CommunicatorOptions& options) {
  auto state = comm::CommunicatorState::create(machine, group, options);
  if (!state) return state.error();
  Communicator communicator(std::move(*state));
  if (comm::wants_revalidation(options)) {
    const auto ran = comm::revalidate_new(communicator);
    if (!ran) return ran.error();
  }
  return communicator;
}

Result<Communicator> Communicator::create(int ranks, const CommunicatorOptions& options) {
  auto machine = comm::default_model();
  if (!machine) return machine.error();
  auto allowance = discover_allowance();
  if (!allowance) return allowance.error();
  auto group = default_group(*machine, *allowance, ranks);
  if (!group) return group.error();
  return create(*machine, *group, options);
}

Result<Communicator> Communicator::create_shared(const std::string& name, int size, std::span<const int> ranks,
                                                 const CommunicatorOptions& options) {
  if (name.empty()) return make_error(Status::invalid_argument, "create_shared: the name is empty");
  auto state = comm::CommunicatorState::create_shared(name, -1, size, ranks, options);
  if (!state) return state.error();
  return Communicator(std::move(*state));
}

Result<Communicator> Communicator::create_shared(int fd, int size, std::span<const int> ranks,
                                                 const CommunicatorOptions& options) {
  auto state = comm::CommunicatorState::create_shared("", fd, size, ranks, options);
  if (!state) return state.error();
  return Communicator(std::move(*state));
}

int Communicator::size() const noexcept { return state_->group.size(); }
const Group& Communicator::group() const noexcept { return state_->group; }
const Machine& Communicator::machine() const noexcept { return state_->machine; }

const Plan& Communicator::plan(Operation operation) const noexcept {
  return state_->plans[static_cast<std::size_t>(operation)];
}

Result<RankedRecipe> Communicator::predict(Operation operation, std::size_t bytes) const {
  return state_->predict(operation, bytes);
}

Result<RankedRecipe> Communicator::predict_loop(Operation operation, std::size_t bytes, bool barriers) const {
  return state_->predict_loop(operation, bytes, barriers);
}

Result<Rank> Communicator::attach(int rank) {
  if (rank < 0 || rank >= size()) {
    return make_error(Status::invalid_argument, "attach: rank {} is not in 0..{}", rank, size() - 1);
  }
  if (state_->endpoints[static_cast<std::size_t>(rank)] == nullptr) {
    return make_error(Status::invalid_argument, "attach: rank {} belongs to another process", rank);
  }
  auto& endpoint = *state_->endpoints[static_cast<std::size_t>(rank)];
  // Acquire pairs with the release in ~Rank, which publishes the endpoint's private state.
  if (endpoint.attached.exchange(true, std::memory_order_acquire)) {
    return make_error(Status::invalid_argument, "attach: rank {} is attached already", rank);
  }
  return attach_taken(rank);
}

Result<Rank> Communicator::attach_taken(int rank) {
  if (state_->options.pin) {
    const int pu = state_->machine.pus[static_cast<std::size_t>(group().pus[static_cast<std::size_t>(rank)])].os_index;
    if (auto pinned = pin_this_thread(pu); !pinned) {
      release(std::span(&rank, 1));
      return pinned.error();
    }
  }
  return Rank(state_, rank, Rank::Attached{});
}

void Communicator::release(std::span<const int> ranks) noexcept {
  for (const int rank : ranks) {
    state_->endpoints[static_cast<std::size_t>(rank)]->attached.store(false, std::memory_order_release);
  }
}

Result<void> Communicator::take_own_ranks() {
  const auto ranks = state_->own_ranks();
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    // Acquire as in attach(). The threads that attach are started after this.
    auto& attached = state_->endpoints[static_cast<std::size_t>(ranks[i])]->attached;
    if (!attached.exchange(true, std::memory_order_acquire)) continue;
    release(ranks.first(i));
    return make_error(Status::invalid_argument,
                      "run: rank {} is attached already, by another run() or by attach(); wait until it has left",
                      ranks[i]);
  }
  return {};
}

Result<Communicator> Communicator::subset(std::span<const int> ranks) const {
  if (auto checked = check_ranks(ranks, size(), "subset"); !checked) return checked.error();
  if (state_->own_ranks().size() != static_cast<std::size_t>(size())) {
    return make_error(Status::not_supported, "subset: some ranks belong to other processes; use Rank::subgroup");
  }
  return create(state_->machine, state_->part_of(ranks), state_->options_for(ranks));
}

Result<void> Communicator::run(const std::function<void(Rank&)>& f) {
  if (auto taken = take_own_ranks(); !taken) return taken.error();
  const SavedAffinity callers_affinity;
  std::mutex first_error_mutex;
  Error first_error;
  const auto give_up = [&](Error error) {
    state_->fail(Status::broken, error.message);
    const std::lock_guard lock(first_error_mutex);
    if (first_error.status == Status::ok) first_error = std::move(error);
  };
  const auto work = [&](int rank) {
    auto attached = attach_taken(rank);
    if (!attached) return give_up(attached.error());
    try {
      f(*attached);
    } catch (const std::exception& thrown) {
      give_up(make_error(Status::broken, "run: rank {} threw: {}", rank, thrown.what()));
    } catch (...) {
      give_up(make_error(Status::broken, "run: rank {} threw something that is no std::exception", rank));
    }
  };
  std::span<const int> own = state_->own_ranks();
  std::vector<std::thread> threads;
  try {
    for (int rank : own.subspan(1)) threads.emplace_back(work, rank);
  } catch (const std::system_error& thrown) {
    // The ranks that did start find the communicator broken and return.
    give_up(make_error(Status::io_error, "run: starting the thread of rank {}: {}", threads.size() + 1, thrown.what()));
    release(own.first(1));
    release(own.subspan(1 + threads.size()));
    own = {};
  }
  if (!own.empty()) work(own.front());
  for (auto& thread : threads) thread.join();
  if (first_error.status != Status::ok) return first_error;
  return {};
}

}  // namespace smelt
