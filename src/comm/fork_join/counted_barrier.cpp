#include "comm/fork_join/counted_barrier.hpp"

#include <bit>

#include "base/futex.hpp"
#include "comm/ordering.hpp"

namespace smelt::comm {
namespace {

// The kernel compares the high half alone.
static_assert(std::endian::native == std::endian::little && std::atomic<std::uint64_t>::is_always_lock_free);

const std::atomic<std::uint32_t>& high_half(const std::atomic<std::uint64_t>& state) noexcept {
  return reinterpret_cast<const std::atomic<std::uint32_t>*>(&state)[1];
}

std::uint32_t rounds_of(std::uint64_t state) noexcept { return static_cast<std::uint32_t>(state >> 33); }
/// Including the mark of a departure, which makes it larger than any number of threads.
std::uint32_t arrived_of(std::uint64_t state) noexcept { return static_cast<std::uint32_t>(state); }

}  // namespace

bool CountedBarrier::complete() noexcept {
  auto state = state_.load(std::memory_order_relaxed);
  const FutexScope sleepers = scope();  // read now: the barrier may be gone when they are woken
  if (arrived_of(state) + 1 != count()) return false;
  // The last arrival and the opening in one step: acquires as arrive() does, releases as both do.
  if (!state_.compare_exchange_strong(state, (state & ~asleep) + opened - (count() - 1), ordering::counted_complete,
                                      std::memory_order_relaxed)) {
    return false;
  }
  if ((state & asleep) != 0) futex_wake(high_half(state_), sleepers);
  return true;
}

CountedBarrier::Ticket CountedBarrier::arrive() noexcept {
  // The release half publishes what this thread did before. All later changes of state_ are read-modify-writes and
  // continue its release sequence, which the acquire half of the last arrival reads.
  const auto before = state_.fetch_add(1, ordering::counted_arrive);
  const std::uint32_t index = arrived_of(before);
  const std::uint32_t count = this->count();
  if (index < count) [[likely]]
    return {rounds_of(before), index + 1 == count};
  if ((before & gone) != 0) return {rounds_of(before), false};
  return {(rounds_of(before) + index / count) & (UINT32_MAX >> 1), index % count + 1 == count};
}

bool CountedBarrier::pass(Ticket ticket, Waiter& waiter) noexcept {
  if (ticket.last) {
    open();
    return true;
  }
  bool opened = false;
  const auto settled = [&] {
    // Pairs with the release of every arrival of this round. The mark and the rounds are in one word, so a round that
    // is not open when the mark is seen will never be.
    const auto state = state_.load(ordering::counted_pass);
    opened = is_open(state, ticket.round);
    return opened || (state & gone) != 0;
  };
  waiter.wait_or_sleep(
      settled, [&](std::uint64_t longest_ns) { sleep(ticket.round, longest_ns); }, &state_);
  // Pairs with the acquire in drain(): the last access to this barrier.
  left_.fetch_add(1, ordering::counted_leave);
  return opened;
}

bool CountedBarrier::is_open(std::uint64_t state, std::uint32_t round) noexcept {
  // Rounds are compared modulo 2^31.
  const auto opened_since = (rounds_of(state) - round) << 1;
  return static_cast<std::int32_t>(opened_since) > 0;
}

void CountedBarrier::leave(Waiter& waiter) noexcept {
  constexpr std::uint64_t moment_ns = 50'000;
  const FutexScope sleepers = scope();
  const auto nap = [&](std::uint64_t) {
    futex_wait(left_, left_.load(std::memory_order_relaxed), moment_ns, sleepers);
  };
  auto state = state_.load(std::memory_order_relaxed);
  do {
    const auto ready = [&] {
      state = state_.load(std::memory_order_relaxed);
      return arrived_of(state) < count() || (state & gone) != 0;
    };
    waiter.wait_or_sleep(ready, nap, &state_);
    if ((state & gone) != 0) return;
    // Release, as all changes: drain() acquires it. Without the mark of sleepers the word differs from the value that
    // sleepers passed to the kernel.
  } while (!state_.compare_exchange_weak(state, (state & ~asleep) | gone, ordering::counted_open,
                                         std::memory_order_relaxed));
  if ((state & asleep) != 0) futex_wake(high_half(state_), sleepers);
}

void CountedBarrier::open() noexcept {
  const std::uint32_t count = this->count();
  const FutexScope sleepers = scope();
  auto state = state_.load(std::memory_order_relaxed);
  // Arrivals publish what their threads did. The release is for drain() in a waiter: this thread does not access the
  // barrier after this.
  while (!state_.compare_exchange_weak(state, (state & ~asleep) + opened - count, ordering::counted_open,
                                       std::memory_order_relaxed)) {}
  // From here on the barrier may be gone. The kernel uses the address as a key only.
  if ((state & asleep) != 0) futex_wake(high_half(state_), sleepers);
}

void CountedBarrier::sleep(std::uint32_t round, std::uint64_t longest_ns) noexcept {
  auto state = state_.load(std::memory_order_relaxed);
  // The mark and the rounds are in one word: the next opener sees the mark, or has opened before it was set.
  while ((state & asleep) == 0) {
    if (is_open(state, round) || (state & gone) != 0) return;
    if (state_.compare_exchange_weak(state, state | asleep, std::memory_order_relaxed)) {
      state |= asleep;
    }
  }
  if (is_open(state, round) || (state & gone) != 0) return;
  futex_wait(high_half(state_), static_cast<std::uint32_t>(state >> 32), longest_ns, scope());
}

bool CountedBarrier::drain(Waiter& waiter) noexcept {
  const auto state = state_.load(ordering::counted_drain);
  const bool unfinished = (state & gone) != 0;  // if so, all waiting threads return
  if (arrived_of(state) != 0 && !unfinished) return false;
  const std::uint32_t in_vain = unfinished ? arrived_of(state & ~gone) : 0;
  const std::uint32_t passed = rounds_of(state) * (count() - 1) + in_vain;
  constexpr std::uint64_t moment_ns = 50'000;  // the others are about to return, and wake nobody
  const auto nap = [&](std::uint64_t) {
    const auto left = left_.load(std::memory_order_relaxed);
    if (left << 1 != passed << 1) futex_wait(left_, left, moment_ns);
  };
  waiter.wait_or_sleep([&] { return left_.load(ordering::counted_drain) << 1 == passed << 1; }, nap);
  return true;
}

}  // namespace smelt::comm
