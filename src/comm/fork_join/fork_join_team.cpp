#include "comm/fork_join/fork_join_team.hpp"

#include <cstring>

#include "base/clock.hpp"
#include "comm/ordering.hpp"

namespace smelt::comm {
namespace {

/// Whether `value` has reached `target`; numbers wrap.
bool reaches(std::uint32_t value, std::uint32_t target) noexcept {
  return static_cast<std::int32_t>(value - target) >= 0;
}

/// A read-modify-write without a change, to order it with other changes of the word. Not fetch_add(0): if its result is
/// unused, Clang removes it on x86-64, and with it the order of the preceding store and the following load.
void touch(std::atomic<std::uint32_t>& word) noexcept {
  auto value = word.load(std::memory_order_relaxed);
  while (!word.compare_exchange_weak(value, value, ordering::team_meet, std::memory_order_relaxed)) {}
}

/// The number after `value`; never 0, which means none.
std::uint32_t after(std::uint32_t value) noexcept { return value + 1 == 0 ? 1 : value + 1; }

}  // namespace

ForkJoinTeam::ForkJoinTeam(int size, int parallelism, const WaitConfig& wait)
    : size_(size), flat_(size > parallelism), members_(static_cast<std::size_t>(size)) {
  enable_heavy_barrier(false);
  parking_.scope = joining_.scope = FutexScope::threads;
  WaitConfig config = wait;
  config.wakes_by_rmw = flat_;
  if (flat_) config.happened = &happened_;
  for (auto& member : members_) member.waiter = Waiter(config);
}

/// Called before an event that others wait for. Relaxed: only their way of waiting depends on it.
inline void ForkJoinTeam::note_time() noexcept {
  if (flat_) happened_.store(ticks(), std::memory_order_relaxed);
}

inline void ForkJoinTeam::wake(Parking& parking) noexcept { flat_ ? unpark_by_rmw(parking) : unpark(parking); }

inline bool ForkJoinTeam::is_off(std::uint32_t phase) const noexcept {
  // Acquire: pairs with call_off().
  const auto off = off_.load(ordering::team_off_seen);
  return off != 0 && reaches(phase, off);
}

/// Waits for `reached` or for the member's phase to be called off; true if it was reached.
template <class Reached>
inline bool ForkJoinTeam::wait(Member& self, Parking& parking, const Reached& reached) noexcept {
  if (reached()) return true;
  bool done = false;
  self.waiter.wait([&done, this, phase = self.phase, reached] { return (done = reached()) || is_off(phase); },
                   &parking);
  return done;
}

/// Enters the member's next phase. False, without any effect, if that was called off.
inline bool ForkJoinTeam::enter_phase(Member& self) noexcept {
  const auto next = after(self.phase);
  if (is_off(next)) return false;
  self.phase = next;
  return true;
}

inline bool ForkJoinTeam::meet(Member& self) noexcept {
  const auto both = 2 * ++self.barriers;
  // Release publishes what this member did; acquire, here or in the wait below, takes up what the partner did before
  // its increment. All changes are increments, so a later one of the partner's still carries the one waited for.
  if (arrivals_.fetch_add(1, ordering::team_meet) + 1 == both) {
    wake(parking_);
    return true;
  }
  const auto over = [this, both] { return reaches(arrivals_.load(ordering::team_met), both); };
  if (over()) return true;
  bool done = false;
  // Sleeps without a barrier, as the thread that ends the wait changes the same word before it checks for sleepers.
  const auto checked = [&] { return reaches(arrivals_.fetch_add(0, ordering::team_meet), both) || is_off(self.phase); };
  self.waiter.wait_or_sleep([&] { return (done = over()) || is_off(self.phase); },
                            [&](std::uint64_t longest_ns) { park_unless(checked, parking_, longest_ns); });
  return done;
}

bool ForkJoinTeam::barrier(int member) noexcept {
  auto& self = members_[static_cast<std::size_t>(member)];
  if (!enter_phase(self)) return false;
  if (size_ == 2) return meet(self);
  return flat_ ? count_in(self) : disseminate(member, self);
}

bool ForkJoinTeam::disseminate(int member, Member& self) noexcept {
  const auto barrier = ++self.barriers;
  int round = 0;
  for (int distance = 1; distance < size_; distance *= 2, ++round) {
    const int to = member + distance < size_ ? member + distance : member + distance - size_;
    // Release: publishes what this member did and acquired in earlier rounds. Pairs with the acquire below.
    members_[static_cast<std::size_t>(to)].signals[round].store(barrier, ordering::team_signal);
    wake(parking_);
    // The partner may be in the next barrier already, which it entered after this one.
    const auto& signal = self.signals[round];
    if (!wait(self, parking_, [&] { return reaches(signal.load(ordering::team_await), barrier); })) return false;
  }
  return true;
}

bool ForkJoinTeam::count_in(Member& self) noexcept {
  const auto barrier = ++self.barriers;
  // As in FlatBarrier: the increments form one release sequence that the last member acquires.
  if (arrived_.fetch_add(1, ordering::flat_arrive) + 1 == static_cast<std::uint32_t>(size_)) {
    arrived_.store(0, std::memory_order_relaxed);
    note_time();
    generation_.store(barrier, ordering::flat_open);
    wake(parking_);
    return true;
  }
  return wait(self, parking_, [&] { return reaches(generation_.load(ordering::flat_pass), barrier); });
}

void ForkJoinTeam::leave(int member) noexcept {
  std::uint32_t nobody = 0;
  // Relaxed: published by calling off.
  left_.compare_exchange_strong(nobody, static_cast<std::uint32_t>(member) + 1, std::memory_order_relaxed);
  call_off(member);
}

void ForkJoinTeam::call_off(int member) noexcept {
  if (off_.load(std::memory_order_relaxed) != 0) return;
  // Others who call off at the same time are in the same phase: all have passed the one before, none this one.
  off_.store(after(members_[static_cast<std::size_t>(member)].phase), ordering::team_off);
  // A partner in a pairwise barrier that looks later sees it; else its mark is seen below.
  touch(arrivals_);
  wake(parking_);
  wake(joining_);
}

bool ForkJoinTeam::claim(int member) noexcept {
  // Others are ahead, or this member is the first. It is never behind: each claim that it made before is won.
  auto claim = members_[static_cast<std::size_t>(member)].claims++;
  if (claims_.load(std::memory_order_relaxed) != claim) return false;
  return claims_.compare_exchange_strong(claim, claim + 1, std::memory_order_relaxed);
}

void ForkJoinTeam::fork(Work work, std::size_t words) noexcept {
  // The others read the work after the store below, and not after they have left the previous region.
  if (words != 0) {
    std::memcpy(words_, work.data, words * sizeof *words_);
    work.data = words_;
  }
  work_ = work;
  note_time();
  // Release: publishes the work and everything before it. Pairs with the acquire in receive().
  opened_.store(opened_.load(std::memory_order_relaxed) + 1, ordering::team_open);
  wake(parking_);
}

/// Waits until all below the member have left the region it is in.
bool ForkJoinTeam::gather(int member, Member& self) noexcept {
  for (int child = fan_in * member + 1; child <= fan_in * member + fan_in && child < size_; ++child) {
    const auto& left = members_[static_cast<std::size_t>(child)].left;
    if (!wait(self, joining_, [&] { return reaches(left.load(ordering::team_gather), self.region); })) return false;
  }
  return true;
}

bool ForkJoinTeam::join() noexcept {
  auto& self = members_[0];
  ++self.region;
  if (!enter_phase(self)) return false;
  if (!flat_) return gather(0, self);
  const auto all = self.region * static_cast<std::uint32_t>(size_ - 1);
  return wait(self, joining_, [&] { return reaches(gone_.load(ordering::team_gather), all); });
}

/// Reports that the member and all below it have left the region. False if the join was called off.
bool ForkJoinTeam::leave_region(int member, Member& self) noexcept {
  if (!enter_phase(self)) return false;
  // Release: publishes what this member and all below it did. Pairs with the acquires in gather() and join().
  if (flat_) {
    note_time();
    gone_.fetch_add(1, ordering::team_leave);
  } else {
    if (!gather(member, self)) return false;
    self.left.store(self.region, ordering::team_report);
  }
  wake(joining_);
  return true;
}

Work ForkJoinTeam::receive(int member) noexcept {
  auto& self = members_[static_cast<std::size_t>(member)];
  if (self.working && !leave_region(member, self)) return {};
  ++self.region;
  self.working = true;
  // Acquire: pairs with fork().
  if (!wait(self, parking_, [&] { return reaches(opened_.load(ordering::team_enter), self.region); })) return {};
  return work_;
}

void ForkJoinTeam::reset(std::uint32_t phases) noexcept {
  for (auto& member : members_) {
    for (auto& signal : member.signals) signal.store(0, std::memory_order_relaxed);
    member.left.store(0, std::memory_order_relaxed);
    member.phase = phases;
    member.region = member.claims = member.barriers = 0;
    member.working = false;
  }
  for (auto* word : {&off_, &left_, &opened_, &arrivals_, &claims_, &arrived_, &generation_, &gone_})
    word->store(0, std::memory_order_relaxed);
}

}  // namespace smelt::comm
