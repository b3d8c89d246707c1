// The part of the simulator of schedules for ranks that have a PU each and read out of the same caches.
//
// A cache hands out to one reader after the other, in the order in which they begin. So ranks act in the order of their
// clocks: one reads only when no other rank can still begin before it. Equations: docs/reference/model.md.
#include <algorithm>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "plan/simulator/simulate_schedule.hpp"

namespace smelt::plan {

class ScheduleSimulator::ClockOrder {
 public:
  explicit ClockOrder(ScheduleSimulator& simulator) : simulator_(simulator) {}

  void run() {
    simulator_.awaiting_.assign(simulator_.ranks_.size(), {});
    for (int number = 0; number < static_cast<int>(simulator_.ranks_.size()); ++number) goes_on(number, 0.0);
    while (!turns_.empty() && !simulator_.too_late_) {
      const auto [now_ns, number] = turns_.top();
      turns_.pop();
      take(now_ns, number);
    }
  }

 private:
  using Turn = std::pair<double, int>;

  Rank& at(int number) { return simulator_.ranks_[static_cast<std::size_t>(number)]; }
  void goes_on(int number, double ready_ns) { turns_.push({std::max(at(number).clock, ready_ns), number}); }

  /// Runs the rank up to its next read, or until it must wait.
  void take(double now_ns, int number) {
    Rank& rank = at(number);
    for (bool due = true;;) {
      if (rank.at == rank.stop) {
        if (!simulator_.next_part(rank)) return;
        continue;
      }
      const LoweredOp& op = *rank.at;
      if (op.source_ns > 0.0) {
        const double ready_ns = simulator_.ready_ns(number, rank, op);
        if (ready_ns != never_ns && (!due || ready_ns > now_ns)) return goes_on(number, ready_ns);
      }
      if (!simulator_.perform(number, rank, op)) {
        const int awaited = rank.awaited < 0 ? number : rank.awaited;
        simulator_.awaiting_[static_cast<std::size_t>(awaited)].push_back(number);
        return;
      }
      due = false;
      simulator_.finish_operation(number, rank, [&](int other, double ready_ns) { goes_on(other, ready_ns); });
      if (rank.clock + rank.least_after_ns > simulator_.most_ns_ * rounding) simulator_.too_late_ = true;
      if (simulator_.too_late_) return;
    }
  }

  ScheduleSimulator& simulator_;
  std::priority_queue<Turn, std::vector<Turn>, std::greater<>> turns_;
};

void ScheduleSimulator::advance_in_order() { ClockOrder(*this).run(); }

}  // namespace smelt::plan
