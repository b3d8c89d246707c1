// The simulator of schedules: runs the moves of all ranks against the model.
//
// Every rank has a clock, and runs its operations (plan/schedule/lowering.hpp) until one must wait for a message or a
// tick that does not exist yet. Then another rank continues. If each rank has its own PU, the order of visits does not
// matter, since all times follow from the clocks. Ranks that share a PU take turns (run_queues.hpp): operations are run
// in the order of the PUs' clocks, so that whatever happens before the time on a PU is known there. In a loop of calls
// a rank goes on with the next call as soon as it may, and the time between the ends of late calls is that of a call.
//
// Of many chunks only the first few are simulated. The others are assumed to take the average time of the last of
// these. The sum of a rank's own costs is a lower bound on its time; once that is too long, the simulation stops.
//
// Equations: docs/reference/model.md.
#include "plan/simulator/simulate_schedule.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.hpp"
#include "plan/simulator/simulate_rounds.hpp"

namespace smelt {
namespace plan {

void MessageQueues::clear(std::size_t ranks) {
  ranks_ = ranks;
  ends_.assign(is_dense() ? ranks * ranks : 0, {});
  sparse_ends_.clear();
  messages_.clear();
  free_ = 0;
}

void MessageQueues::put(int from, int to, const InFlightMessage& message) {
  auto& [first, last] = ends(from, to);
  std::uint32_t added = free_;
  if (added == 0) {
    messages_.push_back({message, 0});
    added = static_cast<std::uint32_t>(messages_.size());
  } else {
    free_ = std::exchange(messages_[added - 1], {message, 0}).next;
  }
  (last == 0 ? first : messages_[last - 1].next) = added;
  last = added;
}

MessageQueues::InFlightMessage MessageQueues::take(int from, int to) {
  auto& [first, last] = ends(from, to);
  QueuedMessage& letter = messages_[first - 1];
  const std::uint32_t taken = std::exchange(first, letter.next);
  if (first == 0) last = 0;
  letter.next = std::exchange(free_, taken);
  return letter.message;
}

ScheduleSimulator::ScheduleSimulator(const Machine& machine, const Group& group, const Reach& reach)
    : machine_(machine),
      group_(group),
      reach_(reach),
      lowering_(machine, group, reach),
      slots_(static_cast<std::size_t>(reach.slots)),
      ranks_(static_cast<std::size_t>(group.size())),
      pu_body_ns_(machine.size(), 0.0) {}

const LoweredProgram& ScheduleSimulator::program_of(const ScheduleRequest& request, std::size_t bytes,
                                                    std::size_t element_bytes, int rank) {
  lowering_.choose(request, bytes, element_bytes);
  LoweredProgram& program = ranks_[static_cast<std::size_t>(rank)].program;
  lowering_.lower(rank, program);
  return program;
}

/// False if a rank takes too long.
bool ScheduleSimulator::prepare(const ScheduleRequest& request, std::size_t bytes, std::size_t element_bytes,
                                std::span<const double> start_ns) {
  lowering_.choose(request, bytes, element_bytes);
  std::fill(pu_body_ns_.begin(), pu_body_ns_.end(), 0.0);
  for (std::size_t self = 0; self < ranks_.size(); ++self) {
    Rank& rank = ranks_[self];
    lowering_.lower(static_cast<int>(self), rank.program);
    rank.start_ns = start_ns.empty() ? 0.0 : start_ns[self];
    if (rank.start_ns + rank.program.least_ns() > most_ns_ * rounding) return false;
    rank.fetch_ns = rank.rewrite_ns = 0.0;
    pu_body_ns_[lowering_.pu(static_cast<int>(self))] += rank.program.body_ns;
  }
  for (std::size_t self = 0; self < ranks_.size(); ++self) add_cache_misses(static_cast<int>(self));
  all_chunks_ = ranks_.front().program.chunks;
  tail_chunks_ = ranks_.front().program.tail_chunks;
  return true;
}

/// What the moves of a rank cost the owners of the results that it reads or writes, in the end.
void ScheduleSimulator::add_cache_misses(int self) {
  const LoweredProgram& program = ranks_[static_cast<std::size_t>(self)].program;
  for (const auto& put : program.puts) {
    ranks_[static_cast<std::size_t>(put.owner)].fetch_ns += lowering_.fetch_ns(self, put.owner, put.bytes);
  }
  for (const auto& read : program.reads) add_rewrite(read.owner, self, read.bytes);
  for (const auto& lent : program.lent) add_rewrite(self, lent.reader, lent.bytes);
}

/// What it costs the owner of a result to write what the reader has read of it in the call before.
void ScheduleSimulator::add_rewrite(int owner, int reader, double bytes) {
  Rank& rank = ranks_[static_cast<std::size_t>(owner)];
  const double both = std::min(bytes, rank.program.written_bytes);
  // Combined parts are what others fetch first.
  const double combined = std::min(both, rank.program.combined_bytes);
  rank.rewrite_ns = std::max(rank.rewrite_ns, lowering_.rewrite_ns(reader, owner, both - combined) +
                                                  lowering_.combine_rewrite_ns(reader, owner, combined));
}

double ScheduleSimulator::inputs_ns(const ScheduleRequest& request, std::size_t bytes, std::size_t element_bytes) {
  most_ns_ = never_ns;
  if (!prepare(request, bytes, element_bytes, {})) return 0.0;
  std::vector<double> of_pu(machine_.size(), 0.0);
  areas_.clear();
  for (const Rank& rank : ranks_) {
    for (const auto& input : rank.program.inputs) {
      if (!areas_.insert(area_key(input.owner, input.area, 0)).second) continue;
      of_pu[lowering_.pu(input.owner)] += lowering_.change_ns(input.bytes);
    }
  }
  return *std::max_element(of_pu.begin(), of_pu.end());
}

void ScheduleSimulator::restart(std::size_t chunks) {
  chunks_ = chunks + tail_chunks_;
  for (Rank& rank : ranks_) {
    const LoweredProgram& program = rank.program;
    rank.clock = rank.start_ns;
    rank.call = rank.chunks_before = 0;
    rank.ticks.resize(std::max(rank.ticks.size(), calls_ * chunks_ * static_cast<std::size_t>(program.ticks) + 1));
    rank.posted = 0;
    rank.lent = 0;
    rank.returned_ns = rank.exchange_start_ns = rank.half_ns = rank.half_way_ns = rank.next_send_ns = 0.0;
    rank.receiving = false;
    rank.awaited = -1;
    if (lowering_.crowded() && rank.start_ns > 0.0) {
      rank.part = Part::late;
    } else {
      begin_call(rank);
    }
  }
  queues_.clear(ranks_.size());
  too_late_ = false;
}

void ScheduleSimulator::begin_call(Rank& rank) {
  const LoweredProgram& program = rank.program;
  rank.clock += program.set_up_ns;
  rank.at = program.begin.data();
  rank.stop = rank.at + program.begin.size();
  rank.part = Part::begin;
  rank.chunk = 0;
  rank.least_after_ns = program.least_ns() - program.set_up_ns - program.begin_ns;
}

Result<std::optional<ScheduleTimes>> ScheduleSimulator::run(const ScheduleRequest& request, std::size_t bytes,
                                                            std::size_t element_bytes, std::span<const double> start_ns,
                                                            double most_ns) {
  if (lowering_.ranks() > most_kept_ranks && has_rounds(machine_, group_, request)) {
    auto times = simulate_rounds(machine_, group_, request, bytes, element_bytes, reach_, start_ns);
    return times.total_ns > most_ns * rounding ? std::nullopt : std::optional(std::move(times));
  }
  most_ns_ = most_ns;
  if (!prepare(request, bytes, element_bytes, start_ns)) return std::optional<ScheduleTimes>();
  if (auto done = work(std::min(most_chunks, all_chunks_ - tail_chunks_)); !done) return done.error();
  if (too_late_) return std::optional<ScheduleTimes>();
  ScheduleTimes times;
  std::vector<double> later_half_ns;
  for (const Rank& rank : ranks_) {
    times.finish_ns.push_back(rank.clock + rank.fetch_ns + rank.rewrite_ns);
    later_half_ns.push_back(rank.half_ns - rank.half_way_ns);
  }
  const std::size_t rest = all_chunks_ - chunks_;
  if (rest > 0 && lowering_.crowded()) {
    // Ranks that share a PU work in bursts, so only the ends of bursts show how long further chunks take. While they
    // wait for the first chunks, their PUs are idle; later they are not. The rate is bounded by the work of all ranks
    // of a PU.
    if (auto done = work(most_chunks / 2); !done) return done.error();
    if (too_late_) return std::optional<ScheduleTimes>();
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      const double busy_ns =
          pu_body_ns_[lowering_.pu(static_cast<int>(i))] * static_cast<double>(most_chunks - most_chunks / 2);
      later_half_ns[i] =
          std::max(busy_ns, times.finish_ns[i] - ranks_[i].fetch_ns - ranks_[i].rewrite_ns - ranks_[i].clock);
    }
  }
  if (rest > 0) {
    const double halves = static_cast<double>(rest) / static_cast<double>(most_chunks - most_chunks / 2);
    for (std::size_t i = 0; i < ranks_.size(); ++i) times.finish_ns[i] += halves * later_half_ns[i];
  }
  times.total_ns = *std::max_element(times.finish_ns.begin(), times.finish_ns.end());
  return std::optional(std::move(times));
}

/// Runs the first so many chunks and the tail of all ranks, unless they take too long.
Result<void> ScheduleSimulator::work(std::size_t chunks) {
  restart(chunks);
  if (lowering_.crowded()) {
    take_turns();
  } else {
    const bool shared = machine_.source_ns_per_kib || machine_.process_pages_ns_per_kib;
    shared&& ranks_.size() > 2 ? advance_in_order() : advance_all();
  }
  if (too_late_) return {};
  const auto stuck = std::find_if(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.part != Part::over; });
  if (stuck == ranks_.end()) return {};
  return make_error(Status::invalid_argument, "schedule: rank {} waits for ever in its chunk {}",
                    stuck - ranks_.begin(), stuck->chunk);
}

