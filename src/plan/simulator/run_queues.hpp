// The PUs of ranks that share them, in a simulation. A rank runs until it must wait. Then its PU switches to the next
// one of its ranks, and so on round and round, as sched_yield() does:
//
//   PU a   |rank 0 ....|switch|rank 2 .|switch|rank 0 (must wait)|switch|rank 2 ...
//
// A rank that still has to wait when its turn comes costs a switch. A PU none of whose ranks can go on rests until the
// first of them can; in the meantime its ranks have looked in turns, so that the rank goes on when its next turn
// begins.
#pragma once

#include <cstddef>
#include <limits>
#include <random>
#include <vector>

#include "smelt/plan.hpp"

namespace smelt::plan {

class RunQueues {
 public:
  static constexpr double never_ns = std::numeric_limits<double>::infinity();

  /// All ranks are on their PUs, in the order of their numbers. `spread`: switches take from 1 - spread to 1 + spread
  /// times switch_ns, in a fixed random order. Without it two PUs stay in step, which those of a machine do not.
  void restart(const Group& group, std::size_t pus, double switch_ns, double spread);

  /// Makes the rank that acts first the current one. False: no rank will ever act.
  bool choose();
  int current() const { return queues_[chosen_].ranks[queues_[chosen_].at]; }
  /// The time on the current PU.
  double clock() const { return queues_[chosen_].clock; }

  /// The current rank has worked until `clock`.
  void worked(double clock) {
    queues_[chosen_].clock = clock;
    queues_[chosen_].futile = 0;
  }
  /// The current rank can go on at `ready_ns`; never_ns: unknown. `looks`: its turn costs a switch.
  void waits(double ready_ns, bool looks = true);
  /// The current rank is done.
  void leaves();
  /// A rank that waits, on whichever PU, can go on at that time.
  void becomes_ready(int rank, double ready_ns);

 private:
  struct Queue {
    std::vector<int> ranks;
    std::size_t at = 0;
    double clock = 0.0;
    std::size_t futile = 0;      ///< turns in a row in which a rank had to wait
    bool rests = false;          ///< all ranks wait
    double wakes_ns = never_ns;  ///< while it rests: when the first rank can go on
  };
  double one_switch_ns();
  void next(Queue& queue, double cost_ns);
  void wake(Queue& queue);

  std::vector<Queue> queues_;     ///< one per PU
  std::vector<std::size_t> pu_;   ///< of each rank
  std::vector<double> ready_ns_;  ///< of each rank that waits
  std::size_t chosen_ = 0;
  double switch_ns_ = 0.0, spread_ = 0.0;
  std::minstd_rand random_;
};

}  // namespace smelt::plan
