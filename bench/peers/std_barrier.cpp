// Peer: std::barrier, and collectives through shared memory around it.
#include <barrier>

#include "peers/shared_memory.hpp"

namespace {

class StdBarrier {
 public:
  explicit StdBarrier(int threads) : barrier_(threads) {}
  void wait(int) { barrier_.arrive_and_wait(); }

 private:
  std::barrier<> barrier_;
};

}  // namespace

int main(int argc, char** argv) {
  return smelt::bench::run_peer(argc, argv, smelt::bench::serve_shared_memory<StdBarrier>);
}
