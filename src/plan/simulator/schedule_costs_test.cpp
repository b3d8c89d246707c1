// The simulator of schedules against a second evaluation of the equations of docs/reference/model.md, by which each
// rank works through its moves one after another. Ranks that share a PU: cases worked out by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "machine/model/copy_costs.hpp"
#include "machine/test_support.hpp"
#include "plan/plan_test_util.hpp"
#include "plan/simulator/simulate_schedule.hpp"

namespace smelt {
namespace {

class ReferenceTimes {
 public:
  ReferenceTimes(const Machine& machine, const Group& group, const ScheduleRequest& request, std::size_t bytes,
                 std::size_t element, const Reach& reach)
      : machine_(machine),
        group_(group),
        request_(request),
        element_(element),
        reach_(reach),
        length_(bytes / element) {
    for (const auto& info : algorithms()) {
      if (info.name == request.recipe.algorithm) operation_ = info.operation;
    }
    whole_ = static_cast<double>(bytes) * (has_rank_blocks(operation_) ? group.size() : 1);
  }

  /// Per rank. Of more than six chunks before the tail: what the fourth to the sixth take is the pace of the others.
  std::vector<double> finish_ns() {
    ranks_.clear();
    ranks_.resize(group_.pus.size());
    for (int rank = 0; rank < group_.size(); ++rank) set_up(rank);
    for (bool moved = true; moved;) {
      moved = false;
      for (int rank = 0; rank < group_.size(); ++rank) {
        while (step(rank)) moved = true;
      }
    }
    std::vector<double> finish;
    for (Rank& rank : ranks_) {
      EXPECT_TRUE(rank.over);
      const auto pace = (rank.after_six - rank.after_three) / 3;
      finish.push_back(rank.clock + rank.fetch + pace * static_cast<double>(rank.cutting.body_chunks() - bodies(rank)));
    }
    return finish;
  }

 private:
  struct QueuedMessage {
    double first_line, stream, start;
  };
  struct Rank {
    Schedule schedule;
    plan::Chunking cutting;
    double clock = 0.0, returned = 0.0, exchange_start = 0.0, fetch = 0.0, after_three = 0.0, after_six = 0.0;
    std::vector<double> ticks{0.0};  ///< by value
    std::map<int, std::deque<QueuedMessage>> messages;
    Area just_read;
    std::size_t chunk = 0, at = 0;
    int section = 0;
    bool sent = false, stage_free = false, over = false;
    double next_send = 0.0;
    bool receiving = false;
  };

  Rank& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  std::size_t pu(int rank) const { return static_cast<std::size_t>(group_.pus[static_cast<std::size_t>(rank)]); }
  double send_ns(int a, int b) const { return machine_.send_ns(pu(a), pu(b)); }
  double recv_ns(int a, int b) const { return machine_.recv_ns(pu(a), pu(b)); }
  double way_ns(int a, int b) const { return machine_.propagation_ns ? (*machine_.propagation_ns)(pu(a), pu(b)) : 0.0; }
  double send_gap(int a, int b) const { return (*machine_.send_gap_ns)(pu(a), pu(b)); }
  double recv_gap(int a, int b) const { return (*machine_.recv_gap_ns)(pu(a), pu(b)); }
  double message_ns(int a, int b) const { return send_ns(a, b) + way_ns(a, b) + recv_ns(a, b); }
  bool direct() const { return request_.recipe.access == Access::direct; }
  int copiers() const {
    for (const char* algorithm : {"gather_flat", "gather_linear", "reduce_flat"}) {
      if (request_.recipe.algorithm == algorithm) return 1;  // the root copies alone
    }
    const auto one_way = {Operation::scatter, Operation::gather, Operation::reduce, Operation::scan, Operation::exscan};
    const bool one_gives = std::find(one_way.begin(), one_way.end(), operation_) != one_way.end();
    return std::max(1, group_.size() - (one_gives ? 1 : 0));
  }
  std::size_t bodies(const Rank& rank) const { return std::min<std::size_t>(6, rank.cutting.body_chunks()); }