/// Each rank has a PU of its own.
void ScheduleSimulator::advance_all() {
  bool moving = true;
  while (moving && !too_late_) {
    moving = false;
    for (int rank = 0; rank < static_cast<int>(ranks_.size()) && !too_late_; ++rank) moving |= advance(rank);
  }
}

/// Runs operations until one must wait. True if at least one was run.
bool ScheduleSimulator::advance(int number) {
  Rank& rank = ranks_[static_cast<std::size_t>(number)];
  if (rank.part == Part::over) return false;
  bool moved = false;
  do {
    moved |= work_off(number, rank);
    if (rank.clock + rank.least_after_ns > most_ns_ * rounding) too_late_ = true;
  } while (!too_late_ && rank.at == rank.stop && next_part(rank) && (moved = true));
  return moved;
}

/// Runs operations of a part until one must wait. True if at least one was run.
bool ScheduleSimulator::work_off(int number, Rank& rank) {
  const LoweredOp* const first = rank.at;
  while (rank.at != rank.stop && perform(number, rank, *rank.at)) {
    rank.clock += rank.at->after_ns;
    ++rank.at;
  }
  return rank.at != first;
}

/// Continues with the next chunk or the end part; false if everything is done.
bool ScheduleSimulator::next_part(Rank& rank) {
  const LoweredProgram& program = rank.program;
  if (rank.part == Part::end) {
    rank.part = Part::over;
    return false;
  }
  const std::size_t bodies = chunks_ - tail_chunks_;
  if (rank.part == Part::body) {
    ++rank.chunk;
    if (rank.chunk == bodies / 2) rank.half_way_ns = rank.clock;
    if (rank.chunk == bodies) rank.half_ns = rank.clock;
  }
  if (rank.chunk == chunks_) {
    rank.part = Part::end;
    --rank.chunk;
    rank.least_after_ns -= program.end_ns;
    rank.at = program.end.data();
    rank.stop = rank.at + program.end.size();
    return true;
  }
  const bool tail = rank.chunk >= bodies;
  const bool last = tail_chunks_ > 0 ? rank.chunk + 1 == chunks_ : rank.chunk + 1 == all_chunks_;
  const auto& ops = last && !program.last.empty() ? program.last : tail ? program.tail : program.body;
  rank.part = Part::body;
  rank.least_after_ns -= last ? program.last_ns : tail ? program.tail_ns : program.body_ns;
  rank.at = ops.data();
  rank.stop = rank.at + ops.size();
  return true;
}

