// The C interface, counted barriers. They need neither a handle nor a communicator, so programs that use nothing else
// pay for nothing else.
#include "comm/fork_join/counted_barrier.hpp"

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <new>

#include "machine/topology/allowance.hpp"
#include "smelt/smelt.h"

namespace {

using smelt::Waiter;
using smelt::comm::CountedBarrier;

static_assert(sizeof(CountedBarrier) == sizeof(smelt_counted_barrier) &&
              alignof(CountedBarrier) <= alignof(smelt_counted_barrier));

int allowed_pus() noexcept {
  cpu_set_t mask;
  // Masks of more than 1024 PUs do not fit. That is more than the number of threads at nearly all counted barriers.
  return sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : CPU_SETSIZE;
}

// Determined when the library is loaded, before the program pins its threads: a thread's own mask does not show where
// the others may run.
const int pus_at_start = allowed_pus();

int find_parallelism() noexcept {
  double quota = 0.0;
  int cancelability = PTHREAD_CANCEL_ENABLE;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelability);  // waiting is no cancellation point, reading is one
  try {
    quota = smelt::read_cgroup_limits("/").cpu_quota;
  } catch (...) {  // no limit is known
  }
  pthread_setcancelstate(cancelability, nullptr);
  const int value = quota > 0.0 && quota < pus_at_start ? static_cast<int>(quota) : pus_at_start;
  return value < 1 ? 1 : value;
}

/// How many threads of this process can run at a time, at most `pus_at_start`. Relaxed: all threads find the same. No
/// thread waits for another to find it: the other one may be missing in a child of fork.
int parallelism() noexcept {
  static constinit std::atomic<int> known{0};
  int value = known.load(std::memory_order_relaxed);
  if (value == 0) {
    value = find_parallelism();
    known.store(value, std::memory_order_relaxed);
  }
  return value;
}

/// The calling thread's waiter. It learns, over all counted barriers, whether there are enough PUs.
Waiter& waiter_for(const CountedBarrier& barrier) noexcept {
  const auto make = [](int threads) {
    auto config = smelt::make_wait_config(threads, 1);
    config.longest_sleep_ns =
        smelt::no_timeout;  // the thread that opens a barrier wakes; nothing else needs to be polled
    return Waiter(config);
  };
  struct ThreadWaiters {
    Waiter alone, sharing;
  };
  thread_local ThreadWaiters own{make(1), make(2)};
  return barrier.count() > static_cast<std::uint32_t>(parallelism()) ? own.sharing : own.alone;
}

CountedBarrier& barrier_of(smelt_counted_barrier* barrier) noexcept {
  return *std::launder(reinterpret_cast<CountedBarrier*>(barrier));
}

}  // namespace

int smelt_counted_barrier_init(smelt_counted_barrier* barrier, unsigned count) {
  if (barrier == nullptr || count == 0 || count > CountedBarrier::most) return SMELT_INVALID_ARGUMENT;
  new (barrier) CountedBarrier(count);
  return SMELT_OK;
}

int smelt_counted_barrier_init_private(smelt_counted_barrier* barrier, unsigned count) {
  if (barrier == nullptr || count == 0 || count > CountedBarrier::most) return SMELT_INVALID_ARGUMENT;
  new (barrier) CountedBarrier(count, smelt::FutexScope::threads);
  return SMELT_OK;
}

smelt_counted_barrier_ticket smelt_counted_barrier_arrive(smelt_counted_barrier* barrier) {
  const auto ticket = barrier_of(barrier).arrive();
  return {ticket.round, ticket.last ? 1u : 0u};
}

int smelt_counted_barrier_pass(smelt_counted_barrier* barrier, smelt_counted_barrier_ticket ticket) {
  CountedBarrier& own = barrier_of(barrier);
  if (!own.pass({ticket.round, ticket.last != 0}, waiter_for(own))) return SMELT_BROKEN;
  return ticket.last != 0 ? int{SMELT_COUNTED_BARRIER_LAST} : int{SMELT_OK};
}

void smelt_counted_barrier_leave(smelt_counted_barrier* barrier) {
  CountedBarrier& own = barrier_of(barrier);
  own.leave(waiter_for(own));
}

int smelt_counted_barrier_wait(smelt_counted_barrier* barrier) {
  if (barrier_of(barrier).complete()) return SMELT_COUNTED_BARRIER_LAST;
  return smelt_counted_barrier_pass(barrier, smelt_counted_barrier_arrive(barrier));
}

int smelt_counted_barrier_destroy(smelt_counted_barrier* barrier) {
  CountedBarrier& own = barrier_of(barrier);
  return own.drain(waiter_for(own)) ? SMELT_OK : SMELT_INVALID_ARGUMENT;
}
