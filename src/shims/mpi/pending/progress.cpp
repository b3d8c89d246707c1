// Progresses the library by testing a receive that never matches. MPICH's MPI_Iprobe does not progress long messages; a
// test of an incomplete request progresses everything in both libraries.
#include "shims/mpi/pending/progress.hpp"

#include <atomic>

#include "shims/mpi/original.hpp"
#include "shims/mpi/team/communicators.hpp"

namespace smelt::shims::mpi::inline SMELT_MPI_ABI {
namespace {

constinit std::atomic_flag busy = {};  // guards `pending`
MPI_Request pending;
bool prepared = false;  // guarded by `busy`
char nothing = 0;

/// Acquire pairs with the release in unlock(), which publishes `pending`.
bool try_lock() noexcept { return !busy.test_and_set(std::memory_order_acquire); }
void unlock() noexcept { busy.clear(std::memory_order_release); }

}  // namespace

void prepare_progress() noexcept {
  const MPI_Comm own = own_communicator();
  while (!try_lock()) {}
  if (!prepared) prepared = original.Irecv(&nothing, 1, MPI_CHAR, 0, 1, own, &pending) == MPI_SUCCESS;
  unlock();
}

void make_progress() noexcept {
  if (!try_lock()) return;  // held by another thread, or by this one further up the stack
  int done = 0;
  if (prepared) original.Test(&pending, &done, MPI_STATUS_IGNORE);
  unlock();
}

constinit LibraryWork library_work;

int poll_library(void*) noexcept {
  make_progress();
  return (library_work.awaited.load(std::memory_order_relaxed) |
          library_work.lasting.load(std::memory_order_relaxed)) != 0
             ? 1
             : 0;
}

void take_step() noexcept {
  make_progress();
  // Another thread's message may be noted at the same time: then its number stays.
  int steps = library_work.steps.load(std::memory_order_relaxed);
  if (steps > 0) library_work.steps.compare_exchange_strong(steps, steps - 1, std::memory_order_relaxed);
}

void release_progress() noexcept {
  while (!try_lock()) {}
  if (prepared) {
    original.Cancel(&pending);
    original.Wait(&pending, MPI_STATUS_IGNORE);
  }
  prepared = false;
  unlock();
}

}  // namespace smelt::shims::mpi::inline SMELT_MPI_ABI
