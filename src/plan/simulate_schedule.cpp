// The simulator of schedules: runs the moves of all ranks against the model.
//
// Every rank has a clock and works through its moves until one must wait for a message or a tick that nobody
// has produced yet; then another rank goes on. The order in which ranks are visited does not matter while each
// has a PU of its own: all times follow from the clocks. Ranks that share a PU take turns, in no order that an
// algorithm could count on (a fixed sequence of shuffles), and each turn costs a switch.
//
//   send        send_ns + what streams after the first line        recv     propagation_ns + recv_ns + stream
//   get         copy_ns(source, self), process_copy_ns             combine  combine_ns
//   post/await  a line that one rank writes and others read: the cost of a message
//
// Equations: docs/model.md.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <vector>

#include "base/error.hpp"
#include "plan/costs.hpp"
#include "plan/schedule_internal.hpp"
#include "smelt/schedule.hpp"

namespace smelt {
namespace {

constexpr double payload_bytes = 56.0;
/// What a line of a stream costs, as part of a lone message (docs/model.md).
constexpr double line_share = 0.2;
/// What a rank pays to get a PU that another rank has: a context switch.
constexpr double switch_ns = 1000.0;
constexpr double post_ns = 2.0;
/// What a rank does before its first move where vectors are cut or ticks followed: epochs, extents, addresses.
constexpr double set_up_ns = 200.0;
/// Chunks that are simulated; what they show of the steady state holds for the rest.
constexpr std::size_t most_chunks = 6;

struct Message {
  double first_line_ns;  ///< when its first line can be taken up
  double stream_ns;      ///< what the sender needs for the lines after it
  double start_ns;       ///< when the sender began
};

/// The messages under way, first in first out for each ordered pair of ranks.
class Mail {
 public:
  explicit Mail(std::size_t ranks) : ranks_(ranks), ends_(ranks * ranks) {}

  void put(int from, int to, const Message& message) {
    auto& [first, last] = ends_[index(from, to)];
    const auto added = static_cast<std::uint32_t>(letters_.size() + 1);
    letters_.push_back({message, 0});
    (last == 0 ? first : letters_[last - 1].next) = added;
    last = added;
  }
  /// nullptr: there is none.
  const Message* take(int from, int to) {
    auto& [first, last] = ends_[index(from, to)];
    if (first == 0) return nullptr;
    const Letter& letter = letters_[first - 1];
    first = letter.next;
    if (first == 0) last = 0;
    return &letter.message;
  }

 private:
  struct Letter {
    Message message;
    std::uint32_t next;
  };
  struct Ends {
    std::uint32_t first = 0, last = 0;  ///< numbers of letters, from 1 on
  };
  std::size_t index(int from, int to) const {
    return static_cast<std::size_t>(from) * ranks_ + static_cast<std::size_t>(to);
  }
  std::size_t ranks_;
  std::vector<Ends> ends_;
  std::vector<Letter> letters_;
};

class Simulator {
 public:
  Simulator(const Machine& machine, const Group& group, const ScheduleRequest& request, std::size_t bytes,
            std::size_t element_bytes, const Reach& reach, std::size_t chunks)
      : machine_(machine),
        group_(group),
        costs_(machine, group),
        reach_(reach),
        direct_processes_(reach.processes && request.recipe.access == Access::direct),
        operation_(operation_of(request)),
        chunks_(chunks),
        length_(bytes / element_bytes),
        whole_bytes_(static_cast<double>(bytes) * (has_rank_blocks(operation_) ? group.size() : 1)),
        element_bytes_(element_bytes),
        clocks_(static_cast<std::size_t>(group.size()), 0.0),
        ticks_(clocks_.size()),
        at_(clocks_.size(), 0),
        mail_(clocks_.size()),
        returned_ns_(clocks_.size(), 0.0),
        sent_(clocks_.size(), false),
        exchange_start_(clocks_.size(), 0.0),
        pu_free_(machine.size(), 0.0) {
    for (int rank = 0; rank < group.size(); ++rank) {
      schedules_.push_back(make_schedule(request, rank));
      cuttings_.emplace_back(schedules_.back(), operation_, request.recipe.chunk_bytes, reach.slot_bytes, length_,
                             element_bytes);
    }
    std::map<int, int> on_pu;
    for (int pu : group.pus) ++on_pu[pu];
    copiers_ = static_cast<int>(on_pu.size());
    for (const auto& [pu, ranks] : on_pu) crowded_ |= ranks > 1;
    chunks_ = std::min(chunks_, cuttings_.front().chunks());
    cut_ = cuttings_.front().chunks() > 1;
  }

