// Peer: pthread_barrier_t, and collectives through shared memory around it.
#include <pthread.h>

#include "peers/shared_memory.hpp"

namespace {

class PthreadBarrier {
 public:
  explicit PthreadBarrier(int threads) { pthread_barrier_init(&barrier_, nullptr, static_cast<unsigned>(threads)); }
  ~PthreadBarrier() { pthread_barrier_destroy(&barrier_); }
  PthreadBarrier(const PthreadBarrier&) = delete;
  PthreadBarrier& operator=(const PthreadBarrier&) = delete;
  void wait(int) { pthread_barrier_wait(&barrier_); }

 private:
  pthread_barrier_t barrier_;
};

}  // namespace

int main(int argc, char** argv) {
  return smelt::bench::run_peer(argc, argv, smelt::bench::serve_shared_memory<PthreadBarrier>);
}
