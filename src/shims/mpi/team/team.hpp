// MpiTeam: the shim's state of an MPI communicator.
//
// A team is created after the first successful collective on its communicator, is attached to the communicator as an
// attribute, and is freed with it. After enough successful collectives all ranks agree on whether smelt serves them:
// immediately in a call that may wait for other ranks (team_setup.cpp), step by step in others (agreement.hpp).
//
// Several machines: the ranks of each machine have a smelt communicator; the first rank of each is its leader.
//
//        machine 0                machine 1
//     0 ── smelt ── 1          2 ── smelt ── 3
//     └────── the library's `leaders` ──────┘
#pragma once

#include <smelt/smelt.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "shims/mpi/calls/call_cache.hpp"
#include "shims/mpi/calls/lookup_cache.hpp"
#include "shims/mpi/original.hpp"
#include "shims/mpi/server_selection.hpp"
#include "shims/mpi/team/agreement.hpp"

namespace smelt::shims::mpi::inline SMELT_MPI_ABI {

struct MpiTeam;
class NonblockingOperation;

/// Nonblocking operations of a team that are not completed yet (nonblocking_operation.hpp).
struct PendingOperations {
  std::atomic<int> count{0};  ///< written by the holder of `busy`
  std::atomic_flag busy = {};
  bool listed = false;
  NonblockingOperation* first = nullptr;  ///< in the order of their starts; guarded by `busy`
  NonblockingOperation* last = nullptr;
  MpiTeam* next = nullptr;  ///< in the list of teams with pending operations

  /// A completed request that an equal call may start again; guarded by `busy`.
  struct IdleRequest {
    smelt_call call = {};  ///< its arrays lie in `blocks`
    std::vector<std::size_t> blocks = {};
    smelt_request* work = nullptr;
  };
  static constexpr std::size_t most_idle = 4;
  IdleRequest idle_requests[most_idle];
  std::size_t next_idle = 0;  ///< the place of the next one

  /// Acquire pairs with the store after the last one was completed. Then the team's `local` is free.
  bool any() const noexcept { return count.load(std::memory_order_acquire) != 0; }
  bool try_lock() noexcept;
  void lock() noexcept;
  void unlock() noexcept;
};

/// Why the library serves a communicator whose ranks have not agreed yet. A rank with SMELT_MPI=0 takes part in that.
const char* why_early() noexcept;

struct MpiTeam {
  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0;
  int size = 0;
  /// smelt serves collectives. Written before the calls that read it, by the same thread.
  bool ready = false;
  bool sampling = false;  ///< all ranks have SMELT_VERBOSE=1: the library serves some rounds, for comparison
  bool followed = false;  ///< on all ranks the library's progress progresses nonblocking operations
  PendingOperations pending_operations;
  std::unique_ptr<ServerSelection> race;  ///< of one machine; null: smelt serves all calls that it supports
  CallCache call_cache;                   ///< of one machine
  bool settled = false;                   ///< the ranks have agreed whether to use smelt
  bool firm =
      false;  ///< the library permanently serves calls whose results depend on the server (global_call_info.hpp)
  std::uint64_t round = 0;
  int calls_to_step = 0;  ///< until the library makes a step of progress in any case (progress.hpp)
  int successes = 0;      ///< of the library, counted until the agreement
  /// The last reduction of which team_of_firm() has found that anybody may serve it.
  struct {
    MPI_Op op = MPI_OP_NULL;
    MPI_Datatype type = MPI_DATATYPE_NULL;
  } alternating{};
  int asks_at = 0;  ///< how many there are when the ranks agree, or ask each other again whether to
  std::chrono::steady_clock::time_point known_since{};  ///< about when the first of them ended
  const char* why = why_early();
  std::optional<Agreement> agreement;  ///< in progress

  smelt_communicator* communicator = nullptr;
  smelt_rank* local = nullptr;  ///< this rank among those of its machine; null if it is alone there

