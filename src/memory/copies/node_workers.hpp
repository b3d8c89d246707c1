// Threads that work on the NUMA nodes where the data lies, for the length of one job.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "machine/topology/numa.hpp"

namespace smelt::memory {

/// A piece of work and the node (os_index) on whose PUs it is to run. It does not throw.
struct NodeTask {
  int node = 0;
  std::function<void()> work{};
};

/// PUs of that node that this process may use; of a node without any, those of the nearest that has some; where none
/// are known, empty. What the process may use: the affinity that it had when the library was loaded.
std::vector<int> workers_of(const MemoryView& view, int node);

/// Runs tasks on threads of their own, as many per node as it has PUs to use, and no more in all than the quota lets
/// run. Where no thread can be started, the caller of the constructor does the work.
class NodeWorkers {
 public:
  NodeWorkers(const MemoryView& view, std::vector<NodeTask> tasks);
  ~NodeWorkers() { wait(); }
  NodeWorkers(const NodeWorkers&) = delete;
  NodeWorkers& operator=(const NodeWorkers&) = delete;

  /// Whether all is done. What the tasks wrote is visible then.
  bool done() const noexcept;
  void wait() noexcept;

 private:
  struct Queue {
    std::vector<NodeTask> tasks{};
    std::vector<int> pus{};
    std::atomic<std::size_t> next{0};
  };
  void serve(Queue& queue) noexcept;

  std::vector<std::unique_ptr<Queue>> queues_;  ///< per node; not changed while threads run
  std::size_t count_ = 0;
  std::atomic<std::size_t> finished_{0};
  std::vector<std::thread> threads_;
};

/// The same work from begin to end. One task is done by the caller.
void run_tasks(const MemoryView& view, std::vector<NodeTask> tasks);

}  // namespace smelt::memory
