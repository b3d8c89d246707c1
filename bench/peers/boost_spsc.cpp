// Peer: boost::lockfree::spsc_queue.
#include <boost/lockfree/spsc_queue.hpp>

#include "peers/queue_peer.hpp"

template <class T>
class Queue {
 public:
  explicit Queue(std::size_t capacity) : queue_(capacity) {}
  bool push(const T& message) { return queue_.push(message); }
  bool pop(T& message) { return queue_.pop(message); }

 private:
  boost::lockfree::spsc_queue<T> queue_;
};

int main(int argc, char** argv) { return smelt::bench::run_peer(argc, argv, smelt::bench::serve_queue<Queue>); }
