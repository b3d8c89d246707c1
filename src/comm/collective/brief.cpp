#include "comm/collective/brief.hpp"

#include <algorithm>
#include <cstring>

#include "base/copy.hpp"
#include "comm/collective/chooser.hpp"
#include "comm/collective/endpoint.hpp"

namespace smelt::comm {
namespace {

bool uses_ticks(const Schedule& schedule) { return schedule.ticks > 0; }

bool is_brief(const Move& move, bool ticks) {
  switch (move.kind) {
    case Move::Kind::send:
    case Move::Kind::recv:
    case Move::Kind::recv_combine:
    case Move::Kind::exchange:
    case Move::Kind::exchange_combine:
    case Move::Kind::copy:
    case Move::Kind::combine:
    case Move::Kind::flush:  // nothing is lent through channels
      return true;
    case Move::Kind::get:
    case Move::Kind::get_combine:
      return move.from.buffer == Buffer::stage;
    case Move::Kind::post:
    case Move::Kind::await:
      return ticks;
    default:
      return false;
  }
}

bool is_message(const Move& move) {
  return move.peer >= 0 || (move.source >= 0 && move.kind <= Move::Kind::exchange_combine);
}

/// to = with (op) operand, or operand (op) with. Without `merge` the operand is scratch, and destroyed.
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

Brief::Step Brief::compile_step(Endpoint& endpoint, const Move& move, Operation operation) const {
  const auto place = [&](const Area& area) {
    const bool scratch = area.buffer == Buffer::work || area.buffer == Buffer::stage;
    const bool blocks = scratch || holds_all(operation, area.buffer);
    return Place{area.buffer, static_cast<std::uint16_t>(blocks ? area.first : 0),
                 static_cast<std::uint16_t>(std::max(1, has_rank_blocks(operation) ? area.count : 1))};
  };
  Step step{.kind = move.kind,
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
    step.stage = endpoint.fabric_.stage(move.source);
  }
  return step;
}

Brief Brief::compile(Endpoint& endpoint, const Recipe& recipe, const Schedule& schedule, Operation operation) {
  Brief brief;
  const bool staged = recipe.access == Access::staged && !schedule.publishes;
  if ((recipe.access != Access::channels && !staged) || schedule.slices > 1 || (uses_ticks(schedule) && !staged))
    return brief;
  if (uses_ticks(schedule)) brief.schedule_ = &schedule;
  std::uint16_t most_blocks = uses_ticks(schedule) ? 0 : 1;  // of a message; 0: there is none
  for (const auto* section : {&schedule.begin, &schedule.body, &schedule.end}) {
    for (const Move& move : *section) {
      if (!is_brief(move, staged)) return Brief();
      if (move.kind == Move::Kind::flush) continue;
      const Step& step = brief.steps_.emplace_back(brief.compile_step(endpoint, move, operation));
      // Without ticks operands are scratch in every step.
      if (is_message(move) || !brief.ticks()) most_blocks = std::max({most_blocks, step.from.count, step.to.count});
      brief.one_by_one_ &= step.from.count == 1 && step.to.count == 1;
      brief.fills_stage_ |= step.to.buffer == Buffer::stage;
      brief.merges_ |= move.kind == Move::Kind::get_combine || move.kind == Move::Kind::combine;
    }
    if (section == &schedule.body && brief.ticks()) {
      brief.steps_.push_back({.kind = Move::Kind::post, .tick = static_cast<std::uint64_t>(schedule.ticks)});
    }
  }
  brief.sums_apart_ = schedule.work_blocks > 1;
  brief.most_bytes_ = recipe.chunk_bytes != 0 ? recipe.chunk_bytes : Stage::most_chunk_bytes;
  if (schedule.stage_blocks > 0) {
    const auto blocks = has_rank_blocks(operation) ? static_cast<std::size_t>(schedule.stage_blocks) : 1;
    brief.stage_blocks_ = blocks;
    brief.most_bytes_ = std::min(brief.most_bytes_, Stage::most_chunk_bytes / blocks / line_bytes * line_bytes);
  }
  if (most_blocks > 0) {
    // Two ranks that send to each other first and then receive must not fill their channels.
    const std::size_t lines = std::min<std::size_t>(most_lines, Fabric::channel_lines(endpoint.size()) / 4);
    brief.most_bytes_ = std::min(brief.most_bytes_, lines * channel::line_payload / most_blocks);
  }
  const auto scratch = static_cast<std::size_t>(schedule.work_blocks) * brief.most_bytes_;
  return endpoint.reserve(endpoint.work_, scratch) ? std::move(brief) : Brief();
}

[[gnu::always_inline]] inline bool Brief::send(Endpoint& endpoint, Link& link, const std::byte* data,
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

inline bool Brief::receive(Endpoint& endpoint, Link& link, std::byte* data, std::size_t bytes) noexcept {
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

inline bool Brief::await(Endpoint& endpoint, int source, std::uint64_t value) noexcept {
  return endpoint.has_reached(source, value) || wait_for_tick(endpoint, source, value);
}

[[gnu::noinline]] bool Brief::wait_for_tick(Endpoint& endpoint, int source, std::uint64_t value) noexcept {
  Tick& tick = endpoint.fabric_.tick(source);
  ++endpoint.lines_moved_;
  endpoint.waiting_for_ = source;
  return endpoint.waiter_.wait([&] { return endpoint.has_reached(source, value); }, &tick.parking, &tick.value);
}

inline Brief::Frame Brief::frame_of(Endpoint& endpoint, const Collective& call) noexcept {
  static_assert(static_cast<int>(Buffer::work) == 3 && static_cast<int>(Buffer::stage) == 4);
  return {.base = {nullptr, static_cast<std::byte*>(const_cast<void*>(call.in)), static_cast<std::byte*>(call.out),
                   endpoint.work_.data(), nullptr},
          .bytes = call.count * call.element_bytes};
}

Brief::AnyFrame Brief::any_frame_of(Endpoint& endpoint, const Collective& call) noexcept {
  AnyFrame frame{frame_of(endpoint, call)};
  if (!call.uneven) return frame;
  frame.bytes = *longest_known(call, endpoint.size(), endpoint.rank_) * call.element_bytes;
  frame.uneven = &call;
  return frame;
}

/// Only where all ranks come to the same answer, and what is combined has the length of the own block.
bool Brief::fits_uneven(const Endpoint& endpoint, const Collective& call) const noexcept {
  if (steps_.empty() || !one_by_one_) return false;
  if (call.operation == Operation::reduce_scatter && (ticks() || sums_apart_ || call.in == call.out)) return false;
  const auto longest = longest_known(call, endpoint.size(), endpoint.rank_);
  if (!longest || *longest == 0 || *longest * call.element_bytes > most_bytes_) return false;
  return call.operation != Operation::alltoall || call.in != call.out;
}

std::size_t Brief::AnyFrame::uneven_length(const Place& place) const noexcept {
  const auto* const counts = place.buffer == Buffer::in    ? uneven->in_blocks.counts
                             : place.buffer == Buffer::out ? uneven->out_blocks.counts
                                                           : nullptr;
  return (counts != nullptr ? counts[place.at] : uneven->count) * uneven->element_bytes;
}

std::size_t Brief::AnyFrame::uneven_offset(const Place& place) const noexcept {
  const auto* const offsets = place.buffer == Buffer::in    ? uneven->in_blocks.offsets
                              : place.buffer == Buffer::out ? uneven->out_blocks.offsets
                                                            : nullptr;
  return offsets != nullptr ? offsets[place.at] * uneven->element_bytes : place.at * bytes;
}

/// The epoch, and the place in the stages.
inline void Brief::take_stage(Endpoint& endpoint, Frame& frame) const noexcept {
  frame.epoch = ++endpoint.epoch_ << tick_bits;
  if (stage_blocks_ == 0) return;
  frame.staged = endpoint.stage_.take(stage_blocks_ * frame.bytes, 1);
  frame.base[static_cast<int>(Buffer::stage)] = endpoint.stage_memory_ + frame.staged;
}

/// Of the places that this rank fills.
inline std::span<Stage::Use> Brief::uses(Endpoint& endpoint, const Frame& frame) const noexcept {
  return fills_stage_ ? endpoint.stage_.uses(frame.staged, stage_blocks_ * frame.bytes) : std::span<Stage::Use>();
}

inline void Brief::note_use(Endpoint& endpoint, const Frame& frame) const noexcept {
  const Stage::Use use{&schedule_->stage_readers, frame.epoch + static_cast<std::uint64_t>(schedule_->ticks)};
  for (Stage::Use& each : uses(endpoint, frame)) each = use;
}

/// The epoch, and the place in the stages, which is free once those are done who read what it held.
inline bool Brief::begin(Endpoint& endpoint, Frame& frame) const noexcept {
  take_stage(endpoint, frame);
  for (const Stage::Use& use : uses(endpoint, frame)) {
    if (use.readers == nullptr) continue;
    for (const int reader : *use.readers) {
      if (!await(endpoint, reader, use.value)) return false;
    }
  }
  note_use(endpoint, frame);
  return true;
}

/// A step that combines.
template <class AFrame>
bool Brief::combine(Endpoint& endpoint, const Collective& call, const AFrame& frame, const Step& step) noexcept {
  alignas(line_bytes) std::byte operand[most_lines * channel::line_payload];
  const Reduction& op = call.reduction;
  std::byte* const to = frame.at(step.to);
  const std::size_t bytes = frame.length(step.to);
  const std::byte* theirs = operand;
  if (step.kind == Move::Kind::get_combine) {
    theirs = frame.theirs(step);
  } else if (step.kind != Move::Kind::combine) {
    if (!receive(endpoint, *step.in, operand, bytes)) return false;
  } else if (op.merge == nullptr) {
    std::memcpy(operand, frame.at(step.from), bytes);
  } else {
    theirs = frame.at(step.from);
  }
  fold(op, to, frame.at(step.with), theirs, bytes, step.theirs_first);
  return true;
}

template <class AFrame>
inline bool Brief::perform(Endpoint& endpoint, const Collective& call, const AFrame& frame, const Step& step) noexcept {
  if (step.out != nullptr && !frame.is_empty(step.from) &&
      !send(endpoint, *step.out, frame.at(step.from), frame.length(step.from)))
    return false;
  switch (step.kind) {
    case Move::Kind::recv:
    case Move::Kind::exchange:
      return frame.is_empty(step.to) || receive(endpoint, *step.in, frame.at(step.to), frame.length(step.to));
    case Move::Kind::recv_combine:
    case Move::Kind::exchange_combine:
    case Move::Kind::combine:
    case Move::Kind::get_combine:
      return frame.is_empty(step.to) || combine(endpoint, call, frame, step);
    case Move::Kind::copy:
      if (frame.at(step.to) != frame.at(step.from))
        copy_bytes(frame.at(step.to), frame.at(step.from), frame.length(step));
      return true;
    case Move::Kind::get:
      fetch_bytes(frame.at(step.to), frame.theirs(step), frame.length(step.to));
      return true;
    case Move::Kind::post:
      endpoint.tick_.raise(frame.epoch + step.tick);
      return true;
    case Move::Kind::await:
      return await(endpoint, step.source, frame.epoch + step.tick);
    default:
      return true;
  }
}

template <class AFrame>
inline bool Brief::run_in(AFrame frame, Endpoint& endpoint, const Collective& call) const noexcept {
  if (ticks() && !begin(endpoint, frame)) return false;
  for (const Step& step : steps_) {
    if (!perform(endpoint, call, frame, step)) return false;
  }
  return true;
}

bool Brief::run(Endpoint& endpoint, const Collective& call) const noexcept {
  if (call.uneven) [[unlikely]]
    return run_uneven(endpoint, call);
  return run_in(frame_of(endpoint, call), endpoint, call);
}

[[gnu::noinline]] bool Brief::run_uneven(Endpoint& endpoint, const Collective& call) const noexcept {
  return run_in(any_frame_of(endpoint, call), endpoint, call);
}

// ---- in parts -------------------------------------------------------------------------------

void Brief::begin(Endpoint& endpoint, const Collective& call, Course& course) const noexcept {
  course.frame_ = any_frame_of(endpoint, call);
  course.at_ = course.sent_ = course.received_ = course.place_ = course.reader_ = 0;
  course.stage_free_ = !ticks();
  if (ticks()) take_stage(endpoint, course.frame_);
}

bool Brief::stage_is_free(Endpoint& endpoint, Course& course) const noexcept {
  if (course.stage_free_) return true;
  const auto places = uses(endpoint, course.frame_);
  for (; course.place_ < places.size(); ++course.place_, course.reader_ = 0) {
    const Stage::Use& use = places[course.place_];
    for (; use.readers != nullptr && course.reader_ < use.readers->size(); ++course.reader_) {
      const int reader = (*use.readers)[course.reader_];
      if (endpoint.has_reached(reader, use.value)) continue;
      endpoint.waiting_for_ = reader;
      course.tick = &endpoint.fabric_.tick(reader);
      course.tick_value = use.value;
      return false;
    }
  }
  note_use(endpoint, course.frame_);
  return course.stage_free_ = true;
}

/// As in blocking calls: first all is sent, then all is received.
bool Brief::messages_moved(const Step& step, Course& course) noexcept {
  if (step.out != nullptr) {
    const std::size_t bytes = course.frame_.length(step.from);
    if (course.sent_ < bytes) step.out->out.expect(bytes - course.sent_);
    while (course.sent_ < bytes) {
      const auto part = std::min(bytes - course.sent_, channel::line_payload);
      if (!step.out->out.try_send(course.frame_.at(step.from) + course.sent_, part)) {
        course.out = step.out;
        return false;
      }
      course.sent_ += part;
    }
  }
  if (step.in == nullptr) return true;
  const bool combines = step.kind == Move::Kind::recv_combine || step.kind == Move::Kind::exchange_combine;
  std::byte* const to = combines ? course.operand_ : course.frame_.at(step.to);
  const std::size_t bytes = course.frame_.length(step.to);
  while (course.received_ < bytes) {
    if (!step.in->in.poll()) {
      course.in = step.in;
      course.in_lines = channel::lines_of(bytes);
      return false;
    }
    const std::size_t part = step.in->in.size();
    channel::copy_payload(to + course.received_, step.in->in.payload(), part);
    step.in->in.release();
    course.received_ += part;
  }
  return true;
}

bool Brief::advance(Endpoint& endpoint, const Collective& call, Course& course) const noexcept {
  course.in = course.out = nullptr;
  course.tick = nullptr;
  if (!stage_is_free(endpoint, course)) return false;
  const AnyFrame& frame = course.frame_;
  for (; course.at_ < steps_.size(); ++course.at_, course.sent_ = course.received_ = 0) {
    const Step& step = steps_[course.at_];
    if (step.out != nullptr || step.in != nullptr) {
      if (!messages_moved(step, course)) {
        endpoint.waiting_for_ = course.in != nullptr ? step.in->peer : step.out->peer;
        return false;
      }
      if (step.kind == Move::Kind::recv_combine || step.kind == Move::Kind::exchange_combine) {
        fold(call.reduction, frame.at(step.to), frame.at(step.with), course.operand_, frame.length(step.to),
             step.theirs_first);
      }
    } else if (step.kind == Move::Kind::await && !endpoint.has_reached(step.source, frame.epoch + step.tick)) {
      endpoint.waiting_for_ = step.source;
      course.tick = &endpoint.fabric_.tick(step.source);
      course.tick_value = frame.epoch + step.tick;
      return false;
    } else if (!perform(endpoint, call, frame, step)) {
      return false;
    }
    ++endpoint.lines_moved_;
  }
  return true;
}

}  // namespace smelt::comm
