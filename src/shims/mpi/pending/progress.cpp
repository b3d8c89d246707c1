// Progresses the library by testing a request of no effect. MPICH's MPI_Iprobe does not progress long messages; a test
// of an incomplete request progresses everything in all libraries. It is a generalized request, which the library has
// nothing to do for: while a receive is pending, Intel MPI polls its network, too, at every turn of all its waits.
#include "shims/mpi/pending/progress.hpp"

#include <atomic>

#include "shims/mpi/original.hpp"
#include "shims/mpi/pending/step_pace.hpp"
#include "shims/report.hpp"

namespace smelt::shims::mpi::inline SMELT_MPI_ABI {
namespace {

constinit std::atomic_flag busy = {};  // guards `pending`
MPI_Request pending;
bool prepared = false;  // guarded by `busy`
constinit StepPace pace;

// One in how many parts of the time steps that take long take at most: where there may be something to do for them or a
// rank waits, and elsewhere. A rank that waits while the library needs it takes them at every turn.
constexpr std::uint64_t likely_part = 4, unlikely_part = 64;

/// Acquire pairs with the release in unlock(), which publishes `pending`.
bool try_lock() noexcept { return !busy.test_and_set(std::memory_order_acquire); }
void unlock() noexcept { busy.clear(std::memory_order_release); }

/// Requires the lock.
void test_pending() noexcept {
  int done = 0;
  if (prepared) original.Test(&pending, &done, MPI_STATUS_IGNORE);
}

}  // namespace

bool start_empty_request(MPI_Request* request) noexcept {
  const auto query = [](void*, MPI_Status*) { return MPI_SUCCESS; };
  const auto let_go = [](void*) { return MPI_SUCCESS; };
  const auto cancel = [](void*, int) { return MPI_SUCCESS; };
  return original.Grequest_start(query, let_go, cancel, nullptr, request) == MPI_SUCCESS;
}

void prepare_progress() noexcept {
  while (!try_lock()) {}
  if (!prepared) {
    prepared = start_empty_request(&pending);
    pace.measure(test_pending, cycles);
  }
  unlock();
}

void make_progress() noexcept {
  if (!try_lock()) return;  // held by another thread, or by this one further up the stack
  test_pending();
  pace.took_step(cycles);
  unlock();
}

constinit LibraryWork library_work;

int poll_library(void*) noexcept {
  const bool needed = (library_work.awaited.load(std::memory_order_relaxed) |
                       library_work.lasting.load(std::memory_order_relaxed)) != 0;
  if (needed || pace.is_due(likely_part, cycles)) make_progress();
  return needed ? 1 : 0;
}

void take_step(bool likely) noexcept {
  if (!pace.is_due(likely ? likely_part : unlikely_part, cycles)) return;
  make_progress();
  // Another thread's message may be noted at the same time: then its number stays.
  int steps = library_work.steps.load(std::memory_order_relaxed);
  if (steps > 0) library_work.steps.compare_exchange_strong(steps, steps - 1, std::memory_order_relaxed);
}

void release_progress() noexcept {
  while (!try_lock()) {}
  if (prepared) {
    original.Grequest_complete(pending);
    original.Wait(&pending, MPI_STATUS_IGNORE);
  }
  prepared = false;
  unlock();
}

}  // namespace smelt::shims::mpi::inline SMELT_MPI_ABI
