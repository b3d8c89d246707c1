// Peer: tbb::concurrent_bounded_queue.
#include <tbb/concurrent_queue.h>

#include "peers/queue_peer.hpp"

template <class T>
class Queue {
 public:
  explicit Queue(std::size_t capacity) { queue_.set_capacity(static_cast<std::ptrdiff_t>(capacity)); }
  bool push(const T& message) { return queue_.try_push(message); }
  bool pop(T& message) { return queue_.try_pop(message); }

 private:
  tbb::concurrent_bounded_queue<T> queue_;
};

int main(int argc, char** argv) { return smelt::bench::run_peer(argc, argv, smelt::bench::serve_queue<Queue>); }
