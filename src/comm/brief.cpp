#include "comm/brief.hpp"

#include <algorithm>
#include <cstring>

#include "comm/endpoint.hpp"

namespace smelt::comm {
namespace {

bool is_brief(const Move& move) {
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
    default:
      return false;
  }
}

/// memcpy with the size of one number spelt out.
void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes == 8) {
    std::memcpy(to, from, 8);
  } else {
    std::memcpy(to, from, bytes);
  }
}

/// to = with (op) operand, or operand (op) with. `operand` is scratch.
void fold(const Reduction& op, std::byte* to, const std::byte* with, std::byte* operand, std::size_t bytes,
          bool operand_first) {
  const std::size_t count = bytes / op.element_bytes;
  if (op.merge != nullptr) {
    op.merge(to, operand_first ? operand : with, operand_first ? with : operand, count, op.context);
  } else if (operand_first) {
    op.combine(operand, with, count, op.context);
    copy_bytes(to, operand, bytes);
  } else {
    if (to != with) copy_bytes(to, with, bytes);
    op.combine(to, operand, count, op.context);
  }
}

}  // namespace

Brief Brief::compile(Endpoint& endpoint, const Recipe& recipe, const Schedule& schedule, Operation operation) {
  Brief brief;
  if (recipe.access != Access::channels || schedule.slices > 1 || schedule.ticks > 0) return brief;
  const auto place = [&](const Area& area) {
    const bool blocks = area.buffer == Buffer::work || holds_all(operation, area.buffer);
    return Place{area.buffer, static_cast<std::uint16_t>(blocks ? area.first : 0),
                 static_cast<std::uint16_t>(std::max(1, has_rank_blocks(operation) ? area.count : 1))};
  };
  std::uint16_t most_blocks = 1;
  for (const auto* section : {&schedule.begin, &schedule.body, &schedule.end}) {
    for (const Move& move : *section) {
      if (!is_brief(move)) return Brief();
      if (move.kind == Move::Kind::flush) continue;
      Step step{move.kind, move.theirs_first, place(move.from), place(move.with), place(move.to)};
      if (move.peer >= 0) step.out = endpoint.link_to(move.peer);
      if (move.source >= 0) step.in = endpoint.link_to(move.source);
      most_blocks = std::max({most_blocks, step.from.count, step.to.count});
      brief.steps_.push_back(step);
    }
  }
  // Two ranks that send to each other first and then receive must not fill their channels.
  const std::size_t lines = std::min<std::size_t>(most_lines, Fabric::channel_lines(endpoint.size()) / 4);
  brief.most_bytes_ = lines * channel::line_payload / most_blocks;
  if (recipe.chunk_bytes != 0) brief.most_bytes_ = std::min(brief.most_bytes_, recipe.chunk_bytes);
  const auto scratch = static_cast<std::size_t>(schedule.work_blocks) * brief.most_bytes_;
  return endpoint.reserve(endpoint.work_, scratch) ? brief : Brief();
}

/// Where the buffers of a call begin.
struct Brief::Frame {
  std::byte* base[4];
  std::size_t bytes;  ///< of a vector or block

  std::byte* at(const Place& place) const { return base[static_cast<int>(place.buffer)] + place.at * bytes; }
};

inline bool Brief::send(Endpoint& endpoint, Link& link, const std::byte* data, std::size_t bytes) noexcept {
  ++endpoint.lines_moved_;
  endpoint.waiting_for_ = link.peer;
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
  while (bytes > channel::line_payload) {
    if (!link.in.recv(data, channel::line_payload, endpoint.waiter_)) return false;
    data += channel::line_payload;
    bytes -= channel::line_payload;
  }
  return link.in.recv(data, bytes, endpoint.waiter_);
}

bool Brief::run(Endpoint& endpoint, const Collective& call) const noexcept {
  static_assert(static_cast<int>(Buffer::work) == 3);
  const Frame frame = {{nullptr, static_cast<std::byte*>(const_cast<void*>(call.in)), static_cast<std::byte*>(call.out),
                        endpoint.work_.data()},
                       call.count * call.element_bytes};
  alignas(line_bytes) std::byte operand[most_lines * channel::line_payload];
  for (const Step& step : steps_) {
    const std::byte* const from = frame.at(step.from);
    std::byte* const to = frame.at(step.to);
    const std::size_t to_bytes = step.to.count * frame.bytes;
    if (step.out != nullptr && !send(endpoint, *step.out, from, step.from.count * frame.bytes)) return false;
    switch (step.kind) {
      case Move::Kind::recv:
      case Move::Kind::exchange:
        if (!receive(endpoint, *step.in, to, to_bytes)) return false;
        break;
      case Move::Kind::recv_combine:
      case Move::Kind::exchange_combine:
        if (!receive(endpoint, *step.in, operand, to_bytes)) return false;
        fold(call.reduction, to, frame.at(step.with), operand, to_bytes, step.theirs_first);
        break;
      case Move::Kind::combine:
        copy_bytes(operand, from, to_bytes);
        fold(call.reduction, to, frame.at(step.with), operand, to_bytes, step.theirs_first);
        break;
      case Move::Kind::copy:
        if (to != from) std::memmove(to, from, to_bytes);
        break;
      default:
        break;
    }
  }
  return true;
}

}  // namespace smelt::comm
