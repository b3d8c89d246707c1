#include "comm/collective/eager_path.hpp"

#include <algorithm>
#include <cstring>

#include "base/copy.hpp"
#include "comm/collective/endpoint.hpp"
#include "comm/collective/recipe_selector.hpp"
#include "plan/schedule/schedule_internal.hpp"

namespace smelt::comm {
namespace {

static_assert(SharedLayout::most_lines_at_once(2) * channel::line_payload == plan::longest_whole_message,
              "which recipes are chosen depends on it");

bool uses_ticks(const Schedule& schedule) { return schedule.ticks > 0; }

bool is_eager(const Move& move, bool ticks) {
  switch (move.kind) {
    case Move::Kind::send:
    case Move::Kind::recv:
    case Move::Kind::recv_combine:
    case Move::Kind::exchange:
    case Move::Kind::exchange_combine:
    case Move::Kind::copy:
    case Move::Kind::combine:
    case Move::Kind::flush:  // no buffer is lent on this path
      return true;
    case Move::Kind::get:
    case Move::Kind::get_combine: return move.from.buffer == Buffer::stage;
    case Move::Kind::post:
    case Move::Kind::await: return ticks;
    default: return false;
  }
}

bool is_message(const Move& move) {
  return move.peer >= 0 || (move.source >= 0 && move.kind <= Move::Kind::exchange_combine);
}

/// to = with (op) operand, or operand (op) with. Without Reduction::merge the operand is scratch memory and
/// overwritten.
void fold(const Reduction& op, std::byte* to, const std::byte* with, const std::byte* operand, std::size_t bytes,
          bool operand_first) {
  const std::size_t count = bytes / op.element_bytes;
  if (op.merge != nullptr) {
    op.merge(to, operand_first ? operand : with, operand_first ? with : operand, count, op.context);
  } else if (operand_first) {
    auto* const scratch = const_cast<std::byte*>(operand);
    op.combine(scratch, with, count, op.context);
    copy_bytes(to, scratch, bytes);
  } else {
    if (to != with) copy_bytes(to, with, bytes);
    op.combine(to, operand, count, op.context);
  }
}

}  // namespace

EagerPath::EagerStep EagerPath::compile_step(Endpoint& endpoint, const Move& move, Operation operation) const {
  const auto place = [&](const Area& area) {
    const bool scratch = area.buffer == Buffer::work || area.buffer == Buffer::stage;
    const bool blocks = scratch || holds_all(operation, area.buffer);
    return BlockRange{area.buffer, static_cast<std::uint16_t>(blocks ? area.first : 0),
                      static_cast<std::uint16_t>(std::max(1, has_rank_blocks(operation) ? area.count : 1))};
  };
  EagerStep step{.kind = move.kind,
                 .theirs_first = move.theirs_first,
                 .from = place(move.from),
                 .with = place(move.with),
                 .to = place(move.to)};
  step.tick = static_cast<std::uint64_t>(move.tick);
  step.source = move.source;
  if (is_message(move)) {
    if (move.peer >= 0) step.out = endpoint.link_to(move.peer);
    if (move.source >= 0) step.in = endpoint.link_to(move.source);
  } else if (move.source >= 0) {
    step.stage = endpoint.layout_.stage(move.source);
  }
  return step;
}

EagerPath EagerPath::compile(Endpoint& endpoint, const Recipe& recipe, const Schedule& schedule, Operation operation) {
  EagerPath eager;
  const bool staged = recipe.access == Access::staged && !schedule.publishes;
  if ((recipe.access != Access::channels && !staged) || schedule.slices > 1 || (uses_ticks(schedule) && !staged))
    return eager;
  if (uses_ticks(schedule)) eager.schedule_ = &schedule;
  std::uint16_t most_blocks = uses_ticks(schedule) ? 0 : 1;  // in a message; 0: no messages
  for (const auto* section : {&schedule.begin, &schedule.body, &schedule.end}) {
    for (const Move& move : *section) {
      if (!is_eager(move, staged)) return EagerPath();
      if (move.kind == Move::Kind::flush) continue;
      const EagerStep& step = eager.steps_.emplace_back(eager.compile_step(endpoint, move, operation));
      // Without ticks the operands of every step are in scratch memory.
      if (is_message(move) || !eager.ticks()) most_blocks = std::max({most_blocks, step.from.count, step.to.count});
      eager.receives_ |= step.in != nullptr;
      eager.one_by_one_ &= step.from.count == 1 && step.to.count == 1;
      eager.fills_stage_ |= step.to.buffer == Buffer::stage;
      eager.merges_ |= move.kind == Move::Kind::get_combine || move.kind == Move::Kind::combine;
    }
    if (section == &schedule.body && eager.ticks()) {
      eager.steps_.push_back({.kind = Move::Kind::post, .tick = static_cast<std::uint64_t>(schedule.ticks)});
    }
  }
  eager.note_fetches();
  eager.note_rows();
  eager.sums_apart_ = schedule.work_blocks > 1;
  eager.most_bytes_ = recipe.chunk_bytes != 0 ? recipe.chunk_bytes : StagingRing::most_chunk_bytes;
  if (schedule.stage_blocks > 0) {
    const auto blocks = has_rank_blocks(operation) ? static_cast<std::size_t>(schedule.stage_blocks) : 1;
    eager.stage_blocks_ = blocks;
    eager.most_bytes_ = std::min(eager.most_bytes_, StagingRing::most_chunk_bytes / blocks / line_bytes * line_bytes);
  }
  if (most_blocks > 0) {
    // An exchange sends its whole message before it receives. It never waits for room that only its own receiving would
    // make: every schedule also ends if a message can only be sent while it is received (algorithms_test.cpp), so the
    // messages before this one are received without it, and then there is room.
    const std::size_t lines = std::min<std::size_t>(most_lines, SharedLayout::most_lines_at_once(endpoint.size()));
    eager.most_bytes_ = std::min(eager.most_bytes_, lines * channel::line_payload / most_blocks);
  }
  const auto scratch = static_cast<std::size_t>(schedule.work_blocks) * eager.most_bytes_;
  return endpoint.reserve(endpoint.work_, scratch) ? std::move(eager) : EagerPath();
}

/// Records in each await what the next step reads and writes, for fetch_and_wait().
void EagerPath::note_fetches() noexcept {
  for (std::size_t i = 0; i + 1 < steps_.size(); ++i) {
    const EagerStep& next = steps_[i + 1];
    if (steps_[i].kind != Move::Kind::await) continue;
    if (next.kind != Move::Kind::get && next.kind != Move::Kind::get_combine) continue;
    steps_[i].to = next.to;
    steps_[i].with = next.with;
  }
}

/// Marks rows of sends to several ranks.
void EagerPath::note_rows() noexcept {
  for (std::size_t first = 0, end = 0; first < steps_.size(); first = end + 1) {
    for (end = first; end < steps_.size() && steps_[end].kind == Move::Kind::send;) ++end;
    if (end - first > 1) steps_[first].row = static_cast<std::uint16_t>(end - first);
  }
}

/// Begins to fetch the lines of a row of sends.
template <class ACallBuffers>
[[gnu::noinline]] void EagerPath::fetch_row(const ACallBuffers& buffers, std::span<const EagerStep> row) noexcept {
  for (const EagerStep& step : row) {
    if (!buffers.is_empty(step.from)) step.out->out.fetch();
  }
}

/// Begins to fetch the caller's memory that a step writes and reads, before a wait: often it is in no cache.
template <class ACallBuffers>
inline void EagerPath::fetch_buffers(const ACallBuffers& buffers, const EagerStep& step) noexcept {
  if (step.to.buffer == Buffer::out) prefetch_to_write(buffers.at(step.to), buffers.length(step.to));
  if (step.with.buffer == Buffer::in) {
    const std::byte* const with = buffers.at(step.with);
    for (std::size_t at = 0; at < buffers.length(step.with); at += line_bytes) __builtin_prefetch(with + at);
  }
}

[[gnu::always_inline]] inline bool EagerPath::send(Endpoint& endpoint, Link& link, const std::byte* data,
                                                   std::size_t bytes) noexcept {
  ++endpoint.lines_moved_;
  endpoint.waiting_for_ = link.peer;
  link.out.expect(bytes);
  while (bytes > channel::line_payload) {
    if (!link.out.send(data, channel::line_payload, endpoint.waiter_)) return false;
    data += channel::line_payload;
    bytes -= channel::line_payload;
  }
  return link.out.send(data, bytes, endpoint.waiter_);
}

/// The next message of a single line, read in the channel until it is released; nullptr: interrupted.
inline const std::byte* EagerPath::await_line(Endpoint& endpoint, Link& link) noexcept {
  ++endpoint.lines_moved_;
  endpoint.waiting_for_ = link.peer;
  return link.in.peek(endpoint.waiter_);
}

inline bool EagerPath::receive(Endpoint& endpoint, Link& link, std::byte* data, std::size_t bytes) noexcept {
  ++endpoint.lines_moved_;
  endpoint.waiting_for_ = link.peer;
  if (bytes <= channel::line_payload) return link.in.recv(data, bytes, endpoint.waiter_);
  if (!link.in.recv(data, channel::line_payload, endpoint.waiter_, channel::lines_of(bytes))) return false;
  for (std::size_t at = channel::line_payload; at < bytes; at += channel::line_payload) {
    const auto part = std::min(bytes - at, channel::line_payload);
    if (!link.in.recv_rest(data + at, part, endpoint.waiter_)) return false;
  }
  return true;
}

inline bool EagerPath::await(Endpoint& endpoint, int source, std::uint64_t value) noexcept {
  return endpoint.has_reached(source, value) || wait_for_tick(endpoint, source, value);
}

[[gnu::noinline]] bool EagerPath::wait_for_tick(Endpoint& endpoint, int source, std::uint64_t value) noexcept {
  Tick& tick = endpoint.layout_.tick(source);
  ++endpoint.lines_moved_;
  endpoint.waiting_for_ = source;
  return endpoint.waiter_.wait([&] { return endpoint.has_reached(source, value); }, &tick.parking, &tick.value);
}

inline EagerPath::CallBuffers EagerPath::buffers_of(Endpoint& endpoint, const Collective& call) noexcept {
  static_assert(static_cast<int>(Buffer::work) == 3 && static_cast<int>(Buffer::stage) == 4);
  return {.base = {nullptr, static_cast<std::byte*>(const_cast<void*>(call.in)), static_cast<std::byte*>(call.out),
                   endpoint.work_.data(), nullptr},
          .bytes = call.count * call.element_bytes};
}

EagerPath::UnevenCallBuffers EagerPath::uneven_buffers_of(Endpoint& endpoint, const Collective& call) noexcept {
  UnevenCallBuffers buffers{buffers_of(endpoint, call)};
  if (!call.uneven) return buffers;
  buffers.bytes = *longest_known(call, endpoint.size(), endpoint.rank_) * call.element_bytes;
  buffers.uneven = &call;
  return buffers;
}

/// True only if all ranks get the same answer, and the combined operands have the length of the rank's own block.
bool EagerPath::fits_uneven(const Endpoint& endpoint, const Collective& call) const noexcept {
  if (steps_.empty() || !one_by_one_) return false;
  if (call.operation == Operation::reduce_scatter && (ticks() || sums_apart_ || call.in == call.out)) return false;
  const auto longest = longest_known(call, endpoint.size(), endpoint.rank_);
  if (!longest || *longest == 0 || *longest * call.element_bytes > most_bytes_) return false;
  return call.operation != Operation::alltoall || call.in != call.out;
}

std::size_t EagerPath::UnevenCallBuffers::uneven_length(const BlockRange& place) const noexcept {
  const auto* const counts = place.buffer == Buffer::in    ? uneven->in_blocks.counts
                             : place.buffer == Buffer::out ? uneven->out_blocks.counts
                                                           : nullptr;
  return (counts != nullptr ? counts[place.at] : uneven->count) * uneven->element_bytes;
}

std::size_t EagerPath::UnevenCallBuffers::uneven_offset(const BlockRange& place) const noexcept {
  const auto* const offsets = place.buffer == Buffer::in    ? uneven->in_blocks.offsets
                              : place.buffer == Buffer::out ? uneven->out_blocks.offsets
                                                            : nullptr;
  return offsets != nullptr ? offsets[place.at] * uneven->element_bytes : place.at * bytes;
}

/// Takes an epoch and a place in the stages.
inline void EagerPath::take_stage(Endpoint& endpoint, CallBuffers& buffers) const noexcept {
  buffers.epoch = ++endpoint.epoch_ << tick_bits;
  if (stage_blocks_ == 0) return;
  buffers.staged = endpoint.stage_.take(stage_blocks_ * buffers.bytes, 1);
  buffers.base[static_cast<int>(Buffer::stage)] = endpoint.stage_memory_ + buffers.staged;
}

/// The records of the places that this rank fills.
inline std::span<StagingRing::Use> EagerPath::uses(Endpoint& endpoint, const CallBuffers& buffers) const noexcept {
  return fills_stage_ ? endpoint.stage_.uses(buffers.staged, stage_blocks_ * buffers.bytes)
                      : std::span<StagingRing::Use>();
}

inline void EagerPath::note_use(Endpoint& endpoint, const CallBuffers& buffers) const noexcept {
  const StagingRing::Use use{&schedule_->stage_readers, buffers.epoch + static_cast<std::uint64_t>(schedule_->ticks)};
  for (StagingRing::Use& each : uses(endpoint, buffers)) each = use;
}

/// Takes an epoch and a place in the stages, and waits until the readers of its former content are done.
inline bool EagerPath::begin(Endpoint& endpoint, CallBuffers& buffers) const noexcept {
  take_stage(endpoint, buffers);
  for (const StagingRing::Use& use : uses(endpoint, buffers)) {
    if (use.readers == nullptr) continue;
    for (const int reader : *use.readers) {
      if (!await(endpoint, reader, use.value)) return false;
    }
  }
  note_use(endpoint, buffers);
  return true;
}

template <class ACallBuffers>
bool EagerPath::combine(Endpoint& endpoint, const Collective& call, const ACallBuffers& buffers,
                        const EagerStep& step) noexcept {
  alignas(line_bytes) std::byte operand[most_lines * channel::line_payload];
  const Reduction& op = call.reduction;
  std::byte* const to = buffers.at(step.to);
  const std::size_t bytes = buffers.length(step.to);
  const std::byte* theirs = operand;
  // The payload of a line is aligned to 8 bytes, which suffices for elements of up to 8 bytes.
  const bool in_channel = step.in != nullptr && bytes <= channel::line_payload && op.merge != nullptr &&
                          op.element_bytes <= sizeof(std::uint64_t);
  if (step.in != nullptr) {
    fetch_buffers(buffers, step);
    endpoint.walk_on(call.in, call.out);
  }
  if (in_channel) {
    theirs = await_line(endpoint, *step.in);
    if (theirs == nullptr) return false;
  } else if (step.kind == Move::Kind::get_combine) {
    theirs = buffers.theirs(step);
  } else if (step.kind != Move::Kind::combine) {
    if (!receive(endpoint, *step.in, operand, bytes)) return false;
  } else if (op.merge == nullptr) {
    std::memcpy(operand, buffers.at(step.from), bytes);
  } else {
    theirs = buffers.at(step.from);
  }
  fold(op, to, buffers.at(step.with), theirs, bytes, step.theirs_first);
  if (in_channel) step.in->in.release();
  return true;
}

/// Waits for another rank's tick. Meanwhile fetches what the next step needs.
template <class ACallBuffers>
[[gnu::noinline]] bool EagerPath::fetch_and_wait(Endpoint& endpoint, const ACallBuffers& buffers,
                                                 const EagerStep& step) noexcept {
  fetch_buffers(buffers, step);
  return wait_for_tick(endpoint, step.source, buffers.epoch + step.tick);
}

template <class ACallBuffers>
inline bool EagerPath::perform(Endpoint& endpoint, const Collective& call, const ACallBuffers& buffers,
                               const EagerStep& step) noexcept {
  if (step.out != nullptr && !buffers.is_empty(step.from) &&
      !send(endpoint, *step.out, buffers.at(step.from), buffers.length(step.from)))
    return false;
  switch (step.kind) {
    case Move::Kind::recv:
    case Move::Kind::exchange:
      fetch_buffers(buffers, step);
      endpoint.walk_on(call.in, call.out);
      return buffers.is_empty(step.to) || receive(endpoint, *step.in, buffers.at(step.to), buffers.length(step.to));
    case Move::Kind::recv_combine:
    case Move::Kind::exchange_combine:
    case Move::Kind::combine:
    case Move::Kind::get_combine: return buffers.is_empty(step.to) || combine(endpoint, call, buffers, step);
    case Move::Kind::copy:
      if (buffers.at(step.to) != buffers.at(step.from))
        copy_bytes(buffers.at(step.to), buffers.at(step.from), buffers.length(step));
      return true;
    case Move::Kind::get: fetch_bytes(buffers.at(step.to), buffers.theirs(step), buffers.length(step.to)); return true;
    case Move::Kind::post: endpoint.tick_.raise(buffers.epoch + step.tick); return true;
    case Move::Kind::await:
      return endpoint.has_reached(step.source, buffers.epoch + step.tick) || fetch_and_wait(endpoint, buffers, step);
    default: return true;
  }
}

template <class ACallBuffers>
inline bool EagerPath::run_in(ACallBuffers buffers, Endpoint& endpoint, const Collective& call) const noexcept {
  if (ticks() && !begin(endpoint, buffers)) return false;
  for (const EagerStep& step : steps_) {
    if (step.row != 0) fetch_row(buffers, {&step, step.row});
    if (!perform(endpoint, call, buffers, step)) return false;
  }
  if (!receives_) {
    const bool sends_out = call.operation == Operation::broadcast && call.root == endpoint.rank_;
    endpoint.walk_on(sends_out ? call.out : call.in, sends_out ? nullptr : call.out);
  }
  return true;
}

bool EagerPath::run(Endpoint& endpoint, const Collective& call) const noexcept {
  if (call.uneven) [[unlikely]]
    return run_uneven(endpoint, call);
  return run_in(buffers_of(endpoint, call), endpoint, call);
}

[[gnu::noinline]] bool EagerPath::run_uneven(Endpoint& endpoint, const Collective& call) const noexcept {
  return run_in(uneven_buffers_of(endpoint, call), endpoint, call);
}

// ---- in parts -------------------------------------------------------------------------------

void EagerPath::begin(Endpoint& endpoint, const Collective& call, PendingOperation& pending) const noexcept {
  pending.buffers_ = uneven_buffers_of(endpoint, call);
  pending.at_ = pending.sent_ = pending.received_ = pending.place_ = pending.reader_ = 0;
  pending.stage_free_ = !ticks();
  if (ticks()) take_stage(endpoint, pending.buffers_);
}

bool EagerPath::stage_is_free(Endpoint& endpoint, PendingOperation& pending) const noexcept {
  if (pending.stage_free_) return true;
  const auto places = uses(endpoint, pending.buffers_);
  for (; pending.place_ < places.size(); ++pending.place_, pending.reader_ = 0) {
    const StagingRing::Use& use = places[pending.place_];
    for (; use.readers != nullptr && pending.reader_ < use.readers->size(); ++pending.reader_) {
      const int reader = (*use.readers)[pending.reader_];
      if (endpoint.has_reached(reader, use.value)) continue;
      endpoint.waiting_for_ = reader;
      pending.tick = &endpoint.layout_.tick(reader);
      pending.tick_value = use.value;
      return false;
    }
  }
  note_use(endpoint, pending.buffers_);
  return pending.stage_free_ = true;
}

/// As in blocking calls, everything is sent before anything is received.
bool EagerPath::messages_moved(const EagerStep& step, PendingOperation& pending) noexcept {
  if (step.out != nullptr) {
    const std::size_t bytes = pending.buffers_.length(step.from);
    if (pending.sent_ < bytes) step.out->out.expect(bytes - pending.sent_);
    while (pending.sent_ < bytes) {
      const auto part = std::min(bytes - pending.sent_, channel::line_payload);
      if (!step.out->out.try_send(pending.buffers_.at(step.from) + pending.sent_, part)) {
        pending.out = step.out;
        return false;
      }
      pending.sent_ += part;
    }
  }
  if (step.in == nullptr) return true;
  const bool combines = step.kind == Move::Kind::recv_combine || step.kind == Move::Kind::exchange_combine;
  std::byte* const to = combines ? pending.operand_ : pending.buffers_.at(step.to);
  const std::size_t bytes = pending.buffers_.length(step.to);
  while (pending.received_ < bytes) {
    if (!step.in->in.poll()) {
      pending.in = step.in;
      pending.in_lines = channel::lines_of(bytes);
      return false;
    }
    const std::size_t part = step.in->in.size();
    channel::copy_payload(to + pending.received_, step.in->in.payload(), part);
    step.in->in.release();
    pending.received_ += part;
  }
  return true;
}

bool EagerPath::advance(Endpoint& endpoint, const Collective& call, PendingOperation& pending) const noexcept {
  pending.in = pending.out = nullptr;
  pending.tick = nullptr;
  if (!stage_is_free(endpoint, pending)) return false;
  const UnevenCallBuffers& buffers = pending.buffers_;
  for (; pending.at_ < steps_.size(); ++pending.at_, pending.sent_ = pending.received_ = 0) {
    const EagerStep& step = steps_[pending.at_];
    if (step.out != nullptr || step.in != nullptr) {
      if (!messages_moved(step, pending)) {
        endpoint.waiting_for_ = pending.in != nullptr ? step.in->peer : step.out->peer;
        return false;
      }
      if (step.kind == Move::Kind::recv_combine || step.kind == Move::Kind::exchange_combine) {
        fold(call.reduction, buffers.at(step.to), buffers.at(step.with), pending.operand_, buffers.length(step.to),
             step.theirs_first);
      }
    } else if (step.kind == Move::Kind::await && !endpoint.has_reached(step.source, buffers.epoch + step.tick)) {
      endpoint.waiting_for_ = step.source;
      pending.tick = &endpoint.layout_.tick(step.source);
      pending.tick_value = buffers.epoch + step.tick;
      return false;
    } else if (!perform(endpoint, call, buffers, step)) {
      return false;
    }
    ++endpoint.lines_moved_;
  }
  return true;
}

}  // namespace smelt::comm