  void set_up(int number) {
    Rank& rank = at(number);
    rank.schedule = make_schedule(request_, number);
    rank.cutting =
        plan::Chunking(rank.schedule, operation_, request_.recipe.chunk_bytes, reach_.slot_bytes, length_, element_);
    const bool cut = rank.cutting.chunks() > 1;
    const bool sliced = rank.schedule.slices > 1, by_address = direct() && whole_ > 2048;
    const bool staged_short = request_.recipe.access == Access::staged && !sliced && !cut;
    if ((rank.schedule.ticks > 0 || sliced || by_address) && !staged_short) rank.clock += 200;
    if (operation_ != Operation::barrier && group_.size() > 1) rank.clock += machine_.call_ns.value_or(0.0);
  }

  // ---- what moving data costs -----------------------------------------------------------------

  double own_copy(int rank, double bytes) const { return copy_ns(machine_, pu(rank), pu(rank), bytes, copiers()); }
  template <class Cost>
  double at_pace_of_whole(double bytes, Cost cost) const {
    return bytes < whole_ ? std::max(cost(bytes), cost(whole_) / whole_ * bytes) : cost(bytes);
  }
  /// Rank `self` copies, or combines, what `from` has.
  double transfer(const Rank& rank, int from, int self, double bytes, bool in_cache, bool combine) const {
    if (bytes == 0) return 0;
    const auto cost = [&](double size) {
      return combine ? combine_part_ns(machine_, pu(from), pu(self), size, in_cache ? size : std::max(size, whole_),
                                       copiers())
                     : copy_ns(machine_, pu(from), pu(self), size, copiers());
    };
    if (reach_.processes && direct() && !in_cache && from != self) {
      const auto process = [&](double size) { return process_copy_ns(machine_, pu(from), pu(self), size, copiers()); };
      return at_pace_of_whole(bytes, process) + (bytes < whole_ ? process(56) : 0) +
             (combine ? combine_ns(machine_, pu(self), pu(self), bytes, 1) : 0);
    }
    if (rank.cutting.tail_chunks() > 0 && from != self) return cost(whole_) / whole_ * bytes;
    if (in_cache || rank.cutting.chunks() > 1) {
      return std::max(cost(bytes), at_pace_of_whole(bytes, [&](double size) { return own_copy(self, size); }));
    }
    return at_pace_of_whole(bytes, cost);
  }

  double bytes_of(const Rank& rank, const Area& area) const {
    const std::size_t elements = rank.cutting.elements(rank.chunk);
    std::size_t count = elements * static_cast<std::size_t>(area.count);
    if (!has_rank_blocks(operation_)) {
      const int slice = area.first % rank.schedule.slices;
      count = rank.cutting.slice_begin(elements, slice + area.count) - rank.cutting.slice_begin(elements, slice);
    }
    return static_cast<double>(count * element_);
  }

  /// A block of a gather or scatter is in one message at a time.
  double slowdown(int blocks) const {
    const auto& known = machine_.chunk_contention;
    if (known.empty()) return 1;
    int messages = copiers();
    if (operation_ == Operation::gather || operation_ == Operation::scatter) {
      messages = std::min(messages, std::max(1, group_.size() / blocks));
    }
    if (messages == 1) return 1;
    std::size_t k = 0;
    while ((2 << k) < messages) ++k;
    const double below = 1 << k;
    return known[k] + (messages - below) / below * (known[k + 1] - known[k]);
  }

  double stream(int from, int to, double bytes, int blocks) const {
    const double lines = std::max(1.0, std::ceil(bytes / 56));
    const auto& known = machine_.lines_ns;
    if (known.empty()) return (lines - 1) * 0.2 * message_ns(from, to) * slowdown(blocks);
    double longer = 0.0;  // line by line
    for (double line = 2; line <= lines; ++line) {
      const auto k = std::min(known.size() - 1, static_cast<std::size_t>(std::ceil(std::log2(line))));
      longer += (known[k] - known[k - 1]) / std::exp2(static_cast<double>(k - 1));
    }
    return longer / known[0] * message_ns(from, to) * slowdown(blocks);
  }
  bool lends(double bytes) const { return direct() && bytes > 2048; }

