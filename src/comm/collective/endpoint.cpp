#include "comm/collective/endpoint.hpp"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <span>
#include <utility>

#include "base/clock.hpp"
#include "base/copy.hpp"
#include "base/error.hpp"
#include "comm/collective/communicator_state.hpp"
#include "plan/schedule/steps.hpp"

namespace smelt::comm {
namespace {

/// Long messages move in chunks of this many lines, so that all levels of a tree work in parallel.
std::size_t default_chunk_bytes(int ranks) { return SharedLayout::channel_lines(ranks) / 4 * channel::line_payload; }

/// Where an operand lies behind an accumulator of that many bytes: aligned as any element may have to be.
constexpr std::size_t place_of_operand(std::size_t accumulator_bytes) {
  return (accumulator_bytes + separation_bytes - 1) / separation_bytes * separation_bytes;
}

/// Of a result, while its first line is awaited: about as much as its sender fetches of the channel.
constexpr std::size_t most_fetched_bytes = channel::UmpSender::most_expected * line_bytes;

/// Elements that move at a time. Avoids the division for short messages, where its cost would be visible.
std::size_t chunk_of(std::size_t count, std::size_t element_bytes, std::size_t chunk_bytes) {
  return count * element_bytes <= chunk_bytes ? count : chunk_bytes / element_bytes;
}

std::byte* advance(void* data, std::size_t bytes) {
  return data == nullptr ? nullptr : static_cast<std::byte*>(data) + bytes;
}
const std::byte* advance(const void* data, std::size_t bytes) {
  return data == nullptr ? nullptr : static_cast<const std::byte*>(data) + bytes;
}

/// Marks rows of sends.
void note_rows(std::span<Action> actions) noexcept {
  for (std::size_t first = 0, end = 0; first < actions.size(); first = end + 1) {
    for (end = first; end < actions.size() && actions[end].kind == Step::Kind::send;) ++end;
    if (end - first > 1) actions[first].row = static_cast<std::uint32_t>(end - first);
  }
}

}  // namespace

Endpoint::Endpoint(CommunicatorState& state, int rank, const WaitConfig& wait)
    : state_(state),
      layout_(state.layout),
      progress_(state.layout.progress(rank)),
      tick_(state.layout.tick(rank)),
      stage_memory_(state.layout.stage(rank)),
      rank_(rank),
      waiter_(wait),
      has_heavy_barrier_(heavy_barrier(wait.across_processes)),
      links_(static_cast<std::size_t>(state.group.size())),
      chunk_bytes_(default_chunk_bytes(state.group.size())),
      exchange_bytes_(SharedLayout::most_lines_at_once(state.group.size()) * channel::line_payload),
      scratch_(place_of_operand(chunk_bytes_) + exchange_bytes_),
      seen_ticks_(links_.size()),
      absences_(links_.size()) {
  waiter_.set_interrupt(&Endpoint::interrupted, this, state.options.poll != nullptr ? &Endpoint::poll : nullptr);
  lending_.reserve(links_.size());
}

int Endpoint::size() const noexcept { return state_.group.size(); }
bool Endpoint::broken() const noexcept {
  return state_.status() != Status::ok &&
         (calls_ > state_.last_call() || progress_.gave_up.load(std::memory_order_relaxed) != 0);
}

/// Created on first use, as most ranks communicate with few others.
Link* Endpoint::link_to(int peer) noexcept {
  auto& link = links_[static_cast<std::size_t>(peer)];
  if (link != nullptr) [[likely]]
    return link.get();
  link = std::make_unique<Link>();
  const auto lines = SharedLayout::channel_lines(size());
  link->peer = peer;
  link->out = channel::UmpSender(layout_.channel(rank_, peer), lines);
  link->in = channel::UmpReceiver(layout_.channel(peer, rank_), lines);
  link->mine_read = &layout_.consumed(rank_, peer);
  link->theirs_read = &layout_.consumed(peer, rank_);
  link->giving = WorkSharing(link->mine_read->taken);
  link->getting = WorkSharing(link->theirs_read->taken);
  link->process = state_.foreign_process(peer);
  return link.get();
}

void Endpoint::compile() {
  const auto actions = [&](const plan::StepLists& steps) {
    CachelinePaddedVector<Action> result;
    for (const Step& step : steps[static_cast<std::size_t>(rank_)]) result.push_back({step.kind, link_to(step.peer)});
    note_rows(result);
    return result;
  };
  const auto route = [&](const Tree& tree, bool backwards) {
    Route result;
    const auto me = static_cast<std::size_t>(rank_);
    const Tree mine = reroot(backwards ? state_.mirrored_machine : state_.machine, state_.group, tree, rank_);
    for (int peer : mine.children[me]) result.flood.push_back(link_to(peer));
    result.toward.assign(static_cast<std::size_t>(mine.size()), 0);
    for (std::size_t k = 0; k < result.flood.size(); ++k) {
      std::vector<int> pending{mine.children[me][k]};
      while (!pending.empty()) {
        const int rank = pending.back();
        pending.pop_back();
        result.toward[static_cast<std::size_t>(rank)] = static_cast<std::uint16_t>(k);
        const auto& children = mine.children[static_cast<std::size_t>(rank)];
        pending.insert(pending.end(), children.begin(), children.end());
      }
    }
    return result;
  };

  const auto plan_of = [&](Operation operation) -> const Plan& {
    return state_.plans[static_cast<std::size_t>(operation)];
  };
  barrier_ = actions(plan_of(Operation::barrier).steps);
  if (const Plan& plan = plan_of(Operation::allreduce); plan.reduce_tree) {
    allreduce_up_ = route(*plan.reduce_tree, true);
    allreduce_down_ = route(*plan.broadcast_tree, false);
  } else {
    allreduce_ = actions(plan.steps);
  }
  if (!plan_of(Operation::two_phase_commit).reduce_tree) {
    votes_ = actions(plan::dissemination_steps(Operation::allreduce, size()));
  }
  broadcast_route_ = route(*plan_of(Operation::broadcast).broadcast_tree, false);
  reduce_route_ = route(*plan_of(Operation::reduce).reduce_tree, true);

  // In rank order children are combined in ascending order, so the flood order is descending.
  const auto parents = state_.ordered_tree.parents();
  const auto& children = state_.ordered_tree.children[static_cast<std::size_t>(rank_)];
  for (int child : children) ordered_route_.flood.push_back(link_to(child));
  if (rank_ != 0) ordered_route_.flood.push_back(link_to(parents[static_cast<std::size_t>(rank_)]));
  ordered_route_.toward.assign(1, static_cast<std::uint16_t>(children.size()));
}

void Endpoint::come() noexcept {
  calls_before_ = calls_;
  (void)state_.members().attach(rank_);
}

void Endpoint::leave() noexcept {
  if (!state_.members().mine(rank_)) return;  // a forked child's copy
  // If the end of the process has detached the rank already, started collectives stay incomplete, and their buffers may
  // be gone.
  if (state_.members().attendance(rank_) % 2 != 0) drain();
  state_.members().detach(rank_);
  state_.given_up(rank_);
}

bool Endpoint::give_up() noexcept {
  // Release: pairs with absence(), which then sees what this rank has done for others before.
  progress_.gave_up.store(1, std::memory_order_release);
  return true;
}

bool Endpoint::may_touch(int owner) noexcept {
  if (state_.status() == Status::ok) [[likely]]
    return true;  // no rank gives up before
  const bool gone = layout_.progress(owner).gave_up.load(std::memory_order_relaxed) != 0;
  return !(gone || broken()) || !give_up();
}

/// Whether the awaited event cannot happen any more; this rank has given up then. Called between polls.
bool Endpoint::waits_in_vain() noexcept {
  if (broken() || state_.somebody_died()) return give_up();
  if (waiting_for_ != everybody) return misses(waiting_for_) || (waiting_too_ != everybody && misses(waiting_too_));
  for (int peer = 0; peer < size(); ++peer) {
    if (peer != rank_ && misses(peer)) return true;
  }
  return false;
}

/// 0 while the peer may still take part. Otherwise a number for how it ended: its departure, or that it has given up.
std::uint32_t Endpoint::absence(int peer) const noexcept {
  constexpr std::uint32_t given_up = Membership::for_good - 1;
  if (const std::uint32_t departure = state_.departure(peer, rank_); departure != 0) return departure;
  // Pairs with give_up().
  return layout_.progress(peer).gave_up.load(std::memory_order_acquire) != 0 ? given_up : 0;
}

/// Breaks the communicator if the peer has left or given up and this was already seen by an earlier call. In between,
/// the waiting loop has polled once more, and would have seen what the peer published before it left
/// (docs/explanation/memory-ordering.md, "leaving").
bool Endpoint::misses(int peer) noexcept {
  const std::uint32_t now = absence(peer);
  const bool looked_again = std::exchange(absences_[static_cast<std::size_t>(peer)], now) == now;
  if (now == 0 || !looked_again) return false;
  state_.fail_after_departure(peer, calls_ - 1);  // one that has given up did so after another departure: that is named
  return give_up();
}

bool Endpoint::poll(void* self) noexcept {
  const CommunicatorOptions& options = static_cast<Endpoint*>(self)->state_.options;
  return options.poll(options.idle_context) != 0;
}

bool Endpoint::interrupted(void* self) noexcept {
  auto& endpoint = *static_cast<Endpoint*>(self);
  CommunicatorState& state = endpoint.state_;
  if (state.options.idle != nullptr) state.options.idle(state.options.idle_context);
  const auto stuck_ns = endpoint.note_wait();
  if (endpoint.waits_in_vain()) return true;
  if (state.timeout_s <= 0.0 || static_cast<double>(stuck_ns) < state.timeout_s * 1e9) return false;
  state.fail(Status::timed_out, state.describe_late_rank(endpoint.rank_, endpoint.waiting_for_));
  return endpoint.give_up();
}

/// Records what the rank waits for. Returns how long it has waited, as far as known.
std::uint64_t Endpoint::note_wait() noexcept {
  const auto now = monotonic_ns();
  if (stuck_since_ns_ == 0 || stuck_lines_ != lines_moved_) {
    stuck_since_ns_ = now;
    stuck_lines_ = lines_moved_;
  }
  const int peer = waiting_too_ == everybody ? waiting_for_ : everybody;
  progress_.peer.store(static_cast<std::uint32_t>(peer - everybody), std::memory_order_relaxed);
  progress_.waits_since_ns.store(stuck_since_ns_, std::memory_order_relaxed);
  progress_.waits_at_ns.store(now, std::memory_order_relaxed);
  return now - stuck_since_ns_;
}

inline bool Endpoint::enter(Operation operation) noexcept {
  // Relaxed: reports need no order with anything else.
  progress_.position.store(++calls_ << 8 | static_cast<std::uint64_t>(operation), std::memory_order_relaxed);
  ++lines_moved_;
  waiting_for_ = waiting_too_ = everybody;
  if (state_.status() == Status::ok) [[likely]]
    return true;
  return !broken() || !give_up();
}

/// A function of its own, to keep rare code out of the hot path.
[[gnu::noinline]] void Endpoint::write_log(Step::Kind kind, int peer) noexcept { log->push_back({kind, peer}); }

inline void Endpoint::note(Step::Kind kind, int peer) noexcept {
  if (log != nullptr) [[unlikely]]
    write_log(kind, peer);
}

inline bool Endpoint::send(Link& link, const void* data, std::size_t bytes) noexcept {
  note(Step::Kind::send, link.peer);
  ++lines_moved_;
  waiting_for_ = link.peer;
  if (bytes <= channel::line_payload) return link.out.send(data, bytes, waiter_);
  link.out.expect(bytes);
  const auto* from = static_cast<const std::byte*>(data);
  while (bytes > 0) {
    const auto part = std::min(bytes, channel::line_payload);
    if (!link.out.send(from, part, waiter_)) return false;
    from += part;
    bytes -= part;
  }
  return true;
}

inline bool Endpoint::receive(Link& link, void* data, std::size_t bytes) noexcept {
  ++lines_moved_;
  waiting_for_ = link.peer;
  prefetch_to_write(data, std::min(bytes, most_fetched_bytes));
  if (bytes <= channel::line_payload) return link.in.recv(data, bytes, waiter_);
  auto* const to = static_cast<std::byte*>(data);
  if (!link.in.recv(to, channel::line_payload, waiter_, channel::lines_of(bytes))) return false;
  for (std::size_t at = channel::line_payload; at < bytes; at += channel::line_payload) {
    if (!link.in.recv_rest(to + at, std::min(bytes - at, channel::line_payload), waiter_)) return false;
  }
  return true;
}

/// Before sending to several peers: begins to fetch the lines of all.
inline void Endpoint::fetch_row(const Route& route, const Link* except) noexcept {
  for (const Link* link : route.flood) {
    if (link != except) link->out.fetch();
  }
}

Status Endpoint::barrier() noexcept {
  if (!enter(Operation::barrier)) return state_.status();
  if (state_.flat_barrier_used)
    return layout_.control().flat_barrier.enter(static_cast<std::uint32_t>(size()), waiter_) ? Status::ok
                                                                                             : state_.status();
  for (const Action& action : barrier_) {
    for (const Action& each : std::span(&action, action.row)) each.link->out.fetch();
    if (action.kind == Step::Kind::send) {
      if (!send(*action.link, nullptr, 0)) return state_.status();
    } else {
      note(action.kind, action.link->peer);
      if (!receive(*action.link, nullptr, 0)) return state_.status();
    }
  }
  return Status::ok;
}

bool Endpoint::flood(const Route& route, void* data, std::size_t bytes, int root) noexcept {
  Link* const from = root == rank_ ? nullptr : route.link_toward(root);
  std::size_t done = 0;
  do {
    const auto part = std::min(bytes - done, chunk_bytes_);
    std::byte* const chunk = advance(data, done);
    if (from != nullptr) {
      note(Step::Kind::recv, from->peer);
      if (!receive(*from, chunk, part)) return false;
    }
    if (part <= channel::line_payload && route.is_row(from)) fetch_row(route, from);
    for (Link* to : route.flood) {
      if (to != from && !send(*to, chunk, part)) return false;
    }
    done += part;
  } while (done < bytes);
  return true;
}

Status Endpoint::broadcast(void* data, std::size_t bytes, int root) noexcept {
  if (!enter(Operation::broadcast)) return state_.status();
  if (root != rank_) written_.pass(data);
  const bool ok = flood(broadcast_route_, data, bytes, root);
  if (root == rank_) read_.pass(data);
  return ok ? Status::ok : state_.status();
}

/// accumulator = accumulator (op) received, or received (op) accumulator if the peer comes first.
inline bool Endpoint::combine_from(Link& link, std::byte* accumulator, std::size_t count, const Reduction& op,
                                   bool peer_first) noexcept {
  const auto bytes = count * op.element_bytes;
  std::byte* const operand = scratch_.data() + place_of_operand(chunk_bytes_);
  note(Step::Kind::recv_combine, link.peer);
  if (!receive(link, operand, bytes)) return false;
  if (bytes == 0) return true;
  if (!peer_first) {
    op.combine(accumulator, operand, count, op.context);
  } else {
    op.combine(operand, accumulator, count, op.context);
    copy_bytes(accumulator, operand, bytes);
  }
  return true;
}

bool Endpoint::reserve(Bytes& bytes, std::size_t least) noexcept {
  if (bytes.size() >= least) [[likely]]
    return true;
  try {
    bytes.resize(least);
  } catch (const std::bad_alloc&) {
    state_.fail(Status::out_of_memory, fmt::format("rank {}: no memory for {} bytes of scratch space", rank_, least));
    return false;
  }
  return true;
}

/// Makes room for one element if an element is longer than a chunk.
inline bool Endpoint::ensure_scratch(std::size_t element_bytes) noexcept {
  if (element_bytes <= chunk_bytes_) return true;
  if (!reserve(scratch_, place_of_operand(element_bytes) + std::max(element_bytes, exchange_bytes_))) return false;
  chunk_bytes_ = element_bytes;
  return true;
}

bool Endpoint::gather(const Route& route, const void* in, void* result, std::size_t count, const Reduction& op,
                      int root) noexcept {
  Link* const parent = root == rank_ ? nullptr : route.link_toward(root);
  const bool leaf = parent != nullptr && route.flood.size() == 1;
  const auto chunk_elements = chunk_of(count, op.element_bytes, chunk_bytes_);
  std::size_t done = 0;
  do {
    const auto elements = std::min(count - done, chunk_elements);
    const auto bytes = elements * op.element_bytes;
    const std::byte* const own = advance(in, done * op.element_bytes);
    if (leaf) {
      if (!send(*parent, own, bytes)) return false;
    } else {
      std::byte* const accumulator = parent == nullptr ? advance(result, done * op.element_bytes) : scratch_.data();
      if (accumulator != own) copy_bytes(accumulator, own, bytes);
      for (auto child = route.flood.rbegin(); child != route.flood.rend(); ++child) {
        if (*child != parent && !combine_from(**child, accumulator, elements, op, false)) return false;
      }
      if (parent != nullptr && !send(*parent, accumulator, bytes)) return false;
    }
    done += elements;
  } while (done < count);
  return true;
}

/// Combines in rank order on rank 0, chunk by chunk, and broadcasts the result. `result` may be null on ranks that do
/// not need it. For operators that do not commute.
bool Endpoint::gather_in_order(const void* in, void* result, std::size_t count, const Reduction& op) noexcept {
  const auto chunk_elements = chunk_of(count, op.element_bytes, chunk_bytes_);
  std::size_t done = 0;
  do {
    const auto elements = std::min(count - done, chunk_elements);
    const auto bytes = elements * op.element_bytes;
    const auto offset = done * op.element_bytes;
    std::byte* const total = scratch_.data();
    if (!gather(ordered_route_, advance(in, offset), total, elements, op, 0)) return false;
    if (!flood(broadcast_route_, total, bytes, 0)) return false;
    if (result != nullptr) copy_bytes(advance(result, offset), total, bytes);
    done += elements;
  } while (done < count);
  return true;
}

Status Endpoint::reduce(const void* in, void* result, std::size_t count, const Reduction& op, int root) noexcept {
  if (!enter(Operation::reduce) || !ensure_scratch(op.element_bytes)) return state_.status();
  if (root == rank_) walk_on(in, result);
  const bool ok = op.commutative ? gather(reduce_route_, in, result, count, op, root)
                                 : gather_in_order(in, rank_ == root ? result : nullptr, count, op);
  if (root != rank_) walk_on(in, nullptr);
  return ok ? Status::ok : state_.status();
}

/// One chunk of an allreduce without a tree. `value` is this rank's intermediate result. It points to the input until
/// something has been combined, so that nothing is copied before the first send.
bool Endpoint::exchange_chunk(const std::byte* value, std::byte* result, std::size_t count,
                              const Reduction& op) noexcept {
  const auto bytes = count * op.element_bytes;
  for (const Action& action : allreduce_) {
    Link& link = *action.link;
    if (action.kind == Step::Kind::send) {
      if (!send(link, value, bytes)) return false;
      continue;
    }
    // In rank order on both sides, so that both compute the same bits.
    const bool peer_first = link.peer < rank_;
    if (action.kind == Step::Kind::recv) {
      note(action.kind, link.peer);
      if (!receive(link, result, bytes)) return false;
    } else if (peer_first && value != result) {
      note(action.kind, link.peer);
      if (!receive(link, result, bytes)) return false;
      if (bytes > 0) op.combine(result, value, count, op.context);
    } else {
      if (value != result) copy_bytes(result, value, bytes);
      if (!combine_from(link, result, count, op, peer_first)) return false;
    }
    value = result;
  }
  if (value != result) copy_bytes(result, value, bytes);
  return true;
}

bool Endpoint::exchange(const void* in, void* result, std::size_t count, const Reduction& op) noexcept {
  const auto chunk_elements = chunk_of(count, op.element_bytes, exchange_bytes_);
  std::size_t done = 0;
  do {
    const auto elements = std::min(count - done, chunk_elements);
    const auto offset = done * op.element_bytes;
    if (!exchange_chunk(advance(in, offset), advance(result, offset), elements, op)) return false;
    done += elements;
  } while (done < count);
  return true;
}

Status Endpoint::allreduce(const void* in, void* result, std::size_t count, const Reduction& op) noexcept {
  if (!enter(Operation::allreduce) || !ensure_scratch(op.element_bytes)) return state_.status();
  walk_on(in, result);
  bool ok;
  // Partners in an exchange both send before they receive, so what they send must fit into a channel.
  if (!op.commutative || op.element_bytes > exchange_bytes_) {
    ok = gather_in_order(in, result, count, op);
  } else if (!allreduce_.empty() || state_.group.size() == 1) {
    ok = exchange(in, result, count, op);
  } else {
    const int root = state_.plans[static_cast<std::size_t>(Operation::allreduce)].root;
    ok = gather(allreduce_up_, in, result, count, op, root) &&
         flood(allreduce_down_, result, count * op.element_bytes, root);
  }
  return ok ? Status::ok : state_.status();
}

// ---- messages of a single line -----------------------------------------------------------------
//
// The same functions for a vector that fits into a line, and an operator that can write its result to another place
// than its operands. Operands are read in the channel and in the caller's memory, without copies.

inline bool Endpoint::send_line(Link& link, const void* data, std::size_t bytes) noexcept {
  note(Step::Kind::send, link.peer);
  ++lines_moved_;
  waiting_for_ = link.peer;
  return link.out.send(data, bytes, waiter_);
}

/// The next message, valid until it is released; nullptr: interrupted.
inline const std::byte* Endpoint::await_line(Link& link, Step::Kind kind) noexcept {
  note(kind, link.peer);
  ++lines_moved_;
  waiting_for_ = link.peer;
  return link.in.peek(waiter_);
}

inline bool Endpoint::flood_line(const Route& route, void* data, std::size_t bytes, int root) noexcept {
  Link* const from = root == rank_ ? nullptr : route.link_toward(root);
  if (from != nullptr) {
    prefetch_to_write(data);
    const std::byte* const message = await_line(*from, Step::Kind::recv);
    if (message == nullptr) return false;
    channel::copy_payload(static_cast<std::byte*>(data), message, bytes);
    from->in.release();
  }
  if (route.is_row(from)) fetch_row(route, from);
  for (Link* to : route.flood) {
    if (to != from && !send_line(*to, data, bytes)) return false;
  }
  return true;
}

inline bool Endpoint::gather_line(const Route& route, const void* in, void* result, std::size_t count,
                                  const Reduction& op, int root) noexcept {
  Link* const parent = root == rank_ ? nullptr : route.link_toward(root);
  void* const accumulator = parent == nullptr ? result : scratch_.data();
  const void* value = in;
  for (auto child = route.flood.rbegin(); child != route.flood.rend(); ++child) {
    if (*child == parent) continue;
    prefetch_to_write(accumulator);
    __builtin_prefetch(value);
    const std::byte* const theirs = await_line(**child, Step::Kind::recv_combine);
    if (theirs == nullptr) return false;
    op.merge(accumulator, value, theirs, count, op.context);
    (*child)->in.release();
    value = accumulator;
  }
  return parent == nullptr || send_line(*parent, value, count * op.element_bytes);
}

inline bool Endpoint::exchange_line(const CachelinePaddedVector<Action>& exchange, const void* in, void* result,
                                    std::size_t count, const Reduction& op) noexcept {
  const auto bytes = count * op.element_bytes;
  const void* value = in;
  for (const Action& action : exchange) {
    Link& link = *action.link;
    if (action.kind == Step::Kind::send) {
      if (!send_line(link, value, bytes)) return false;
      continue;
    }
    prefetch_to_write(result);
    walk_on(in, result);
    const std::byte* const theirs = await_line(link, action.kind);
    if (theirs == nullptr) return false;
    // In rank order on both sides, so that both compute the same bits.
    const bool peer_first = link.peer < rank_;
    if (action.kind == Step::Kind::recv) {
      channel::copy_payload(static_cast<std::byte*>(result), theirs, bytes);
    } else {
      op.merge(result, peer_first ? theirs : value, peer_first ? value : theirs, count, op.context);
    }
    link.in.release();
    value = result;
  }
  return true;
}

Status Endpoint::broadcast_line(const Route& route, void* data, std::size_t bytes, int root) noexcept {
  if (root != rank_) written_.pass(data);
  const bool ok = enter(Operation::broadcast) && flood_line(route, data, bytes, root);
  if (root == rank_) read_.pass(data);
  return ok ? Status::ok : state_.status();
}

Status Endpoint::reduce_line(const Route& route, const void* in, void* result, std::size_t count, const Reduction& op,
                             int root) noexcept {
  if (root == rank_) walk_on(in, result);
  const bool ok = enter(Operation::reduce) && gather_line(route, in, result, count, op, root);
  if (root != rank_) walk_on(in, nullptr);
  return ok ? Status::ok : state_.status();
}

Status Endpoint::allreduce_line(const void* in, void* result, std::size_t count, const Reduction& op) noexcept {
  return enter(Operation::allreduce) && exchange_line(allreduce_, in, result, count, op) ? Status::ok : state_.status();
}

/// Two-phase commit of a proposal that fits into a line.
Status Endpoint::two_phase_commit(void* proposal, std::size_t bytes, bool (*vote)(const void*, void*), void* context,
                                  bool* committed, int root) noexcept {
  if (!enter(Operation::two_phase_commit)) return state_.status();
  static const Reduction all = bit_and<std::uint8_t>();
  if (!flood_line(broadcast_route_, proposal, bytes, root)) return state_.status();
  std::uint8_t verdict = vote(proposal, context) ? 1 : 0;
  if (!votes_.empty()) {
    if (!exchange_line(votes_, &verdict, &verdict, 1, all)) return state_.status();
  } else if (!gather_line(reduce_route_, &verdict, &verdict, 1, all, root) ||
             !flood_line(broadcast_route_, &verdict, 1, root)) {
    return state_.status();
  }
  *committed = verdict != 0;
  return Status::ok;
}

/// Whether a call that the endpoint's own code runs fits into a line. The payload of a slot is aligned to 8 bytes,
/// which suffices for elements of up to 8 bytes.
bool Endpoint::fits_line(const Collective& call) const noexcept {
  const Reduction& op = call.reduction;
  const std::size_t bytes = call.count * call.element_bytes;
  if (bytes == 0 || bytes > channel::line_payload || size() == 1) return false;
  if (call.operation == Operation::broadcast) return true;
  if (call.operation == Operation::allreduce && allreduce_.empty()) return false;
  return op.merge != nullptr && op.commutative && op.element_bytes <= sizeof(std::uint64_t);
}

/// Whether a call is run with messages of a single line. `prepared`: its recipe; nullptr: the planned tree or exchange.
inline bool Endpoint::is_line(const Collective& call, const CachedSchedule* prepared) const noexcept {
  if (prepared == nullptr) return fits_line(call);
  return prepared->tree.has_value() && !call.reduction.reproducible && fits_line(call);
}

/// The tree that the messages of a call of a single line follow, by the planned tree or that of a recipe. nullptr:
/// none.
inline const Route* Endpoint::line_route(const Collective& call, const CachedSchedule* prepared) const noexcept {
  if (prepared != nullptr) return prepared->tree ? &*prepared->tree : nullptr;
  return call.operation == Operation::broadcast ? &broadcast_route_
         : call.operation == Operation::reduce  ? &reduce_route_
                                                : nullptr;
}

/// Requirement: the call fits a line. `tree`: of a broadcast or a reduction.
Status Endpoint::run_line(const Collective& call, const Route* tree) noexcept {
  switch (call.operation) {
    case Operation::broadcast: return broadcast_line(*tree, call.out, call.count * call.element_bytes, call.root);
    case Operation::reduce: return reduce_line(*tree, call.in, call.out, call.count, call.reduction, call.root);
    default: return allreduce_line(call.in, call.out, call.count, call.reduction);
  }
}

Status Endpoint::run_broadcast(void* data, std::size_t bytes, int root) noexcept {
  const LastCall& recent = recent_[static_cast<std::size_t>(Operation::broadcast)];
  if (recent.is_line(bytes, root, state_.selector->generation()) && recent.element_bytes == 1 && data != nullptr &&
      started_.empty()) [[likely]]
    return broadcast_line(*recent.tree, data, bytes, root);
  return run(Collective::broadcast(data, bytes, root));
}

Status Endpoint::run_reduce(const void* in, void* result, std::size_t count, const Reduction& op, int root) noexcept {
  const LastCall& recent = recent_[static_cast<std::size_t>(Operation::reduce)];
  if (recent.is_line(count, root, state_.selector->generation()) && recent.combines_by(op) && in != nullptr &&
      (result != nullptr || rank_ != root) && started_.empty()) [[likely]]
    return reduce_line(*recent.tree, in, result, count, op, root);
  return run(Collective::reduce(in, result, count, op, root));
}

Status Endpoint::run_allreduce(const void* in, void* result, std::size_t count, const Reduction& op) noexcept {
  const LastCall& recent = recent_[static_cast<std::size_t>(Operation::allreduce)];
  if (recent.is_line(count, 0, state_.selector->generation()) && recent.combines_by(op) && in != nullptr &&
      result != nullptr && started_.empty()) [[likely]]
    return allreduce_line(in, result, count, op);
  return run(Collective::allreduce(in, result, count, op));
}

// ---- schedules ------------------------------------------------------------------------------

/// This rank's view of the tree of a request, for the request's root only.
Route Endpoint::route_in(const ScheduleRequest& request) {
  Route route;
  const auto me = static_cast<std::size_t>(rank_);
  for (const int child : request.tree.children[me]) route.flood.push_back(link_to(child));
  route.toward.assign(static_cast<std::size_t>(request.root) + 1, static_cast<std::uint16_t>(route.flood.size()));
  if (rank_ != request.root) route.flood.push_back(link_to(request.parents[me]));
  return route;
}

const CachedSchedule* Endpoint::prepare(const SelectedRecipe& choice, const Collective& call) noexcept {
  const auto number = static_cast<std::size_t>(choice.number);
  const auto at = static_cast<std::size_t>(call.root);
  if (number < prepared_.size() && at < prepared_[number].size() && prepared_[number][at] != nullptr) [[likely]] {
    return prepared_[number][at].get();
  }
  try {
    if (number >= prepared_.size()) prepared_.resize(number + 1);
    auto& by_root = prepared_[number];
    if (at >= by_root.size()) by_root.resize(at + 1);
    auto request = plan::make_request(state_.machine, state_.group, choice.recipe, call.root, state_.selector->trees());
    if (!request) {
      state_.fail(request.error().status, request.error().message);
      return nullptr;
    }
    auto prepared = std::make_unique<CachedSchedule>(CachedSchedule{choice.recipe, make_schedule(*request, rank_)});
    prepared->eager = EagerPath::compile(*this, choice.recipe, prepared->schedule, call.operation);
    if (is_along_tree(choice.recipe)) prepared->tree = route_in(*request);
    by_root[at] = std::move(prepared);
    return by_root[at].get();
  } catch (const std::bad_alloc&) {
    state_.fail(Status::out_of_memory, "no memory for a schedule");
    return nullptr;
  }
}

void Endpoint::lost_access(pid_t process, int error) noexcept {
  state_.fail_without_access(waiting_for_, rank_,
                             fmt::format("rank {}: access to the memory of rank {} (process {}) failed: {}", rank_,
                                         waiting_for_, process, std::strerror(error)));
}

void Endpoint::regain_buffers() noexcept {
  if (state_.status() != Status::ok) give_up();
  heavy_barrier(waiter_.config().across_processes);
  const auto until = monotonic_ns() + 500'000'000;  // a bound for other processes, which may be stopped
  for (int rank = 0; rank < size(); ++rank) {
    const auto& touches = layout_.progress(rank).touches;
    const bool bounded = state_.foreign_process(rank) != 0;
    // Acquire: pairs with the end of BufferAccess. A dead rank accesses nothing.
    while (rank != rank_ && touches.load(std::memory_order_acquire) != 0 && state_.members().present(rank) &&
           (!bounded || monotonic_ns() < until)) {
      (void)state_.somebody_died();
      sched_yield();
    }
  }
}

Status Endpoint::execute(const Collective& call, const CachedSchedule* prepared) noexcept {
  if (prepared == nullptr) return state_.status();
  if (is_line(call, prepared)) return run_line(call, line_route(call, prepared));
  if (!enter(call.operation)) return state_.status();
  if (prepared->eager.fits(*this, call)) return prepared->eager.run(*this, call) ? Status::ok : state_.status();
  if (!blocking_.begin(*this, call, *prepared)) return state_.status();
  for (;;) {
    switch (blocking_.advance()) {
      case Execution::Outcome::done: return Status::ok;
      case Execution::Outcome::broken: regain_buffers(); return state_.status();
      case Execution::Outcome::blocked:
        ++lines_moved_;
        if (blocking_.wait()) break;
        regain_buffers();
        return state_.status();
    }
  }
}

void Endpoint::remember(const Collective& call, const CachedSchedule* prepared) noexcept {
  if (call.uneven || call.sync != Sync::loose || call.reduction.reproducible) return;
  recent_[static_cast<std::size_t>(call.operation)] = {.known = true,
                                                       .line = is_line(call, prepared) && !call.at_rest,
                                                       .tree = line_route(call, prepared),
                                                       .reads = call.in != nullptr,
                                                       .writes = call.out != nullptr,
                                                       .commutative = call.reduction.commutative,
                                                       .at_rest = call.at_rest,
                                                       .root = call.root,
                                                       .generation = state_.selector->generation(),
                                                       .count = call.count,
                                                       .element_bytes = call.element_bytes,
                                                       .combine = call.reduction.combine,
                                                       .merge = call.reduction.merge,
                                                       .prepared = prepared};
}

/// Runs a call by the endpoint's own code.
Status Endpoint::run_planned(const Collective& call) noexcept {
  if (fits_line(call)) return run_line(call, line_route(call, nullptr));
  switch (call.operation) {
    case Operation::broadcast: return broadcast(call.out, call.count * call.element_bytes, call.root);
    case Operation::reduce: return reduce(call.in, call.out, call.count, call.reduction, call.root);
    default: return allreduce(call.in, call.out, call.count, call.reduction);
  }
}

Status Endpoint::run_barrier() noexcept {
  if (!started_.empty()) [[unlikely]]
    drain();
  return barrier();
}

Status Endpoint::run(const Collective& call) noexcept {
  const LastCall& recent = recent_[static_cast<std::size_t>(call.operation)];
  if (started_.empty() && recent.is_like(call, state_.selector->generation())) [[likely]] {
    return recent.line                  ? run_line(call, recent.tree)
           : recent.prepared == nullptr ? run_planned(call)
                                        : execute(call, recent.prepared);
  }
  if (const Status status = check(call, size(), rank_); status != Status::ok) return status;
  if (call.operation == Operation::barrier) return run_barrier();
  drain();
  if (call.sync == Sync::loose) return run_loose(call);
  if (const Status before = barrier(); before != Status::ok) return before;
  const Status status = run_loose(call);
  return status == Status::ok ? barrier() : status;
}

Status Endpoint::run_loose(const Collective& call) noexcept {
  if (call.operation == Operation::two_phase_commit) {
    if (state_.commits_in_parts || call.count > channel::line_payload) return commit_in_parts(call);
    return two_phase_commit(call.out, call.count, call.vote, call.vote_context, call.committed, call.root);
  }
  const SelectedRecipe* const choice = state_.selector->choose(call, rank_);
  if (choice == nullptr) {
    // Operators that demand an order, on elements too large for the stages.
    const bool by_tree = call.operation == Operation::reduce || call.operation == Operation::allreduce;
    return by_tree && !call.reduction.reproducible ? run_planned(call) : Status::not_supported;
  }
  const CachedSchedule* const prepared = choice->planned ? nullptr : prepare(*choice, call);
  if (prepared == nullptr && !choice->planned) return state_.status();
  remember(call, prepared);
  return choice->planned ? run_planned(call) : execute(call, prepared);
}

/// Broadcasts a long proposal and combines the votes by an allreduce.
Status Endpoint::commit_in_parts(const Collective& call) noexcept {
  Collective proposal = Collective::broadcast(call.out, call.count, call.root);
  if (const Status status = run(proposal); status != Status::ok) return status;
  std::uint8_t verdict = call.vote(call.out, call.vote_context) ? 1 : 0;
  const Status status = run(Collective::allreduce(&verdict, &verdict, 1, bit_and<std::uint8_t>()));
  if (status == Status::ok) *call.committed = verdict != 0;
  return status;
}

Status Endpoint::run_with(const Collective& call, const SelectedRecipe& choice) noexcept {
  if (call.sync == Sync::strict) {
    if (const Status before = barrier(); before != Status::ok) return before;
  }
  const Status status = choice.planned ? run_planned(call) : execute(call, prepare(choice, call));
  return status != Status::ok || call.sync == Sync::loose ? status : barrier();
}

// ---- started collectives --------------------------------------------------------------------
//
// They run one after another, in the order in which they were started, which is the same on all ranks.

/// The schedule for a phase of a started collective. Null: the communicator is broken.
const CachedSchedule* Endpoint::prepare_part(StartedCollective& started, const Collective& part) noexcept {
  const bool whole = started.phase == 1 && part.operation == started.call.operation;
  if (whole && is_known(started)) return started.prepared;
  const SelectedRecipe* const choice = state_.selector->choose(part, rank_);  // there is one: see startable()
  const CachedSchedule* const prepared = choice != nullptr ? prepare(*choice, part) : nullptr;
  if (whole) {
    started.prepared = prepared;
    started.generation = state_.selector->generation();
    started.as_blocking = false;
    started.longest = longest_of(part);
  }
  return prepared;
}

/// Phases: 0 barrier before (strict), 1 the operation, 2 the vote's way back (two-phase commit), 3 barrier after.
bool Endpoint::begin_phase(StartedCollective& started) noexcept {
  const Collective& call = started.call;
  const bool commit = call.operation == Operation::two_phase_commit;
  const bool strict = call.sync == Sync::strict && call.operation != Operation::barrier;
  while (++started.phase < 4) {
    Collective part;
    if (started.phase == 0 || started.phase == 3) {
      if (!strict) continue;
      part = Collective::barrier();
    } else if (started.phase == 1) {
      part = commit ? Collective::broadcast(call.out, call.count, call.root) : call;
    } else {
      if (!commit) continue;
      started.verdict = call.vote(call.out, call.vote_context) ? 1 : 0;
      part = Collective::allreduce(&started.verdict, &started.verdict, 1, bit_and<std::uint8_t>());
    }
    part.sync = Sync::loose;
    const CachedSchedule* const prepared = prepare_part(started, part);
    if (prepared == nullptr || !started.execution.begin(*this, part, *prepared)) {
      end_started(started, broken() ? state_.status() : Status::not_supported);
      return false;
    }
    return true;
  }
  if (commit) *call.committed = started.verdict != 0;
  end_started(started, Status::ok);
  return false;
}

void Endpoint::end_started(StartedCollective& started, Status status) noexcept {
  if (status != Status::ok) regain_buffers();
  started.status = status;
  started.done = true;
  started_.pop_front();
}

/// For blocks of different sizes: the size that the choice for a call depends on.
inline std::optional<std::size_t> Endpoint::longest_of(const Collective& call) const noexcept {
  return call.uneven ? longest_known(call, size(), rank_) : std::nullopt;
}

/// The program may have changed the sizes since the last start.
bool Endpoint::is_known(const StartedCollective& started) const noexcept {
  return started.prepared != nullptr && started.generation == state_.selector->generation() &&
         started.longest == longest_of(started.call);
}

bool Endpoint::startable(const StartedCollective& started) const noexcept {
  if (started.call.operation == Operation::two_phase_commit) return true;  // a broadcast, and an allreduce of one byte
  if (is_known(started)) return true;
  Collective part = started.call;
  part.sync = Sync::loose;
  return state_.selector->choose(part, rank_) != nullptr;
}

void Endpoint::start(StartedCollective& started) noexcept {
  started.phase = -1;
  started.running = started.done = false;
  started.status = Status::ok;
  started_.push_back(&started);
  progress_started();
}

/// Whether a blocked collective cannot finish any more. Programs that only call test() never wait, and get the error
/// from here.
bool Endpoint::is_over() noexcept {
  if (broken()) return give_up();
  const std::uint64_t now = ticks();
  if (static_cast<double>(now - last_look_) < 20'000 * rough_ticks_per_ns()) return false;
  last_look_ = now;
  return waits_in_vain();
}

void Endpoint::progress_started() noexcept {
  while (!started_.empty()) {
    StartedCollective& first = *started_.front();
    if (!first.running) {
      first.running = true;
      if (!enter(first.call.operation)) {
        end_started(first, state_.status());
        continue;
      }
      if (!begin_phase(first)) continue;
    }
    switch (first.execution.advance()) {
      case Execution::Outcome::done: begin_phase(first); break;
      case Execution::Outcome::broken: end_started(first, state_.status()); break;
      case Execution::Outcome::blocked:
        if (!is_over()) return;
        end_started(first, state_.status());
    }
  }
}

/// Remembers the schedule of a blocking call with blocks of different sizes. The next call uses it if the sizes that
/// all ranks know are the same, as the choice depends only on these.
void Endpoint::learn_uneven(StartedCollective& started) noexcept {
  const Collective& call = started.call;
  if (started.status != Status::ok || call.sync != Sync::loose) return;
  const SelectedRecipe* const choice = state_.selector->choose(call, rank_);
  started.prepared = choice != nullptr && !choice->planned ? prepare(*choice, call) : nullptr;
  started.as_blocking = started.prepared != nullptr;
  started.generation = state_.selector->generation();
  started.longest = longest_of(call);
}

Status Endpoint::run_prepared(StartedCollective& started, const void* in, void* out) noexcept {
  Collective& call = started.call;
  if ((in == nullptr) != (call.in == nullptr) || (out == nullptr) != (call.out == nullptr)) [[unlikely]]
    return Status::invalid_argument;
  call.in = in;
  call.out = out;
  // Other ranks may run the same call by the endpoint's own code for blocking calls (barriers, planned trees).
  const bool same = started.as_blocking && started.generation == state_.selector->generation();
  if (started_.empty() && same && started.longest == longest_of(call)) [[likely]]
    return started.status = started.prepared == nullptr ? run_planned(call) : execute(call, started.prepared);
  started.status = run(call);
  if (call.uneven) {
    learn_uneven(started);
  } else if (const LastCall& recent = recent_[static_cast<std::size_t>(call.operation)];
             recent.is_like(call, state_.selector->generation())) {
    started.prepared = recent.prepared;
    started.generation = recent.generation;
    started.as_blocking = true;
  }
  return started.status;
}

Status Endpoint::finish(StartedCollective& started) noexcept {
  for (progress_started(); !started.done; progress_started()) {
    StartedCollective& first = *started_.front();
    ++lines_moved_;
    if (!first.execution.wait()) end_started(first, state_.status());
  }
  return started.status;
}

void Endpoint::drain() noexcept {
  while (!started_.empty()) finish(*started_.front());
}

}  // namespace smelt::comm
