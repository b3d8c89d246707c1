// Peer: moodycamel::ReaderWriterQueue, one producer and one consumer.
#include <readerwriterqueue/readerwriterqueue.h>

#include "peers/queue_peer.hpp"

template <class T>
class Queue {
 public:
  explicit Queue(std::size_t capacity) : queue_(capacity) {}
  bool push(const T& message) { return queue_.try_enqueue(message); }  // never grows
  bool pop(T& message) { return queue_.try_dequeue(message); }

 private:
  moodycamel::ReaderWriterQueue<T> queue_;
};

int main(int argc, char** argv) { return smelt::bench::run_peer(argc, argv, smelt::bench::serve_queue<Queue>); }