  void note_put(Rank& rank, int writer, const Move& move, double bytes) {
    if (move.to.buffer != Buffer::out || rank.chunk > 0) return;
    const double all = bytes * static_cast<double>(length_) / static_cast<double>(rank.cutting.elements(0));
    const auto cost = [&](int from) {
      return at_pace_of_whole(all, [&](double size) { return copy_ns(machine_, pu(from), pu(move.peer), size, 1); });
    };
    at(move.peer).fetch += 1.6 * std::max(0.0, cost(writer) - cost(move.peer));
  }

  double put(Rank& rank, int self, const Move& move) {
    const double bytes = bytes_of(rank, move.from);
    note_put(rank, self, move, bytes);
    double time = transfer(rank, move.peer, self, bytes, false, false);
    if (reach_.processes && bytes > (2 << 20)) {
      time -= (process_copy_ns(machine_, pu(move.peer), pu(self), bytes, copiers()) -
               copy_ns(machine_, pu(move.peer), pu(self), bytes, copiers())) /
              4;
    }
    if (rank.cutting.chunks() > 1 && move.from == rank.just_read) {
      time -= (at_pace_of_whole(bytes, [&](double size) { return own_copy(self, size); }) - own_copy(self, bytes)) / 2;
    }
    return time;
  }

  /// The share of the one who helps.
  double help(const Rank& rank, int self, int other, double bytes) const {
    if (group_.size() != 2 || !reach_.processes || bytes <= 65536) return 0;
    const double alone = transfer(rank, other, self, bytes, false, false),
                 own = transfer(rank, self, self, bytes, true, false);
    return std::max(0.0, 0.5 - own / alone / 2);
  }

  // ---- moves ----------------------------------------------------------------------------------

  const std::vector<Move>& moves(const Rank& rank) const {
    if (rank.section != 1) return rank.section == 0 ? rank.schedule.begin : rank.schedule.end;
    return rank.chunk < rank.cutting.body_chunks() ? rank.schedule.body : rank.schedule.tail;
  }

  /// The chunks that are not simulated have no ticks: the tail follows the sixth.
  std::size_t tick_index(const Rank& rank, std::size_t chunk, int tick) const {
    const std::size_t skipped = rank.cutting.body_chunks() - bodies(rank);
    const std::size_t number = chunk < bodies(rank) ? chunk : chunk - skipped;
    return number * static_cast<std::size_t>(rank.schedule.ticks) + static_cast<std::size_t>(tick);
  }
  void raise(Rank& rank, int tick) { rank.ticks.resize(tick_index(rank, rank.chunk, tick) + 1, rank.clock); }

  /// What the others who wait for the same line add, reader by reader.
  double fan_out(int from, int to, int readers) const {
    const auto& known = machine_.fan_out_ns;
    if (known.empty()) return (readers - 1) * recv_ns(from, to);
    double later = 0.0;
    for (double reader = 2; reader <= readers; ++reader) {
      const auto k = std::min(known.size() - 1, static_cast<std::size_t>(std::ceil(std::log2(reader))));
      later += (known[k] - known[k - 1]) / std::exp2(static_cast<double>(k - 1));
    }
    return later;
  }

  bool await(int number, int other, std::size_t chunk, int tick, int readers = 1) {
    Rank& rank = at(number);
    const auto index = tick_index(rank, chunk, tick);
    if (at(other).ticks.size() <= index) return false;
    const double there = at(other).ticks[index] + message_ns(other, number) + fan_out(other, number, readers);
    rank.clock = std::max(rank.clock + recv_ns(other, number), there);
    return true;
  }

  bool step(int number) {
    Rank& rank = at(number);
    if (rank.over) return false;
    const auto& list = moves(rank);
    if (rank.at < list.size()) {
      if (list[rank.at].to.buffer == Buffer::stage && !reuse_stage(number)) return false;
      if (!perform(number, list[rank.at])) return false;
      rank.sent = false;
      ++rank.at;
      return true;
    }
    rank.at = 0;
    if (rank.section == 1) {
      end_chunk(rank);
      if (rank.chunk + 1 < rank.cutting.chunks()) return enter_chunk(rank);
    }
    rank.section += 1;
    rank.over = rank.section == 3;
    return true;
  }

  void end_chunk(Rank& rank) {
    if (rank.schedule.ticks > 0) {
      rank.clock += 2;
      raise(rank, rank.schedule.ticks);
    }
    if (rank.chunk + 1 == 3) rank.after_three = rank.clock;
    if (rank.chunk + 1 == 6) rank.after_six = rank.clock;
  }

