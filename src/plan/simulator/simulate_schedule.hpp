// The simulator of schedules. It keeps its memory, so that it can simulate many schedules. See simulate_schedule.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "plan/schedule/lowering.hpp"
#include "plan/schedule/schedule_internal.hpp"
#include "plan/simulator/run_queues.hpp"
#include "smelt/schedule.hpp"

namespace smelt::plan {

/// The messages in flight, in first-in first-out order for each ordered pair of ranks.
class MessageQueues {
 public:
  struct InFlightMessage {
    double first_line_ns;  ///< when its first line can be received
    double stream_ns;      ///< the sender's time for the following lines
    double start_ns;       ///< when the sender began
    Area area;             ///< of the sender's, if it lends it
  };

  void clear(std::size_t ranks);
  void put(int from, int to, const InFlightMessage& message);
  /// The next message to be received; nullptr if there is none.
  const InFlightMessage* next(int from, int to) const {
    std::uint32_t first = 0;
    if (is_dense()) {
      first = ends_[index(from, to)].first;
    } else if (const auto known = sparse_ends_.find(index(from, to)); known != sparse_ends_.end()) {
      first = known->second.first;
    }
    return first == 0 ? nullptr : &messages_[first - 1].message;
  }
  /// Requirement: there is a message.
  InFlightMessage take(int from, int to);

 private:
  struct QueuedMessage {
    InFlightMessage message;
    std::uint32_t next;
  };
  struct QueueEnds {
    std::uint32_t first = 0, last = 0;  ///< numbers of messages, from 1 on; 0: none
  };
  std::size_t index(int from, int to) const {
    return static_cast<std::size_t>(from) * ranks_ + static_cast<std::size_t>(to);
  }
  bool is_dense() const { return ranks_ <= most_dense_ranks; }
  QueueEnds& ends(int from, int to) { return is_dense() ? ends_[index(from, to)] : sparse_ends_[index(from, to)]; }

  static constexpr std::size_t most_dense_ranks = 1024;
  std::size_t ranks_ = 0;
  std::vector<QueueEnds> ends_;                               ///< of every pair, in groups of up to most_dense_ranks
  std::unordered_map<std::size_t, QueueEnds> sparse_ends_{};  ///< of the pairs that have messages, in larger ones
  std::vector<QueuedMessage> messages_;
  std::uint32_t free_ = 0;  ///< first of the free list
};

/// Of an alltoall among more ranks not all moves are kept (simulate_rounds.hpp).
constexpr int most_kept_ranks = 512;

/// Number of chunks that are simulated. The second half of them represents the steady state.
constexpr std::size_t most_chunks = 6;
/// Rounding difference between sums in different orders.
constexpr double rounding = 1.0 + 1e-9;

class ScheduleSimulator {
 public:
  /// Requirement: the machine has costs. Machine and group must outlive the simulator.
  ScheduleSimulator(const Machine& machine, const Group& group, const Reach& reach);

  /// As simulate_within().
  Result<std::optional<ScheduleTimes>> run(const ScheduleRequest& request, std::size_t bytes, std::size_t element_bytes,
                                           std::span<const double> start_ns, double most_ns);

  /// Time from call to call in a loop of calls, once it is steady. `barriers`: with a barrier that counts ranks after
  /// each. Requirement: some ranks share a PU.
  Result<double> run_loop(const ScheduleRequest& request, std::size_t bytes, std::size_t element_bytes, bool barriers);
  /// The same of a loop of such barriers alone.
  Result<double> run_barriers();

  /// What it costs the busiest PU to write the inputs of its ranks anew that others read in the call before.
  double inputs_ns(const ScheduleRequest& request, std::size_t bytes, std::size_t element_bytes);

  /// The operations of one rank. Their least_ns() is a lower bound for run() at a fraction of its cost. Valid until the
  /// next call.
  const LoweredProgram& program_of(const ScheduleRequest& request, std::size_t bytes, std::size_t element_bytes,
                                   int rank);

 private:
  static constexpr double never_ns = RunQueues::never_ns;
  enum class Part : std::uint8_t { late, begin, body, end, barrier, over };
  struct alignas(64) Rank {  // members that each turn reads come first
    double clock = 0.0;
    const LoweredOp* at = nullptr;
    const LoweredOp* stop = nullptr;  ///< end of the part
    double least_after_ns = 0.0;      ///< lower bound for all later parts, including chunks that are not simulated
    std::size_t chunk = 0;
    std::size_t chunks_before = 0;  ///< of earlier calls
    std::size_t posted = 0;
    double exchange_start_ns = 0.0;
    double next_send_ns = 0.0;  ///< when the next send may start
    bool receiving = false;     ///< the last message operation was a receive
    std::size_t in_row = 0;     ///< receives since the rank had to wait
    double returned_ns = 0.0;   ///< when the last lent buffer that was received has been read
    int lent = 0;               ///< messages that have not been received
    std::vector<double> ticks;  ///< when each was posted, by chunk
    Part part = Part::begin;
    LoweredProgram program;
    double start_ns = 0.0;
    double fetch_ns = 0.0;                    ///< cost of reading what others have put into its result
    double rewrite_ns = 0.0;                  ///< cost of writing its result, which others have read
    int awaited = -1;                         ///< the rank that it waits for
    std::size_t call = 0;                     ///< number of the call
    double half_way_ns = 0.0, half_ns = 0.0;  ///< times after half of the simulated chunks, and after all

