#include "memory/copies/node_workers.hpp"

#include <algorithm>
#include <map>
#include <system_error>

#include "machine/topology/affinity.hpp"
#include "machine/topology/allowance.hpp"
#include "smelt/machine.hpp"

namespace smelt::memory {
namespace {

std::vector<int> affinity_or_nothing() {
  const auto affinity = this_thread_affinity();
  return affinity ? *affinity : std::vector<int>{};
}

/// The affinity of the process when the library was loaded.
const std::vector<int> affinity_at_load = affinity_or_nothing();

std::vector<int> usable_pus(const NodeMemory& node) {
  std::vector<int> pus;
  std::set_intersection(node.pus.begin(), node.pus.end(), affinity_at_load.begin(), affinity_at_load.end(),
                        std::back_inserter(pus));
  return pus;
}

/// Number of threads that can run at a time. Reads the cgroups' quota once.
std::size_t most_threads() {
  static const std::size_t most = [] {
    Allowance allowance;
    allowance.pus = affinity_at_load;
    allowance.cpu_quota = read_cgroup_limits("/").cpu_quota;
    return static_cast<std::size_t>(allowance.parallelism());
  }();
  return most;
}

}  // namespace

std::vector<int> workers_of(const MemoryView& view, int node) {
  const int index = view.index_of(node);
  if (index < 0) return {};
  const auto& wanted = view.nodes[static_cast<std::size_t>(index)];
  auto pus = usable_pus(wanted);
  int nearest = -1;
  for (std::size_t i = 0; i < view.nodes.size() && usable_pus(wanted).empty(); ++i) {
    auto others = usable_pus(view.nodes[i]);
    const int distance = i < wanted.distances.size() ? wanted.distances[i] : 0;
    if (others.empty() || (nearest >= 0 && distance >= nearest)) continue;
    nearest = distance;
    pus = std::move(others);
  }
  return pus;
}

NodeWorkers::NodeWorkers(const MemoryView& view, std::vector<NodeTask> tasks) : count_(tasks.size()) {
  std::map<int, Queue*> by_node;
  for (auto& task : tasks) {
    auto& queue = by_node[task.node];
    if (queue == nullptr) {
      queue = queues_.emplace_back(std::make_unique<Queue>()).get();
      queue->pus = workers_of(view, task.node);
    }
    queue->tasks.push_back(std::move(task));
  }
  try {
    std::size_t left = std::max(most_threads(), queues_.size());  // at least one per node
    bool started = true;
    for (std::size_t round = 0; started && left > 0; ++round) {
      started = false;
      for (auto& queue : queues_) {
        if (left == 0 || round >= queue->tasks.size() || round >= std::max<std::size_t>(queue->pus.size(), 1)) continue;
        threads_.emplace_back([this, &queue = *queue] { serve(queue); });
        started = true;
        --left;
      }
    }
  } catch (const std::system_error&) {  // no thread can be created: the caller does the work
    const SavedAffinity saved;
    for (auto& queue : queues_) serve(*queue);
  }
}

void NodeWorkers::serve(Queue& queue) noexcept {
  if (!queue.pus.empty()) (void)set_this_thread_affinity(queue.pus);
  for (;;) {
    // Relaxed: the tasks were written before the threads were created.
    const std::size_t mine = queue.next.fetch_add(1, std::memory_order_relaxed);
    if (mine >= queue.tasks.size()) return;
    queue.tasks[mine].work();
    // Release: publishes the task's writes; pairs with the acquire in done().
    finished_.fetch_add(1, std::memory_order_release);
  }
}

bool NodeWorkers::done() const noexcept {
  return finished_.load(std::memory_order_acquire) == count_;  // pairs with the release in serve()
}

void NodeWorkers::wait() noexcept {
  for (auto& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void run_tasks(const MemoryView& view, std::vector<NodeTask> tasks) {
  if (tasks.size() == 1) return tasks.front().work();
  NodeWorkers(view, std::move(tasks)).wait();
}

}  // namespace smelt::memory