  std::size_t all_chunks() const { return cuttings_.front().chunks(); }

  /// When each rank is done; nothing if one is later than `most_ns`.
  Result<std::optional<std::vector<double>>> run(std::span<const double> start_ns, double most_ns) {
    most_ns_ = most_ns;
    if (!start_ns.empty()) clocks_.assign(start_ns.begin(), start_ns.end());
    for (std::size_t rank = 0; rank < clocks_.size(); ++rank) {
      if (schedules_[rank].ticks > 0 || schedules_[rank].slices > 1) clocks_[rank] += set_up_ns;
    }
    const auto ranks = clocks_.size();
    std::vector<std::size_t> order(ranks);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::minstd_rand random(1);
    bool moving = true;
    std::size_t finished = 0;
    while (moving && finished < ranks) {
      moving = false;
      finished = 0;
      if (crowded_) std::shuffle(order.begin(), order.end(), random);
      for (const std::size_t rank : order) {
        moving |= advance(static_cast<int>(rank));
        if (too_late_) return std::optional<std::vector<double>>();
        if (at_[rank] == total(rank)) ++finished;
      }
    }
    if (finished < ranks) {
      const auto stuck = static_cast<std::size_t>(
          std::find_if(at_.begin(), at_.end(),
                       [&](const auto& at) { return at < total(static_cast<std::size_t>(&at - at_.data())); }) -
          at_.begin());
      return make_error(Status::invalid_argument, "schedule: rank {} waits for ever at its move {}", stuck, at_[stuck]);
    }
    return std::optional(clocks_);
  }

 private:
  static Operation operation_of(const ScheduleRequest& request) {
    for (const auto& info : algorithms()) {
      if (info.name == request.recipe.algorithm) return info.operation;
    }
    return Operation::broadcast;
  }

  std::size_t total(std::size_t rank) const {
    const auto& s = schedules_[rank];
    return s.begin.size() + chunks_ * s.body.size() + s.end.size();
  }

  /// The move at a position, and the chunk it is in.
  const Move& move_at(std::size_t rank, std::size_t position, std::size_t& chunk) const {
    const auto& s = schedules_[rank];
    chunk = 0;
    if (position < s.begin.size()) return s.begin[position];
    position -= s.begin.size();
    if (position < chunks_ * s.body.size()) {
      chunk = position / s.body.size();
      return s.body[position % s.body.size()];
    }
    chunk = chunks_ - 1;
    return s.end[position - chunks_ * s.body.size()];
  }

  double bytes_of(std::size_t rank, const Area& area, std::size_t chunk) const {
    const auto& cutting = cuttings_[rank];
    const auto elements = cutting.elements(chunk);
    std::size_t count = 0;
    if (has_rank_blocks(operation_)) {
      count = elements * static_cast<std::size_t>(area.count);
    } else if (schedules_[rank].slices == 1) {
      count = elements;
    } else {
      count = cutting.slice_begin(elements, area.first + area.count) - cutting.slice_begin(elements, area.first);
    }
    return static_cast<double>(count * element_bytes_);
  }

  std::size_t pu(int rank) const { return static_cast<std::size_t>(group_.pus[static_cast<std::size_t>(rank)]); }

  /// Lines after the first of a message through a channel: written by one rank, fetched by the other.
  double stream_ns(int from, int to, double bytes) const {
    const double lines = std::max(0.0, std::ceil(bytes / payload_bytes) - 1.0);
    // Each line is polled for: only part of its way overlaps with the way of the next.
    return lines * line_share * costs_.message(from, to);
  }

  /// Part of a long buffer: at the pace of copies of the whole, since that decides in which cache it is.
  template <class Cost>
  double part_ns(double bytes, Cost cost) const {
    const double whole = std::max(bytes, whole_bytes_);
    return std::max(cost(bytes), cost(whole) * bytes / whole);
  }

