// State over processes: meeting, finding out who can read whose memory, and what happens when one dies.
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "comm/blueprint.hpp"
#include "comm/default_model.hpp"
#include "comm/endpoint.hpp"
#include "comm/state.hpp"
#include "machine/memory.hpp"

namespace smelt::comm {
namespace {

constexpr std::uint64_t probe_word = 0x736d656c742d6f6b;
/// Its address is told to the other processes, who try to read it.
const std::uint64_t probe = probe_word;

bool can_read(pid_t process, const std::byte* address) {
  std::uint64_t word = 0;
  const iovec local = {&word, sizeof word};
  const iovec remote = {const_cast<std::byte*>(address), sizeof word};
  return process_vm_readv(process, &local, 1, &remote, 1, 0) == static_cast<ssize_t>(sizeof word) && word == probe_word;
}

Blueprint blueprint_of(const State& state) {
  Blueprint blueprint{state.machine,     state.group,
                      state.options,     {},
                      state.parallelism, state.profile ? format_profile(*state.profile) : ""};
  std::copy(std::begin(state.plans), std::end(state.plans), blueprint.plans);
  return blueprint;
}

MeetOptions meet_options_of(const CommunicatorOptions& options) {
  MeetOptions result;
  if (options.timeout_s > 0.0) result.timeout_s = options.timeout_s;
  return result;
}

}  // namespace

/// Waits until `ranks` ranks have come to this point of the set-up. Deaths end it.
Result<void> State::meet_in_setup(int stage, std::size_t own_ranks) {
  auto& arrived = fabric.control().setup[stage];
  // Release: what was done before is visible to who sees the sum; acquire below.
  arrived.fetch_add(static_cast<int>(own_ranks), std::memory_order_release);
  const auto give_up = monotonic_ns() + std::uint64_t{60'000'000'000};
  while (arrived.load(std::memory_order_acquire) < group.size()) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    // Who has come this far and dies now leaves a communicator to all, a broken one.
    if (somebody_died() && arrived.load(std::memory_order_acquire) < group.size()) {
      // Survivors of a death get their communicator, broken, and shrink it once more.
      if (deaths_expected_) return {};
      return make_error(Status::broken, "communicator: rank {} died while the ranks were meeting",
                        members_->first_dead());
    }
    // Who leaves before all have come here has failed to set up its side; nobody leaves for another reason.
    const int left = somebody_left();
    if (left >= 0 && arrived.load(std::memory_order_acquire) < group.size()) {
      if (deaths_expected_) return fail_after_departure(left), Result<void>();
      return make_error(Status::broken, "communicator: rank {} left while the ranks were meeting", left);
    }
    if (monotonic_ns() > give_up)
      return make_error(Status::timed_out, "communicator: not all ranks got through the set-up");
  }
  return {};
}

/// Whether every process may read every other's memory (ptrace permission); else nobody does.
Result<void> State::find_out_access(std::span<const int> own_ranks) {
  for (int rank : own_ranks) {
    fabric.tick(rank).in.store(reinterpret_cast<const std::byte*>(&probe), std::memory_order_relaxed);
  }
  if (auto met = meet_in_setup(0, own_ranks.size()); !met) return met.error();
  for (int rank = 0; rank < group.size(); ++rank) {
    const pid_t process = foreign_process(rank);
    if (process == 0 || can_read(process, fabric.tick(rank).in.load(std::memory_order_relaxed))) continue;
    fabric.control().no_direct.store(1, std::memory_order_relaxed);  // published by the meeting below
  }
  return meet_in_setup(1, own_ranks.size());
}

Result<std::shared_ptr<State>> State::join(const Meet& meet, const PlanAll& plan_all, std::span<const int> ranks,
                                           const CommunicatorOptions& options, bool deaths_expected) {
  auto timeout = timeout_of(options);
  if (!timeout) return timeout.error();
  const Prepare prepare = [&]() -> Result<Provision> {
    auto planned = plan_all();
    if (!planned) return planned.error();
    const auto place = [state = *planned](std::byte* user) {
      place_parts(state->machine, state->group, Fabric(user, state->group.size()), bind_reserved_to_numa_node);
    };
    return Provision{format_blueprint(blueprint_of(**planned)), Fabric::bytes((*planned)->group.size()), place};
  };
  auto meeting = meet(prepare);
  if (!meeting) return meeting.error();
  auto blueprint = parse_blueprint(meeting->blueprint());
  if (!blueprint) return blueprint.error();
  CommunicatorOptions agreed = blueprint->options;
  agreed.pin = options.pin;
  agreed.wait = options.wait;
  agreed.profile = options.profile;
  agreed.any_thread = options.any_thread;
  agreed.idle = options.idle;
  agreed.idle_context = options.idle_context;
  std::shared_ptr<State> state(new State(blueprint->machine, blueprint->group, agreed));
  std::move(std::begin(blueprint->plans), std::end(blueprint->plans), state->plans);
  state->timeout_s = *timeout;
  state->parallelism = blueprint->parallelism;
  if (!blueprint->profile.empty()) {
    auto profile = parse_profile(blueprint->profile, "the communicator's blueprint");
    if (!profile) return profile.error();
    state->profile = std::move(*profile);
  }
  state->complete_plans();
  state->own_ranks_.assign(ranks.begin(), ranks.end());
  state->processes_ = true;
  state->deaths_expected_ = deaths_expected;
  state->meeting_ = std::move(*meeting);
  state->fabric = Fabric(state->meeting_->user(), state->group.size());
  if (auto ready = state->open_shared(ranks); !ready) return ready.error();
  return state;
}

Result<void> State::open_shared(std::span<const int> ranks) {
  members_.emplace(meeting_->membership());
  watch_.emplace(*members_);
  if (auto known = find_out_access(ranks); !known) return known.error();
  return make_endpoints(ranks);
}

Result<std::shared_ptr<State>> State::create_shared(const std::string& name, int fd, int size,
                                                    std::span<const int> ranks, const CommunicatorOptions& options) {
  const PlanAll plan_all = [&]() -> Result<std::shared_ptr<State>> {
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
  const Meet meet_all = [&](const Prepare& prepare) {
    return name.empty() ? meet_fd(fd, size, ranks, prepare, meet_options_of(options))
                        : meet(name, size, ranks, prepare, meet_options_of(options));
  };
  return join(meet_all, plan_all, ranks, options, false);
}

Result<std::shared_ptr<State>> State::create_shared(int fd, const Machine& machine, const Group& group,
                                                    std::span<const int> ranks, const CommunicatorOptions& options) {
  const PlanAll plan_all = [&] { return planned(machine, group, options); };
  const Meet meet_all = [&](const Prepare& prepare) {
    return meet_fd(fd, group.size(), ranks, prepare, meet_options_of(options));
  };
  return join(meet_all, plan_all, ranks, options, false);
}

/// The communicator of some ranks of this one, over processes: its members meet under a name that
/// only they can know.
Result<std::shared_ptr<State>> State::join_part(const std::string& purpose, const std::vector<int>& members,
                                                int new_rank, bool deaths_expected) {
  const PlanAll plan_all = [&]() -> Result<std::shared_ptr<State>> {
    Group part;
    for (int rank : members) part.pus.push_back(group.pus[static_cast<std::size_t>(rank)]);
    return planned(machine, part, options);
  };
  const int own[] = {new_rank};
  const auto left = [this, members, here = members[static_cast<std::size_t>(new_rank)]](int rank) {
    return departure(members[static_cast<std::size_t>(rank)], here) != 0;
  };
  MeetOptions meet_options;
  if (deaths_expected) {
    meet_options.gone = [this, members, left](int rank) {
      watch_->check();
      return members_->state(members[static_cast<std::size_t>(rank)]) != MemberState::present || left(rank);
    };
  } else {
    meet_options.stands = [this]() -> Result<void> {
      if (!somebody_died() && status() == Status::ok) return {};
      return Error{status(), failure()};
    };
    meet_options.left = left;
  }
  const Meet meet_part = [&](const Prepare& prepare) {
    return meet(fmt::format("{:016x}-{}", meeting_->id, purpose), static_cast<int>(members.size()), own, prepare,
                meet_options);
  };
  return join(meet_part, plan_all, own, options, deaths_expected);
}

/// The part that `members` make together, as long as nobody of this communicator has died.
Result<std::shared_ptr<State>> State::split(const std::string& purpose, const std::vector<int>& members, int new_rank) {
  auto part = join_part(purpose, members, new_rank, false);
  // Who saw the death or departure elsewhere, as that of a rank of the part, names it by its rank here.
  const int own = members[static_cast<std::size_t>(new_rank)];
  if (!part && part.error().status == Status::broken && learns_of_end(members, own)) return Error{status(), failure()};
  return part;
}

int State::somebody_left() const noexcept {
  for (int rank = 0; rank < group.size(); ++rank) {
    if (members_->state(rank) == MemberState::left) return rank;
  }
  return -1;
}

pid_t State::foreign_process(int rank) const noexcept {
  if (!processes_) return 0;
  const pid_t process = members_->process(rank).pid;
  return process == getpid() ? 0 : process;
}

bool State::somebody_died() noexcept {
  const bool died = processes_ ? watch_->check() : members_->first_dead() >= 0;
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

/// A rank may have died when it was the first to come to the meeting of a subgroup. Done before the communicator is
/// known to be broken: the others, who learn of it by that, need not look.
void State::clear_up() noexcept {
  if (!processes_) return;
  try {
    remove_stale_meetings();
  } catch (const std::bad_alloc&) {
    return;  // the next meeting does it
  }
}

bool State::learns_of_end(const std::vector<int>& members, int own) noexcept {
  const auto until = monotonic_ns() + 500'000'000;
  while (!somebody_died() && status() == Status::ok) {
    const auto left = std::find_if(members.begin(), members.end(), [&](int rank) { return departure(rank, own) != 0; });
    if (left != members.end()) fail_after_departure(*left);
    if (monotonic_ns() >= until) return false;
    if (left == members.end()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

void State::fail_without_access(int rank, int own, const std::string& message) noexcept {
  // The reason is on its way: the kernel takes a process's memory away before it says that it has ended.
  if (!learns_of_end({rank}, own)) fail(Status::broken, message);
}

Result<std::shared_ptr<State>> State::shrunk(int rank, int* new_rank) {
  Watch& watch = processes_ ? *watch_ : *own_watch();
  auto survivors = members_->agree_on_survivors(rank, watch, shrink_timeout_s);
  if (!survivors) return survivors.error();
  const auto self = std::find(survivors->begin(), survivors->end(), rank);
  if (self == survivors->end()) return make_error(Status::broken, "shrink: rank {} came too late", rank);
  *new_rank = static_cast<int>(self - survivors->begin());
  if (!processes_) return subgroup(*survivors, -1, *new_rank);
  return join_part("shrink", *survivors, *new_rank, true);
}

}  // namespace smelt::comm
