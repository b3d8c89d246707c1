// Threads for one job, each on the NUMA node of the data on which it works.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "machine/topology/numa.hpp"

namespace smelt::memory {

/// A piece of work and the node (os_index) on whose PUs it runs. It must not throw.
struct NodeTask {
  int node = 0;
  std::function<void()> work{};
};

/// PUs of that node that this process may use. If the node has none, those of the nearest node that has some. Empty if
/// none are known. The process may use the PUs of the affinity that it had when the library was loaded.
std::vector<int> workers_of(const MemoryView& view, int node);

/// Runs tasks on new threads: one per usable PU of each node, but in all no more than the cgroup's quota allows. If no
/// thread can be created, the caller of the constructor does the work.
class NodeWorkers {
 public:
  NodeWorkers(const MemoryView& view, std::vector<NodeTask> tasks);
  ~NodeWorkers() { wait(); }
  NodeWorkers(const NodeWorkers&) = delete;
  NodeWorkers& operator=(const NodeWorkers&) = delete;

  /// Whether all tasks are done. Their writes are visible then.
  bool done() const noexcept;
  void wait() noexcept;

 private:
  struct Queue {
    std::vector<NodeTask> tasks{};
    std::vector<int> pus{};
    std::atomic<std::size_t> next{0};
  };
  void serve(Queue& queue) noexcept;

  std::vector<std::unique_ptr<Queue>> queues_;  ///< per node; constant while threads run
  std::size_t count_ = 0;
  std::atomic<std::size_t> finished_{0};
  std::vector<std::thread> threads_;
};

/// Runs the tasks and waits for them. The caller runs a single task itself.
void run_tasks(const MemoryView& view, std::vector<NodeTask> tasks);

}  // namespace smelt::memory
