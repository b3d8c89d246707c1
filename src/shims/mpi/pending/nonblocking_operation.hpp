// Nonblocking collectives through smelt.
//
// The program's MPI_Request is a generalized request of the library, so that all functions on requests work:
// MPI_Waitsome together with messages, MPI_Request_get_status, Fortran wrappers. A thread that finds a collective
// finished completes it: unpacks its data and completes the request. This happens in
//
// - the library's progress, which any thread of this rank that waits in the library runs (progress_hook.hpp), and any
//   thread that waits in smelt, since smelt lets the library progress from time to time (smelt_options::idle);
// - the start of an operation that finishes immediately;
// - a blocking collective on the same communicator, which completes all operations that were started before it.
//
// Invariants
// - smelt runs the collectives of a team in the order of their starts, and they are completed in that order.
//   Collectives across machines also begin in that order, each after the previous one was completed, so all leaders
//   call the library's collectives in the same order.
// - While a team has pending operations, its `local` rank belongs to the thread that holds `busy`. No thread waits for
//   `busy` within the library's progress. No thread that holds `busy` waits for another rank, except in a blocking
//   collective, during which MPI allows no other on the communicator. So there is no cycle between `busy` and the
//   library's locks.
// - A thread with `busy` may wait for MPICH's lock. A thread with that lock takes only those locks of the shim under
//   which nothing is called. MPICH holds its lock when it frees a request. This may end an operation, but not of a team
//   whose end calls MPI functions; such teams are left to the next call of advance().
// - A team lives as long as its communicator and its operations. MPI_Comm_free does not wait for them.
#pragma once

#include <functional>

#include "shims/mpi/abi.hpp"
#include "shims/mpi/calls/translated_call.hpp"
#include "shims/mpi/pending/deferred_frees.hpp"

namespace smelt::shims::mpi::inline SMELT_MPI_ABI {

struct MpiTeam;
class NonblockingOperation;

/// Translates the arguments of an operation on a team.
using Description = std::function<TranslatedCall::Disposition(TranslatedCall&)>;

/// Why the library serves nonblocking collectives on that team; null: smelt does.
const char* why_not_nonblocking(const MpiTeam* team, const MPI_Request* request) noexcept;

/// Starts an operation. Null: started; *code is the program's return value and *request its handle. Otherwise the
/// reason why smelt does not serve it, and there was no effect.
const char* take_off(MpiTeam& team, const Description& describe, MPI_Request* request, int* code) noexcept;

/// A persistent collective on a team that smelt serves; one start at a time. Creates a request of the library only if
/// one is needed.
class PersistentOperation {
 public:
  /// Throws std::bad_alloc.
  PersistentOperation(MpiTeam& team, Description describe);
  PersistentOperation(const PersistentOperation&) = delete;
  PersistentOperation& operator=(const PersistentOperation&) = delete;
  ~PersistentOperation();

  /// As take_off().
  const char* start(int* code) noexcept;
  /// Whether the last start has finished. Progresses it without waiting.
  bool over() noexcept;
  /// Waits until it has finished. Returns an MPI error code, after calling the error handler.
  int wait();
  /// A request of the library that completes with the last start.
  int make_request(MPI_Request* request) noexcept;

  MpiTeam& team() const noexcept { return team_; }

 private:
  int start_work() noexcept;

  MpiTeam& team_;  ///< kept by the operation
  Description describe_;
  NonblockingOperation* operation_;
  TranslatedCall::Disposition verdict_ = TranslatedCall::Disposition::pass;  ///< the same at each start
  RetainedHandles needed_;
};

/// The empty status of MPI, with an error code.
void set_empty(MPI_Status* status, int code) noexcept;

/// Waits for all operations of a team. Needed before a blocking collective.
void complete_all(MpiTeam& team) noexcept;

/// Completes finished operations on all communicators. Any thread may call it, also within the library's progress.
void advance_pending() noexcept;

/// Called when the communicator is freed: releases the references to an idle team.
void forget_pending(MpiTeam& team) noexcept;

}  // namespace smelt::shims::mpi::inline SMELT_MPI_ABI