/// When an operation can go on, as far as other ranks are concerned; never_ns: not known yet.
double ScheduleSimulator::ready_ns(int number, Rank& rank, const LoweredOp& op) const {
  switch (op.kind) {
    case LoweredOp::Kind::receive: {
      rank.awaited = op.peer;
      const MessageQueues::InFlightMessage* const next = queues_.next(op.peer, number);
      return next == nullptr ? never_ns : next->first_line_ns;
    }
    case LoweredOp::Kind::await:
    case LoweredOp::Kind::await_body: {
      rank.awaited = op.peer;
      const Rank& peer = ranks_[static_cast<std::size_t>(op.peer)];
      const bool body = op.kind == LoweredOp::Kind::await_body;
      const double* const at = body ? peer.tick(rank.chunks_before + chunks_ - tail_chunks_ - 1, rank.program.ticks)
                                    : peer.tick(rank.chunks_before + rank.chunk, op.tick);
      return at == nullptr ? never_ns : *at + op.way_ns;
    }
    case LoweredOp::Kind::flush: rank.awaited = -1; return rank.lent > 0 ? never_ns : rank.returned_ns;
    case LoweredOp::Kind::reuse_stage: return stage_ready_ns(rank);
    default: return 0.0;
  }
}

/// Runs one operation; false if it must wait.
/// `read_ns`: how long a read takes, if that is known; else as long as alone.
bool ScheduleSimulator::perform(int number, Rank& rank, const LoweredOp& op, double read_ns) {
  const double ready = ready_ns(number, rank, op);
  if (ready == never_ns || (lowering_.crowded() && ready > rank.clock)) return false;
  switch (op.kind) {
    case LoweredOp::Kind::work: break;
    case LoweredOp::Kind::read: rank.clock += read_ns < 0.0 ? op.line_ns : read_ns; break;
    case LoweredOp::Kind::send: send(number, rank, op); break;
    case LoweredOp::Kind::receive: receive(number, rank, op, read_ns); break;
    case LoweredOp::Kind::post: {
      rank.clock += op.line_ns;
      const std::size_t posted = rank.tick_index(rank.chunks_before + rank.chunk, op.tick) + 1;
      while (rank.posted < posted) rank.ticks[rank.posted++] = rank.clock;
      break;
    }
    case LoweredOp::Kind::await:
    case LoweredOp::Kind::await_body: rank.clock = std::max(rank.clock + op.line_ns, ready); break;
    case LoweredOp::Kind::flush:
    case LoweredOp::Kind::reuse_stage: rank.clock = std::max(rank.clock, ready); break;
  }
  return true;
}

