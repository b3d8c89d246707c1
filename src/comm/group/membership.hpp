// Membership: who takes part in a communicator, and who has died.
//
// Shared memory, read and written by threads of any process that maps it; no pointers inside:
//
//   | head: first dead, joins | head: decision | head: parking | rank 0 | rank 1 | ... | proposals |
//
// A rank is one 64-bit word (the rest of its record is beside the point), so that joining, leaving
// and dying are single compare-and-swap operations and a process killed at any instruction leaves
// nothing half-written:
//
//   | start time of the process, 40 bits | pid, 22 bits | state, 2 bits |      absent = 0
//
//   absent --join--> present --leave--> left
//       \               \---mark_dead--> dead        left and dead are final
//        \--mark_absent_dead--------------------^
//
// The start time (field 22 of /proc/<pid>/stat) tells a process from a later one with its pid.
// Deaths are noticed by those who wait: of other processes by a FailureDetector, of threads by ThreadExitGuard.
//
// Attendance. A rank of a process is used by a thread that attaches to it, and given up when that detaches; both add 1
// to the rank's attendance, which is odd while somebody has it.
//   Rule: to a rank whose own attendance is a (odd), another one has left once that one's is even and above a: it has
//   been here since this one came, and is gone. One that is even and below a has not come yet: ranks may be attached
//   and given up together any number of times, as Communicator::run() does. A rank that is `left` will never come.
//   Invariant: a rank gives up its attendance after its part of every collective that it has returned from. So whoever
//   acquires the departure and then still misses something of that rank will never get it.
//
// Agreement on the survivors. All who call agree_on_survivors() and return a set return the same.
//   Rule: a rank says that it has arrived, then waits until every rank has arrived, is dead or has
//   left, its process or its thread (or its time is over). Then it writes the set of those who have arrived and are present
//   into its own proposal, and tries decision: 0 -> own rank + 1 by compare-and-swap. The set that
//   counts is the proposal of the rank that the decision names.
//   Invariant: once the decision is not 0, it and the proposal that it names never change.
//   Proof: only the swap from 0 writes the decision, so one swap succeeds. A proposal is written by
//   its owner alone, before its only swap: a rank that dies while it writes never swaps, so a
//   half-written proposal is never named. The swap releases the proposal and whoever reads the decision
//   acquires it, so all read the same complete set (agreement); it holds arrived ranks only, since
//   "arrived" is never taken back (validity). Nobody waits for a dead rank, for whoever waits marks
//   the dead; from there on each takes a bounded number of steps of its own (termination).
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

  /// Whether pids in the registry mean to this process what they meant to those who joined: they are
  /// in the same PID and time namespaces, or nobody has joined yet.
  bool same_namespaces() const noexcept;

  /// Gives up a rank of this process; any thread may. No effect on what is not a present rank of
  /// this process.
  void leave(int rank) noexcept;

  /// Whether it is this process that took the rank; a forked child is another one.
  bool mine(int rank) const noexcept;

  /// Marks a present rank dead. True if it was present. Whoever calls knows that it is dead.
  bool mark_dead(int rank) noexcept;

  /// The process of a present rank has ended. A rank that a thread had used and given up before has left, for good;
  /// any other is dead.
  void mark_ended(int rank) noexcept;

  /// Marks a rank dead that never joined. True if it was absent.
  bool mark_absent_dead(int rank) noexcept;

  /// The calling thread takes a rank of this process, which no thread has, or gives up the one it has (if it has it).
  /// Whoever sees the departure sees all that the rank did before. attach() returns the rank's attendance.
  std::uint32_t attach(int rank) noexcept;
  void detach(int rank) noexcept;
  std::uint32_t attendance(int rank) const noexcept;

  /// 0 as long as `rank` may still take part in what a rank of attendance `own` takes part in. Else it has left (see
  /// above), and the value differs from that of any other departure of it. Cost: a look at a line that is hardly ever
  /// written.
  std::uint32_t departure(int rank, std::uint32_t own) const noexcept;
  static constexpr std::uint32_t for_good = UINT32_MAX;

  MemberState state(int rank) const noexcept;
  bool present(int rank) const noexcept { return state(rank) == MemberState::present; }

  /// The process that took the rank; pid 0 if none did.
  ProcessId process(int rank) const noexcept;

  /// Kernel's id of the thread that last joined or was bound to the rank, for error texts.
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

/// Notices the deaths of other processes that hold ranks. Belongs to the process that made it (not
/// to its forked children); its threads may share it. Holds a pidfd for each process it has seen.
class FailureDetector {
 public:
  enum class Method {
    automatic,  ///< pidfds; /proc where the kernel or a limit refuses them
    proc,       ///< /proc only
  };

  /// The memory of `members` must outlive the failure detector.
  explicit FailureDetector(const Membership& members, Method method = Method::automatic);
  FailureDetector(const FailureDetector&) = delete;
  FailureDetector& operator=(const FailureDetector&) = delete;
  ~FailureDetector();

  /// True if any rank is dead, whoever noticed. Made for waiting loops: looks at the processes once
  /// in a millisecond at most (one system call, however many processes), else costs a look at
  /// the clock. No locks, no allocation, no cancellation point. A death is seen by the first call
  /// that comes at least 1 ms (without pidfds: 20 ms) after the last one.
  bool check() noexcept;

 private:
  struct Process {
    std::uint64_t id = 0;  // word of its ranks without the state; 0: this entry is free
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

/// Notices the end of a thread that holds a rank. While bound, the rank is marked dead when the
/// bound thread ends in any way: its function returns, pthread_exit, cancellation, exit(). The first thread of a process
/// gives the rank up instead: it ends by exit(), which a program may call without having freed anything. Movable;
/// whoever owns the guard, on any thread, releases it before leaving the rank.
class ThreadExitGuard {
 public:
  ThreadExitGuard() noexcept = default;

  /// Binds the calling thread to `rank`. `memory`: owner of the memory of `members`; once it is
  /// gone the guard has no effect.
  ThreadExitGuard(const Membership& members, int rank, std::weak_ptr<const void> memory);
  ThreadExitGuard(ThreadExitGuard&&) noexcept = default;
  ThreadExitGuard& operator=(ThreadExitGuard&& other) noexcept;
  ~ThreadExitGuard() { release(); }

  /// Undoes the binding; the end of the thread has no effect any more once this returns.
  void release() noexcept;

 private:
  struct ThreadBinding;
  class ThreadBindings;
  static ThreadBindings& bindings_of_this_thread();

  std::shared_ptr<ThreadBinding> binding_;
};

}  // namespace smelt::comm
