// Peer: moodycamel::ConcurrentQueue, many producers and consumers, used by one of each with tokens.
#include <concurrentqueue/concurrentqueue.h>

#include "peers/queue_peer.hpp"

template <class T>
class Queue {
 public:
  explicit Queue(std::size_t capacity) : queue_(capacity), producer_(queue_), consumer_(queue_) {}
  bool push(const T& message) { return queue_.try_enqueue(producer_, message); }
  bool pop(T& message) { return queue_.try_dequeue(consumer_, message); }

 private:
  moodycamel::ConcurrentQueue<T> queue_;
  moodycamel::ProducerToken producer_;
  moodycamel::ConsumerToken consumer_;
};

int main(int argc, char** argv) { return smelt::bench::run_peer(argc, argv, smelt::bench::serve_queue<Queue>); }
