// Communicators of the shim's own.
//
// Open MPI makes a communicator by nonblocking collectives on the one that it is made from, and from then on calls
// their progress function at every turn of its progress, until that one is freed. A program that only sends messages
// pays for it (15 % where it tests for a message all the time). So the shim makes none from the program's
// communicators, but from copies of those that it frees again. The copies are made by messages alone, as groups; but
// then Open MPI copies attributes, too, which calls functions of the program's. So that is only done while the program
// has no keyvals.
//
// Where several threads create communicators, Open MPI creates those with the oldest parent first, and others of the
// process wait. A thread that the program does not expect to create any may then wait for a rank that waits for it; and
// Open MPI 4.1 is known to hang without that. So with MPI_THREAD_MULTIPLE the shim creates its own communicator there
// before there are other threads, and no other one once a thread that did not initialize MPI has called a collective.
#pragma once

#include <utility>

#include "shims/mpi/abi.hpp"

namespace smelt::shims::mpi::inline SMELT_MPI_ABI {

/// A communicator with the ranks of another one, without its attributes. Collective.
class Copy {
 public:
  explicit Copy(MPI_Comm comm) noexcept;
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;
  ~Copy();

  /// MPI_COMM_NULL if there is none.
  MPI_Comm get() const noexcept { return comm_; }
  MPI_Comm take() noexcept { return std::exchange(comm_, MPI_COMM_NULL); }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

/// A keyval of the shim's own, which is not the program's.
void note_own_keyval(int keyval) noexcept;

/// After MPI is initialized: notes the thread, and creates own_communicator() if there may be others later.
void prepare_for_threads() noexcept;

/// Notes the thread of a collective.
void note_thread() noexcept;

/// Whether this thread may create a communicator now: with Open MPI only if no other one has been noted, as that may be
/// creating one.
bool may_create_communicators() noexcept;

/// Whether MPI_COMM_WORLD and MPI_COMM_SELF are there: not in programs that use sessions alone, nor after MPI_Finalize
/// where they use sessions, too. Then nothing can be served.
bool is_world_there() noexcept;

/// Before MPI is finalized.
void note_end_of_world() noexcept;

/// A communicator of this process alone, whose errors are returned: for MPI functions that need one.
MPI_Comm own_communicator() noexcept;

/// Before MPI is finalized.
void release_own_communicator() noexcept;

}  // namespace smelt::shims::mpi::inline SMELT_MPI_ABI