std::uint64_t ScheduleSimulator::area_key(int owner, const Area& area, std::size_t chunk) {
  const auto part = [](auto number, int bits) { return static_cast<std::uint64_t>(number) << bits; };
  return part(owner, 0) | part(area.first, 15) | part(area.count, 30) | part(area.buffer, 45) | part(chunk, 48);
}

void ScheduleSimulator::send(int number, Rank& rank, const LoweredOp& op) {
  const double start = std::max(rank.clock, rank.next_send_ns);
  if (op.exchanged) rank.exchange_start_ns = start;
  rank.clock = start + op.line_ns;
  rank.next_send_ns = start + op.gap_ns;
  rank.receiving = false;
  queues_.put(number, op.peer, {rank.clock + op.way_ns, op.stream_ns, start, op.area});
  rank.clock += op.stream_ns / 2;
  if (op.lent) ++rank.lent;
}

/// A receiver that has waited begins to look for the next messages only then, and waits for their lines once more.
void ScheduleSimulator::take_first_line(Rank& rank, const LoweredOp& op, double first_line_ns) const {
  const auto& row = machine_.recv_row_ns;
  double least_ns = rank.clock;
  if (rank.receiving) {
    const bool early = rank.in_row < row.size() && op.row_scale > 0.0;
    least_ns += early ? std::max(op.gap_ns, row[rank.in_row] * op.row_scale) : op.gap_ns;
    rank.in_row = first_line_ns + op.line_ns > least_ns ? 1 : rank.in_row + 1;
  } else {
    rank.in_row = first_line_ns > rank.clock ? 1 : row.size();
    least_ns += op.line_ns;
  }
  rank.clock = std::max(least_ns, first_line_ns + op.line_ns);
}