  /// A copy, or a combination, by rank `to` of what rank `from` has; `staged`: out of its stage, which is
  /// short and stays in the cache, though what it is copied to or from does not.
  double transfer_ns(int from, int to, double bytes, bool staged, bool combine) const {
    if (bytes == 0.0) return 0.0;
    const auto a = pu(from), b = pu(to);
    if (direct_processes_ && !staged && from != to) {
      const auto cost = [&](double size) { return process_copy_ns(machine_, a, b, size, copiers_); };
      // Every part is a system call of its own.
      const double call = bytes < whole_bytes_ ? cost(payload_bytes) : 0.0;
      const double time = call + part_ns(bytes, cost);
      return combine ? time + combine_ns(machine_, b, b, bytes, 1) : time;
    }
    // A chunk that has just been written is in its writer's cache, as a stage is.
    if (staged || cut_) {
      const double stage =
          combine ? combine_ns(machine_, a, b, bytes, copiers_) : copy_ns(machine_, a, b, bytes, copiers_);
      return std::max(stage, part_ns(bytes, [&](double size) { return copy_ns(machine_, b, b, size, copiers_); }));
    }
    return part_ns(bytes, [&](double size) {
      return combine ? combine_ns(machine_, a, b, size, copiers_) : copy_ns(machine_, a, b, size, copiers_);
    });
  }

  /// The lines of a stage lie with those who have read it last and are fetched back; from some on, ahead of time.
  double reclaim_ns(int rank, double bytes) const {
    const auto& readers = schedules_[static_cast<std::size_t>(rank)].stage_readers;
    const auto other = std::find_if(readers.begin(), readers.end(), [&](int reader) { return pu(reader) != pu(rank); });
    return other == readers.end() ? 0.0 : copy_ns(machine_, pu(*other), pu(rank), std::min(bytes, 2048.0), 1);
  }

  void send(int rank, int peer, double bytes) {
    auto& clock = clocks_[static_cast<std::size_t>(rank)];
    const double start = clock;
    if (!descriptor(bytes)) {
      const double stream = stream_ns(rank, peer, bytes);
      clock += costs_.send(rank, peer);
      mail_.put(rank, peer, {clock + costs_.propagation(rank, peer), stream, start});
      clock += stream / 2;
      return;
    }
    clock += costs_.send(rank, peer);
    mail_.put(rank, peer, {clock + costs_.propagation(rank, peer), 0.0, start});
  }

  bool descriptor(double bytes) const { return direct_ && bytes > 2048; }

  bool receive(int rank, int source, double bytes, bool combine, double exchange_start) {
    const Message* const found = mail_.take(source, rank);
    if (found == nullptr) return false;
    const Message message = *found;
    auto& clock = clocks_[static_cast<std::size_t>(rank)];
    clock = std::max(clock, message.first_line_ns) + costs_.recv(source, rank);
    if (descriptor(bytes)) {
      clock += transfer_ns(source, rank, bytes, false, combine);
      auto& returned = returned_ns_[static_cast<std::size_t>(source)];
      returned = std::max(returned, clock + costs_.message(rank, source));
    } else {
      // The lines come through the cache; what they are copied to may be too long for it.
      const auto self = pu(rank);
      const double own = part_ns(bytes, [&](double size) { return copy_ns(machine_, self, self, size, copiers_); });
      clock += bytes > payload_bytes ? std::max(message.stream_ns, own) : 0.0;
      if (combine) clock += combine_ns(machine_, pu(rank), pu(rank), bytes, 1);
    }
    // Both at once: as measured, where there is a measurement, and where both have a PU.
    if (exchange_start >= 0.0 && !crowded_ && costs_.has_exchange() && bytes <= payload_bytes) {
      clock = std::max(exchange_start, message.start_ns) + costs_.exchange(rank, source);
    }
    return true;
  }

