#include "plan/schedule/lowering.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "machine/model/copy_costs.hpp"

namespace smelt::plan {
namespace {

constexpr double post_ns = 2.0;
/// Set-up before the first move if vectors are divided or addresses are exchanged (epochs, extents).
constexpr double set_up_ns = 200.0;
/// Cost of reading lines in another PU's cache, as a fraction of copying them (docs/reference/model.md).
constexpr double read_share = 1.6;
/// Fraction of the kernel's overhead that a put of a longer block saves compared with a get. Up to that length both
/// cost the same; the limit is lower if ranks share a PU. Both values are measured (docs/reference/model.md) and not
/// explained.
constexpr double long_put_bytes = 2 << 20, long_put_bytes_crowded = 32 << 10, long_put_share = 0.25;
/// Lines of a channel with few ranks.
constexpr double ring_lines = 64;
/// Up to this size one of the two ends copies everything.
constexpr double least_shared_bytes = 64 << 10;
/// Longer messages of a recipe with direct access carry the address of the data.
constexpr double most_carried_bytes = 2048.0;

Operation operation_of(const ScheduleRequest& request) {
  for (const auto& info : algorithms()) {
    if (info.name == request.recipe.algorithm) return info.operation;
  }
  return Operation::broadcast;
}

}  // namespace

double LoweredOp::least_ns() const {
  switch (kind) {
    case Kind::send:
      // An exchange starts a new interval.
      return exchanged ? 0.0 : line_ns + stream_ns / 2 + after_ns;
    case Kind::receive:
      return (exchanged ? exchange_ns : std::min(line_ns, gap_ns) + (shares_source() ? again_ns : stream_ns)) +
             after_ns;
    case Kind::read: return again_ns + after_ns;
    case Kind::post:
    case Kind::await:
    case Kind::await_body: return line_ns + after_ns;
    default: return after_ns;
  }
}

Lowering::Lowering(const Machine& machine, const Group& group, const Reach& reach)
    : machine_(machine), group_(group), costs_(machine, group), reach_(reach) {
  std::vector<int> ranks_on(machine.size(), 0);
  for (const int pu : group.pus) ++ranks_on[static_cast<std::size_t>(pu)];
  pus_ = static_cast<int>(std::count_if(ranks_on.begin(), ranks_on.end(), [](int ranks) { return ranks > 0; }));
  sharers_ = *std::max_element(ranks_on.begin(), ranks_on.end());
  crowded_ = sharers_ > 1;
}

void Lowering::choose(const ScheduleRequest& request, std::size_t bytes, std::size_t element_bytes) {
  request_ = &request;
  operation_ = operation_of(request);
  const std::string& name = request.recipe.algorithm;
  copiers_ = copiers_of(operation_, pus_, name == "gather_flat" || name == "gather_linear" || name == "reduce_flat");
  rank_blocks_ = has_rank_blocks(operation_);
  length_ = bytes / element_bytes;
  element_bytes_ = element_bytes;
  whole_bytes_ = static_cast<double>(bytes) * (rank_blocks_ ? group_.size() : 1);
  // Of scatter and gather, the root alone has the blocks of all ranks. The blocks of the ranks beside it are the other
  // ends of copies.
  const bool one_has_all = operation_ == Operation::scatter || operation_ == Operation::gather;
  cached_bytes_ = whole_bytes_ * (one_has_all ? 1 : sharers_);
}

void Lowering::lower(int rank, LoweredProgram& program) {
  schedule_ = make_schedule_in(std::move(schedule_), *request_, rank);
  cutting_ = Chunking(schedule_, operation_, request_->recipe.chunk_bytes, reach_.slot_bytes, length_, element_bytes_);
  rank_ = rank;
  cut_ = cutting_.chunks() > 1;
  known_whole_ = known_part_ = {};
  program.ticks = schedule_.ticks;
  const bool short_way = request_->recipe.access == Access::staged && schedule_.slices == 1 && !cut_;
  const bool by_address = request_->recipe.access == Access::direct && whole_bytes_ > most_carried_bytes;
  const bool long_way = schedule_.ticks > 0 || schedule_.slices > 1 || by_address;
  program.set_up_ns = costs_.call(operation_) + (long_way && !short_way ? set_up_ns : 0.0);
  program.chunks = cutting_.chunks();
  program.tail_chunks = cutting_.tail_chunks();
  program.readers.clear();
  program.puts.clear();
  program.reads.clear();
  program.inputs.clear();
  program.lent.clear();
  program.written_bytes = program.combined_bytes = 0.0;
  program_ = &program;
  for (const int reader : schedule_.stage_readers) program.readers.push_back({reader, costs_.message(reader, rank)});
  // The last move of a chunk posts the rank's completion of it.
  if (schedule_.ticks != 0) {
    schedule_.body.push_back({.kind = Move::Kind::post, .tick = schedule_.ticks});
    schedule_.tail.push_back(schedule_.body.back());
  }
  const std::size_t last = program.chunks - 1;
  const bool tail = program.tail_chunks > 0;
  program.begin_ns = lower_part(schedule_.begin, 0, program.begin);
  program.body_ns = program.last_ns = lower_part(schedule_.body, 0, program.body);
  program.tail.clear();
  if (tail) program.tail_ns = program.last_ns = lower_part(schedule_.tail, 0, program.tail);
  program.last.clear();
  if (cutting_.elements(last) != cutting_.elements(0)) {
    program.last_ns = lower_part(tail ? schedule_.tail : schedule_.body, last, program.last);
  }
  program.end_ns = lower_part(schedule_.end, last, program.end);
}

/// Lower bound on the duration of a part.
double Lowering::lower_part(const std::vector<Move>& moves, std::size_t chunk, std::vector<LoweredOp>& ops) {
  ops.clear();
  elements_ = cutting_.elements(chunk);
  bool fills_stage = false;
  just_read_ = {};
  for (const Move& move : moves) {
    if (move.to.buffer == Buffer::stage && !fills_stage) ops.push_back({.kind = LoweredOp::Kind::reuse_stage});
    fills_stage |= move.to.buffer == Buffer::stage;
    add(move, ops);
  }
  double least_ns = 0.0;
  for (const LoweredOp& op : ops) least_ns += op.least_ns();
  return least_ns;
}

void Lowering::add(const Move& move, std::vector<LoweredOp>& ops) {
  const bool combine = move.kind == Move::Kind::recv_combine || move.kind == Move::Kind::exchange_combine ||
                       move.kind == Move::Kind::get_combine || move.kind == Move::Kind::combine;
  switch (move.kind) {
    case Move::Kind::send: return add_send(move.peer, move.from, ops);
    case Move::Kind::recv:
    case Move::Kind::recv_combine:
      if (lends(bytes_of(move.to))) note_result(move, false);
      return add_receive(move.source, bytes_of(move.to), combine, ops);
    case Move::Kind::exchange:
    case Move::Kind::exchange_combine: {
      const double bytes = bytes_of(move.to);
      if (lends(bytes)) note_result(move, false);
      add_send(move.peer, move.from, ops);
      // A simultaneous exchange costs what was measured, if it was and both ranks have their own PU.
      const bool measured = move.peer == move.source && !crowded_ && costs_.has_exchange() && bytes <= payload_bytes;
      ops.back().exchanged = measured;
      add_receive(move.source, bytes, combine, ops);
      if (!measured) return;
      ops.back().exchanged = true;
      ops.back().exchange_ns = costs_.exchange(rank_, move.source);
      ops.back().after_ns = 0.0;
      return;
    }
    case Move::Kind::get:
    case Move::Kind::get_combine:
      note_result(move, move.from.buffer == Buffer::out);
      if (pu(move.source) != pu(rank_)) note_input(move.source, move.from, bytes_of(move.to));
      if (move.share != Share::none) return add_shared(move, ops);
      add_read(move.source, move.from, bytes_of(move.to), combine, ops);
      if (combine && move.to.buffer == Buffer::stage) add_work(reclaim_ns(bytes_of(move.to), combine), ops);
      return;
    case Move::Kind::put:
      if (move.share != Share::none) return add_shared(move, ops);
      note_put(move, bytes_of(move.from));
      return add_work(put_ns(move), ops);
    case Move::Kind::copy:
    case Move::Kind::combine:
      note_result(move, false);
      just_read_ = move.from;
      add_work(transfer_ns(rank_, rank_, bytes_of(move.to), true, combine), ops);
      if (move.to.buffer == Buffer::stage) add_work(reclaim_ns(bytes_of(move.to), false), ops);
      return;
    case Move::Kind::post:
      ops.push_back({.kind = LoweredOp::Kind::post, .tick = move.tick, .line_ns = post_ns});
      return;
    case Move::Kind::await:
    case Move::Kind::await_body:
      ops.push_back({.kind = move.kind == Move::Kind::await ? LoweredOp::Kind::await : LoweredOp::Kind::await_body,
                     .peer = move.source,
                     .tick = move.tick,
                     .line_ns = costs_.recv(move.source, rank_),
                     .way_ns = costs_.message(move.source, rank_) + costs_.fan_out(move.source, rank_, move.readers)});
      return;
    case Move::Kind::flush: ops.push_back({.kind = LoweredOp::Kind::flush}); return;
  }
}

/// A put of the first chunk represents those of all chunks.
void Lowering::note_put(const Move& move, double bytes) {
  if (move.to.buffer != Buffer::out || elements_ != cutting_.elements(0) || elements_ == 0) return;
  program_->puts.push_back({move.peer, of_all_chunks(bytes)});
}

double Lowering::of_all_chunks(double bytes) const {
  return bytes * static_cast<double>(length_) / static_cast<double>(elements_);
}

/// Notes what the rank writes into its own result, and what it reads out of another's. The first chunk represents all.
void Lowering::note_result(const Move& move, bool reads) {
  if (elements_ != cutting_.elements(0) || elements_ == 0) return;
  if (reads) program_->reads.push_back({move.source, of_all_chunks(bytes_of(move.to))});
  if (move.to.buffer != Buffer::out) return;
  program_->written_bytes += of_all_chunks(bytes_of(move.to));
  const bool combines = move.kind == Move::Kind::get_combine || move.kind == Move::Kind::recv_combine ||
                        move.kind == Move::Kind::exchange_combine;
  if (combines) program_->combined_bytes += of_all_chunks(bytes_of(move.to));
}

/// Notes that the peer reads the rank's input or result.
void Lowering::note_lent(int peer, const Area& area, double bytes) {
  if (pu(peer) == pu(rank_)) return;
  note_input(rank_, area, bytes);
  if (area.buffer != Buffer::out || elements_ != cutting_.elements(0) || elements_ == 0) return;
  program_->lent.push_back({peer, of_all_chunks(bytes)});
}

void Lowering::note_input(int owner, const Area& area, double bytes) {
  if (area.buffer != Buffer::in || elements_ != cutting_.elements(0) || elements_ == 0) return;
  program_->inputs.push_back({owner, area, of_all_chunks(bytes)});
}

/// A core that writes a line which another one has read must have it taken from that one's cache first.
double Lowering::reread_ns(std::optional<double> share, int reader, int owner, double bytes) const {
  if (!share || !machine_.copy || reach_.at_rest || pu(reader) == pu(owner)) return 0.0;
  return *share * machine_.copy->chunk_ns_per_kib(pu(reader), pu(owner)) * left_in_cache() * bytes / 1024.0;
}

/// Of buffers that are longer than a PU's cache, less is left in it; of twice its length, nothing.
double Lowering::left_in_cache() const {
  return std::clamp(2.0 - cached_bytes_ / machine_.copy->cached_bytes, 0.0, 1.0);
}

double Lowering::rewrite_ns(int reader, int owner, double bytes) const {
  return reread_ns(machine_.rewrite_share, reader, owner, bytes);
}

double Lowering::combine_rewrite_ns(int reader, int owner, double bytes) const {
  const auto& share = machine_.combine_rewrite_share;
  return reread_ns(share ? share : machine_.rewrite_share, reader, owner, bytes);
}

/// A transfer that both ends share: the helper has copied as much for itself before, and then shares the rest. This
/// holds for two ranks. With more, the last rank to be helped is nearly done when its turn comes.
void Lowering::add_shared(const Move& move, std::vector<LoweredOp>& ops) {
  const bool put = move.kind == Move::Kind::put;
  const int other = put ? move.peer : move.source;
  const double bytes = bytes_of(put ? move.from : move.to);
  const auto all_ns = transfer_ns(other, rank_, bytes, false, false);
  const double own_ns = transfer_ns(rank_, rank_, bytes, true, false);
  const bool helped = request_->ranks == 2 && !crowded_ && reach_.processes && bytes > least_shared_bytes;
  const double help = helped ? std::max(0.0, (1.0 - own_ns / all_ns) / 2) : 0.0;
  const bool leads = move.share == Share::leads;
  const double part = bytes * (leads ? 1.0 - help : help);
  if (put) note_put(move, part);
  put ? add_work(transfer_ns(other, rank_, part, false, false), ops) : add_read(other, move.from, part, false, ops);
  if (leads && help > 0.0) add({.kind = Move::Kind::await, .source = other, .tick = move.tick}, ops);
}

/// Reading accounts for half of the time by which copies of long buffers are slower than short ones. A chunk that the
/// rank has just read is in its cache, unlike the whole buffer.
double Lowering::put_ns(const Move& move) {
  const double bytes = bytes_of(move.from);
  const double time = transfer_ns(move.peer, rank_, bytes, false, false) - spared_by_put_ns(move.peer, bytes);
  if (!cut_ || move.from != just_read_) return time;
  const double long_ns = part_ns(bytes, [&](double size) { return own_copy_ns(size); });
  return time - (long_ns - own_copy_ns(bytes)) / 2;
}

double Lowering::spared_by_put_ns(int peer, double bytes) const {
  if (!reach_.processes || bytes <= (crowded_ ? long_put_bytes_crowded : long_put_bytes)) return 0.0;
  const auto from = pu(peer), to = pu(rank_);
  const double kernel_ns =
      process_copy_ns(machine_, from, to, bytes, copiers_) - copy_ns(machine_, from, to, bytes, copiers_);
  return std::isfinite(kernel_ns) ? long_put_share * kernel_ns : 0.0;
}

double Lowering::change_ns(double bytes) const {
  if (!machine_.change_ns_per_kib || !machine_.copy) return 0.0;
  return *machine_.change_ns_per_kib * left_in_cache() * bytes / 1024.0;
}

/// The result as a whole decides whether the owner has its own parts in its caches.
double Lowering::fetch_ns(int writer, int owner, double bytes) const {
  if (reach_.at_rest) return 0.0;
  const auto cost = [&](int from) {
    return part_ns(bytes, [&](double size) { return copy_ns(machine_, pu(from), pu(owner), size, 1); });
  };
  return read_share * std::max(0.0, cost(writer) - cost(owner));
}

void Lowering::add_work(double ns, std::vector<LoweredOp>& ops) const {
  if (ops.empty()) ops.push_back({});
  ops.back().after_ns += ns;
}

void Lowering::add_read(int source, const Area& area, double bytes, bool combine, std::vector<LoweredOp>& ops) {
  const bool staged = area.buffer == Buffer::stage;
  LoweredOp op{.kind = LoweredOp::Kind::read, .peer = source, .area = area};
  op.line_ns = transfer_ns(source, rank_, bytes, staged, combine);
  set_source(source, bytes, staged, op.line_ns, op);
  op.shares_source() ? ops.push_back(op) : add_work(op.line_ns, ops);
}

/// What a read costs the PU that has the data. What lies in its first cache is handed out more slowly.
void Lowering::set_source(int source, double bytes, bool staged, double alone_ns, LoweredOp& op) const {
  const auto from = pu(source), to = pu(rank_);
  if (!machine_.copy || crowded_ || ranks() < 3 || from == to) return;
  op.bytes = bytes;
  if (reach_.processes && request_->recipe.access == Access::direct && !staged) {
    op.pages_ns = machine_.process_pages_ns_per_kib.value_or(0.0) * bytes / 1024.0;
    op.again_ns = alone_ns;
  }
  if (!machine_.source_ns_per_kib || (reach_.at_rest && !staged)) return;
  op.source_ns = *machine_.source_ns_per_kib * bytes / 1024.0;
  op.buffer_bytes = staged ? bytes : std::max(bytes, whole_bytes_);
  const double near_share = std::min(1.0, machine_.near_bytes.value_or(0.0) / op.buffer_bytes);
  op.near_ns = machine_.near_source_ns_per_kib.value_or(0.0) * near_share * bytes / 1024.0;
  if (op.pages_ns > 0.0) return;
  // What another one has read is in the last-level cache.
  const double chunk_ns = copy_ns(machine_, from, to, bytes, copiers_);
  const double cached_ns =
      (*machine_.copy).startup_ns(from, to) + (*machine_.copy).cached_ns_per_kib(from, to) * bytes / 1024.0;
  op.again_ns = std::max(0.0, alone_ns - std::max(0.0, chunk_ns - cached_ns));
}

void Lowering::add_send(int peer, const Area& area, std::vector<LoweredOp>& ops) {
  const double bytes = bytes_of(area);
  const bool lent = lends(bytes);
  if (lent) note_lent(peer, area, bytes);
  ops.push_back({.kind = LoweredOp::Kind::send,
                 .lent = lent,
                 .peer = peer,
                 .line_ns = costs_.send(rank_, peer),
                 .way_ns = costs_.propagation(rank_, peer),
                 .stream_ns = lent ? 0.0 : stream_ns(rank_, peer, bytes, messages_at_once(area)),
                 .gap_ns = costs_.send_gap(rank_, peer),
                 .area = area});
}

void Lowering::add_receive(int source, double bytes, bool combine, std::vector<LoweredOp>& ops) {
  LoweredOp op{.kind = LoweredOp::Kind::receive, .peer = source, .line_ns = costs_.recv(source, rank_)};
  op.gap_ns = costs_.recv_gap(source, rank_);
  if (!machine_.lines_ns.empty() && machine_.lines_ns[0] > 0.0) {
    op.row_scale = costs_.message(source, rank_) / machine_.lines_ns[0];
  }
  op.lent = lends(bytes);
  if (op.lent) {
    op.stream_ns = transfer_ns(source, rank_, bytes, false, combine);
    set_source(source, bytes, false, op.stream_ns, op);
    op.way_ns = costs_.message(rank_, source);
  } else {
    // The lines come through the cache, but the target may not fit it.
    if (bytes > payload_bytes) op.stream_ns = part_ns(bytes, [&](double size) { return own_copy_ns(size); });
    if (combine) op.after_ns = combine_ns(machine_, pu(rank_), pu(rank_), bytes, 1);
  }
  ops.push_back(op);
}

double Lowering::bytes_of(const Area& area) const {
  std::size_t count = elements_;
  if (rank_blocks_) {
    count = elements_ * static_cast<std::size_t>(area.count);
  } else if (schedule_.slices != 1) {
    const int slice = area.first % schedule_.slices;
    count = cutting_.slice_begin(elements_, slice + area.count) - cutting_.slice_begin(elements_, slice);
  }
  return static_cast<double>(count * element_bytes_);
}

bool Lowering::lends(double bytes) const {
  return request_->recipe.access == Access::direct && bytes > most_carried_bytes;
}

/// The lines of a stage are in the caches of its last readers and are fetched back. Where that was not measured, with
/// enough lines by prefetching.
double Lowering::reclaim_ns(double bytes, bool combine) const {
  const auto& readers = schedule_.stage_readers;
  const auto other = std::find_if(readers.begin(), readers.end(), [&](int reader) { return pu(reader) != pu(rank_); });
  if (other == readers.end()) return 0.0;
  if (combine) return combine_rewrite_ns(*other, rank_, bytes);
  if (machine_.rewrite_share && machine_.copy) return rewrite_ns(*other, rank_, bytes);
  return copy_ns(machine_, pu(*other), pu(rank_), std::min(bytes, 2048.0), 1);
}

/// How many messages like one of this area are received at the same time. On the way to the root or from it, a block is
/// in one message at a time.
int Lowering::messages_at_once(const Area& area) const {
  if (operation_ != Operation::gather && operation_ != Operation::scatter) return copiers_;
  return std::clamp(ranks() / std::max(1, area.count), 1, copiers_);
}

/// Lines after the first of a message through a channel: written by one rank, fetched by the other, out of the same
/// caches and over the same ways as copies, while other ranks do so with `messages` in all.
double Lowering::stream_ns(int from, int to, double bytes, int messages) const {
  const double lines = std::max(0.0, std::ceil(bytes / payload_bytes) - 1.0);
  // The receiver polls for each line, so that transfers of consecutive lines overlap only partly. If ranks share a PU,
  // the sender stops at a full ring until the receiver has run: for a whole message once per full ring, for a chunk by
  // its share of a ring.
  const double fills = cut_ ? (lines + 1.0) / ring_lines : std::floor(lines / ring_lines);
  const double stream_ns = costs_.more_lines(lines + 1.0) * costs_.message(from, to);
  return crowded_ ? stream_ns + fills * switch_ns() : stream_ns * chunk_slowdown(machine_, messages);
}

/// A copy within the rank's memory.
double Lowering::own_copy_ns(double bytes) {
  CopyCost& known = bytes == cached_bytes_ ? known_whole_ : known_part_;
  if (known.bytes != bytes) known = {bytes, copy_ns(machine_, pu(rank_), pu(rank_), bytes, copiers_)};
  return known.ns;
}

/// A copy of part of a long buffer: at the rate of the whole, as the length of the whole determines the cache it is in.
/// Ranks that share a PU share its caches.
template <class Cost>
double Lowering::part_ns(double bytes, Cost cost) const {
  if (bytes >= cached_bytes_) return cost(bytes);
  return std::max(cost(bytes), cost(cached_bytes_) * bytes / cached_bytes_);
}

/// A copy or combination by rank `to` of data of rank `from`. `staged`: out of its stage, which is short and stays in
/// the cache, although the other buffer does not.
double Lowering::transfer_ns(int from, int to, double bytes, bool staged, bool combine) {
  if (bytes == 0.0) return 0.0;
  const bool direct = request_->recipe.access == Access::direct && !staged && from != to;
  const auto b = pu(to), a = direct && reach_.at_rest ? b : pu(from);
  if (reach_.processes && direct) {
    const auto cost = [&](double size) { return process_copy_ns(machine_, a, b, size, copiers_); };
    // Every part is a system call of its own.
    const double call = bytes < whole_bytes_ ? cost(payload_bytes) : 0.0;
    const double time = call + part_ns(bytes, cost);
    return combine ? time + combine_ns(machine_, b, b, bytes, 1) : time;
  }
  const auto cost = [&](double size) {
    return combine ? combine_part_ns(machine_, a, b, size, staged ? size : std::max(size, whole_bytes_), copiers_)
                   : copy_ns(machine_, a, b, size, copiers_);
  };
  // Everything was there before, or was written meanwhile, and is read in one pass.
  if (cutting_.tail_chunks() > 0 && from != to) return cost(whole_bytes_) * bytes / whole_bytes_;
  // A chunk that was just written is in its writer's cache, like a stage.
  if (staged || cut_) return std::max(cost(bytes), part_ns(bytes, [&](double size) { return own_copy_ns(size); }));
  return part_ns(bytes, cost);
}

}  // namespace smelt::plan
