#include "comm/collective/execution.hpp"

#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/copy.hpp"
#include "comm/collective/communicator_state.hpp"
#include "comm/collective/endpoint.hpp"
#include "comm/collective/recipe_selector.hpp"

namespace smelt::comm {
namespace {

/// Lines by which one direction of an exchange may be ahead of the other: a quarter of a channel.
std::size_t burst_lines(int ranks) { return SharedLayout::channel_lines(ranks) / 4; }
/// From this size on, a message carries the address of the data, if the peer can read it.
constexpr std::size_t least_direct_bytes = 2048, least_process_bytes = 8192;
constexpr std::uint32_t pointer_tag = 1;
constexpr std::size_t expected_bytes = channel::UmpSender::most_expected * channel::line_payload;

}  // namespace

// ---- begin ----------------------------------------------------------------------------------

/// Elements of a vector, or of the largest block that is sent. If a rank knows only the blocks that it sends and
/// receives, nothing is divided into chunks, and any large number will do.
static std::size_t length_of(const Collective& call, int ranks, int rank) {
  if (!call.uneven) return call.count;
  const auto longest = longest_known(call, ranks, rank);
  return longest ? *longest : (std::size_t{1} << 62) / call.element_bytes;
}

bool Execution::begin(Endpoint& endpoint, const Collective& call, const CachedSchedule& prepared) noexcept {
  endpoint_ = &endpoint;
  prepared_ = &prepared;
  call_ = call;
  eager_ = prepared.eager.fits(endpoint, call) ? &prepared.eager : nullptr;
  if (eager_ != nullptr) {
    eager_->begin(endpoint, call_, pending_);
    return true;
  }
  const Schedule& schedule = prepared.schedule;
  const int ranks = endpoint.size();
  cutting_ = plan::Chunking(schedule, call.operation, prepared.recipe.chunk_bytes, StagingRing::most_chunk_bytes,
                            length_of(call, ranks, endpoint.rank_), call.element_bytes);
  if (!make_room()) return false;
  if (schedule.ticks > 0) epoch_ = ++endpoint.epoch_ << tick_bits;
  if (schedule.stage_blocks > 0) {
    const auto blocks = has_rank_blocks(call.operation) ? static_cast<std::size_t>(schedule.stage_blocks) : 1;
    staged_bytes_ = blocks * stride_;
    first_staged_ = endpoint.stage_.take(staged_bytes_, cutting_.chunks());
  }
  if (schedule.publishes) {
    // Published by the first tick of this epoch.
    endpoint.tick_.in.store(published(Buffer::in), std::memory_order_relaxed);
    endpoint.tick_.out.store(published(Buffer::out), std::memory_order_relaxed);
  }
  chunk_ = 0;
  section_ = 0;
  at_ = 0;
  start_move();
  enter_chunk();
  return true;
}

/// Reserves scratch memory. Allocates if a call needs more than all earlier ones.
bool Execution::make_room() noexcept {
  const Schedule& schedule = prepared_->schedule;
  const std::size_t chunk_bytes = cutting_.chunk() * call_.element_bytes;
  stride_ = chunk_bytes;
  const auto blocks = static_cast<std::size_t>((schedule.work_blocks + schedule.slices - 1) / schedule.slices);
  if (schedule.work_blocks > 0 && !endpoint_->reserve(endpoint_->work_, blocks * chunk_bytes)) return false;
  if (call_.reduction.combine != nullptr &&
      !endpoint_->reserve(endpoint_->pieces_,
                          2 * (Endpoint::process_piece_bytes + call_.element_bytes + copy_page_bytes))) {
    return false;
  }
  // Needed if the result would overwrite input that is still in use: blocks of other ranks, and with blocks of
  // different sizes the adjacent own block.
  const bool same = call_.in == call_.out && call_.in != nullptr;
  const bool shifted = call_.operation == Operation::reduce_scatter && call_.in_blocks.counts != nullptr;
  const bool exchanged =
      call_.operation == Operation::alltoall && (call_.uneven || prepared_->recipe.access != Access::staged);
  if (!same || (!shifted && !exchanged)) return true;
  std::size_t elements = call_.count * static_cast<std::size_t>(endpoint_->size());
  if (call_.in_blocks.counts != nullptr) {
    elements = 0;
    for (int i = 0; i < endpoint_->size(); ++i) {
      elements = std::max(elements, call_.in_blocks.offsets[i] + call_.in_blocks.counts[i]);
    }
  }
  if (!endpoint_->reserve(endpoint_->input_copy_, elements * call_.element_bytes)) return false;
  copy_bytes(endpoint_->input_copy_.data(), static_cast<const std::byte*>(call_.in), elements * call_.element_bytes);
  call_.in = endpoint_->input_copy_.data();
  return true;
}

// ---- where blocks lie -----------------------------------------------------------------------

bool holds_all(Operation operation, Buffer buffer) noexcept {
  switch (operation) {
    case Operation::scatter:
    case Operation::reduce_scatter: return buffer != Buffer::out;
    case Operation::gather:
    case Operation::allgather: return buffer != Buffer::in;
    default: return true;
  }
}

std::size_t Execution::block_elements(Buffer buffer, int block) const noexcept {
  if (!holds_all(call_.operation, buffer)) return call_.count;
  if (buffer == Buffer::in || buffer == Buffer::stage) {
    if (call_.in_blocks.counts != nullptr) return call_.in_blocks.counts[block];
  } else if (buffer == Buffer::out && call_.out_blocks.counts != nullptr) {
    return call_.out_blocks.counts[block];
  }
  return call_.count;
}

std::size_t Execution::block_offset(Buffer buffer, int block) const noexcept {
  if (!holds_all(call_.operation, buffer)) return 0;
  const Blocks& blocks = buffer == Buffer::in ? call_.in_blocks : call_.out_blocks;
  if (blocks.offsets != nullptr) return blocks.offsets[block];
  return static_cast<std::size_t>(block) * call_.count;
}

/// Whether only the owner knows the offsets of the blocks in that buffer.
static bool known_here_only(const Collective& call, Buffer buffer) noexcept {
  if (!call.uneven || !holds_all(call.operation, buffer)) return false;
  return call.operation == Operation::scatter || call.operation == Operation::gather ||
         call.operation == Operation::alltoall;
}

/// Offset of a block in a buffer that may be another rank's. If only the owner knows the offset, it has published the
/// buffer with a base such that all blocks seem to have the length of this one, which both ranks know.
std::size_t Execution::offset_at(Buffer buffer, int block, int owner) const noexcept {
  if (owner == endpoint_->rank_ || !known_here_only(call_, buffer)) return block_offset(buffer, block);
  if (call_.operation != Operation::alltoall) return static_cast<std::size_t>(block) * call_.count;
  // The owner's output is this rank's input, and vice versa.
  const Blocks& counterpart = buffer == Buffer::in ? call_.out_blocks : call_.in_blocks;
  return static_cast<std::size_t>(block) * counterpart.counts[owner];
}

/// The base address of a buffer of this rank as published to others; see offset_at().
std::byte* Execution::published(Buffer buffer) const noexcept {
  std::byte* const base = base_of(buffer, endpoint_->rank_);
  const Blocks& blocks = buffer == Buffer::in ? call_.in_blocks : call_.out_blocks;
  if (base == nullptr || blocks.counts == nullptr || endpoint_->size() != 2 || !known_here_only(call_, buffer))
    return base;
  const auto other = static_cast<std::size_t>(1 - endpoint_->rank_);
  const auto element = static_cast<std::ptrdiff_t>(call_.element_bytes);
  return base + element * static_cast<std::ptrdiff_t>(blocks.offsets[other] - other * blocks.counts[other]);
}

/// Base address of a buffer of this rank, or of a rank that has published it.
std::byte* Execution::base_of(Buffer buffer, int owner) const noexcept {
  const bool own = owner == endpoint_->rank_;
  switch (buffer) {
    case Buffer::in:
      return own ? const_cast<std::byte*>(static_cast<const std::byte*>(call_.in))
                 : const_cast<std::byte*>(endpoint_->layout_.tick(owner).in.load(std::memory_order_relaxed));
    case Buffer::out:
      return own ? static_cast<std::byte*>(call_.out)
                 : endpoint_->layout_.tick(owner).out.load(std::memory_order_relaxed);
    case Buffer::work: return endpoint_->work_.data();
    case Buffer::stage: return endpoint_->layout_.stage(owner) + staged_at();
    case Buffer::none: break;
  }
  return nullptr;
}

int Execution::extents(const Area& area) const noexcept {
  if (!has_rank_blocks(call_.operation) || area.count <= 1) return 1;
  return !call_.uneven && cutting_.chunks() == 1 ? 1 : area.count;
}

Execution::Extent Execution::locate(const Area& area, int extent, int owner) const noexcept {
  const std::size_t element = call_.element_bytes;
  std::byte* const base = base_of(area.buffer, owner);
  const bool scratch = area.buffer == Buffer::work || area.buffer == Buffer::stage;
  const std::size_t before = scratch ? 0 : cutting_.begin(chunk_);
  if (!has_rank_blocks(call_.operation)) {
    if (prepared_->schedule.slices == 1) {
      const std::size_t offset = scratch ? static_cast<std::size_t>(area.first) * stride_ : before * element;
      return {base + offset, elements_ * element};
    }
    const int slice = area.first % prepared_->schedule.slices, vector = area.first / prepared_->schedule.slices;
    const auto first = cutting_.slice_begin(elements_, slice);
    const auto last = cutting_.slice_begin(elements_, slice + area.count);
    return {base + static_cast<std::size_t>(vector) * stride_ + (before + first) * element, (last - first) * element};
  }
  const int block = area.first + extent;
  if (extents(area) == 1 && area.count > 1) {
    const auto stride = call_.count * element;
    return {base + static_cast<std::size_t>(area.first) * stride, static_cast<std::size_t>(area.count) * stride};
  }
  const auto whole = block_elements(area.buffer, block);
  const auto done = std::min(whole, cutting_.begin(chunk_));
  const auto bytes = std::min(whole - done, elements_) * element;
  if (scratch) return {base + static_cast<std::size_t>(block) * stride_, bytes};
  return {base + (offset_at(area.buffer, block, owner) + done) * element, bytes};
}

// ---- the course of things -------------------------------------------------------------------

const std::vector<Move>& Execution::section() const noexcept {
  const Schedule& schedule = prepared_->schedule;
  if (section_ != 1) return section_ == 0 ? schedule.begin : schedule.end;
  return chunk_ < cutting_.body_chunks() ? schedule.body : schedule.tail;
}

std::uint64_t Execution::tick_value(std::size_t chunk, int tick) const noexcept {
  return epoch_ + chunk * static_cast<std::uint64_t>(prepared_->schedule.ticks) + static_cast<std::uint64_t>(tick);
}

std::size_t Execution::staged_at() const noexcept {
  return (first_staged_ + chunk_ * StagingRing::stride(staged_bytes_)) % StagingRing::bytes;
}

void Execution::enter_chunk() noexcept {
  elements_ = cutting_.elements(chunk_);
  stage_free_ = false;
  place_ = reader_ = 0;
}

void Execution::start_move() noexcept {
  sent_ = {};  // not a copy of each other: reading what has just been written in parts waits for all stores before
  received_ = {};
  send_done_ = receive_done_ = false;
  held_ = shared_bytes_ = 0;
}

Execution::Outcome Execution::advance() noexcept {
  wait_in_ = wait_out_ = wait_returned_ = nullptr;
  wait_tick_ = nullptr;
  endpoint_->waiting_too_ = Endpoint::everybody;
  if (eager_ != nullptr) return advance_eager();
  for (;;) {
    const auto& moves = section();
    if (at_ < moves.size()) {
      const Outcome outcome = perform(moves[at_]);
      if (outcome != Outcome::done) return outcome;
      ++at_;
      start_move();
      continue;
    }
    at_ = 0;
    if (section_ == 0) {
      section_ = 1;
    } else if (section_ == 1) {
      if (prepared_->schedule.ticks > 0) endpoint_->tick_.raise(tick_value(chunk_, prepared_->schedule.ticks));
      if (chunk_ + 1 < cutting_.chunks()) {
        ++chunk_;
        enter_chunk();
      } else {
        section_ = 2;
      }
    } else {
      return Outcome::done;
    }
  }
}

Execution::Outcome Execution::advance_eager() noexcept {
  if (eager_->advance(*endpoint_, call_, pending_)) return Outcome::done;
  if (endpoint_->broken()) return Outcome::broken;
  wait_in_ = pending_.in;
  wait_lines_ = pending_.in_lines;
  wait_out_ = pending_.out;
  wait_tick_ = const_cast<Tick*>(pending_.tick);
  wait_value_ = pending_.tick_value;
  return Outcome::blocked;
}

Execution::Outcome Execution::perform(const Move& move) noexcept {
  if (move.to.buffer == Buffer::stage && !stage_free_) {
    if (const Outcome outcome = reuse_stage(); outcome != Outcome::done) return outcome;
  }
  switch (move.kind) {
    case Move::Kind::send:
    case Move::Kind::recv:
    case Move::Kind::recv_combine:
    case Move::Kind::exchange:
    case Move::Kind::exchange_combine: return perform_messages(move);
    case Move::Kind::get:
    case Move::Kind::get_combine:
    case Move::Kind::put: return perform_one_sided(move);
    case Move::Kind::copy:
    case Move::Kind::combine: return perform_local(move);
    case Move::Kind::post: endpoint_->tick_.raise(tick_value(chunk_, move.tick)); return Outcome::done;
    case Move::Kind::await: return await(move.source, tick_value(chunk_, move.tick));
    case Move::Kind::await_body:
      return await(move.source, tick_value(cutting_.body_chunks() - 1, prepared_->schedule.ticks));
    case Move::Kind::flush: return perform_flush();
  }
  return Outcome::done;
}

Execution::Outcome Execution::await(int source, std::uint64_t value) noexcept {
  if (endpoint_->has_reached(source, value)) return Outcome::done;
  wait_tick_ = &endpoint_->layout_.tick(source);
  wait_value_ = value;
  endpoint_->waiting_for_ = source;
  return Outcome::blocked;
}

/// Waits until the readers of the former content of this chunk's place are done.
Execution::Outcome Execution::reuse_stage() noexcept {
  const auto uses = endpoint_->stage_.uses(staged_at(), staged_bytes_);
  for (; place_ < uses.size(); ++place_, reader_ = 0) {
    const StagingRing::Use& use = uses[place_];
    for (; use.readers != nullptr && reader_ < use.readers->size(); ++reader_) {
      if (const Outcome outcome = await((*use.readers)[reader_], use.value); outcome != Outcome::done) return outcome;
    }
  }
  const Schedule& schedule = prepared_->schedule;
  std::ranges::fill(uses, StagingRing::Use{&schedule.stage_readers, tick_value(chunk_, schedule.ticks)});
  stage_free_ = true;
  return Outcome::done;
}

Execution::Outcome Execution::perform_flush() noexcept {
  auto& lenders = endpoint_->lending_;
  while (!lenders.empty()) {
    Link* const link = lenders.back();
    if (!link->all_returned()) {
      wait_returned_ = link;
      endpoint_->waiting_for_ = link->peer;
      return Outcome::blocked;
    }
    link->lending = false;
    lenders.pop_back();
  }
  return Outcome::done;
}

// ---- messages -------------------------------------------------------------------------------

bool Execution::is_direct(const Link& link, std::size_t bytes) const noexcept {
  return prepared_->recipe.access == Access::direct &&
         bytes > (link.process == 0 ? least_direct_bytes : least_process_bytes);
}

/// Alternates between both directions of a move, so that neither fills a channel while its peer waits.
Execution::Outcome Execution::perform_messages(const Move& move) noexcept {
  Link* const out = move.peer < 0 ? nullptr : endpoint_->link_to(move.peer);
  Link* const in = move.source < 0 ? nullptr : endpoint_->link_to(move.source);
  const bool both = out != nullptr && in != nullptr;
  const std::size_t most = both ? burst_lines(endpoint_->size()) : SIZE_MAX;
  send_done_ |= out == nullptr;
  receive_done_ |= in == nullptr;
  while (!send_done_ || !receive_done_) {
    const bool pushed = !send_done_ && push(*out, move.from, most);
    const bool pulled = !receive_done_ && pull(*in, move, most);
    if (endpoint_->broken()) return Outcome::broken;
    if (pushed || pulled || (send_done_ && receive_done_)) continue;
    wait_out_ = send_done_ ? nullptr : out;
    wait_in_ = receive_done_ ? nullptr : in;
    endpoint_->waiting_for_ = receive_done_ ? move.peer : move.source;
    endpoint_->waiting_too_ = both && !send_done_ && !receive_done_ ? move.peer : Endpoint::everybody;
    return Outcome::blocked;
  }
  return Outcome::done;
}

/// Sends up to `most` lines. True if there was any progress.
bool Execution::push(Link& link, const Area& area, std::size_t most) noexcept {
  const int count = extents(area);
  bool progressed = false;
  for (; sent_.extent < count; ++sent_.extent, sent_.offset = 0) {
    const Extent extent = locate(area, sent_.extent, endpoint_->rank_);
    if (extent.bytes != 0 && is_direct(link, extent.bytes)) {
      if (most == 0 || !link.out.try_send(&extent.data, sizeof extent.data, pointer_tag)) return progressed;
      ++link.lent;
      if (!std::exchange(link.lending, true)) endpoint_->lending_.push_back(&link);
      --most;
      progressed = true;
      continue;
    }
    while (sent_.offset < extent.bytes) {
      if (sent_.offset % expected_bytes == 0) link.out.expect(extent.bytes - sent_.offset);
      const auto bytes = std::min(extent.bytes - sent_.offset, channel::line_payload);
      if (most == 0 || !link.out.try_send(extent.data + sent_.offset, bytes)) return progressed;
      sent_.offset += bytes;
      --most;
      progressed = true;
    }
  }
  send_done_ = true;
  return true;
}

/// Receives up to `most` lines. True if there was any progress.
bool Execution::pull(Link& link, const Move& move, std::size_t most) noexcept {
  const int count = extents(move.to);
  bool progressed = false;
  for (; received_.extent < count; ++received_.extent, received_.offset = 0) {
    const Extent extent = locate(move.to, received_.extent, endpoint_->rank_);
    while (received_.offset < extent.bytes) {
      if (most == 0 || !link.in.poll()) {
        wait_lines_ = channel::lines_of(extent.bytes);
        return progressed;
      }
      if (link.in.tag() == pointer_tag) {
        take_buffer(link, move, extent);
      } else {
        take_line(link, move, extent);
      }
      --most;
      progressed = true;
    }
  }
  receive_done_ = true;
  return true;
}

static bool combines(const Move& move) noexcept {
  return move.kind == Move::Kind::recv_combine || move.kind == Move::Kind::exchange_combine ||
         move.kind == Move::Kind::get_combine;
}

void Execution::take_line(Link& link, const Move& move, const Extent& extent) noexcept {
  const auto bytes = link.in.size();
  if (!combines(move)) {
    channel::copy_payload(extent.data + received_.offset, link.in.payload(), bytes);
    link.in.release();
    received_.offset += bytes;
    return;
  }
  std::byte* const piece = endpoint_->pieces_.data();
  channel::copy_payload(piece + held_, link.in.payload(), bytes);
  link.in.release();
  held_ += bytes;
  received_.offset += bytes;
  if (held_ < Endpoint::piece_bytes && received_.offset < extent.bytes) return;
  const auto whole = held_ / call_.element_bytes * call_.element_bytes;
  const auto offset = received_.offset - held_;
  const Extent with = locate(move.with, received_.extent, endpoint_->rank_);
  fold(extent.data + offset, with.data + offset, piece, whole, move.theirs_first);
  held_ -= whole;
  if (held_ > 0) std::memmove(piece, piece + whole, held_);
}

/// The message is the address of the peer's data.
void Execution::take_buffer(Link& link, const Move& move, const Extent& extent) noexcept {
  const std::byte* theirs = nullptr;
  std::memcpy(&theirs, link.in.payload(), sizeof theirs);
  link.in.release();
  received_.offset = extent.bytes;
  endpoint_->waiting_for_ = link.peer;
  const Endpoint::BufferAccess touch(*endpoint_, link.peer);
  if (!touch) return;
  if (combines(move)) {
    const Extent with = locate(move.with, received_.extent, endpoint_->rank_);
    fold_from(link.process, theirs, extent.data, with.data, extent.bytes, move.theirs_first);
  } else {
    fetch(link.process, theirs, extent.data, extent.bytes);
  }
  link.give_back();
}

// ---- copies and combinations ----------------------------------------------------------------

/// Moves bytes between this process and another; 0: the same one.
void Execution::transfer(pid_t process, std::byte* theirs, std::byte* mine, std::size_t bytes, bool write) noexcept {
  std::byte* const to = write ? theirs : mine;
  const std::byte* const from = write ? mine : theirs;
  if (process == 0) {
    write ? copy_bytes(to, from, bytes) : fetch_bytes(to, from, bytes);
  } else if (is_slow_distance(to, from)) {
    transfer_by_detour(process, theirs, mine, bytes, write);
  } else {
    call_kernel(process, theirs, mine, bytes, write);
  }
}

/// Copies by way of scratch memory at an address that the kernel copies fast. On some CPUs a direct copy is several
/// times slower at certain distances between source and target.
void Execution::transfer_by_detour(pid_t process, std::byte* theirs, std::byte* mine, std::size_t bytes,
                                   bool write) noexcept {
  constexpr std::size_t most = 128 * 1024;  // stays in a core's cache
  if (!endpoint_->reserve(endpoint_->detour_, most + copy_page_bytes)) return;
  std::byte* const scratch = in_step_with(theirs, endpoint_->detour_.data());
  for (std::size_t done = 0; done < bytes && !endpoint_->broken();) {
    const auto part = std::min(most, bytes - done);
    if (write) copy_bytes(scratch, mine + done, part);
    call_kernel(process, theirs + done, scratch, part, write);
    if (!write) copy_bytes(mine + done, scratch, part);
    done += part;
  }
}

void Execution::call_kernel(pid_t process, std::byte* theirs, std::byte* mine, std::size_t bytes, bool write) noexcept {
  while (bytes > 0) {
    const iovec local = {mine, bytes}, remote = {theirs, bytes};
    const ssize_t moved = write ? process_vm_writev(process, &local, 1, &remote, 1, 0)
                                : process_vm_readv(process, &local, 1, &remote, 1, 0);
    if (moved <= 0) return endpoint_->lost_access(process, errno);
    theirs += moved;
    mine += moved;
    bytes -= static_cast<std::size_t>(moved);
  }
}

void Execution::fetch(pid_t process, const std::byte* theirs, std::byte* to, std::size_t bytes) noexcept {
  transfer(process, const_cast<std::byte*>(theirs), to, bytes, false);
}

/// As fold(), with an operand that may be in another process.
void Execution::fold_from(pid_t process, const std::byte* theirs, std::byte* to, const std::byte* with,
                          std::size_t bytes, bool theirs_first) noexcept {
  if (process == 0) return fold(to, with, theirs, bytes, theirs_first);
  const auto element = call_.element_bytes;
  const auto most = std::max(element, Endpoint::process_piece_bytes / element * element);
  std::byte* const piece = in_step_with(theirs, endpoint_->pieces_.data());
  for (std::size_t done = 0; done < bytes && !endpoint_->broken();) {
    const auto part = std::min(most, bytes - done);
    fetch(process, theirs + done, piece, part);
    fold(to + done, with + done, piece, part, theirs_first);
    done += part;
  }
}

/// to = with (op) operand, or operand (op) with. `to` may be `with`.
void Execution::fold(std::byte* to, const std::byte* with, const std::byte* operand, std::size_t bytes,
                     bool operand_first) noexcept {
  const Reduction& op = call_.reduction;
  const auto count = bytes / op.element_bytes;
  if (count == 0) return;
  if (op.merge != nullptr) {
    return op.merge(to, operand_first ? operand : with, operand_first ? with : operand, count, op.context);
  }
  if (!operand_first && operand != to) {
    if (to != with) copy_bytes(to, with, bytes);
    return op.combine(to, operand, count, op.context);
  }
  const std::byte* const first = operand_first ? operand : with;
  const std::byte* const second = operand_first ? with : operand;
  const auto element = op.element_bytes;
  const auto most = std::max<std::size_t>(1, Endpoint::piece_bytes / element);
  std::byte* const piece =
      endpoint_->pieces_.data() + endpoint_->pieces_.size() / 2 / separation_bytes * separation_bytes;
  for (std::size_t done = 0; done < count;) {
    const auto part = std::min(most, count - done);
    copy_bytes(piece, first + done * element, part * element);
    op.combine(piece, second + done * element, part, op.context);
    copy_bytes(to + done * element, piece, part * element);
    done += part;
  }
}

/// The rank that may free an area of `owner`. Stages stay.
int Execution::lender(const Area& area, int owner) const noexcept {
  return area.buffer == Buffer::stage ? endpoint_->rank_ : owner;
}

Execution::Outcome Execution::perform_one_sided(const Move& move) noexcept {
  if (move.share != Share::none) return perform_shared(move);
  const bool put = move.kind == Move::Kind::put;
  const int owner = put ? move.peer : move.source;
  const Extent mine = locate(put ? move.from : move.to, 0, endpoint_->rank_);
  if (mine.bytes == 0) return Outcome::done;
  const Area& area = put ? move.to : move.from;
  const Extent theirs = locate(area, 0, owner);
  const pid_t process = area.buffer == Buffer::stage ? 0 : endpoint_->link_to(owner)->process;
  endpoint_->waiting_for_ = owner;
  const Endpoint::BufferAccess touch(*endpoint_, lender(area, owner));
  if (!touch) return Outcome::broken;
  if (move.kind == Move::Kind::get_combine) {
    fold_from(process, theirs.data, mine.data, locate(move.with, 0, endpoint_->rank_).data, mine.bytes,
              move.theirs_first);
  } else {
    transfer(process, theirs.data, mine.data, mine.bytes, put);
  }
  return endpoint_->broken() ? Outcome::broken : Outcome::done;
}

/// Takes and copies this end's parts of a transfer that both ends copy.
Execution::Outcome Execution::perform_shared(const Move& move) noexcept {
  const bool put = move.kind == Move::Kind::put;
  const int other = put ? move.peer : move.source;
  const Extent mine = locate(put ? move.from : move.to, 0, endpoint_->rank_);
  if (mine.bytes == 0) return Outcome::done;
  Link& link = *endpoint_->link_to(other);
  WorkSharing& parts = put ? link.giving : link.getting;
  endpoint_->waiting_for_ = other;
  for (WorkShare part; (part = parts.take(mine.bytes)).bytes > 0; shared_bytes_ += part.bytes) {
    const Area& area = put ? move.to : move.from;
    const Endpoint::BufferAccess touch(*endpoint_, lender(area, other));
    if (!touch) return Outcome::broken;
    std::byte* const theirs = locate(area, 0, other).data;
    transfer(link.process, theirs + part.begin, mine.data + part.begin, part.bytes, put);
    if (endpoint_->broken()) return Outcome::broken;
  }
  if (move.share == Share::leads && shared_bytes_ < mine.bytes) {
    const Outcome outcome = await(other, tick_value(chunk_, move.tick));
    if (outcome != Outcome::done) return outcome;
  }
  parts.next();
  return Outcome::done;
}

Execution::Outcome Execution::perform_local(const Move& move) noexcept {
  const int self = endpoint_->rank_;
  if (move.kind == Move::Kind::combine) {
    const Extent to = locate(move.to, 0, self);
    fold(to.data, locate(move.with, 0, self).data, locate(move.from, 0, self).data, to.bytes, move.theirs_first);
    return Outcome::done;
  }
  // The data that a rank keeps may be longer than everything that is sent. It is copied in as many pieces, during the
  // same waits.
  if (call_.uneven && move.from.buffer == Buffer::in && move.to.buffer == Buffer::out) {
    const auto whole = block_elements(Buffer::out, self), piece = (whole + cutting_.chunks() - 1) / cutting_.chunks();
    const auto done = std::min(whole, chunk_ * piece), count = std::min(whole - done, piece);
    const auto at = [&](Buffer buffer) {
      return base_of(buffer, self) + (block_offset(buffer, self) + done) * call_.element_bytes;
    };
    if (at(Buffer::out) != at(Buffer::in)) copy_bytes(at(Buffer::out), at(Buffer::in), count * call_.element_bytes);
    return Outcome::done;
  }
  const int count = std::max(extents(move.from), extents(move.to));
  for (int extent = 0; extent < count; ++extent) {
    const Extent from = locate(move.from, extent, self);
    const Extent to = locate(move.to, extent, self);
    const bool apart = to.data + from.bytes <= from.data || from.data + from.bytes <= to.data;
    if (apart) {
      copy_bytes(to.data, from.data, from.bytes);
    } else if (to.data != from.data) {
      std::memmove(to.data, from.data, from.bytes);
    }
  }
  return Outcome::done;
}

bool Execution::ready() const noexcept {
  if (wait_in_ != nullptr && wait_in_->in.poll()) return true;
  if (wait_out_ != nullptr && wait_out_->out.can_send()) return true;
  if (wait_returned_ != nullptr && wait_returned_->all_returned()) return true;
  return wait_tick_ != nullptr && wait_tick_->reached(wait_value_);
}

bool Execution::wait() noexcept {
  Waiter& waiter = endpoint_->waiter_;
  if (wait_tick_ != nullptr) {
    return waiter.wait([this] { return ready(); }, &wait_tick_->parking, &wait_tick_->value);
  }
  if (wait_returned_ != nullptr) return waiter.wait([this] { return ready(); }, &wait_returned_->mine_read->parking);
  if (wait_out_ == nullptr) return wait_in_->in.wait_for_message(waiter, wait_lines_);
  if (wait_in_ == nullptr) return wait_out_->out.wait_for_room(waiter);
  return waiter.wait([this] { return ready(); });
}

}  // namespace smelt::comm