    std::size_t tick_index(std::size_t of_chunk, int tick) const {
      return of_chunk * static_cast<std::size_t>(program.ticks) + static_cast<std::size_t>(tick);
    }
    /// When it was posted; nullptr: not yet.
    const double* tick(std::size_t of_chunk, int tick) const {
      const std::size_t index = tick_index(of_chunk, tick);
      return index < posted ? &ticks[index] : nullptr;
    }
  };

  void add_cache_misses(int self);
  void add_rewrite(int owner, int reader, double bytes);
  bool prepare(const ScheduleRequest& request, std::size_t bytes, std::size_t element_bytes,
               std::span<const double> start_ns);
  void restart(std::size_t chunks);
  void begin_call(Rank& rank);
  Result<void> work(std::size_t chunks);
  void advance_all();
  bool advance(int number);
  bool work_off(int number, Rank& rank);
  void take_turns();
  void take_step(int number, Rank& rank);
  void wait(int number, Rank& rank);
  class SharedSources;
  void advance_in_order();
  template <class BecomesReady>
  void finish_operation(int number, Rank& rank, BecomesReady becomes_ready);
  template <class BecomesReady>
  void look_again(std::vector<int>& waiting, BecomesReady becomes_ready);
  static std::uint64_t area_key(int owner, const Area& area, std::size_t chunk);
  bool next_call(Rank& rank);
  void enter_barrier(int number, Rank& rank);
  double passed_ns(int number, const Rank& rank) const;
  Result<double> period_ns(std::size_t chunks);
  bool next_part(Rank& rank);
  double ready_ns(int number, Rank& rank, const LoweredOp& op) const;
  double stage_ready_ns(Rank& rank) const;
  bool perform(int number, Rank& rank, const LoweredOp& op, double read_ns = -1.0);
  void send(int number, Rank& rank, const LoweredOp& op);
  void take_first_line(Rank& rank, const LoweredOp& op, double first_line_ns) const;
  void receive(int number, Rank& rank, const LoweredOp& op, double read_ns);

  const Machine& machine_;
  const Group& group_;
  const Reach reach_;
  Lowering lowering_;
  std::size_t slots_;
  std::vector<Rank> ranks_;
  MessageQueues queues_;
  RunQueues run_queues_;                       ///< if ranks share PUs
  std::vector<std::vector<int>> awaiting_;     ///< by rank: those that wait for something it has not done
  std::vector<double> pu_body_ns_;             ///< per PU: lower bound for the work of its ranks in a chunk
  std::unordered_set<std::uint64_t> areas_{};  ///< by area_key(): those that some rank has read
  std::size_t chunks_ = 1, all_chunks_ = 1, tail_chunks_ = 0;
  std::size_t calls_ = 1;
  bool barriers_ = false;          ///< after each call
  int arrived_ = 0;                ///< at the barrier
  int last_arrived_ = -1;          ///< the rank that has its line
  std::vector<double> opened_ns_;  ///< per call: when the barrier after it opened
  std::vector<int> openers_;       ///< per call
  std::vector<double> ended_ns_;   ///< per call: when the last rank ended it
  double most_ns_ = 0.0;
  bool too_late_ = false;
};

/// The rank has performed an operation: goes past it, and tells those who waited for it.
template <class BecomesReady>
void ScheduleSimulator::finish_operation(int number, Rank& rank, BecomesReady becomes_ready) {
  const LoweredOp& op = *rank.at;
  rank.clock += op.after_ns;
  ++rank.at;
  look_again(awaiting_[static_cast<std::size_t>(number)], becomes_ready);
  if (op.kind == LoweredOp::Kind::receive && op.lent) {
    look_again(awaiting_[static_cast<std::size_t>(op.peer)], becomes_ready);
  }
}

/// Ranks that wait for one that has just done something.
template <class BecomesReady>
void ScheduleSimulator::look_again(std::vector<int>& waiting, BecomesReady becomes_ready) {
  for (std::size_t i = 0; i < waiting.size();) {
    const int number = waiting[i];
    Rank& rank = ranks_[static_cast<std::size_t>(number)];
    const bool still_waits = rank.at != rank.stop;
    const double ready = still_waits ? ready_ns(number, rank, *rank.at) : never_ns;
    if (still_waits && ready == never_ns) {
      ++i;
      continue;
    }
    waiting[i] = waiting.back();
    waiting.pop_back();
    if (still_waits) becomes_ready(number, ready);
  }
}

/// Errors of a simulation that do not depend on the request.
Result<void> check_simulation(const Machine& machine, const Group& group, std::span<const double> start_ns);

}  // namespace smelt::plan
