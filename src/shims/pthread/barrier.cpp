// pthread_barrier_init, _wait and _destroy over a counted barrier that lies in the program's pthread_barrier_t.
//
// A barrier is known by a number where the C library's own barriers count the threads that have left, which
// never gets that high. So one that was initialised before the shim was there, or past it, is recognised and
// goes to the C library.
//
// To compare times (SMELT_VERBOSE=1) there is a barrier of the C library beside each of ours. In a sampled round
// all threads that have arrived at the counted barrier wait there, too, before they pass the counted barrier: whoever
// meets whom is always decided by the counted barrier.
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <new>

#include "shims/kept_state.hpp"
#include "shims/next.hpp"
#include "shims/report.hpp"
#include "smelt/smelt.h"

namespace smelt::shims {
namespace {

struct Barrier {
  smelt_counted_barrier counted_barrier;
  std::uint32_t magic;
  std::uint32_t spare;
  pthread_barrier_t* sampled;  ///< of the C library; null unless times are compared
};

constexpr std::uint32_t our_magic = 0xf5e17a7eu;

static_assert(sizeof(Barrier) <= sizeof(pthread_barrier_t) && alignof(Barrier) <= alignof(pthread_barrier_t));
static_assert(offsetof(Barrier, magic) == 16);  // of the C library's barrier: threads that have left, below 2^31
static_assert(our_magic > UINT32_MAX / 2);

constinit InterceptedFunction init_entry("pthread", "pthread_barrier_init");
constinit InterceptedFunction wait_entry("pthread", "pthread_barrier_wait");
constinit InterceptedFunction destroy_entry("pthread", "pthread_barrier_destroy");

constexpr char not_ours[] = "a barrier that was initialised without the shim";
constexpr char off[] = "SMELT_PTHREAD=0";

struct Original {
  int (*init)(pthread_barrier_t*, const pthread_barrierattr_t*, unsigned);
  int (*wait)(pthread_barrier_t*);
  int (*destroy)(pthread_barrier_t*);
  bool off;  ///< pass everything on
};

/// In the place of originals that no library has, as may be before glibc 2.34 in a program without libpthread.
int no_init(pthread_barrier_t*, const pthread_barrierattr_t*, unsigned) noexcept { return EINVAL; }
int no_barrier(pthread_barrier_t*) noexcept { return EINVAL; }

const Original& original() noexcept {
  static const Original found = [] {
    using Init = int(pthread_barrier_t*, const pthread_barrierattr_t*, unsigned);
    using OfBarrier = int(pthread_barrier_t*);
    Original each = {next_definition<Init>("pthread_barrier_init"), next_definition<OfBarrier>("pthread_barrier_wait"),
                     next_definition<OfBarrier>("pthread_barrier_destroy"), switched_off("SMELT_PTHREAD")};
    if (each.init == nullptr) each.init = no_init;
    if (each.wait == nullptr) each.wait = no_barrier;
    if (each.destroy == nullptr) each.destroy = no_barrier;
    return each;
  }();
  return found;
}

/// Look-ups end what dlerror would say, and wait for a thread that is in dlopen: they are made at the start.
[[gnu::constructor(101)]] void look_up() noexcept { original(); }

Barrier& ours(pthread_barrier_t* barrier) noexcept { return *std::launder(reinterpret_cast<Barrier*>(barrier)); }

bool is_ours(pthread_barrier_t* barrier) noexcept { return ours(barrier).magic == our_magic; }

bool is_shared(const pthread_barrierattr_t* attributes) noexcept {
  int shared = PTHREAD_PROCESS_PRIVATE;
  return attributes != nullptr && pthread_barrierattr_getpshared(attributes, &shared) == 0 &&
         shared == PTHREAD_PROCESS_SHARED;
}

/// A barrier of the C library to compare with, or null. Other processes could not find it.
pthread_barrier_t* make_sampled(const pthread_barrierattr_t* attributes, unsigned count) noexcept {
  if (!verbose() || is_shared(attributes)) return nullptr;
  auto* barrier = new (std::nothrow) pthread_barrier_t;
  if (barrier != nullptr && original().init(barrier, nullptr, count) != 0) {
    delete barrier;
    return nullptr;
  }
  return barrier;
}

void free_sampled(pthread_barrier_t* barrier) noexcept {
  if (barrier == nullptr) return;
  original().destroy(barrier);
  delete barrier;
}

/// What a process finds out when it first waits is found out before it has a barrier: after a fork in between, the
/// child would wait for it forever.
void prepare_to_wait() noexcept {
  static constinit std::atomic<bool> prepared{false};
  if (prepared.load(std::memory_order_relaxed)) return;
  smelt_counted_barrier any;
  smelt_counted_barrier_init_private(&any, 1);
  smelt_counted_barrier_destroy(&any);  // it waits for those who leave
  prepared.store(true, std::memory_order_relaxed);
}

int wait_compared(Barrier& barrier) noexcept {
  const std::uint64_t start = cycles();
  const smelt_counted_barrier_ticket ticket = smelt_counted_barrier_arrive(&barrier.counted_barrier);
  const Sample kind = barrier.sampled != nullptr ? sample_kind(ticket.round) : Sample::none;
  if (kind == Sample::original) {
    Stopwatch watch(wait_entry, kind);
    original().wait(barrier.sampled);
  }
  const int result = smelt_counted_barrier_pass(&barrier.counted_barrier, ticket);
  if (kind == Sample::ours) wait_entry.record(kind, cycles() - start);
  wait_entry.took();
  return result;
}

}  // namespace
}  // namespace smelt::shims

using namespace smelt::shims;

extern "C" {

[[gnu::visibility("default")]] int pthread_barrier_init(pthread_barrier_t* barrier,
                                                        const pthread_barrierattr_t* attributes,
                                                        unsigned count) noexcept {
  if (original().off) {
    init_entry.passed(off);
    return original().init(barrier, attributes, count);
  }
  const KeptErrno kept;  // the C library leaves it alone, too
  smelt_counted_barrier counted_barrier;
  const auto make = is_shared(attributes) ? smelt_counted_barrier_init : smelt_counted_barrier_init_private;
  if (make(&counted_barrier, count) != SMELT_OK) {
    init_entry.passed("0 or more than 2^30 threads");
    return original().init(barrier, attributes, count);
  }
  prepare_to_wait();
  new (barrier) Barrier{counted_barrier, our_magic, 0, make_sampled(attributes, count)};
  return 0;
}

[[gnu::visibility("default")]] int pthread_barrier_wait(pthread_barrier_t* barrier) noexcept {
  if (!is_ours(barrier)) [[unlikely]] {
    wait_entry.passed(original().off ? off : not_ours);
    return original().wait(barrier);
  }
  const KeptErrno kept;
  const int result =
      verbose() ? wait_compared(ours(barrier)) : smelt_counted_barrier_wait(&ours(barrier).counted_barrier);
  return result == SMELT_COUNTED_BARRIER_LAST ? PTHREAD_BARRIER_SERIAL_THREAD : 0;
}

[[gnu::visibility("default")]] int pthread_barrier_destroy(pthread_barrier_t* barrier) noexcept {
  if (!is_ours(barrier)) {
    destroy_entry.passed(original().off ? off : not_ours);
    return original().destroy(barrier);
  }
  const KeptErrno kept;
  Barrier& own = ours(barrier);
  if (smelt_counted_barrier_destroy(&own.counted_barrier) != SMELT_OK) return EBUSY;
  free_sampled(own.sampled);
  own.magic = 0;
  return 0;
}

}  // extern "C"
