// Nonblocking collectives through smelt.
//
// The program's MPI_Request is a generalized request of the library, so that whatever takes a request takes these:
// MPI_Waitsome with messages among them, MPI_Request_get_status, a Fortran wrapper. Whoever finds a collective over
// lands it: puts its data where it belongs and completes the request. Those who look are
//
// - the library's progress, wherever any thread of this rank waits in it (progress_hook.hpp), and so waits in smelt
//   too, as these let the library do something every now and then (smelt_options::idle);
// - the start of an operation, for what is over at once;
// - a blocking collective on the same communicator, which lands all that were started before it.
//
// Invariants
// - smelt runs the collectives of a team in the order of their starts; they land in that order. Those of several
//   machines begin in that order, too, each when the one before has landed: so all leaders call the library's
//   collectives in the same order.
// - While a team has flights its `local` rank belongs to whoever holds `busy`. Nobody waits for `busy` in a call of the
//   library's progress, and nobody waits for another rank while holding it but a blocking collective, next to which
//   MPI allows no other on the communicator. So the library's locks and this one cannot be waited for in a circle.
// - MPICH's lock may be waited for with `busy`. Who holds that lock takes no lock of the shim's but those under which
//   nothing is called. It is held where MPICH lets go of a request: that may be the end of an operation, but of no team whose end
//   calls MPI functions; such teams are left to the next advance.
// - A team lives as long as its communicator and its operations; MPI_Comm_free does not wait for them.
#pragma once


#include <functional>

#include "shims/mpi/abi.hpp"
#include "shims/mpi/deferred_frees.hpp"
#include "shims/mpi/translated_call.hpp"

namespace smelt::shims::mpi::inline SMELT_MPI_ABI {

struct MpiTeam;
class NonblockingOperation;

/// Fills in a task for an operation on a team.
using Description = std::function<TranslatedCall::Disposition(TranslatedCall&)>;

/// Why a nonblocking collective on that team goes to the library; null: it goes to smelt.
const char* why_not_nonblocking(const MpiTeam* team, const MPI_Request* request) noexcept;

/// Starts an operation. Null: done, *code is what to return to the program, and *request is its handle. Else why
/// smelt does not do it; then nothing has happened.
const char* take_off(MpiTeam& team, const Description& describe, MPI_Request* request, int* code) noexcept;

/// A collective that is started again and again, on a team that smelt serves; one start at a time. Without a request of
/// the library as long as none is asked for.
class PersistentOperation {
 public:
  /// Throws std::bad_alloc.
  PersistentOperation(MpiTeam& team, Description describe);
  PersistentOperation(const PersistentOperation&) = delete;
  PersistentOperation& operator=(const PersistentOperation&) = delete;
  ~PersistentOperation();

  /// As take_off().
  const char* start(int* code) noexcept;
  /// Whether the last start is over; does what can be done without waiting.
  bool over() noexcept;
  /// Waits until it is over. Returns an MPI error code, after the error handler.
  int wait() noexcept;
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

/// What MPI calls the empty status, but for the error.
void set_empty(MPI_Status* status, int code) noexcept;

/// Waits for all operations of a team, as a blocking collective has to.
void complete_all(MpiTeam& team) noexcept;

/// Lands what is over, on all communicators. Any thread, also inside of the library's progress.
void advance_pending() noexcept;

/// The communicator is freed: drops what keeps an idle team.
void forget_pending(MpiTeam& team) noexcept;

}  // namespace smelt::shims::mpi::inline SMELT_MPI_ABI