void ScheduleSimulator::receive(int number, Rank& rank, const LoweredOp& op, double read_ns) {
  const MessageQueues::InFlightMessage message = queues_.take(op.peer, number);
  take_first_line(rank, op, message.first_line_ns);
  rank.receiving = true;
  rank.clock += std::max(message.stream_ns, read_ns < 0.0 ? op.stream_ns : read_ns);
  if (op.lent) {
    Rank& sender = ranks_[static_cast<std::size_t>(op.peer)];
    --sender.lent;
    sender.returned_ns = std::max(sender.returned_ns, rank.clock + op.way_ns);
  }
  if (op.exchanged) {
    rank.clock = rank.next_send_ns = std::max(rank.exchange_start_ns, message.start_ns) + op.exchange_ns;
    rank.receiving = false;
  }
}

/// A place in a stage is reused once the readers of its former content are done. Readers of earlier calls are: a call
/// of one that has such places waits for all ranks, or a barrier follows it.
double ScheduleSimulator::stage_ready_ns(Rank& rank) const {
  const std::size_t first = tail_chunks_ > 0 ? chunks_ - tail_chunks_ : 0;  // the first chunk through the stage
  double ready_ns = 0.0;
  if (rank.chunk < first + slots_) return ready_ns;
  for (const auto& reader : rank.program.readers) {
    const double* const at = ranks_[static_cast<std::size_t>(reader.rank)].tick(
        rank.chunks_before + rank.chunk - slots_, rank.program.ticks);
    rank.awaited = reader.rank;
    if (at == nullptr) return never_ns;
    ready_ns = std::max(ready_ns, *at + reader.way_ns);
  }
  return ready_ns;
}

Result<std::optional<ScheduleTimes>> simulate_within(double most_ns, const Machine& machine, const Group& group,
                                                     const ScheduleRequest& request, std::size_t bytes,
                                                     std::size_t element_bytes, const Reach& reach,
                                                     std::span<const double> start_ns) {
  if (auto checked = check_simulation(machine, group, start_ns); !checked) return checked.error();
  return ScheduleSimulator(machine, group, reach).run(request, bytes, element_bytes, start_ns, most_ns);
}

Result<void> check_simulation(const Machine& machine, const Group& group, std::span<const double> start_ns) {
  if (!machine.has_costs()) {
    return make_error(Status::invalid_argument, "machine '{}' has no costs; measure it or load a measured model",
                      machine.name);
  }
  if (!start_ns.empty() && start_ns.size() != static_cast<std::size_t>(group.size())) {
    return make_error(Status::invalid_argument, "{} start times for {} ranks", start_ns.size(), group.size());
  }
  return {};
}

}  // namespace plan

Result<ScheduleTimes> simulate(const Machine& machine, const Group& group, const ScheduleRequest& request,
                               std::size_t bytes, std::size_t element_bytes, const Reach& reach,
                               std::span<const double> start_ns) {
  auto times = plan::simulate_within(std::numeric_limits<double>::infinity(), machine, group, request, bytes,
                                     element_bytes, reach, start_ns);
  if (!times) return times.error();
  return std::move(**times);
}

}  // namespace smelt
