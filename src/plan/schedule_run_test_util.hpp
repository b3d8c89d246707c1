// Runs the schedules of all ranks on symbolic elements, as a reference that shares no code with the communicator. What
// comes out is compared with the definition of the operation; on the way everything is checked that shared memory
// demands: nobody reaches into the buffers of a rank that has not entered or has left, or that does not publish them;
// what is lent is not overwritten before it is read; scratch memory and stages are as large as the schedule says.
//
// Ranks are run one move at a time: in a random order, or by a random order of precedence in which late ranks do
// nothing until no other can.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "plan/schedule/schedule_internal.hpp"
#include "smelt/schedule.hpp"

namespace smelt::test {

/// Sums in the form in which they were made, each with a number: 0, 1, ... are the operands of the ranks.
class Sums {
 public:
  int made_of(int left, int right) {
    const auto [at, added] = numbers_.try_emplace({left, right}, first_ + static_cast<int>(parts_.size()));
    if (added) parts_.emplace_back(left, right);
    return at->second;
  }
  /// ((0 op 1) op 2) op ...
  int in_canonical_order(int operands) {
    int sum = 0;
    for (int rank = 1; rank < operands; ++rank) sum = made_of(sum, rank);
    return sum;
  }
  /// The operands from left to right.
  std::vector<int> operands(int sum) const {
    if (sum < first_) return {sum};
    const auto [left, right] = parts_[static_cast<std::size_t>(sum - first_)];
    auto list = operands(left);
    for (const int each : operands(right)) list.push_back(each);
    return list;
  }

 private:
  static constexpr int first_ = 1000;
  std::map<std::pair<int, int>, int> numbers_;
  std::vector<std::pair<int, int>> parts_;
};

/// An element of a buffer: its place in the vector or, with the block, among those of all blocks; and the sum.
struct Element {
  int place = -1;  ///< -1: nothing that anybody may use
  int sum = -1;

  bool operator==(const Element&) const = default;
};

struct RunOptions {
  int elements = 1;                ///< of a vector, or of a block
  std::size_t chunk_elements = 0;  ///< in place of the recipe's
  std::size_t slot_elements = 1024;
  int slots = 4;
  bool in_place = false;
  bool rendezvous = false;  ///< a message through a channel is sent when it is received
  bool by_precedence = false;
  unsigned seed = 1;
};

class ScheduleRun {
 public:
  static constexpr std::size_t element_bytes = 64;  ///< a line: chunks and slices are cut anywhere

  ScheduleRun(ScheduleRequest request, Operation operation, const RunOptions& options)
      : request_(std::move(request)), operation_(operation), options_(options), random_(options.seed) {
    if (has_rank_blocks(operation_)) blocks_ = request_.ranks;
    request_.recipe.chunk_bytes = options.chunk_elements * element_bytes;
    ranks_.resize(static_cast<std::size_t>(request_.ranks));
    for (int rank = 0; rank < request_.ranks; ++rank) set_up(rank);
  }

