// ForkJoinTeam: threads that somebody else started, numbered 0 .. size-1, that work in regions.
//
//   member 0   --- fork ---- work ---- join ---------- fork ---- work ---- join ------ dismiss
//   the others --- receive - work ---- receive (joins, then waits) ------- receive --- receive: nothing more
//
// Inside of a region any number of barriers. Every barrier and every join is a *phase*; all members go through
// the same phases in the same order, each counting for itself.
//
// Calling off. A runtime's own barrier may do more than ours (run tasks, say). A member that needs it calls the
// current phase off *before it enters it*: then nobody passes that phase here, whoever waits in it or comes to it
// returns false, and they meet in the runtime's barrier instead, this time and from then on until reset().
//
//   Invariant: a mark names the phase that its writer has not entered, so that phase cannot complete; and
//   a member still on its way out of the phase before sees a mark that is not its own and completes, as every
//   member has entered that one. So of each phase either all leave by completion or all by the mark.
//
// Leaving is calling off for good: a member that has left does not enter its next phase.
//
// Join takes one of two forms, barrier one of three:
//   members > PUs    flat: one counter and one generation word (as in flat_barrier.hpp), because every further step
//                    would be a context switch. Who sleeps is woken firmly (unpark_by_rmw), as many sleep and few wake
//   else             join: each member gathers its four children in a heap, then reports to its parent
//                    barrier: dissemination, in round k member i signals i + 2^k and awaits i - 2^k (mod size)
//   2 members        barrier: pairwise. One counter that only grows; each adds 1, the n-th is over at 2n. Taking the
//                    line to add takes the partner's arrival along, so who comes last waits for nothing else; with
//                    a flag each it would wait for its own flag's line while it takes the partner's
//
//   Invariant of the pairwise barrier: who enters its n-th finds 2n - 2 or 2n - 1, as the partner has entered the one
//   before and cannot leave this one alone; who waits in it sees 2n - 1, 2n, or 2n + 1 when the partner is in its next.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/cacheline.hpp"
#include "base/cacheline_padded.hpp"
#include "base/wait.hpp"

namespace smelt::comm {

/// What a region is about: two words that mean nothing to the team.
struct Work {
  void (*function)(void*) = nullptr;  ///< null: the team is dismissed
  void* data = nullptr;
};

/// So many words of a region's data can come to the members along with the news of it.
constexpr std::size_t most_words = 5;

class ForkJoinTeam {
 public:
  static constexpr int max_size = 4096;

  /// `size` members (2 .. max_size) of which `parallelism` can run at a time; how they wait.
  ForkJoinTeam(int size, int parallelism, const WaitConfig& wait);

  int size() const noexcept { return size_; }

  /// Returns true once all members have entered; false if the phase was called off.
  /// Ordering: what any member did before, all see after.
  bool barrier(int member) noexcept;

  /// The phase that the calling member enters next is not to happen here, nor any later one until reset().
  /// Ordering: what it did before is seen by whoever returns false because of it. Wakes who sleeps.
  void call_off(int member) noexcept;

  /// Whether a phase was called off since the last reset(), as far as the caller knows.
  bool called_off() const noexcept { return off_.load(std::memory_order_relaxed) != 0; }

  /// That member will not come any more: its next phase is called off, for good. Phases that it has entered complete.
  void leave(int member) noexcept;

  /// The member that has left first since the last reset(), -1 if none has. Seen by whoever returns false because of it.
  int left() const noexcept { return static_cast<int>(left_.load(std::memory_order_relaxed)) - 1; }

  /// Member 0: opens a region. The others get `work` from receive(); null function: dismisses them.
  /// `words`: not 0: `work.data` points to so many words (at most most_words); the others get a copy, good until the
  /// region ends, on the line that tells them of it, so that they fetch no other from member 0.
  void fork(Work work, std::size_t words = 0) noexcept;

  /// Member 0: ends the region; true once all have left their work, false if the join was called off.
  bool join() noexcept;

  /// The others: the work of the next region. From the second call on it ends the last one first.
  /// No function: dismissed, or the join was called off.
  Work receive(int member) noexcept;

  /// True for exactly one member of those that call it for the n-th time, the first to come. Every member
  /// calls it equally often. No ordering: what the one does is seen after the next barrier.
  bool claim(int member) noexcept;

  /// A word by which members hand each other something, ordered by barriers as all memory. It lies where the
  /// barrier of two members looks anyway.
  void*& handed() noexcept { return handed_; }

  /// As new. Requires: nobody is inside, and others learn of it by something that synchronizes.
  void reset() noexcept;

 private:
  static constexpr int max_rounds = 12;
  static constexpr int fan_in = 4;

  struct alignas(separation_bytes) Member {
    // Written by one partner each, read by the member: the last phase that the partner entered, by round.
    std::atomic<std::uint32_t> signals[max_rounds] = {};
    // Written by the member: the last region that it and all below it have left.
    alignas(separation_bytes) std::atomic<std::uint32_t> left{0};
    // The member's own.
    alignas(separation_bytes) std::uint32_t phase = 0;
    std::uint32_t region = 0;
    std::uint32_t claims = 0;
    std::uint32_t met = 0;  ///< what the counter of the pairwise barrier comes to in the last one that it entered
    bool working = false;   ///< in a region: the next receive() leaves it
    Waiter waiter;
  };

  bool disseminate(int member, Member& self) noexcept;
  bool count_in(Member& self) noexcept;
  bool meet(Member& self) noexcept;
  bool gather(int member, Member& self) noexcept;
  bool is_off(std::uint32_t phase) const noexcept;
  bool enter_phase(Member& self) noexcept;
  bool leave_region(int member, Member& self) noexcept;

  void wake(Parking& parking) noexcept;
  void note_time() noexcept;

  template <class Reached>
  bool wait(Member& self, Parking& parking, const Reached& reached) noexcept;

  const int size_;
  const bool flat_;
  CachelinePaddedVector<Member> members_;

  alignas(separation_bytes) std::atomic<std::uint32_t> off_{0};     ///< the phase called off; 0: none
  std::atomic<std::uint32_t> left_{0};                              ///< member + 1 that has left
  alignas(separation_bytes) Parking parking_;                       ///< of barriers, and of members without work
  Parking joining_;                                                 ///< of those who wait for others to leave
  alignas(separation_bytes) std::atomic<std::uint32_t> opened_{0};  ///< the region that was opened last
  Work work_;                                                       ///< its work, on the same line
  std::uintptr_t words_[most_words] = {};                           ///< its data, if copied
  // Of two members: pairwise barriers entered, by both. Claims are on the same line, as who comes last to a pairwise
  // barrier has that line to itself just then and is the first to come to a claim behind it.
  alignas(separation_bytes) std::atomic<std::uint32_t> arrivals_{0};
  std::atomic<std::uint32_t> claims_{0};  ///< claims that somebody has won
  void* handed_ = nullptr;
  // Of the flat form.
  alignas(separation_bytes) std::atomic<std::uint32_t> arrived_{0};
  alignas(separation_bytes) std::atomic<std::uint32_t> generation_{0};  ///< the phase that completed last
  alignas(separation_bytes) std::atomic<std::uint32_t> gone_{0};        ///< members that left, all regions
  std::atomic<std::uint64_t> happened_{0};  ///< when somebody had something to wait for no more (WaitConfig::happened)
};

}  // namespace smelt::comm