  bool enter_chunk(Rank& rank) {
    ++rank.chunk;
    if (rank.chunk == bodies(rank)) rank.chunk = rank.cutting.body_chunks();
    if (rank.chunk == rank.cutting.chunks()) {  // there is no tail, and the rest is not simulated
      --rank.chunk;
      rank.section = 2;
    }
    rank.stage_free = false;
    rank.just_read = {};
    return true;
  }

  bool reuse_stage(int number) {
    Rank& rank = at(number);
    if (rank.stage_free) return true;
    const auto slots = static_cast<std::size_t>(reach_.slots);
    if (rank.chunk >= slots && rank.cutting.tail_chunks() == 0) {
      for (const int reader : rank.schedule.stage_readers) {
        const auto index = tick_index(rank, rank.chunk - slots, rank.schedule.ticks);
        if (at(reader).ticks.size() <= index) return false;
      }
      for (const int reader : rank.schedule.stage_readers) {
        const auto index = tick_index(rank, rank.chunk - slots, rank.schedule.ticks);
        rank.clock = std::max(rank.clock, at(reader).ticks[index] + message_ns(reader, number));
      }
    }
    return rank.stage_free = true;
  }

  bool perform(int number, const Move& move) {
    Rank& rank = at(number);
    using Kind = Move::Kind;
    switch (move.kind) {
      case Kind::send:
      case Kind::recv:
      case Kind::recv_combine:
      case Kind::exchange:
      case Kind::exchange_combine: return perform_message(number, move);
      case Kind::get:
      case Kind::get_combine:
      case Kind::put: return perform_one_sided(number, move);
      case Kind::copy:
      case Kind::combine: {
        const double bytes = bytes_of(rank, move.to);
        rank.clock += transfer(rank, number, number, bytes, true, move.kind == Kind::combine);
        if (move.to.buffer == Buffer::stage && !rank.schedule.stage_readers.empty()) {
          rank.clock += copy_ns(machine_, pu(rank.schedule.stage_readers[0]), pu(number), std::min(bytes, 2048.0), 1);
        }
        rank.just_read = move.from;
        return true;
      }
      case Kind::post:
        rank.clock += 2;
        raise(rank, move.tick);
        return true;
      case Kind::await: return await(number, move.source, rank.chunk, move.tick, move.readers);
      case Kind::await_body: return await(number, move.source, bodies(rank) - 1, rank.schedule.ticks);
      case Kind::flush: rank.clock = std::max(rank.clock, rank.returned); return !awaits_return(number);
    }
    return false;
  }

  /// Whether anything that the rank lent lies with its receiver.
  bool awaits_return(int number) const {
    return std::any_of(ranks_.begin(), ranks_.end(), [&](const Rank& rank) {
      const auto found = rank.messages.find(number);
      return direct() && found != rank.messages.end() && !found->second.empty();
    });
  }

  bool perform_message(int number, const Move& move) {
    Rank& rank = at(number);
    const double out = move.peer < 0 ? 0.0 : bytes_of(rank, move.from),
                 in = move.source < 0 ? 0.0 : bytes_of(rank, move.to);
    const bool swap = move.peer >= 0 && move.peer == move.source && machine_.exchange_ns && in <= 56;
    if (move.peer >= 0 && !rank.sent) {
      const double lines = lends(out) ? 0.0 : stream(number, move.peer, out, move.from.count);
      const double start = std::max(rank.clock, rank.next_send);
      rank.exchange_start = start;
      rank.receiving = false;
      rank.clock = start + send_ns(number, move.peer);
      if (machine_.send_gap_ns) rank.next_send = start + send_gap(number, move.peer);
      at(move.peer).messages[number].push_back({rank.clock + way_ns(number, move.peer), lines, start});
      rank.clock += lines / 2;
      rank.sent = true;
    }
    if (move.source < 0) return true;
    auto& messages = rank.messages[move.source];
    if (messages.empty()) return false;
    const QueuedMessage letter = messages.front();
    messages.pop_front();
    const bool combine = move.kind == Move::Kind::recv_combine || move.kind == Move::Kind::exchange_combine;
    if (machine_.recv_gap_ns && rank.receiving) {
      rank.clock =
          std::max(rank.clock + recv_gap(move.source, number), letter.first_line + recv_ns(move.source, number));
    } else {
      rank.clock = std::max(rank.clock, letter.first_line) + recv_ns(move.source, number);
    }
    rank.receiving = true;
    if (lends(in)) {
      rank.clock += transfer(rank, move.source, number, in, false, combine);
      double& returned = at(move.source).returned;
      returned = std::max(returned, rank.clock + message_ns(number, move.source));
    } else {
      const double storing = in > 56 ? at_pace_of_whole(in, [&](double size) { return own_copy(number, size); }) : 0.0;
      rank.clock += std::max(letter.stream, storing);
      if (combine) rank.clock += combine_ns(machine_, pu(number), pu(number), in, 1);
    }
    if (swap) {
      rank.clock = std::max(rank.exchange_start, letter.start) + (*machine_.exchange_ns)(pu(number), pu(move.source));
      rank.next_send = rank.clock;
      rank.receiving = false;
    }
    return true;
  }