  /// Does one move; false if it must wait.
  bool perform(int rank, const Move& move, std::size_t chunk) {
    const auto self = static_cast<std::size_t>(rank);
    auto& clock = clocks_[self];
    const auto bytes = [&](const Area& area) { return bytes_of(self, area, chunk); };
    switch (move.kind) {
      case Move::Kind::send:
        send(rank, move.peer, bytes(move.from));
        return true;
      case Move::Kind::recv:
      case Move::Kind::recv_combine:
        return receive(rank, move.source, bytes(move.to), move.kind == Move::Kind::recv_combine, -1.0);
      case Move::Kind::exchange:
      case Move::Kind::exchange_combine: {
        if (!sent_[self]) {
          exchange_start_[self] = clock;
          send(rank, move.peer, bytes(move.from));
          sent_[self] = true;
        }
        const double start = move.peer == move.source ? exchange_start_[self] : -1.0;
        if (!receive(rank, move.source, bytes(move.to), move.kind == Move::Kind::exchange_combine, start)) return false;
        sent_[self] = false;
        return true;
      }
      case Move::Kind::get:
      case Move::Kind::get_combine:
        clock += transfer_ns(move.source, rank, bytes(move.to), move.from.buffer == Buffer::stage,
                             move.kind == Move::Kind::get_combine);
        return true;
      case Move::Kind::put:
        clock += transfer_ns(move.peer, rank, bytes(move.from), false, false);
        return true;
      case Move::Kind::copy:
      case Move::Kind::combine:
        clock += transfer_ns(rank, rank, bytes(move.to), true, move.kind == Move::Kind::combine);
        if (move.to.buffer == Buffer::stage) clock += reclaim_ns(rank, bytes(move.to));
        return true;
      case Move::Kind::post:
        post(rank, chunk, move.tick);
        return true;
      case Move::Kind::await:
        return await(rank, move.source, chunk, move.tick);
      case Move::Kind::flush:
        clock = std::max(clock, returned_ns_[self]);
        return true;
    }
    return true;
  }

  std::size_t tick_index(int rank, std::size_t chunk, int tick) const {
    return chunk * static_cast<std::size_t>(schedules_[static_cast<std::size_t>(rank)].ticks) +
           static_cast<std::size_t>(tick);
  }

  void post(int rank, std::size_t chunk, int tick) {
    auto& clock = clocks_[static_cast<std::size_t>(rank)];
    clock += post_ns;
    auto& times = ticks_[static_cast<std::size_t>(rank)];
    times.resize(std::max(times.size(), tick_index(rank, chunk, tick) + 1), clock);
  }

  bool await(int rank, int source, std::size_t chunk, int tick) {
    const auto& times = ticks_[static_cast<std::size_t>(source)];
    const auto index = tick_index(source, chunk, tick);
    if (index >= times.size()) return false;
    auto& clock = clocks_[static_cast<std::size_t>(rank)];
    clock = std::max(clock + costs_.recv(source, rank), times[index] + costs_.message(source, rank));
    return true;
  }

  /// Works through moves until one must wait. True if there was one that need not.
  bool advance(int rank) {
    const auto self = static_cast<std::size_t>(rank);
    if (at_[self] == total(self)) return false;
    bool moved = false;
    const double before = clocks_[self];
    double& pu_free = pu_free_[pu(rank)];
    if (crowded_) clocks_[self] = std::max(before, pu_free) + switch_ns;
    while (at_[self] < total(self)) {
      std::size_t chunk = 0;
      const Move& move = move_at(self, at_[self], chunk);
      if (stalled_on_stage(rank, move, chunk) || !perform(rank, move, chunk)) break;
      moved = true;
      finish_move(rank, at_[self]++);
      if (clocks_[self] > most_ns_) {
        too_late_ = true;
        return true;
      }
    }
    if (crowded_) {
      // A turn in which nothing could be done costs the others the switch.
      pu_free = moved ? clocks_[self] : pu_free + switch_ns;
      if (!moved) clocks_[self] = before;
    }
    return moved;
  }

  /// A slot is filled again once its readers are done with what it held.
  bool stalled_on_stage(int rank, const Move& move, std::size_t chunk) {
    const auto slots = static_cast<std::size_t>(reach_.slots);
    if (move.to.buffer != Buffer::stage || chunk < slots) return false;
    const auto& schedule = schedules_[static_cast<std::size_t>(rank)];
    for (int reader : schedule.stage_readers) {
      if (!await_quietly(rank, reader, chunk - slots, schedule.ticks)) return true;
    }
    return false;
  }

