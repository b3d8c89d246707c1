// The part of the simulator of schedules for ranks that share PUs: their turns, and loops of calls.
//
// The rank whose PU has the earliest clock runs one operation at a time. What happens before that time has been run
// then, and an operation that waits for anything else has to wait. Equations: docs/reference/model.md.
#include <algorithm>
#include <limits>
#include <utility>

#include "plan/simulator/simulate_schedule.hpp"

namespace smelt::plan {
namespace {

/// Of a loop: calls before it is steady, and then. Groups of many ranks make fewer.
constexpr std::size_t first_calls = 4, timed_calls = 64, timed_calls_of_many = 4;
/// Of the switches in a loop, relative to their mean.
constexpr double spread_of_switches = 0.1;
constexpr std::size_t many_ranks = 64;

}  // namespace

void ScheduleSimulator::take_turns() {
  run_queues_.restart(group_, machine_.size(), lowering_.switch_ns(), calls_ > 1 ? spread_of_switches : 0.0);
  awaiting_.assign(ranks_.size(), {});
  arrived_ = 0;
  last_arrived_ = -1;
  opened_ns_.clear();
  openers_.clear();
  ended_ns_.assign(calls_, 0.0);
  while (!too_late_ && run_queues_.choose()) {
    const int number = run_queues_.current();
    Rank& rank = ranks_[static_cast<std::size_t>(number)];
    rank.clock = std::max(rank.clock, run_queues_.clock());
    take_step(number, rank);
    if (rank.clock + rank.least_after_ns > most_ns_ * rounding) too_late_ = true;
  }
}

/// Runs one operation, or goes on to the next part, or gives up the turn.
void ScheduleSimulator::take_step(int number, Rank& rank) {
  if (rank.part == Part::late) {
    if (rank.start_ns > run_queues_.clock()) return run_queues_.waits(rank.start_ns, false);
    begin_call(rank);
  } else if (rank.part == Part::barrier) {
    const double open_ns = passed_ns(number, rank);
    if (open_ns > rank.clock) return run_queues_.waits(open_ns);
    if (!next_call(rank)) return run_queues_.leaves();
  } else if (rank.at != rank.stop) {
    if (!perform(number, rank, *rank.at)) return wait(number, rank);
    finish_operation(number, rank, [&](int other, double ready_ns) { run_queues_.becomes_ready(other, ready_ns); });
  } else if (!next_part(rank)) {
    rank.clock += rank.fetch_ns + rank.rewrite_ns;
    if (barriers_) {
      enter_barrier(number, rank);
    } else if (!next_call(rank)) {
      return run_queues_.leaves();
    }
  }
  run_queues_.worked(rank.clock);
}

/// The rank waits for another one, or for those that read what it lent: then it is noted at its own number.
void ScheduleSimulator::wait(int number, Rank& rank) {
  const double ready = ready_ns(number, rank, *rank.at);
  if (ready == never_ns) {
    auto& noted = awaiting_[static_cast<std::size_t>(rank.awaited < 0 ? number : rank.awaited)];
    if (std::find(noted.begin(), noted.end(), number) == noted.end()) noted.push_back(number);
  }
  run_queues_.waits(ready);
}

/// False: it was the last one.
bool ScheduleSimulator::next_call(Rank& rank) {
  ended_ns_[rank.call] = std::max(ended_ns_[rank.call], rank.clock);
  if (++rank.call == calls_) {
    rank.part = Part::over;
    return false;
  }
  rank.chunks_before += chunks_;
  begin_call(rank);
  return true;
}

/// The rank counts itself; the counter's line comes from the PU of the one before it. The last rank opens the barrier.
void ScheduleSimulator::enter_barrier(int number, Rank& rank) {
  rank.clock += lowering_.call_ns(Operation::barrier);
  if (last_arrived_ >= 0) rank.clock += lowering_.line_ns(last_arrived_, number);
  last_arrived_ = number;
  rank.part = Part::barrier;
  if (++arrived_ < lowering_.ranks()) return;
  arrived_ = 0;
  opened_ns_.push_back(rank.clock);
  openers_.push_back(number);
  for (int other = 0; other < lowering_.ranks(); ++other) {
    if (other != number) run_queues_.becomes_ready(other, passed_ns(other, ranks_[static_cast<std::size_t>(other)]));
  }
}

/// When the rank sees that the barrier after its call is open; never_ns: not known yet.
double ScheduleSimulator::passed_ns(int number, const Rank& rank) const {
  if (rank.call >= opened_ns_.size()) return never_ns;
  return opened_ns_[rank.call] + lowering_.line_ns(openers_[rank.call], number);
}

/// Of calls with that many chunks.
Result<double> ScheduleSimulator::period_ns(std::size_t chunks) {
  const std::size_t timed = ranks_.size() < many_ranks ? timed_calls : timed_calls_of_many;
  calls_ = first_calls + timed;
  auto done = work(chunks);
  calls_ = 1;
  if (!done) return done.error();
  const double first_ns = ended_ns_[first_calls - 1], last_ns = ended_ns_.back();
  return (last_ns - first_ns) / static_cast<double>(timed);
}

Result<double> ScheduleSimulator::run_loop(const ScheduleRequest& request, std::size_t bytes, std::size_t element_bytes,
                                           bool barriers) {
  most_ns_ = never_ns;
  barriers_ = barriers;
  if (!prepare(request, bytes, element_bytes, {})) return never_ns;
  const std::size_t chunks = std::min(most_chunks, all_chunks_ - tail_chunks_);
  auto period = period_ns(chunks);
  if (const std::size_t rest = all_chunks_ - tail_chunks_ - chunks; period && rest > 0) {
    const std::size_t half = most_chunks / 2;
    const auto shorter = period_ns(half);
    if (!shorter) return shorter;
    const double busiest_ns = *std::max_element(pu_body_ns_.begin(), pu_body_ns_.end());
    const double chunk_ns = std::max(busiest_ns, (*period - *shorter) / static_cast<double>(most_chunks - half));
    *period += static_cast<double>(rest) * chunk_ns;
  }
  barriers_ = false;
  return period;
}

Result<double> ScheduleSimulator::run_barriers() {
  most_ns_ = never_ns;
  barriers_ = true;
  all_chunks_ = 1;
  tail_chunks_ = 0;
  for (Rank& rank : ranks_) {
    rank.program = {};
    rank.start_ns = rank.fetch_ns = rank.rewrite_ns = 0.0;
  }
  const auto period = period_ns(1);
  barriers_ = false;
  return period;
}

}  // namespace smelt::plan