  bool perform_one_sided(int number, const Move& move) {
    Rank& rank = at(number);
    const bool is_put = move.kind == Move::Kind::put;
    if (move.share == Share::none) {
      rank.clock += is_put ? put(rank, number, move)
                           : transfer(rank, move.source, number, bytes_of(rank, move.to),
                                      move.from.buffer == Buffer::stage, move.kind == Move::Kind::get_combine);
      return true;
    }
    const int other = is_put ? move.peer : move.source;
    const double bytes = bytes_of(rank, is_put ? move.from : move.to), helped = help(rank, number, other, bytes);
    const bool leads = move.share == Share::leads;
    const double part = bytes * (leads ? 1 - helped : helped);
    if (!rank.sent) {
      if (is_put) note_put(rank, number, move, part);
      rank.clock += transfer(rank, other, number, part, false, false);
      rank.sent = true;
    }
    return !leads || helped == 0 || await(number, other, rank.chunk, move.tick);
  }

  const Machine& machine_;
  const Group& group_;
  const ScheduleRequest& request_;
  Operation operation_ = Operation::broadcast;
  std::size_t element_;
  Reach reach_;
  std::size_t length_;
  double whole_ = 0.0;
  std::vector<Rank> ranks_;
};

std::vector<Machine> two_machines() {
  const Machine estimated = *synthesize_machine({.packages = 2, .cores = 8, .l3 = 2, .jitter = 0.1});
  Machine measured = test::with_copies(test::random_machine(8, 3, 2));
  measured.call_ns = 37.0;
  measured.propagation_ns = Matrix(8);
  measured.exchange_ns = Matrix(8);
  for (std::size_t i = 0; i < 8; ++i) {
    for (std::size_t j = 0; j < 8; ++j) {
      (*measured.propagation_ns)(i, j) = i == j ? 0.0 : 1.0 + static_cast<double>(3 * i + j);
      (*measured.exchange_ns)(i, j) = i == j ? 0.0 : measured.send_ns(i, j) + measured.send_ns(j, i) + 20.0;
    }
  }
  Machine with_lengths = test::with_gaps(measured, 5);
  with_lengths.lines_ns = {80.0, 150.0, 155.0, 190.0};
  with_lengths.fan_out_ns = {0.0, 70.0, 85.0};
  with_lengths.chunk_contention = {1.0, 1.3, 1.4, 2.5};
  return {estimated, measured, with_lengths};
}

void expect_as_reference(const Machine& machine, int ranks, const Recipe& recipe, std::size_t bytes,
                         const Reach& reach) {
  const Group group = test::group_of(machine, ranks);
  const auto request = make_request(machine, group, recipe, ranks / 3);
  if (!request) return;  // not of this number of ranks
  const auto text = to_string(recipe) + ", " + std::to_string(bytes) + " by " + std::to_string(ranks) +
                    (reach.processes ? " processes" : " threads");
  for (const std::size_t element : {std::size_t{1}, std::size_t{8}}) {
    if (bytes % element != 0) continue;
    const auto times = simulate(machine, group, *request, bytes, element, reach);
    ASSERT_TRUE(times) << text;
    const auto expected = ReferenceTimes(machine, group, *request, bytes, element, reach).finish_ns();
    double last = 0.0;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto i = static_cast<std::size_t>(rank);
      ASSERT_NEAR(times->finish_ns[i], expected[i], 1e-7 * expected[i]) << text << ", rank " << rank;
      last = std::max(last, expected[i]);
      // What bounds a search is a bound.
      plan::ScheduleSimulator simulator(machine, group, reach);
      EXPECT_LE(simulator.program_of(*request, bytes, element, rank).least_ns(), expected[i] * (1 + 1e-9)) << text;
    }
    EXPECT_NEAR(times->total_ns, last, 1e-7 * last) << text;
    const auto within = [&](double most) {
      return plan::simulate_within(most, machine, group, *request, bytes, element, reach, {})->has_value();
    };
    EXPECT_TRUE(within(last * (1 + 1e-8))) << text;
  }
}

class Costs : public testing::TestWithParam<std::string> {};

TEST_P(Costs, AreThoseOfTheEquations) {
  for (const Machine& machine : two_machines()) {
    for (const auto& info : algorithms()) {
      if (to_string(info.operation) != GetParam()) continue;
      for (const Access access : info.access) {
        for (const std::string tree : {"k-nomial:2", "chain"}) {
          for (const std::size_t chunk : {0, 1000, 16384}) {
            if ((tree == "chain" && !info.uses_tree) || (chunk != 0 && !info.pipelined)) continue;
            const Recipe recipe{info.name, access, info.uses_tree ? tree : "", chunk};
            for (const std::size_t bytes : {0, 8, 56, 57, 1000, 2048, 2049, 5000, 65536, 70008, 5 << 20}) {
              for (const int ranks : {1, 2, 3, 4, 8}) {
                for (const bool processes : {false, true}) {
                  if (bytes > 100000 && ranks > 3) continue;
                  expect_as_reference(machine, ranks, recipe, bytes, {.processes = processes});
                }
              }
            }
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Costs,
                         testing::Values("broadcast", "reduce", "barrier", "allreduce", "scatter", "gather",
                                         "allgather", "alltoall", "reduce-scatter", "scan", "exscan"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(ReadersOfALine, OfABroadcastInOneStepAllWaitTogether) {
  Machine machine = two_machines()[2];
  const Group group = test::group_of(machine, 5);
  const auto request = *make_request(machine, group, *parse_recipe("broadcast_flat+staged"), 2);
  const auto finish = [&] { return simulate(machine, group, request, 8)->finish_ns; };
  const double known_ns = machine.fan_out_ns[2];  // of four
  const auto with = finish();
  machine.fan_out_ns = {0.0, 0.0};
  const auto without = finish();
  for (std::size_t rank = 0; rank < 5; ++rank) {
    EXPECT_NEAR(with[rank] - without[rank], rank == 2 ? 0.0 : known_ns, 1e-9) << rank;
  }
  machine.fan_out_ns = {0.0, 50.0, 10.0};  // beyond its last two
  EXPECT_EQ(plan::RankCosts(machine, group).fan_out(2, 0, 8), 0.0) << "never less than for a lone reader";
  machine.fan_out_ns.clear();
  EXPECT_NEAR(finish()[0] - without[0], 3 * machine.recv_ns(2, 0), 1e-9) << "where it was not measured";
}

// A search gives up what is too late, and nothing else.
TEST(Within, StopsASimulationThatIsTooLate) {
  const Machine machine = two_machines()[1];
  for (const Group& group : {test::group_of(machine, 4), Group{{0, 1, 0, 1}}}) {
    for (const char* text : {"broadcast_tree+direct+tree=chain+chunk=4096", "allreduce_ring", "reduce_halves+direct"}) {
      const auto request = *make_request(machine, group, *parse_recipe(text));
      const double total = simulate(machine, group, request, 100'000)->total_ns;
      const auto within = [&](double most) {
        return plan::simulate_within(most, machine, group, request, 100'000, 1, {}, {})->has_value();
      };
      EXPECT_TRUE(within(total)) << text;
      EXPECT_FALSE(within(0.2 * total)) << text;
    }
  }
}

}  // namespace
}  // namespace smelt
