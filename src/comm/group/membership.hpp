// Membership: who takes part in a communicator, and who has died.
//
// Shared memory, read and written by threads of any process that maps it; no pointers inside:
//
//   | head: first dead, joins | head: decision | head: parking | rank 0 | rank 1 | ... | proposals |
//
// The state of a rank is one 64-bit word, so that joining, leaving and dying are single compare-and-swap operations,
// and a process that is killed at any instruction leaves nothing incomplete:
//
//   | start time of the process, 40 bits | pid, 22 bits | state, 2 bits |      absent = 0
//
//   absent --join--> present --leave--> left
//       \               \---mark_dead--> dead        left and dead are final
//        \--mark_absent_dead--------------------^
//
// The start time (field 22 of /proc/<pid>/stat) distinguishes a process from a later one with the same pid. Waiting
// ranks notice deaths: of other processes by a FailureDetector, of threads by ThreadExitGuard.
//
// Attendance. A thread attaches to a rank and later detaches. Both add 1 to the rank's attendance, so it is odd while a
// thread is attached.
//   Rule: for a rank with attendance a (odd), another rank has left if that one's attendance is even and above a: it
//   was attached after this one attached, and is detached now. If it is even and below a, the other rank has yet to
//   attach: all ranks may attach and detach any number of times, as Communicator::run() does. A rank in state `left`
//   never comes back.
//   Invariant: a rank detaches after its part of every collective that it has returned from. So a rank that acquires
//   the departure and still lacks something from the departed rank will never get it.
//
// Agreement on the survivors. All calls of agree_on_survivors() that return a set return the same set.
//   Rule: a rank announces its arrival, then waits until every other rank has arrived, is dead or has left, or until
//   its timeout. Then it writes the set of arrived and present ranks into its own proposal, and tries to change the
//   decision from 0 to its own rank + 1 by compare-and-swap. The result is the proposal of the rank that the decision
//   names. Invariant: once the decision is not 0, it and the proposal that it names never change.
//   Proof: Only the swap from 0 writes the decision, so exactly one swap succeeds. A proposal is written by its owner
//   alone, before its only swap. A rank that dies while it writes never swaps, so an incomplete proposal is never
//   named. The swap releases the proposal and readers acquire the decision, so all read the same complete set
//   (agreement). It holds arrived ranks only, since "arrived" is never reset (validity). No rank waits for a dead one,
//   as waiting ranks mark the dead; after that each takes a bounded number of its own steps (termination).
//   A compare-and-swap solves consensus for any number of crashes: Herlihy, "Wait-free
//   synchronization", ACM TOPLAS 13(1), 1991.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/cacheline.hpp"
#include "base/process.hpp"
#include "base/wait.hpp"
#include "smelt/error.hpp"

namespace smelt::comm {

enum class MemberState : std::uint8_t { absent = 0, present = 1, left = 2, dead = 3 };

class FailureDetector;

/// A view of the registry; cheap to copy. The memory must outlive it.
class Membership {
 public:
  static constexpr int most_ranks = 1024;

  /// Bytes of shared memory that a registry of so many ranks needs.
  static std::size_t bytes(int ranks) noexcept;

  /// `memory`: bytes(ranks) bytes, zeroed before the first use, separation_bytes-aligned.
  /// 1 <= ranks <= most_ranks.
  Membership(std::byte* memory, int ranks) noexcept;

  int ranks() const noexcept { return ranks_; }

  /// The calling process takes a rank that nobody has taken. Errors: rank out of range, taken
  /// before (also by one that has left), a process of another PID namespace.
  Result<void> join(int rank);

  /// Whether pids in the registry are valid in this process: it is in the same PID and time namespaces as those that
  /// have joined, or none has joined yet.
  bool same_namespaces() const noexcept;

  /// Gives up a rank of this process; any thread may. No effect on what is not a present rank of
  /// this process.
  void leave(int rank) noexcept;

  /// Whether it is this process that took the rank; a forked child is another one.
  bool mine(int rank) const noexcept;

  /// Marks a present rank dead. True if it was present. Requirement: the rank is dead.
  bool mark_dead(int rank) noexcept;

  /// The process of a present rank has ended. The rank has left if its thread had detached before; else it is dead.
  void mark_ended(int rank) noexcept;

  /// Marks an absent rank dead. True if it was absent.
  bool mark_absent_dead(int rank) noexcept;

  /// The calling thread attaches to a rank of this process that no thread is attached to, or detaches if it is
  /// attached. A thread that sees the departure sees all that the rank did before. attach() returns the rank's
  /// attendance.
  std::uint32_t attach(int rank) noexcept;
  void detach(int rank) noexcept;
  std::uint32_t attendance(int rank) const noexcept;

  /// 0 while `rank` may still take part in the collectives of a rank with attendance `own`. Otherwise it has left (see
  /// above), and the value identifies the departure. Cost: reads a line that is hardly ever written.
  std::uint32_t departure(int rank, std::uint32_t own) const noexcept;
  static constexpr std::uint32_t for_good = UINT32_MAX;

  MemberState state(int rank) const noexcept;
  bool present(int rank) const noexcept { return state(rank) == MemberState::present; }

  /// The process that took the rank; pid 0 if none did.
  ProcessId process(int rank) const noexcept;

  /// Kernel id of the thread that last joined or was bound to the rank; for error messages.
  pid_t thread(int rank) const noexcept;

