// CommunicatorState over processes: rendezvous, access to other processes' memory, and deaths.
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/polling.hpp"
#include "comm/collective/communicator_state.hpp"
#include "comm/collective/endpoint.hpp"
#include "comm/group/default_model.hpp"
#include "comm/group/shared_config.hpp"
#include "machine/topology/memory.hpp"

namespace smelt::comm {
namespace {

constexpr std::uint64_t probe_word = 0x736d656c742d6f6b;
/// Other processes get its address and try to read it.
const std::uint64_t probe = probe_word;

bool can_read(pid_t process, const std::byte* address) {
  std::uint64_t word = 0;
  const iovec local = {&word, sizeof word};
  const iovec remote = {const_cast<std::byte*>(address), sizeof word};
  return process_vm_readv(process, &local, 1, &remote, 1, 0) == static_cast<ssize_t>(sizeof word) && word == probe_word;
}

SharedConfig shared_config_of(const CommunicatorState& state) {
  SharedConfig shared_config{state.machine,     state.group,
                             state.options,     {},
                             state.parallelism, state.profile ? format_profile(*state.profile) : ""};
  std::copy(std::begin(state.plans), std::end(state.plans), shared_config.plans);
  return shared_config;
}

RendezvousOptions rendezvous_options_of(const CommunicatorOptions& options) {
  RendezvousOptions result;
  if (options.timeout_s > 0.0) result.timeout_s = options.timeout_s;
  return result;
}

}  // namespace

/// Waits until `ranks` ranks have reached this point of the set-up, or until a death.
Result<void> CommunicatorState::wait_in_setup(int stage, std::size_t own_ranks) {
  auto& arrived = layout.control().setup[stage];
  // Release: pairs with the acquire below. What was done before is visible to a rank that sees the sum.
  arrived.fetch_add(static_cast<int>(own_ranks), std::memory_order_release);
  const auto give_up = monotonic_ns() + std::uint64_t{60'000'000'000};
  const PollingPause pause(200'000);
  while (arrived.load(std::memory_order_acquire) < group.size()) {
    pause.sleep();
    // A death after this point leaves a communicator to all, which is broken.
    if (somebody_died() && arrived.load(std::memory_order_acquire) < group.size()) {
      // Survivors get their communicator although it is broken, and shrink it again.
      if (deaths_expected_) return {};
      return make_error(Status::broken, "communicator: rank {} died while the ranks were meeting",
                        members_->first_dead());
    }
    // A rank that leaves before all have arrived has failed to set up its side.
    const int left = somebody_left();
    if (left >= 0 && arrived.load(std::memory_order_acquire) < group.size()) {
      if (deaths_expected_) return fail_after_departure(left, 0), Result<void>();
      return make_error(Status::broken, "communicator: rank {} left while the ranks were meeting", left);
    }
    if (monotonic_ns() > give_up)
      return make_error(Status::timed_out, "communicator: not all ranks got through the set-up");
  }
  return {};
}

/// Finds out whether every process may read every other's memory (ptrace permission). If not, no process does.
Result<void> CommunicatorState::find_out_access(std::span<const int> own_ranks) {
  for (int rank : own_ranks) {
    layout.tick(rank).in.store(reinterpret_cast<const std::byte*>(&probe), std::memory_order_relaxed);
  }
  if (auto met = wait_in_setup(0, own_ranks.size()); !met) return met.error();
  for (int rank = 0; rank < group.size(); ++rank) {
    const pid_t process = foreign_process(rank);
    if (process == 0 || can_read(process, layout.tick(rank).in.load(std::memory_order_relaxed))) continue;
    layout.control().no_direct.store(1, std::memory_order_relaxed);  // published by the rendezvous below
  }
  return wait_in_setup(1, own_ranks.size());
}

Result<std::shared_ptr<CommunicatorState>> CommunicatorState::join(const JoinRendezvous& join_rendezvous,
                                                                   const PlanAll& plan_all, std::span<const int> ranks,
                                                                   const CommunicatorOptions& options,
                                                                   bool deaths_expected) {
  auto timeout = timeout_of(options);
  if (!timeout) return timeout.error();
  const Prepare prepare = [&]() -> Result<SegmentContent> {
    auto planned = plan_all();
    if (!planned) return planned.error();
    const auto place = [state = *planned](std::byte* user) {
      place_memory(state->machine, state->group, SharedLayout(user, state->group.size()), bind_reserved_to_numa_node);
    };
    return SegmentContent{format_shared_config(shared_config_of(**planned)),
                          SharedLayout::bytes((*planned)->group.size()), place};
  };
  auto rendezvous = join_rendezvous(prepare);
  if (!rendezvous) return rendezvous.error();
  if (!rendezvous->shared_config().starts_with('{')) {
    return make_error(Status::bad_format,
                      "communicator: its name is that of something else, such as a log; take another name");
  }
  auto shared_config = parse_shared_config(rendezvous->shared_config());
  if (!shared_config) return shared_config.error();
  CommunicatorOptions agreed = shared_config->options;
  agreed.pin = options.pin;
  agreed.wait = options.wait;
  agreed.profile = options.profile;
  agreed.any_thread = options.any_thread;
  agreed.idle = options.idle;
  agreed.poll = options.poll;
  agreed.idle_context = options.idle_context;
  std::shared_ptr<CommunicatorState> state(new CommunicatorState(shared_config->machine, shared_config->group, agreed));
  std::move(std::begin(shared_config->plans), std::end(shared_config->plans), state->plans);
  state->timeout_s = *timeout;
  state->parallelism = shared_config->parallelism;
  if (!shared_config->profile.empty()) {
    auto profile = parse_profile(shared_config->profile, "the communicator's shared configuration");
    if (!profile) return profile.error();
    state->profile = std::move(*profile);
  }
  state->complete_plans();
  state->own_ranks_.assign(ranks.begin(), ranks.end());
  state->processes_ = true;
  state->deaths_expected_ = deaths_expected;
  state->rendezvous_ = std::move(*rendezvous);
  state->layout = SharedLayout(state->rendezvous_->user(), state->group.size());
  if (auto ready = state->open_shared(ranks); !ready) return ready.error();
  return state;
}

Result<void> CommunicatorState::open_shared(std::span<const int> ranks) {
  members_.emplace(rendezvous_->membership());
  detector_.emplace(*members_);
  if (auto known = find_out_access(ranks); !known) return known.error();
  return make_endpoints(ranks);
}

Result<std::shared_ptr<CommunicatorState>> CommunicatorState::create_shared(const std::string& name, int fd, int size,
                                                                            std::span<const int> ranks,
                                                                            const CommunicatorOptions& options) {
  const PlanAll plan_all = [&]() -> Result<std::shared_ptr<CommunicatorState>> {
    auto machine = default_model();
    if (!machine) return machine.error();
    if (!options.pus.empty()) {
      if (options.pus.size() != static_cast<std::size_t>(size)) {
        return make_error(Status::invalid_argument, "communicator: pus: {} numbers for {} ranks", options.pus.size(),
                          size);
      }
      auto group = make_group(*machine, options.pus);
      if (!group) return group.error();
      return planned(*machine, *group, options);
    }
    auto allowance = discover_allowance();
    if (!allowance) return allowance.error();
    auto group = default_group(*machine, *allowance, size);
    if (!group) return group.error();
    return planned(*machine, *group, options);
  };
  const JoinRendezvous meet_all = [&](const Prepare& prepare) {
    return name.empty() ? join_rendezvous_fd(fd, size, ranks, prepare, rendezvous_options_of(options))
                        : join_rendezvous(name, size, ranks, prepare, rendezvous_options_of(options));
  };
  return join(meet_all, plan_all, ranks, options, false);
}

Result<std::shared_ptr<CommunicatorState>> CommunicatorState::create_shared(int fd, const Machine& machine,
                                                                            const Group& group,
                                                                            std::span<const int> ranks,
                                                                            const CommunicatorOptions& options) {
  const PlanAll plan_all = [&] { return planned(machine, group, options); };
  const JoinRendezvous meet_all = [&](const Prepare& prepare) {
    return join_rendezvous_fd(fd, group.size(), ranks, prepare, rendezvous_options_of(options));
  };
  return join(meet_all, plan_all, ranks, options, false);
}

/// A communicator of some ranks of this one, over processes. The rendezvous has a name that only its members know.
Result<std::shared_ptr<CommunicatorState>> CommunicatorState::join_part(const std::string& purpose,
                                                                        const std::vector<int>& members, int new_rank,
                                                                        bool deaths_expected) {
  const PlanAll plan_all = [&] { return planned(machine, part_of(members), options_for(members)); };
  const int own[] = {new_rank};
  const auto left = [this, members, here = members[static_cast<std::size_t>(new_rank)]](int rank) {
    return departure(members[static_cast<std::size_t>(rank)], here) != 0;
  };
  RendezvousOptions meet_options;
  if (deaths_expected) {
    meet_options.gone = [this, members, left](int rank) {
      detector_->check();
      return members_->state(members[static_cast<std::size_t>(rank)]) != MemberState::present || left(rank);
    };
  } else {
    meet_options.stands = [this]() -> Result<void> {
      if (!somebody_died() && status() == Status::ok) return {};
      return Error{status(), failure()};
    };
    meet_options.left = left;
  }
  const JoinRendezvous meet_part = [&](const Prepare& prepare) {
    return join_rendezvous(fmt::format("{:016x}-{}", rendezvous_->id, purpose), static_cast<int>(members.size()), own,
                           prepare, meet_options);
  };
  return join(meet_part, plan_all, own, options, deaths_expected);
}

/// The subgroup of `members`. Fails if a rank of this communicator dies.
Result<std::shared_ptr<CommunicatorState>> CommunicatorState::split(const std::string& purpose,
                                                                    const std::vector<int>& members, int new_rank) {
  auto part = join_part(purpose, members, new_rank, false);
  // A death or departure that was detected in the subgroup is reported with the rank in this communicator.
  const int own = members[static_cast<std::size_t>(new_rank)];
  const std::uint64_t calls = endpoints[static_cast<std::size_t>(own)]->calls();
  if (!part && part.error().status == Status::broken && learns_of_end(members, own, calls)) {
    return Error{status(), failure()};
  }
  return part;
}

RendezvousOptions CommunicatorState::meeting_options(const char* what) {
  RendezvousOptions meeting = rendezvous_options_of(options);
  meeting.stands = [this, what]() -> Result<void> {
    if (!somebody_died() && status() == Status::ok) return {};
    return make_error(status(), "{}: {}", what, failure());
  };
  meeting.left = [this](int rank) { return members_->state(rank) == MemberState::left; };
  return meeting;
}

int CommunicatorState::somebody_left() const noexcept {
  for (int rank = 0; rank < group.size(); ++rank) {
    if (members_->state(rank) == MemberState::left) return rank;
  }
  return -1;
}

pid_t CommunicatorState::foreign_process(int rank) const noexcept {
  if (!processes_) return 0;
  const pid_t process = members_->process(rank).pid;
  return process == getpid() ? 0 : process;
}

bool CommunicatorState::somebody_died() noexcept {
  const bool died = processes_ ? detector_->check() : members_->first_dead() >= 0;
  if (!died || status() != Status::ok) return died;
  clear_up();
  const int rank = members_->first_dead();
  if (processes_) {
    fail(Status::broken, fmt::format("rank {} (process {}) died", rank, members_->process(rank).pid));
  } else {
    fail(Status::broken, fmt::format("rank {}: its thread ended while it was a member", rank));
  }
  return true;
}

/// Removes the segment of a rank that died as the first one in the rendezvous of a subgroup. Called before the
/// communicator is marked broken, so the other ranks need not do it.
void CommunicatorState::clear_up() noexcept {
  if (!processes_) return;
  try {
    remove_stale_rendezvous();
  } catch (const std::bad_alloc&) {
    return;  // left to the next rendezvous
  }
}

bool CommunicatorState::learns_of_end(const std::vector<int>& members, int own, std::uint64_t last_call) noexcept {
  const auto until = monotonic_ns() + 500'000'000;
  while (!somebody_died() && status() == Status::ok) {
    const auto left = std::find_if(members.begin(), members.end(), [&](int rank) { return departure(rank, own) != 0; });
    if (left != members.end()) fail_after_departure(*left, last_call);
    if (monotonic_ns() >= until) return false;
    if (left == members.end()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

void CommunicatorState::fail_without_access(int rank, int own, const std::string& message) noexcept {
  // The kernel releases a process's memory before it reports the end of the process.
  const std::uint64_t last_call = endpoints[static_cast<std::size_t>(own)]->calls() - 1;
  (void)learns_of_end({rank}, own, last_call);
  fail(Status::broken, message, last_call);  // only counts the calls if it has learned more
}

Result<std::shared_ptr<CommunicatorState>> CommunicatorState::shrunk(int rank, int* new_rank) {
  // A rank may learn of a failure without a failed collective. Others may still wait for it in an earlier one.
  if (status() != Status::ok) endpoints[static_cast<std::size_t>(rank)]->give_up();
  FailureDetector& detector = processes_ ? *detector_ : *own_detector();
  auto survivors = members_->agree_on_survivors(rank, detector, shrink_timeout_s);
  if (!survivors) return survivors.error();
  const auto self = std::find(survivors->begin(), survivors->end(), rank);
  if (self == survivors->end()) return make_error(Status::broken, "shrink: rank {} came too late", rank);
  *new_rank = static_cast<int>(self - survivors->begin());
  if (!processes_) return subgroup(*survivors, -1, *new_rank);
  return join_part("shrink", *survivors, *new_rank, true);
}

}  // namespace smelt::comm
