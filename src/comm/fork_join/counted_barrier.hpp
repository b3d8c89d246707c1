// CountedBarrier: a barrier that knows how many threads make a round, not which ones.
//
// Any thread may take part in any round; more threads than a round needs may come, who then count for the
// next one. A barrier is 16 bytes without a pointer, so that it also works between processes, if it was made for
// them, and may be destroyed and its memory reused as soon as one thread has come through.
//
//   state  high half  2 x rounds opened + (1: somebody may be asleep), the word that sleepers sleep on
//          low half   threads that have arrived for the rounds since; top bit: one that rounds count on has left
//   left   threads that came through without having opened, over all rounds
//   count  threads of a round; top bit: they are of one process
//
// A thread that arrives with index i of the low half belongs to round opened + i / count; the last of each
// round opens it: + 2 above, - count below, in one step. Only additions, so it does not matter if the one who
// opens round r + 1 is faster than the one who opens r: round r is complete then, too.
//
// Once a thread has left no round is opened any more: it says so when no complete round is left to be opened, and those
// who arrive later are nobody's last. So whoever finds its round closed and somebody gone waits in vain.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/wait.hpp"

namespace smelt::comm {

class CountedBarrier {
 public:
  static constexpr std::uint32_t most = 1u << 30;  ///< threads of a round

  /// What a thread knows between arriving and passing.
  struct Ticket {
    std::uint32_t round;  ///< modulo 2^31
    bool last;            ///< opens the round when it passes; true for exactly one thread
  };

  /// `count`: threads of a round, 1 to `most`.
  explicit CountedBarrier(std::uint32_t count, FutexScope scope = FutexScope::processes) noexcept
      : count_(scope == FutexScope::threads ? count | one_process : count) {}

  std::uint32_t count() const noexcept { return count_ & ~one_process; }

  /// If the caller is the last of a round: counts it in, opens the round, and is true; the caller has passed. Else
  /// false, and nothing has happened. Cost: the line of the barrier is asked for once, not by two steps between which
  /// waiters that look at it take it away.
  bool complete() noexcept;

  /// Counts the caller in. Does not wait.
  Ticket arrive() noexcept;

  /// Waits until the round is open. Who has passed does not touch the barrier any more. False: it will not be, as a
  /// thread that it counts on has left.
  bool pass(Ticket ticket, Waiter& waiter) noexcept;

  /// One of the threads that rounds count on has come for the last time. Rounds that are complete are passed; who waits
  /// in another one, or arrives later, does not pass. The caller does not touch the barrier any more. Waits for a
  /// thread that is about to open a round.
  void leave(Waiter& waiter) noexcept;

  /// Waits until those who have come through do not touch the barrier any more, after which its memory may be
  /// reused. False, at once: somebody has arrived for a round that is not complete, and nobody has left.
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