  /// The rank whose death was noticed first, -1 while all live. Cost: one load.
  int first_dead() const noexcept;

  /// The ranks that are present now, ascending.
  std::vector<int> survivors() const;

  /// The same set of survivors for every rank that calls (see above), once per Membership; a second
  /// call returns the same. Requirements: `rank` is a present rank of this process, each rank calls
  /// from one thread and does not leave meanwhile. Ranks that have not come after `timeout_s` (0:
  /// wait for all that live) are left out. Errors: Status::timed_out where this rank came after the
  /// others had decided without it; invalid_argument.
  Result<std::vector<int>> agree_on_survivors(int rank, FailureDetector& detector, double timeout_s,
                                              const WaitConfig& config = {.across_processes = true});

 private:
  friend class FailureDetector;
  friend class ThreadExitGuard;

  struct alignas(separation_bytes) Head {
    std::atomic<std::uint32_t> first_dead;  // rank + 1
    std::atomic<std::uint32_t> joins;       // counts joins: a hint that there is somebody to watch
    std::atomic<std::uint64_t> namespaces;  // in which pids and start times were taken
    alignas(separation_bytes) std::atomic<std::uint32_t> decision;  // rank + 1
    Parking parking;                                                // of those who wait to agree
  };
  struct alignas(separation_bytes) Record {
    std::atomic<std::uint64_t> word;
    std::atomic<std::uint32_t> thread;
    std::atomic<std::uint32_t> arrived;  // 1: takes part in the agreement
    std::atomic<std::uint32_t> attendance;
  };

  Head& head() const noexcept { return *reinterpret_cast<Head*>(memory_); }
  Record& record(int rank) const noexcept { return reinterpret_cast<Record*>(memory_ + sizeof(Head))[rank]; }
  std::uint64_t* proposal(int rank) const noexcept;
  void note_death(int rank) noexcept;
  bool settled(int rank, std::uint32_t own) const noexcept;
  void propose(int rank) noexcept;

  std::byte* memory_;
  int ranks_;
};

/// Detects deaths of other processes that hold ranks. Belongs to the process that made it, not to forked children; its
/// threads may share it. Holds a pidfd for each process that it has seen.
class FailureDetector {
 public:
  enum class Method {
    automatic,  ///< pidfds; /proc where the kernel or a limit refuses them
    proc,       ///< /proc only
  };

  /// The memory of `members` must outlive the failure detector.
  /// `interval_ns`: between two looks at the processes.
  explicit FailureDetector(const Membership& members, Method method = Method::automatic,
                           std::uint64_t interval_ns = 1'000'000);
  FailureDetector(const FailureDetector&) = delete;
  FailureDetector& operator=(const FailureDetector&) = delete;
  ~FailureDetector();

  /// True if any rank is dead, whoever detected it. Intended for waiting loops: checks the processes at most once per
  /// millisecond (one system call for all of them), else reads the clock only. No locks, no allocation, no cancellation
  /// point. A death is detected by the first call that is at least 1 ms (without pidfds: 20 ms) after the last one.
  bool check() noexcept;

 private:
  struct Process {
    std::uint64_t id = 0;  // word of its ranks without the state; 0: free entry
    int pidfd = -1;
    bool dead = false;
    bool used = false;
  };

  void poll(std::uint64_t now_ns) noexcept;
  void find_processes() noexcept;
  int entry_for(std::uint64_t id) noexcept;
  void open(int entry) noexcept;
  void close_pidfd(Process& process) noexcept;
  void probe_all() noexcept;
  void lost(int entry) noexcept;

  Membership members_;
  const std::uint64_t interval_ns_;
  std::vector<Process> processes_;
  std::vector<int> process_of_;  // by rank: entry, -1 if none
  std::uint64_t own_id_ = 0;
  int epoll_ = -1;
  int probed_ = 0;  // entries that live without a pidfd
  bool searched_ = false;
  std::uint32_t seen_joins_ = 0;
  std::uint64_t next_search_ns_ = 0;
  std::uint64_t next_probe_ns_ = 0;
  std::atomic<std::uint64_t> next_poll_ns_{0};
  std::atomic<bool> busy_{false};  // guards everything above but next_poll_ns_
};

/// Detects the end of a thread that holds a rank. While bound, the rank is marked dead when the thread ends in any way:
/// its function returns, pthread_exit, cancellation, exit(). The main thread detaches from the rank instead, since a
/// program may call exit() without freeing anything. Movable. The owner, on any thread, releases the guard before it
/// leaves the rank.
class ThreadExitGuard {
 public:
  ThreadExitGuard() noexcept = default;

  /// Binds the calling thread to `rank`. `memory`: owner of the memory of `members`; once that is gone, the guard has
  /// no effect.
  ThreadExitGuard(const Membership& members, int rank, std::weak_ptr<const void> memory);
  ThreadExitGuard(ThreadExitGuard&&) noexcept = default;
  ThreadExitGuard& operator=(ThreadExitGuard&& other) noexcept;
  ~ThreadExitGuard() { release(); }

  /// Removes the binding. Once this returns, the end of the thread has no effect.
  void release() noexcept;

 private:
  struct ThreadBinding;
  class ThreadBindings;
  static ThreadBindings& bindings_of_this_thread();

  std::shared_ptr<ThreadBinding> binding_;
};

}  // namespace smelt::comm
