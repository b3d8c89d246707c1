// CountedBarrier: a barrier that is complete when a given number of threads has arrived, whichever they are.
//
// Any thread may take part in any round. If more threads arrive than a round needs, they count for the next one. The
// barrier is 16 bytes without pointers. It works between processes if it was made for them. It may be destroyed, and
// its memory reused, as soon as one thread has passed.
//
//   state  high half  2 x rounds opened + (1: threads may sleep); the word that sleepers wait on
//          low half   threads that have arrived for the rounds since; top bit: a participant has left
//   left   threads that have passed without having opened a round, over all rounds
//   count  threads of a round; top bit: all are of one process
//
// A thread that arrives with index i in the low half belongs to round opened + i / count. The last thread of a round
// opens it: one addition adds 2 to the high half and subtracts count from the low half. Additions commute, so the
// opener of round r + 1 may be faster than that of round r; round r is complete then, too.
//
// Once a thread has left, no round is opened any more: leave() sets its mark when no complete round is left to be
// opened, and threads that arrive later are never the last of a round. So a thread that finds its round closed and the
// mark set would wait for ever.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/wait.hpp"

namespace smelt::comm {

class CountedBarrier {
 public:
  static constexpr std::uint32_t most = 1u << 30;  ///< threads of a round

  /// What a thread keeps between arriving and passing.
  struct Ticket {
    std::uint32_t round;  ///< modulo 2^31
    bool last;            ///< opens the round when it passes; true for exactly one thread
  };

  /// `count`: threads of a round, 1 to `most`.
  explicit CountedBarrier(std::uint32_t count, FutexScope scope = FutexScope::processes) noexcept
      : count_(scope == FutexScope::threads ? count | one_process : count) {}

  std::uint32_t count() const noexcept { return count_ & ~one_process; }

  /// If the caller is the last of a round: arrives, opens the round and returns true; the caller has passed. Otherwise
  /// returns false without any effect. Cost: acquires the barrier's cache line once; in two steps, polling waiters
  /// would take it away in between.
  bool complete() noexcept;

  /// Arrives. Does not wait.
  Ticket arrive() noexcept;

  /// Waits until the round is open. After passing, a thread does not access the barrier any more. False: the round will
  /// never be open, as a participant has left.
  bool pass(Ticket ticket, Waiter& waiter) noexcept;

  /// A participant has arrived for the last time. Threads pass the rounds that are complete. In other rounds, and on
  /// later arrivals, pass() returns false. After this call, the caller does not access the barrier any more. Waits for
  /// a thread that is about to open a round.
  void leave(Waiter& waiter) noexcept;

  /// Waits until no thread that has passed accesses the barrier any more. Then its memory may be reused. Returns false
  /// immediately if a thread has arrived for an incomplete round and none has left.
  bool drain(Waiter& waiter) noexcept;

 private:
  static constexpr std::uint64_t opened = 2ull << 32;  ///< one more round, in the high half
  static constexpr std::uint64_t asleep = 1ull << 32;
  static constexpr std::uint64_t gone = 1ull << 31;
  static constexpr std::uint32_t one_process = 1u << 31;

  FutexScope scope() const noexcept {
    return (count_ & one_process) != 0 ? FutexScope::threads : FutexScope::processes;
  }

  static bool is_open(std::uint64_t state, std::uint32_t round) noexcept;
  void open() noexcept;
  void sleep(std::uint32_t round, std::uint64_t longest_ns) noexcept;

  std::atomic<std::uint64_t> state_{0};
  std::atomic<std::uint32_t> left_{0};
  const std::uint32_t count_;
};

}  // namespace smelt::comm