  /// What went wrong first; empty: nothing.
  std::string run() {
    std::vector<int> order(ranks_.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
    std::shuffle(order.begin(), order.end(), random_);
    while (error_.empty()) {
      if (!options_.by_precedence) std::shuffle(order.begin(), order.end(), random_);
      const auto moved = std::find_if(order.begin(), order.end(), [&](int rank) { return step(rank); });
      if (moved == order.end()) break;
    }
    for (int rank = 0; rank < request_.ranks && error_.empty(); ++rank) {
      if (!at(rank).left) fail(rank, "waits for ever");
      for (const auto& [peer, messages] : at(rank).messages) {
        if (!messages.empty()) fail(rank, "has not received everything");
      }
      if (used_stage_ && at(rank).read_stage_of != at(rank).listed_stages)
        fail(rank, "is listed as a reader and is none");
    }
    return error_;
  }

  bool canonical() const { return canonical_; }       ///< all sums were made in that order
  bool rank_order() const { return rank_order_; }     ///< all sums had their operands in that order
  std::size_t received() const { return received_; }  ///< elements that came from another rank, of all ranks together
  int depth() const {                                 ///< messages and ticks that waited for each other
    int most = 0;
    for (const auto& rank : ranks_) most = std::max(most, rank.depth);
    return most;
  }
  int most_work_blocks() const { return most_work_blocks_; }  ///< that a rank used
  int most_stage_blocks() const { return most_stage_blocks_; }

 private:
  struct QueuedMessage {
    std::vector<Element> content;
    std::vector<Element*> place;  ///< of what is lent: where it is until it is read
    bool lent = false;
    std::set<int> knows;
    int depth = 0;
  };
  struct Tick {
    std::size_t value;
    std::set<int> knows;
    int depth;
  };
  struct Rank {
    Schedule schedule;
    plan::Chunking cutting;
    std::vector<Element> in, out, work;
    std::vector<std::vector<Element>> stage;            ///< by slot
    std::vector<std::size_t> slot_filled_for;           ///< chunk + 1
    std::map<int, std::deque<QueuedMessage>> messages;  ///< by sender
    std::vector<Tick> ticks;
    std::set<int> knows;  ///< who has entered
    std::set<int> listed_stages, read_stage_of;
    int depth = 0;
    int lent = 0;  ///< messages that nobody has read yet
    std::size_t chunk = 0, at = 0;
    int section = 0;
    bool entered = false, left = false;
    bool sent = false;  ///< of an exchange, or in a rendezvous: the sending half is done
    bool stage_free = false;
    bool leading = false, led = false, helping = false;
    std::size_t helped = 0;  ///< elements of what this rank leads
  };

  Rank& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  std::size_t length() const { return static_cast<std::size_t>(options_.elements); }

  void fail(int rank, const std::string& what) {
    if (!error_.empty()) return;
    error_ = "rank " + std::to_string(rank) + " in chunk " + std::to_string(at(rank).chunk) + ", move " +
             std::to_string(at(rank).at) + ": " + what;
  }

  // ---- buffers --------------------------------------------------------------------------------

  bool holds_all(Buffer buffer) const {
    if (operation_ == Operation::scatter || operation_ == Operation::reduce_scatter) return buffer == Buffer::in;
    if (operation_ == Operation::gather || operation_ == Operation::allgather) return buffer == Buffer::out;
    return true;
  }
  int place(int block, std::size_t element) const { return block * 10000 + static_cast<int>(element); }

  bool has_input(int rank) const {
    if (operation_ == Operation::broadcast || operation_ == Operation::barrier) return false;
    return operation_ != Operation::scatter || rank == request_.root;
  }
  bool has_output(int rank) const {
    if (operation_ == Operation::barrier) return false;
    return (operation_ != Operation::gather && operation_ != Operation::reduce) || rank == request_.root;
  }
  /// The block of `in` that a rank's `out` lies in (or the other way round) where it works in place.
  bool shares_memory(int rank) const {
    return options_.in_place && has_input(rank) && has_output(rank) && operation_ != Operation::alltoall;
  }

  void set_up(int number) {
    Rank& rank = at(number);
    rank.schedule = make_schedule(request_, number);
    const Schedule& schedule = rank.schedule;
    rank.cutting = plan::Chunking(schedule, operation_, request_.recipe.chunk_bytes,
                                  options_.slot_elements * element_bytes, length(), element_bytes);
    const auto size_of = [&](Buffer buffer) {
      return length() * static_cast<std::size_t>(holds_all(buffer) ? blocks_ : 1);
    };
    if (has_input(number)) rank.in.resize(size_of(Buffer::in));
    if (has_output(number)) rank.out.resize(size_of(Buffer::out));
    for (std::size_t i = 0; i < rank.in.size(); ++i) {
      const int block = holds_all(Buffer::in) ? static_cast<int>(i / length()) : number;
      rank.in[i] = {place(blocks_ == 1 ? 0 : block, i % length()), number};
    }
    if (operation_ == Operation::broadcast && number == request_.root) {
      for (std::size_t i = 0; i < length(); ++i) rank.out[i] = {place(0, i), number};
    }
    if (shares_memory(number) && operation_ != Operation::scatter && operation_ != Operation::reduce_scatter) {
      std::copy(rank.in.begin(), rank.in.end(), rank.out.begin() + own_block(number));
    }
    const auto scratch = rank.cutting.chunk() * static_cast<std::size_t>(vectors(schedule.work_blocks, schedule));
    rank.work.resize(scratch);
    const auto slot = rank.cutting.chunk() * static_cast<std::size_t>(vectors(schedule.stage_blocks, schedule));
    rank.stage.assign(static_cast<std::size_t>(options_.slots), std::vector<Element>(slot));
    rank.slot_filled_for.assign(static_cast<std::size_t>(options_.slots), 0);
    for (const int reader : schedule.stage_readers) at(reader).listed_stages.insert(number);
    rank.knows = {number};
  }
  int vectors(int count, const Schedule& schedule) const { return (count + schedule.slices - 1) / schedule.slices; }
  /// Where the block of that rank begins in a buffer of all blocks; 0 in a vector.
  std::ptrdiff_t own_block(int number) const {
    return blocks_ == 1 ? 0 : static_cast<std::ptrdiff_t>(length()) * number;
  }

  /// The elements of an area, for `who` works on them in its chunk.
  std::vector<Element*> cells(int who, int owner, const Area& area, bool write) {
    std::vector<Element*> list;
    Rank& rank = at(owner);
    const Rank& worker = at(who);
    if (who != owner && !may_reach(who, owner, area, write)) return list;
    const auto add = [&](std::size_t first, std::size_t count) {
      for (std::size_t i = first; i < first + count; ++i) {
        Element* const cell = cell_of(owner, area.buffer, i, worker.chunk);
        if (cell == nullptr) return fail(who, "an area that is not in its buffer");
        list.push_back(cell);
      }
    };
    const std::size_t elements = worker.cutting.elements(worker.chunk), begin = worker.cutting.begin(worker.chunk);
    const bool scratch = area.buffer == Buffer::work || area.buffer == Buffer::stage;
    const auto stride = worker.cutting.chunk();
    note_blocks(rank.schedule, who, area);
    if (has_rank_blocks(operation_)) {
      for (int block = area.first; block < area.first + area.count; ++block) {
        if (!scratch && !holds_all(area.buffer) && block != 0) fail(who, "a second block where there is one");
        add(static_cast<std::size_t>(block) * (scratch ? stride : length()) + (scratch ? 0 : begin), elements);
      }
    } else if (worker.schedule.slices == 1) {
      add(scratch ? static_cast<std::size_t>(area.first) * stride : begin, elements);
    } else {
      const int slice = area.first % worker.schedule.slices, vector = area.first / worker.schedule.slices;
      const auto first = worker.cutting.slice_begin(elements, slice);
      const auto last = worker.cutting.slice_begin(elements, slice + area.count);
      add(static_cast<std::size_t>(vector) * stride + (scratch ? 0 : begin) + first, last - first);
    }
    return list;
  }

  void note_blocks(const Schedule& schedule, int who, const Area& area) {
    const int blocks = area.first + area.count;
    if (area.buffer == Buffer::work) {
      most_work_blocks_ = std::max(most_work_blocks_, blocks);
      if (blocks > schedule.work_blocks) fail(who, "more scratch memory than there is");
    } else if (area.buffer == Buffer::stage) {
      used_stage_ = true;
      most_stage_blocks_ = std::max(most_stage_blocks_, blocks);
      if (blocks > schedule.stage_blocks) fail(who, "more of a stage than there is");
    }
  }

  Element* cell_of(int owner, Buffer buffer, std::size_t index, std::size_t chunk) {
    Rank& rank = at(owner);
    const auto own = static_cast<std::size_t>(own_block(owner));
    std::vector<Element>* memory = nullptr;
    if (buffer == Buffer::work) memory = &rank.work;
    if (buffer == Buffer::stage) memory = &rank.stage[chunk % rank.stage.size()];
    if (buffer == Buffer::in) memory = &rank.in;
    if (buffer == Buffer::out) memory = &rank.out;
    if (memory == nullptr || index >= memory->size()) return nullptr;
    if (!shares_memory(owner)) return &(*memory)[index];
    if (operation_ == Operation::scatter || operation_ == Operation::reduce_scatter) {
      return buffer == Buffer::out ? &rank.in[own + index] : &(*memory)[index];
    }
    return buffer == Buffer::in ? &rank.out[own + index] : &(*memory)[index];
  }

  /// Whether `who` may reach into a buffer of another rank.
  bool may_reach(int who, int owner, const Area& area, bool write) {
    const Rank& rank = at(owner);
    if (area.buffer == Buffer::stage && !write) {
      const auto& readers = rank.schedule.stage_readers;
      if (std::find(readers.begin(), readers.end(), who) == readers.end()) fail(who, "reads a stage and is not listed");
      at(who).read_stage_of.insert(owner);
      return true;
    }
    if (area.buffer != Buffer::in && area.buffer != Buffer::out) fail(who, "reaches into scratch memory");
    if (!rank.schedule.publishes) fail(who, "reaches into what is not published");
    if (!rank.entered) fail(who, "reaches into a rank that has not entered");
    if (rank.left) fail(who, "reaches into a rank that has left");
    return error_.empty();
  }

  // ---- one move -------------------------------------------------------------------------------

  std::vector<Element> read(int who, int owner, const Area& area) {
    std::vector<Element> content;
    for (const Element* cell : cells(who, owner, area, false)) content.push_back(*cell);
    return content;
  }

  void write(int who, int owner, const Area& area, const std::vector<Element>& content) {
    const auto list = cells(who, owner, area, true);
    if (list.size() != content.size()) return fail(who, "sizes differ");
    for (std::size_t i = 0; i < list.size(); ++i) *list[i] = content[i];
  }

  void write_sum(int who, const Move& move, const std::vector<Element>& theirs) {
    const auto mine = read(who, who, move.with);
    if (mine.size() != theirs.size()) return fail(who, "operands of different size");
    std::vector<Element> sums;
    for (std::size_t i = 0; i < mine.size(); ++i) {
      if (mine[i].place < 0 || mine[i].place != theirs[i].place)
        return fail(who, "operands that do not belong together");
      sums.push_back({mine[i].place, move.theirs_first ? sums_.made_of(theirs[i].sum, mine[i].sum)
                                                       : sums_.made_of(mine[i].sum, theirs[i].sum)});
    }
    write(who, who, move.to, sums);
  }

  const std::vector<Move>& moves(const Rank& rank) const {
    if (rank.section != 1) return rank.section == 0 ? rank.schedule.begin : rank.schedule.end;
    return rank.chunk < rank.cutting.body_chunks() ? rank.schedule.body : rank.schedule.tail;
  }

  /// False: the rank can do nothing now.
  bool step(int number) {
    Rank& rank = at(number);
    if (rank.left) return false;
    rank.entered = true;
    const auto& list = moves(rank);
    if (rank.at < list.size()) {
      const Move& move = list[rank.at];
      if (move.to.buffer == Buffer::stage && !rank.stage_free && !reuse_stage(number)) return false;
      bool progress = false;
      if (!perform(number, move, progress)) return progress;
      ++rank.at;
      rank.sent = rank.leading = rank.led = rank.helping = false;
      rank.helped = 0;
      return true;
    }
    rank.at = 0;
    if (rank.section == 1) {
      if (rank.schedule.ticks > 0) raise(number, rank.schedule.ticks);
      if (rank.chunk + 1 < rank.cutting.chunks()) {
        ++rank.chunk;
        rank.stage_free = false;
        std::fill(rank.work.begin(), rank.work.end(), Element{});
        return true;
      }
    }
    if (++rank.section == 3) leave(number);
    return true;
  }

  bool perform(int number, const Move& move, bool& progress) {
    Rank& rank = at(number);
    using Kind = Move::Kind;
    switch (move.kind) {
      case Kind::send:
      case Kind::recv:
      case Kind::recv_combine:
      case Kind::exchange:
      case Kind::exchange_combine: return perform_message(number, move, progress);
      case Kind::get:
        if (move.share != Share::none) return perform_shared(number, move, progress);
        count(number, move.source, read(number, move.source, move.from).size());
        write(number, number, move.to, read(number, move.source, move.from));
        return true;
      case Kind::get_combine: {
        const auto theirs = read(number, move.source, move.from);
        count(number, move.source, theirs.size());
        write_sum(number, move, theirs);
        return true;
      }
      case Kind::put: {
        if (move.share != Share::none) return perform_shared(number, move, progress);
        const auto content = read(number, number, move.from);
        count(number, move.peer, content.size());
        write(number, move.peer, move.to, content);
        return true;
      }
      case Kind::copy: write(number, number, move.to, read(number, number, move.from)); return true;
      case Kind::combine: write_sum(number, move, read(number, number, move.from)); return true;
      case Kind::post: raise(number, move.tick); return true;
      case Kind::await: return has_reached(number, move.source, value_of(rank, rank.chunk, move.tick));
      case Kind::await_body:
        return has_reached(number, move.source, value_of(rank, rank.cutting.body_chunks() - 1, rank.schedule.ticks));
      case Kind::flush: return rank.lent == 0;
    }
    return false;
  }

  void count(int number, int other, std::size_t elements) {
    if (other == number) fail(number, "gets from itself");
    received_ += elements;
  }

  bool perform_message(int number, const Move& move, bool& progress) {
    Rank& rank = at(number);
    const bool lends = request_.recipe.access == Access::direct;
    if (move.peer >= 0 && !rank.sent) {
      QueuedMessage message{
          .content = read(number, number, move.from), .place = {}, .knows = rank.knows, .depth = rank.depth};
      if (lends || options_.rendezvous) {
        message.place = cells(number, number, move.from, false);
        message.lent = true;
        ++rank.lent;
      }
      if (move.peer == number) fail(number, "sends to itself");
      at(move.peer).messages[number].push_back(std::move(message));
      rank.sent = progress = true;
    }
    if (move.source >= 0 && !rank.led) {  // `led`: the receiving half is done
      auto& messages = rank.messages[move.source];
      if (messages.empty()) return false;
      receive(number, move, messages.front());
      messages.pop_front();
      rank.led = progress = true;
    }
    return lends || !options_.rendezvous || move.peer < 0 || rank.lent == 0;
  }

  void receive(int number, const Move& move, const QueuedMessage& message) {
    Rank& rank = at(number);
    for (std::size_t i = 0; i < message.place.size(); ++i) {
      if (*message.place[i] != message.content[i]) fail(move.source, "has overwritten what it sends");
    }
    if (message.lent) --at(move.source).lent;
    received_ += message.content.size();
    learn(rank, message.knows, message.depth);
    if (move.kind == Move::Kind::recv_combine || move.kind == Move::Kind::exchange_combine) {
      write_sum(number, move, message.content);
    } else {
      write(number, number, move.to, message.content);
    }
  }

  static void learn(Rank& rank, const std::set<int>& knows, int depth) {
    rank.knows.insert(knows.begin(), knows.end());
    rank.depth = std::max(rank.depth, depth + 1);
  }

  /// The one who helps takes a part off the end while the other is at it; both need a while for theirs.
  bool perform_shared(int number, const Move& move, bool& progress) {
    Rank& rank = at(number);
    const int other = move.kind == Move::Kind::put ? move.peer : move.source;
    progress = true;
    if (move.share == Share::leads) {
      if (!rank.leading) return !(rank.leading = true);
      if (!rank.led) move_part(number, move, 0, size_of(number, move) - rank.helped);
      progress = !std::exchange(rank.led, true);
      return rank.helped == 0 || has_reached(number, other, value_of(rank, rank.chunk, move.tick));
    }
    if (rank.helping) {
      const std::size_t size = size_of(number, move);
      if (rank.helped > 0) move_part(number, move, size - rank.helped, size);
      return true;
    }
    rank.helping = true;
    Rank& leader = at(other);
    if (leader.leading && !leader.led) leader.helped = rank.helped = random_() % (size_of(number, move) + 1);
    return false;
  }

  std::size_t size_of(int number, const Move& move) {
    return read(number, number, move.kind == Move::Kind::put ? move.from : move.to).size();
  }

  void move_part(int number, const Move& move, std::size_t first, std::size_t last) {
    const bool put = move.kind == Move::Kind::put;
    const auto from = read(number, put ? number : move.source, move.from);
    const auto to = cells(number, put ? move.peer : number, move.to, true);
    if (from.size() != to.size()) return fail(number, "sizes differ");
    count(number, put ? move.peer : move.source, last - first);
    for (std::size_t i = first; i < last; ++i) *to[i] = from[i];
  }

  static std::size_t value_of(const Rank& rank, std::size_t chunk, int tick) {
    return chunk * static_cast<std::size_t>(rank.schedule.ticks) + static_cast<std::size_t>(tick);
  }

  void raise(int number, int tick) {
    Rank& rank = at(number);
    const std::size_t value = value_of(rank, rank.chunk, tick);
    if (!rank.ticks.empty() && rank.ticks.back().value >= value) fail(number, "its tick does not grow");
    rank.ticks.push_back({value, rank.knows, rank.depth});
  }

  bool has_reached(int number, int other, std::size_t value) {
    const auto& ticks = at(other).ticks;
    const auto found = std::find_if(ticks.begin(), ticks.end(), [&](const Tick& each) { return each.value >= value; });
    if (found == ticks.end()) return false;
    learn(at(number), found->knows, found->depth);
    return true;
  }

  /// A slot is filled again once its readers are done with what it held.
  bool reuse_stage(int number) {
    Rank& rank = at(number);
    const std::size_t slot = rank.chunk % rank.stage.size(), filled = rank.slot_filled_for[slot];
    for (const int reader : rank.schedule.stage_readers) {
      if (filled > 0 && !has_reached(number, reader, value_of(rank, filled - 1, rank.schedule.ticks))) return false;
    }
    std::fill(rank.stage[slot].begin(), rank.stage[slot].end(), Element{});
    rank.slot_filled_for[slot] = rank.chunk + 1;
    rank.stage_free = true;
    return true;
  }

  // ---- results --------------------------------------------------------------------------------

  /// How many operands, from rank 0 on, the result of a reduction has; 0: it is none, or has none.
  int operands(int number) const {
    if (operation_ == Operation::scan) return number + 1;
    if (operation_ == Operation::exscan) return number;
    const bool reduces = operation_ == Operation::reduce || operation_ == Operation::allreduce ||
                         operation_ == Operation::reduce_scatter;
    return reduces ? request_.ranks : 0;
  }

  Element expected(int number, std::size_t index) {
    const int block = static_cast<int>(index / length());
    const std::size_t element = index % length();
    switch (operation_) {
      case Operation::broadcast: return {place(0, element), request_.root};
      case Operation::scatter: return {place(number, element), request_.root};
      case Operation::gather:
      case Operation::allgather: return {place(block, element), block};
      case Operation::alltoall: return {place(number, element), block};
      case Operation::reduce_scatter: return {place(number, element), -1};
      default: return {place(0, element), -1};
    }
  }

  /// The caller has its buffers back.
  void leave(int number) {
    Rank& rank = at(number);
    if (rank.lent > 0) fail(number, "leaves before what it sends is read");
    rank.left = true;
    if (operation_ == Operation::barrier && static_cast<int>(rank.knows.size()) != request_.ranks) {
      fail(number, "leaves before all have entered");
    }
    const bool left_alone = operation_ == Operation::exscan && number == 0;
    for (std::size_t i = 0; i < rank.out.size(); ++i) {
      const Element& found = *cell_of(number, Buffer::out, i, 0);
      const Element before = shares_memory(number) ? Element{place(0, i), number} : Element{};
      if (!left_alone) check_result(number, found, expected(number, i));
      if (left_alone && found != before) fail(number, "its result should be left alone");
    }
    if (!shares_memory(number)) {
      for (std::size_t i = 0; i < rank.in.size(); ++i) {
        const int block = holds_all(Buffer::in) ? static_cast<int>(i / length()) : number;
        if (rank.in[i] != Element{place(blocks_ == 1 ? 0 : block, i % length()), number})
          fail(number, "its input has changed");
      }
    }
    std::fill(rank.in.begin(), rank.in.end(), Element{});
    std::fill(rank.out.begin(), rank.out.end(), Element{});
  }

  void check_result(int number, const Element& found, const Element& wanted) {
    if (found.place != wanted.place) return fail(number, "its result has the wrong elements");
    const int count = operands(number);
    if (count == 0) {
      if (found.sum != wanted.sum) fail(number, "its result is of the wrong rank");
      return;
    }
    auto list = sums_.operands(found.sum);
    canonical_ = canonical_ && found.sum == sums_.in_canonical_order(count);
    rank_order_ = rank_order_ && std::is_sorted(list.begin(), list.end());
    std::sort(list.begin(), list.end());
    for (int operand = 0; operand < count; ++operand) {
      if (static_cast<int>(list.size()) != count || list[static_cast<std::size_t>(operand)] != operand) {
        return fail(number, "its sum has not each operand once");
      }
    }
  }

  ScheduleRequest request_;
  Operation operation_;
  RunOptions options_;
  std::minstd_rand random_;
  int blocks_ = 1;  ///< of a buffer that holds those of all ranks
  std::vector<Rank> ranks_;
  Sums sums_;
  std::string error_;
  bool canonical_ = true, rank_order_ = true, used_stage_ = false;
  std::size_t received_ = 0;
  int most_work_blocks_ = 0, most_stage_blocks_ = 0;
};

}  // namespace smelt::test
