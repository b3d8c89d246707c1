#include "plan/simulator/run_queues.hpp"

#include <algorithm>
#include <cmath>

namespace smelt::plan {

void RunQueues::restart(const Group& group, std::size_t pus, double switch_ns, double spread) {
  queues_.resize(pus);
  for (Queue& queue : queues_) {
    queue.ranks.clear();
    queue.at = queue.futile = 0;
    queue.clock = 0.0;
    queue.rests = false;
    queue.wakes_ns = never_ns;
  }
  pu_.clear();
  for (int rank = 0; rank < group.size(); ++rank) {
    pu_.push_back(static_cast<std::size_t>(group.pus[static_cast<std::size_t>(rank)]));
    queues_[pu_.back()].ranks.push_back(rank);
  }
  ready_ns_.assign(pu_.size(), 0.0);
  switch_ns_ = switch_ns;
  spread_ = spread;
  random_.seed(1);
}

double RunQueues::one_switch_ns() {
  if (spread_ == 0.0) return switch_ns_;
  const double unit = static_cast<double>(random_()) / static_cast<double>(std::minstd_rand::max());
  return switch_ns_ * (1.0 + spread_ * (2.0 * unit - 1.0));
}

bool RunQueues::choose() {
  double first_ns = never_ns;
  for (std::size_t pu = 0; pu < queues_.size(); ++pu) {
    const Queue& queue = queues_[pu];
    if (queue.ranks.empty()) continue;
    const double acts_ns = queue.rests ? queue.wakes_ns : queue.clock;
    if (acts_ns < first_ns) {
      first_ns = acts_ns;
      chosen_ = pu;
    }
  }
  if (first_ns == never_ns) return false;
  if (queues_[chosen_].rests) wake(queues_[chosen_]);
  return true;
}

void RunQueues::next(Queue& queue, double cost_ns) {
  if (queue.ranks.size() < 2) return;
  queue.clock += cost_ns;
  queue.at = (queue.at + 1) % queue.ranks.size();
}

void RunQueues::waits(double ready_ns, bool looks) {
  Queue& queue = queues_[chosen_];
  ready_ns_[static_cast<std::size_t>(current())] = ready_ns;
  next(queue, looks ? one_switch_ns() : 0.0);
  if (++queue.futile < queue.ranks.size()) return;
  queue.rests = true;
  queue.wakes_ns = never_ns;
  for (const int rank : queue.ranks) {
    queue.wakes_ns = std::min(queue.wakes_ns, ready_ns_[static_cast<std::size_t>(rank)]);
  }
  queue.wakes_ns = std::max(queue.wakes_ns, queue.clock);
}

/// The turns go on while all wait; the one that begins next after the event is the first that is not futile, or it
/// comes before that.
void RunQueues::wake(Queue& queue) {
  if (queue.ranks.size() > 1 && switch_ns_ > 0.0) {
    const double turns = std::ceil(std::max(0.0, queue.wakes_ns - queue.clock) / switch_ns_);
    queue.clock += turns * switch_ns_;
    queue.at = (queue.at + static_cast<std::size_t>(std::fmod(turns, static_cast<double>(queue.ranks.size())))) %
               queue.ranks.size();
  } else {
    queue.clock = std::max(queue.clock, queue.wakes_ns);
  }
  queue.rests = false;
  queue.futile = 0;
}

void RunQueues::leaves() {
  Queue& queue = queues_[chosen_];
  queue.ranks.erase(queue.ranks.begin() + static_cast<std::ptrdiff_t>(queue.at));
  queue.futile = 0;
  if (queue.ranks.empty()) return;
  queue.at %= queue.ranks.size();
  queue.clock += one_switch_ns();
}

void RunQueues::becomes_ready(int rank, double ready_ns) {
  ready_ns_[static_cast<std::size_t>(rank)] = ready_ns;
  Queue& queue = queues_[pu_[static_cast<std::size_t>(rank)]];
  if (queue.rests) queue.wakes_ns = std::max(queue.clock, std::min(queue.wakes_ns, ready_ns));
}

}  // namespace smelt::plan
