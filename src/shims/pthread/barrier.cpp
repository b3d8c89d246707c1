// pthread_barrier_init, _wait and _destroy, passed on.
#include <pthread.h>

#include "shims/next.hpp"
#include "shims/report.hpp"

namespace smelt::shims {
namespace {

constinit Entry wait_entry("pthread", "pthread_barrier_wait");

}  // namespace

extern "C" [[gnu::visibility("default")]] int pthread_barrier_wait(pthread_barrier_t* barrier) {
  static auto* const original = next_definition<int(pthread_barrier_t*)>("pthread_barrier_wait");
  wait_entry.passed("not taken over yet");
  return original(barrier);
}

}  // namespace smelt::shims
