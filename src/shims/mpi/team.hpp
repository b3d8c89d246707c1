// MpiTeam: what the shim knows of an MPI communicator.
//
// A team is made when the first collective on its communicator has succeeded, hangs on the communicator as an
// attribute, and is freed with it. Once so many collectives have succeeded that it pays, all ranks agree on whether
// smelt serves them: in a call that may wait for the others at once (team_setup.cpp), in others by and by
// (agreement.hpp).
//
// Several machines: ranks of one machine are a smelt communicator each; the first rank of each is its leader.
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

#include "shims/mpi/agreement.hpp"
#include "shims/mpi/call_cache.hpp"
#include "shims/mpi/lookup_cache.hpp"
#include "shims/mpi/original.hpp"
#include "shims/mpi/server_selection.hpp"

namespace smelt::shims::mpi::inline SMELT_MPI_ABI {

struct MpiTeam;
class NonblockingOperation;

/// Nonblocking operations of a team that have not landed yet (nonblocking_operation.hpp).
struct PendingOperations {
  std::atomic<int> count{0};  ///< written by who holds `busy`
  std::atomic_flag busy = {};
  bool listed = false;
  NonblockingOperation* first = nullptr;  ///< in the order of their starts; guarded by `busy`
  NonblockingOperation* last = nullptr;
  MpiTeam* next = nullptr;  ///< in the list of teams with flights

  /// Work that has landed and may be started again by a call like it; guarded by `busy`.
  struct IdleRequest {
    smelt_call call = {};  ///< its arrays lie in `blocks`
    std::vector<std::size_t> blocks = {};
    smelt_request* work = nullptr;
  };
  static constexpr std::size_t most_idle = 4;
  IdleRequest idle_requests[most_idle];
  std::size_t next_idle = 0;  ///< whose place the next one takes

  /// Acquire pairs with the store after the last one has landed: then the team's `local` is free.
  bool any() const noexcept { return count.load(std::memory_order_acquire) != 0; }
  bool try_lock() noexcept;
  void lock() noexcept;
  void unlock() noexcept;
};

struct MpiTeam {
  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0;
  int size = 0;
  /// Collectives run through smelt. Written before the calls that look at it, by the thread that makes them.
  bool ready = false;
  bool sampling = false;  ///< all ranks have SMELT_VERBOSE=1: some rounds go to the library, to be timed
  bool followed = false;  ///< on all ranks the library's progress moves nonblocking operations along
  PendingOperations pending_operations;
  std::unique_ptr<ServerSelection> race;  ///< of one machine; null: smelt serves all that it can
  CallCache call_cache;                   ///< of one machine
  bool settled = false;  ///< the ranks have agreed whether to use smelt
  bool firm = false;  ///< the library serves for good the calls whose results depend on who does (global_call_info.hpp)
  std::uint64_t round = 0;
  int successes = 0;  ///< of the library, on the way to the agreement
  const char* why = "one of the first calls on its communicator";
  std::optional<Agreement> agreement;  ///< under way

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

  /// Who keeps a team beyond the end of its communicator. The last release deletes it.
  void retain() noexcept { owners_.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept;

  /// The communicator is gone; the team stays as long as it has owners.
  void orphan() noexcept { orphan_.store(true, std::memory_order_relaxed); }
  /// Whose error handler is called.
  MPI_Comm blamed() const noexcept { return orphan_.load(std::memory_order_relaxed) ? MPI_COMM_WORLD : comm; }

  std::chrono::steady_clock::time_point settled_at{};  ///< by settle_for_good()
  std::chrono::steady_clock::duration settling{};      ///< how long that took

  void detach() noexcept;      ///< frees what is smelt's
  void disconnect() noexcept;  ///< frees what is the library's; collective

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

// Grows whenever a communicator with a team is freed. Release where it grows, acquire in find_team().
extern constinit std::atomic<std::uint32_t> team_generation;
MpiTeam* look_up_team(MPI_Comm comm) noexcept;

inline LookupCacheEntry& place_of(MPI_Comm comm) noexcept { return cached_teams[spread(comm) % team_cache_size]; }

/// The team of a communicator that has one; null for others. Cost: a look into a small table of this thread.
inline MpiTeam* find_team(MPI_Comm comm) noexcept {
  const LookupCacheEntry& entry = place_of(comm);
  if (entry.handle == number_of(comm) && entry.generation == team_generation.load(std::memory_order_acquire)) [[likely]]
    return static_cast<MpiTeam*>(const_cast<void*>(entry.found));
  return look_up_team(comm);
}

/// Whether the collective that this rank is about to call on a team that is not ready is smelt's: then it is ready.
bool turns_ready(MpiTeam& team) noexcept;

/// After a collective of the library has succeeded on a communicator: makes its team, or settles it when it is time;
/// one that is not blocking only begins to.
void note_success(MPI_Comm comm, bool blocking = true) noexcept;

/// The team of a communicator, made if there is none yet; null if that fails.
MpiTeam* need_team(MPI_Comm comm) noexcept;

/// Before the first call whose result depends on who serves it, on a team that is not ready: settles it if all ranks are
/// willing to, else the library serves such calls for good. Collective.
void settle_for_good(MpiTeam& team) noexcept;

/// The same after a call that says that many will follow, and that may wait for the other ranks: settles its team.
void settle_soon(MPI_Comm comm) noexcept;

/// Agrees with the other ranks on whether smelt serves this communicator, and builds what is needed. Collective.
void settle(MpiTeam& team) noexcept;

/// Collectives on a communicator after which it is worth its while to build one of smelt.
int calls_before() noexcept;

/// Calls of a cell before its first race; 0: none.
int calls_before_race() noexcept;

/// Not SMELT_MPI=0.
bool enabled() noexcept;

/// Frees all teams, but for what MPI_Finalize frees anyway.
void release_teams() noexcept;

/// Why smelt failed where it was to work, as an MPI error code after the communicator's error handler.
int report_failure(MpiTeam& team, int code = MPI_ERR_OTHER) noexcept;

}  // namespace smelt::shims::mpi::inline SMELT_MPI_ABI
