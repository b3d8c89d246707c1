// The simulator of schedules: runs the moves of all ranks against the model.
//
// Every rank has a clock, and runs its operations (plan/schedule/lowering.hpp) until one must wait for a message or a
// tick that does not exist yet. Then another rank continues. If each rank has its own PU, the order of visits does not
// matter, since all times follow from the clocks. Ranks that share a PU alternate in an order that no algorithm can
// rely on (a fixed sequence of shuffles), and each turn costs a context switch. A rank that waits for an event in the
// future of its PU gives up its turn. The clocks of the PUs advance only when no rank can run.
//
// Of many chunks only the first few are simulated. The others are assumed to take the average time of the last of
// these. The sum of a rank's own costs is a lower bound on its time; once that is too long, the simulation stops.
//
// Equations: docs/reference/model.md.
#include "plan/simulator/simulate_schedule.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <utility>

#include "base/error.hpp"
#include "plan/simulator/simulate_rounds.hpp"

namespace smelt {
namespace plan {
namespace {

/// Number of chunks that are simulated. The second half of them represents the steady state.
constexpr std::size_t most_chunks = 6;
constexpr double never_ns = std::numeric_limits<double>::infinity();
/// Rounding difference between sums in different orders.
constexpr double rounding = 1.0 + 1e-9;

}  // namespace

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
      pu_free_(machine.size(), 0.0),
      pu_ready_(machine.size(), never_ns),
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
  for (const auto& read : program.reads) {
    Rank& owner = ranks_[static_cast<std::size_t>(read.owner)];
    const double both = std::min(read.bytes, owner.program.written_bytes);
    owner.rewrite_ns = std::max(owner.rewrite_ns, lowering_.rewrite_ns(self, read.owner, both));
  }
}

void ScheduleSimulator::restart(std::size_t chunks) {
  chunks_ = chunks + tail_chunks_;
  for (Rank& rank : ranks_) {
    const LoweredProgram& program = rank.program;
    rank.clock = rank.start_ns + program.set_up_ns;
    rank.at = program.begin.data();
    rank.stop = rank.at + program.begin.size();
    rank.part = Part::begin;
    rank.chunk = 0;
    rank.least_after_ns = program.least_ns() - program.set_up_ns - program.begin_ns;
    rank.ticks.resize(std::max(rank.ticks.size(), chunks_ * static_cast<std::size_t>(program.ticks) + 1));
    rank.posted = 0;
    rank.lent = 0;
    rank.returned_ns = rank.exchange_start_ns = rank.half_ns = rank.half_way_ns = rank.next_send_ns = 0.0;
    rank.receiving = false;
  }
  queues_.clear(ranks_.size());
  std::fill(pu_free_.begin(), pu_free_.end(), 0.0);
  too_late_ = false;
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
  std::vector<std::size_t> order(ranks_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::minstd_rand random(1);
  bool moving = true;
  std::size_t finished = 0;
  while (moving && finished < ranks_.size()) {
    moving = false;
    finished = 0;
    if (lowering_.crowded()) std::shuffle(order.begin(), order.end(), random);
    for (const std::size_t rank : order) {
      moving |= advance(static_cast<int>(rank));
      if (too_late_) return {};
      if (ranks_[rank].part == Part::over) ++finished;
    }
    if (!moving && lowering_.crowded()) moving = sleep_until_ready();
  }
  if (finished < ranks_.size()) {
    const auto stuck = std::find_if(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.part != Part::over; });
    return make_error(Status::invalid_argument, "schedule: rank {} waits for ever in its chunk {}",
                      stuck - ranks_.begin(), stuck->chunk);
  }
  return {};
}

/// Whether a rank that shares its PU waits for an event at a later time, so that other ranks should run meanwhile.
bool ScheduleSimulator::lets_others_run(Rank& rank, double ready_ns) const {
  if (!lowering_.crowded() || ready_ns <= rank.clock) return false;
  rank.ready_ns = ready_ns;
  return true;
}

/// Called when no rank can run: advances each PU to the time at which its first rank can. False: none ever can.
bool ScheduleSimulator::sleep_until_ready() {
  const auto for_each_rank = [&](auto&& act) {
    for (std::size_t i = 0; i < ranks_.size(); ++i) act(ranks_[i], lowering_.pu(static_cast<int>(i)));
  };
  for_each_rank([&](const Rank&, std::size_t pu) { pu_ready_[pu] = never_ns; });
  for_each_rank([&](const Rank& rank, std::size_t pu) { pu_ready_[pu] = std::min(pu_ready_[pu], rank.ready_ns); });
  bool any = false;
  for_each_rank([&](const Rank&, std::size_t pu) {
    if (pu_ready_[pu] == never_ns) return;
    pu_free_[pu] = std::max(pu_free_[pu], pu_ready_[pu]);
    any = true;
  });
  return any;
}

/// Runs operations until one must wait. True if at least one was run.
bool ScheduleSimulator::advance(int number) {
  Rank& rank = ranks_[static_cast<std::size_t>(number)];
  rank.ready_ns = never_ns;
  if (rank.part == Part::over) return false;
  double& pu_free = pu_free_[lowering_.pu(number)];
  if (lowering_.crowded() && rank.start_ns > pu_free) {  // not there yet
    rank.ready_ns = rank.start_ns;
    return false;
  }
  bool moved = false;
  const double before = rank.clock;
  if (lowering_.crowded()) rank.clock = std::max(before, pu_free) + lowering_.switch_ns();
  do {
    while (rank.at != rank.stop && perform(number, rank, *rank.at)) {
      rank.clock += rank.at->after_ns;
      ++rank.at;
      moved = true;
    }
    if (rank.clock + rank.least_after_ns > most_ns_ * rounding) too_late_ = true;
  } while (!too_late_ && rank.at == rank.stop && next_part(rank) && (moved = true));
  if (lowering_.crowded()) {
    // A turn without progress costs the other ranks the context switch.
    pu_free = moved ? rank.clock : pu_free + lowering_.switch_ns();
    if (!moved) rank.clock = before;
  }
  return moved;
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

/// Runs one operation; false if it must wait.
bool ScheduleSimulator::perform(int number, Rank& rank, const LoweredOp& op) {
  switch (op.kind) {
    case LoweredOp::Kind::work: return true;
    case LoweredOp::Kind::send: send(number, rank, op); return true;
    case LoweredOp::Kind::receive: return receive(number, rank, op);
    case LoweredOp::Kind::post: {
      rank.clock += op.line_ns;
      const std::size_t posted = rank.tick_index(rank.chunk, op.tick) + 1;
      while (rank.posted < posted) rank.ticks[rank.posted++] = rank.clock;
      return true;
    }
    case LoweredOp::Kind::await:
    case LoweredOp::Kind::await_body: {
      const Rank& peer = ranks_[static_cast<std::size_t>(op.peer)];
      const bool body = op.kind == LoweredOp::Kind::await_body;
      const double* const at =
          body ? peer.tick(chunks_ - tail_chunks_ - 1, rank.program.ticks) : peer.tick(rank.chunk, op.tick);
      if (at == nullptr || lets_others_run(rank, *at + op.way_ns)) return false;
      rank.clock = std::max(rank.clock + op.line_ns, *at + op.way_ns);
      return true;
    }
    case LoweredOp::Kind::flush:
      if (rank.lent > 0 || lets_others_run(rank, rank.returned_ns)) return false;
      rank.clock = std::max(rank.clock, rank.returned_ns);
      return true;
    case LoweredOp::Kind::reuse_stage: return reuse_stage(rank);
  }
  return true;
}

void ScheduleSimulator::send(int number, Rank& rank, const LoweredOp& op) {
  const double start = std::max(rank.clock, rank.next_send_ns);
  if (op.exchanged) rank.exchange_start_ns = start;
  rank.clock = start + op.line_ns;
  rank.next_send_ns = start + op.gap_ns;
  rank.receiving = false;
  queues_.put(number, op.peer, {rank.clock + op.way_ns, op.stream_ns, start});
  rank.clock += op.stream_ns / 2;
  if (op.lent) ++rank.lent;
}

bool ScheduleSimulator::receive(int number, Rank& rank, const LoweredOp& op) {
  const MessageQueues::InFlightMessage* const next = queues_.next(op.peer, number);
  if (next == nullptr || lets_others_run(rank, next->first_line_ns)) return false;
  const MessageQueues::InFlightMessage message = queues_.take(op.peer, number);
  rank.clock = rank.receiving ? std::max(rank.clock + op.gap_ns, message.first_line_ns + op.line_ns)
                              : std::max(rank.clock, message.first_line_ns) + op.line_ns;
  rank.receiving = true;
  rank.clock += std::max(message.stream_ns, op.stream_ns);
  if (op.lent) {
    Rank& sender = ranks_[static_cast<std::size_t>(op.peer)];
    --sender.lent;
    sender.returned_ns = std::max(sender.returned_ns, rank.clock + op.way_ns);
  }
  if (op.exchanged) {
    rank.clock = rank.next_send_ns = std::max(rank.exchange_start_ns, message.start_ns) + op.exchange_ns;
    rank.receiving = false;
  }
  return true;
}

/// A place in a stage is reused once the readers of its former content are done.
bool ScheduleSimulator::reuse_stage(Rank& rank) {
  const std::size_t first = tail_chunks_ > 0 ? chunks_ - tail_chunks_ : 0;  // the first chunk through the stage
  if (rank.chunk < first + slots_) return true;
  double ready_ns = rank.clock;
  for (const auto& reader : rank.program.readers) {
    const double* const at =
        ranks_[static_cast<std::size_t>(reader.rank)].tick(rank.chunk - slots_, rank.program.ticks);
    if (at == nullptr) return false;
    ready_ns = std::max(ready_ns, *at + reader.way_ns);
  }
  if (lets_others_run(rank, ready_ns)) return false;
  rank.clock = ready_ns;
  return true;
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
