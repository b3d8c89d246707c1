// ForkJoinTeam: fork-join regions for existing threads, numbered 0 .. size-1.
//
//   member 0   --- fork ---- work ---- join ---------- fork ---- work ---- join ------ dismiss
//   the others --- receive - work ---- receive (joins, then waits) ------- receive --- receive: nothing more
//
// A region contains any number of barriers. Every barrier and every join is a *phase*. All members go through the same
// phases in the same order, and each counts them for itself.
//
// Calling off. A runtime's own barrier may do more (for example run tasks). A member that needs it calls the current
// phase off *before it enters it*. Then no member passes that phase here: all members return false and use the
// runtime's barrier instead, for this phase and all later ones until reset().
//
//   Invariant: a mark names a phase that its writer has not entered, so that phase cannot complete. A member that is
//   still leaving the previous phase sees a mark for another phase and completes, since every member has entered the
//   previous one. So all members leave a phase the same way: by completion, or by the mark.
//
// Leaving is calling off permanently: a member that has left does not enter its next phase.
//
// Join takes one of two forms, barrier one of three:
//   members > PUs    flat: one counter and one generation word (as in flat_barrier.hpp), because every further step
//                    would be a context switch. Wakes by read-modify-write (unpark_by_rmw): many sleep, few wake
//   else             join: each member gathers its four children in a heap, then reports to its parent
//                    barrier: dissemination, in round k member i signals i + 2^k and awaits i - 2^k (mod size)
//   2 members        barrier: pairwise. One counter that never decreases; each member adds 1, the n-th barrier is
//                    complete at 2n. The line that is fetched for the addition contains the partner's arrival, so
//                    the last member waits for one line only; with two flags it would wait for two
//
//   Invariant of the pairwise barrier: a member that enters its n-th barrier finds 2n - 2 or 2n - 1, since the partner
//   has entered the previous one and cannot leave this one alone. While it waits it sees 2n - 1, 2n, or 2n + 1 if the
//   partner is in its next one.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/cacheline.hpp"
#include "base/cacheline_padded.hpp"
#include "base/wait.hpp"

namespace smelt::comm {

/// The work of a region; opaque to the team.
struct Work {
  void (*function)(void*) = nullptr;  ///< null: the team is dismissed
  void* data = nullptr;
};

/// Most words of a region's data that are copied to the members together with its announcement.
constexpr std::size_t most_words = 5;

class ForkJoinTeam {
 public:
  static constexpr int max_size = 4096;

  /// `size` members (2 .. max_size), of which `parallelism` can run at the same time, and how they wait.
  ForkJoinTeam(int size, int parallelism, const WaitConfig& wait);

  int size() const noexcept { return size_; }

  /// Returns true once all members have entered; false if the phase was called off.
  /// Ordering: what any member did before, all see after.
  bool barrier(int member) noexcept;

  /// Calls off the phase that the calling member enters next, and all later ones until reset(). Wakes sleepers.
  /// Ordering: what the caller did before is visible to members that return false because of it.
  void call_off(int member) noexcept;

  /// Whether a phase was called off since the last reset(), as far as the caller can see.
  bool called_off() const noexcept { return off_.load(std::memory_order_relaxed) != 0; }

  /// The member will not come any more: its next phase is called off permanently. Phases that it has entered complete.
  void leave(int member) noexcept;

  /// The first member that has left since the last reset(), -1 if none has. Visible to members that return false
  /// because of it.
  int left() const noexcept { return static_cast<int>(left_.load(std::memory_order_relaxed)) - 1; }

  /// Member 0: opens a region. The others get `work` from receive(); a null function dismisses them. `words`: if not 0,
  /// `work.data` points to so many words (at most most_words), and the others get a copy that is valid until the region
  /// ends. The copy is on the line that announces the region, so they fetch no other line from member 0.
  void fork(Work work, std::size_t words = 0) noexcept;

  /// Member 0: ends the region. True once all members have finished their work, false if the join was called off.
  bool join() noexcept;

  /// The others: waits for the work of the next region. From the second call on, ends the previous region first.
  /// A null function: dismissed, or the join was called off.
  Work receive(int member) noexcept;

  /// True for the first of the members that call it for the n-th time. Every member calls it equally often.
  /// Ordering: none. What the winner does is visible after the next barrier.
  bool claim(int member) noexcept;

  /// A word that members may use to exchange data, ordered by barriers like other memory. It is on a line that the
  /// pairwise barrier reads anyway.
  void*& handed() noexcept { return handed_; }

  /// Restores the initial state. Requirement: no member is in a call, and the caller synchronizes with all of them.
  /// `phases`: that have been, for tests of what many regions lead to.
  void reset(std::uint32_t phases = 0) noexcept;

 private:
  static constexpr int max_rounds = 12;
  static constexpr int fan_in = 4;

  struct alignas(separation_bytes) Member {
    // By round: the last barrier that the partner has entered. Written by that partner, read by the member.
    std::atomic<std::uint32_t> signals[max_rounds] = {};
    // The last region that the member and all below it have left. Written by the member.
    alignas(separation_bytes) std::atomic<std::uint32_t> left{0};
    // Private to the member.
    alignas(separation_bytes) std::uint32_t phase = 0;
    std::uint32_t region = 0;
    std::uint32_t claims = 0;
    // That it has entered. Not the phase: before a barrier after 2^31 joins, what others have entered would be too old
    // to be compared with it.
    std::uint32_t barriers = 0;
    bool working = false;  ///< in a region, which the next receive() ends
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
  alignas(separation_bytes) Parking parking_;                       ///< for barriers and for members without work
  Parking joining_;                                                 ///< for members that wait for others to leave
  alignas(separation_bytes) std::atomic<std::uint32_t> opened_{0};  ///< the last region that was opened
  Work work_;                                                       ///< its work, on the same line
  std::uintptr_t words_[most_words] = {};                           ///< its data, if copied
  // Two members: number of pairwise barriers that they have entered, both together. Claims are on the same line, since
  // the last member of a pairwise barrier owns that line then, and is the first to reach a claim after it.
  alignas(separation_bytes) std::atomic<std::uint32_t> arrivals_{0};
  std::atomic<std::uint32_t> claims_{0};  ///< claims that were won
  void* handed_ = nullptr;
  // Of the flat form.
  alignas(separation_bytes) std::atomic<std::uint32_t> arrived_{0};
  alignas(separation_bytes) std::atomic<std::uint32_t> generation_{0};  ///< the phase that completed last
  alignas(separation_bytes) std::atomic<std::uint32_t> gone_{0};        ///< members that left, all regions
  std::atomic<std::uint64_t> happened_{0};  ///< time of the last event that ends a wait (WaitConfig::happened)
};

}  // namespace smelt::comm