  // Of several machines; all tables by rank of `comm`.
  int machines = 1;
  int machine = 0;                      ///< of this rank
  int local_rank = 0, local_size = 0;   ///< on it
  MPI_Comm leaders = MPI_COMM_NULL;     ///< of the library, on leaders: machine m's leader is rank m
  MPI_Comm neighbours = MPI_COMM_NULL;  ///< of the library: the ranks of this machine, as smelt numbers them
  std::vector<int> machine_of, local_of;
  std::vector<int> machine_size;
  std::vector<int> by_machine;  ///< ranks in the order of machines, and on each in that of `comm`
  std::vector<int> first_of;    ///< of each machine, in by_machine; and its end
  bool in_blocks = true;        ///< by_machine is 0, 1, 2, ...

  MpiTeam() = default;
  MpiTeam(const MpiTeam&) = delete;
  MpiTeam& operator=(const MpiTeam&) = delete;

  /// Reference count: owners keep a team beyond the end of its communicator. The last release deletes it.
  void retain() noexcept { owners_.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept;

  /// The communicator is gone; the team stays as long as it has owners.
  void orphan() noexcept { orphan_.store(true, std::memory_order_relaxed); }
  /// The communicator whose error handler is called.
  MPI_Comm blamed() const noexcept { return orphan_.load(std::memory_order_relaxed) ? MPI_COMM_WORLD : comm; }

  bool early = false;  ///< by settle_for_good()
  std::chrono::steady_clock::time_point settled_at{};
  std::chrono::steady_clock::duration settling{};  ///< how long that took

  void detach() noexcept;      ///< frees objects of smelt
  void disconnect() noexcept;  ///< frees objects of the library; collective

  bool leads() const noexcept { return local_rank == 0; }
  std::span<const int> ranks_of(int on) const noexcept {
    const auto at = static_cast<std::size_t>(on);
    return {by_machine.data() + first_of[at], by_machine.data() + first_of[at + 1]};
  }

 private:
  ~MpiTeam();

  std::atomic<int> owners_{1};  ///< the communicator's attribute is one
  std::atomic<bool> orphan_{false};
};

// Incremented whenever a communicator with a team is freed, with release; acquire in find_team().
extern constinit std::atomic<std::uint32_t> team_generation;
MpiTeam* look_up_team(MPI_Comm comm) noexcept;

inline LookupCacheEntry& place_of(MPI_Comm comm) noexcept { return cached_teams[spread(comm) % team_cache_size]; }

/// The team of a communicator, or null. Cost: a look-up in a small table of this thread.
inline MpiTeam* find_team(MPI_Comm comm) noexcept {
  const LookupCacheEntry& entry = place_of(comm);
  if (entry.handle == number_of(comm) && entry.generation == team_generation.load(std::memory_order_acquire)) [[likely]]
    return static_cast<MpiTeam*>(const_cast<void*>(entry.found));
  return look_up_team(comm);
}

/// Whether smelt serves the collective that this rank is about to call on a team that is not ready. If so, the team
/// becomes ready.
bool turns_ready(MpiTeam& team) noexcept;

/// Called after a collective of the library has succeeded on a communicator: creates its team, or settles it when it is
/// time. A nonblocking collective only begins to.
void note_success(MPI_Comm comm, bool blocking = true) noexcept;

/// The team of a communicator, created if necessary; null on failure.
MpiTeam* need_team(MPI_Comm comm) noexcept;

/// Called before the first call whose result depends on the server, on a team that is not ready: settles it if all
/// ranks agree; otherwise the library serves such calls permanently. Collective.
void settle_for_good(MpiTeam& team) noexcept;

/// Settles a team after a call that announces many others and that may wait for the other ranks.
void settle_soon(MPI_Comm comm) noexcept;

/// Agrees with the other ranks on whether smelt serves this communicator, and builds what is needed. Collective.
void settle(MpiTeam& team) noexcept;

/// Number of collectives on a communicator after which a smelt communicator pays.
int calls_before() noexcept;

/// Number of calls of a cell before its first contest; 0: there are none.
int calls_before_race() noexcept;

/// Not SMELT_MPI=0.
bool enabled() noexcept;

/// Frees all teams, except what MPI_Finalize frees anyway.
void release_teams() noexcept;

/// Reports a failure of smelt by the communicator's error handler. Returns an MPI error code.
int report_failure(MpiTeam& team, int code = MPI_ERR_OTHER);

}  // namespace smelt::shims::mpi::inline SMELT_MPI_ABI