  bool await_quietly(int rank, int source, std::size_t chunk, int tick) {
    const auto& times = ticks_[static_cast<std::size_t>(source)];
    const auto index = tick_index(source, chunk, tick);
    if (index >= times.size()) return false;
    auto& clock = clocks_[static_cast<std::size_t>(rank)];
    clock = std::max(clock, times[index] + costs_.message(source, rank));
    return true;
  }

  /// The last move of a chunk posts that the rank is done with it.
  void finish_move(int rank, std::size_t position) {
    const auto& s = schedules_[static_cast<std::size_t>(rank)];
    if (s.ticks == 0 || s.body.empty() || position < s.begin.size()) return;
    position -= s.begin.size();
    if (position >= chunks_ * s.body.size() || (position + 1) % s.body.size() != 0) return;
    post(rank, position / s.body.size(), s.ticks);
  }

 public:
  void allow_descriptors(bool allowed) { direct_ = allowed; }

 private:
  const Machine& machine_;
  const Group& group_;
  plan::RankCosts costs_;
  Reach reach_;
  bool direct_processes_;
  bool direct_ = false;
  Operation operation_;
  std::size_t chunks_, length_;
  double whole_bytes_;  ///< of a buffer
  std::size_t element_bytes_;
  std::vector<Schedule> schedules_;
  std::vector<plan::Cutting> cuttings_;
  std::vector<double> clocks_;
  std::vector<std::vector<double>> ticks_;
  std::vector<std::size_t> at_;
  Mail mail_;
  std::vector<double> returned_ns_;  ///< per rank: when the last of what it lent is read
  std::vector<bool> sent_;           ///< per rank: of the exchange it is in
  std::vector<double> exchange_start_;
  std::vector<double> pu_free_;  ///< per PU
  int copiers_ = 1;
  double most_ns_ = 0.0;
  bool too_late_ = false;
  bool crowded_ = false;
  bool cut_ = false;  ///< into several chunks
};

}  // namespace

Result<std::optional<ScheduleTimes>> plan::simulate_within(double most_ns, const Machine& machine, const Group& group,
                                                           const ScheduleRequest& request, std::size_t bytes,
                                                           std::size_t element_bytes, const Reach& reach,
                                                           std::span<const double> start_ns) {
  if (!machine.has_costs()) {
    return make_error(Status::invalid_argument, "machine '{}' has no costs; measure it or load a measured model",
                      machine.name);
  }
  if (!start_ns.empty() && start_ns.size() != static_cast<std::size_t>(group.size())) {
    return make_error(Status::invalid_argument, "{} start times for {} ranks", start_ns.size(), group.size());
  }
  std::size_t all = 0;
  const auto run = [&](std::size_t chunks) {
    Simulator simulator(machine, group, request, bytes, element_bytes, reach, chunks);
    simulator.allow_descriptors(request.recipe.access == Access::direct);
    all = simulator.all_chunks();
    return simulator.run(start_ns, most_ns);
  };
  auto times = run(most_chunks);
  if (!times) return times.error();
  if (!*times) return std::optional<ScheduleTimes>();
  ScheduleTimes result{.finish_ns = std::move(**times)};
  if (all > most_chunks) {
    auto fewer = run(most_chunks / 2);
    if (!fewer) return fewer.error();
    if (!*fewer) return std::optional<ScheduleTimes>();
    const double rest = static_cast<double>(all - most_chunks) / static_cast<double>(most_chunks - most_chunks / 2);
    for (std::size_t rank = 0; rank < result.finish_ns.size(); ++rank) {
      result.finish_ns[rank] += rest * (result.finish_ns[rank] - (**fewer)[rank]);
    }
  }
  result.total_ns = *std::max_element(result.finish_ns.begin(), result.finish_ns.end());
  return std::optional(std::move(result));
}

Result<ScheduleTimes> simulate(const Machine& machine, const Group& group, const ScheduleRequest& request,
                               std::size_t bytes, std::size_t element_bytes, const Reach& reach,
                               std::span<const double> start_ns) {
  auto times = plan::simulate_within(std::numeric_limits<double>::infinity(), machine, group, request, bytes,
                                     element_bytes, reach, start_ns);
  if (!times) return times.error();
  return std::move(**times);
}

}  // namespace smelt
