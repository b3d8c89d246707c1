// The return of an evicted replica by a snapshot.
//
//   r        CAS progress[r] -> joining, with the epoch e of the leader that it asks
//   leader   CAS progress[r] (joining, e) -> granted, floor: entries from there on are kept for r      raise_floor()
//   r        checks by CAS that the configuration is still the same: the grant is valid, and later leaders see it
//   d        any live replica with `save`: claims r, saves its state, whose index is at least the floor, and sends it
//   r        CAS progress[r] granted -> live, at d's index; loads the state
//
// A process may end after any step. r then asks again with another generation after a while. Each chunk is in memory
// that only d writes. r's CAS on its header proves that the copy was made before d continued.
#include <algorithm>
#include <cstring>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "state/log/points.hpp"
#include "state/log/replica.hpp"

namespace smelt::state::log {
namespace {

constexpr double patience_s = 1.0;  // the time to wait for a grant or for the next chunk

// An outgoing snapshot's header: receiver + 1, 11 bits | its generation, 14 | chunk, 32 | full, 1.
std::uint64_t header_of(int receiver, std::uint64_t generation, std::uint64_t chunk) noexcept {
  return static_cast<std::uint64_t>(receiver + 1) << 47 | generation << 33 | (chunk & 0xffffffff) << 1 | 1;
}
constexpr std::uint64_t full = 1;

std::uint64_t claim_of(std::uint64_t generation, int server) noexcept {
  return generation << 11 | static_cast<std::uint64_t>(server + 1);
}
constexpr int no_server = -1;

bool is_over(std::uint64_t since_ns) noexcept {
  return static_cast<double>(monotonic_ns() - since_ns) > patience_s * 1e9;
}

}  // namespace

// ---- The way back

void Replica::come_back() noexcept {
  switch (return_) {
    case Return::out: return ask();
    case Return::asking: return check_grant();
    case Return::receiving: return receive();
  }
}

void Replica::ask() noexcept {
  const std::uint64_t word = layout_.head().configuration.load(std::memory_order_acquire);
  const Configuration now = Configuration::of(word);
  if (now.leader == nobody || space_->gone(now.leader)) {
    if (shape_.majority != 0) check_majority(now.epoch);
    for (const int other : replicas_) {
      const auto progress = Progress::of(layout_.part(other).progress.load(std::memory_order_acquire));
      if (other != rank_ && progress.standing == Standing::live && !space_->gone(other))
        return;  // the other replica will lead
    }
    fail(Status::broken,
         fmt::format("replicated log: rank {} was evicted, and no replica that is up to date lives", rank_));
    return;
  }
  std::uint64_t own = own_progress().load(std::memory_order_acquire);
  const Progress next = Progress::of(own).with(Standing::joining, now.epoch, 1);
  if (!own_progress().compare_exchange_strong(own, next.word(), std::memory_order_acq_rel, std::memory_order_relaxed)) {
    return;
  }
  SMELT_LOG_POINT(17);
  generation_ = next.generation;
  asked_ = word;
  return_ = Return::asking;
  return_since_ns_ = monotonic_ns();
  layout_.head().wanted.fetch_add(1, std::memory_order_acq_rel);
  ring();
}

void Replica::check_grant() noexcept {
  const auto progress = Progress::of(own_progress().load(std::memory_order_acquire));
  std::uint64_t standing = asked_;
  // A read-modify-write, so that a later take-over, which modifies the same word, sees the grant. If the configuration
  // has changed, the grant may come from a leader whose floor was outdated.
  const bool stands = layout_.head().configuration.compare_exchange_strong(standing, asked_, std::memory_order_acq_rel,
                                                                           std::memory_order_acquire);
  if (!stands || progress.generation != generation_ || progress.standing == Standing::out ||
      is_over(return_since_ns_)) {
    return_ = Return::out;
    return;
  }
  if (progress.standing != Standing::granted) return;
  incoming_.clear();
  chunk_ = 0;
  layout_.part(rank_).claim.store(claim_of(generation_, no_server), std::memory_order_release);
  SMELT_LOG_POINT(18);
  return_ = Return::receiving;
  return_since_ns_ = monotonic_ns();
  layout_.head().wanted.fetch_add(1, std::memory_order_acq_rel);
  ring();
}

void Replica::receive() noexcept {
  const std::uint64_t claim = layout_.part(rank_).claim.load(std::memory_order_acquire);
  const int server = static_cast<int>(claim & 2047) - 1;
  const auto progress = Progress::of(own_progress().load(std::memory_order_acquire));
  const bool evicted = progress.generation != generation_ || progress.standing != Standing::granted;
  if (evicted || is_over(return_since_ns_) || (server != no_server && space_->gone(server))) {
    return_ = Return::out;
    return;
  }
  if (server != no_server) receive_chunk(server);
}

void Replica::receive_chunk(int server) noexcept {
  Outgoing& from = layout_.part(server).outgoing;
  std::uint64_t header = from.header.load(std::memory_order_acquire);  // pairs with send_chunk()
  if (header != header_of(rank_, generation_, chunk_)) return;
  const std::uint64_t total = from.total_bytes.load(std::memory_order_relaxed);
  const std::uint64_t index = from.index.load(std::memory_order_relaxed);
  const std::size_t begin = chunk_ * Outgoing::chunk_bytes;
  const std::size_t bytes = total > begin ? std::min<std::size_t>(Outgoing::chunk_bytes, total - begin) : 0;
  incoming_.resize(begin + (bytes + 7) / 8 * 8);
  for (std::size_t i = 0; i < (bytes + 7) / 8; ++i) {
    const std::uint64_t word = from.data[i].load(std::memory_order_relaxed);
    std::memcpy(incoming_.data() + begin + i * 8, &word, sizeof word);
  }
  // Release: the copy was made before the owner writes the next chunk.
  if (!from.header.compare_exchange_strong(header, header & ~full, std::memory_order_acq_rel,
                                           std::memory_order_relaxed)) {
    return_ = Return::out;
    return;
  }
  SMELT_LOG_POINT(19);
  ring();
  ++chunk_;
  return_since_ns_ = monotonic_ns();
  snapshot_index_ = index;
  if (begin + bytes < total) return;
  incoming_.resize(total);
  finish_return();
}

/// Requests delivered, by client, then the state. Called between two slots. False: `save` wrote over the former, and
/// this replica has failed.
bool Replica::write_state(std::vector<std::byte>* bytes) {
  const std::size_t table_bytes = shape_.ranks * sizeof(std::uint64_t);
  bytes->resize(table_bytes);
  std::memcpy(bytes->data(), executed_.data(), table_bytes);
  machine_.save(machine_.context, *bytes);
  if (bytes->size() >= table_bytes && std::memcmp(bytes->data(), executed_.data(), table_bytes) == 0) return true;
  resign();
  fail(Status::invalid_argument,
       "replicated log: StateMachine::save must append to `bytes`, and has changed what was there");
  return false;
}

/// Every request is one entry.
std::uint64_t Replica::entries_in(std::span<const std::byte> state) const noexcept {
  std::uint64_t entries = 0;
  for (std::uint32_t rank = 0; rank < shape_.ranks; ++rank) {
    std::uint64_t requests = 0;
    std::memcpy(&requests, state.data() + rank * sizeof requests, sizeof requests);
    entries += requests;
  }
  return entries;
}

/// Goes on from what another replica wrote, at `index`. The progress says so already.
void Replica::adopt_state(std::uint64_t index, std::span<const std::byte> bytes) {
  const std::size_t table_bytes = shape_.ranks * sizeof(std::uint64_t);
  std::memcpy(executed_.data(), bytes.data(), table_bytes);
  // Where they were decided is not known any more, but that it was below the snapshot's index.
  std::uint64_t request =
      std::max(seen_[self()] + 1, executed_[self()] - std::min<std::uint64_t>(executed_[self()], shape_.requests) + 1);
  for (; request <= executed_[self()]; ++request) {
    places_[request & (shape_.requests - 1)] = (index - 1) | unknown;
  }
  seen_ = executed_;
  learned_ = delivered_ = index;
  learned_entries_ = delivered_entries_ = entries_in(bytes);
  taken_ = copied_;
  known_floor_ = 0;
  machine_.load(machine_.context, bytes.subspan(table_bytes));
}

void Replica::finish_return() noexcept {
  const std::size_t table_bytes = shape_.ranks * sizeof(std::uint64_t);
  std::uint64_t word = own_progress().load(std::memory_order_acquire);
  const Progress granted = Progress::of(word);
  const Progress live = granted.with(Standing::live, snapshot_index_);
  return_ = Return::out;
  if (granted.generation != generation_ || granted.standing != Standing::granted || incoming_.size() < table_bytes ||
      !own_progress().compare_exchange_strong(word, live.word(), std::memory_order_acq_rel,
                                              std::memory_order_relaxed)) {
    return;
  }
  SMELT_LOG_POINT(20);
  adopt_state(snapshot_index_, incoming_);
  live_ = true;
  incoming_.clear();
  configuration_word_ = 0;
  learn();
}

/// Changes with every chunk that the receiver gets, which shows that it makes progress.
std::uint64_t Replica::chunk_on_its_way(int receiver) const noexcept {
  const std::uint64_t claim = layout_.part(receiver).claim.load(std::memory_order_acquire);
  const int server = static_cast<int>(claim & 2047) - 1;
  return server == no_server ? claim : layout_.part(server).outgoing.header.load(std::memory_order_acquire);
}

// ---- Snapshots for others. Called when all delivered entries have been applied.

void Replica::serve_snapshots() noexcept {
  if (machine_.save == nullptr || !live_) return;
  if (receiver_ >= 0) return send_chunk();
  if (taken_ != copied_) return;  // its state is between two slots
  const std::uint64_t wanted = layout_.head().wanted.load(std::memory_order_acquire);
  if (wanted == wanted_served_) return;
  claim_receiver();
  if (receiver_ < 0) wanted_served_ = wanted;
}

void Replica::claim_receiver() noexcept {
  for (const int other : replicas_) {
    const auto progress = Progress::of(layout_.part(other).progress.load(std::memory_order_acquire));
    if (progress.standing != Standing::granted || space_->gone(other)) continue;
    if (progress.index > delivered_) continue;  // this state is too old
    std::uint64_t claim = claim_of(progress.generation, no_server);
    if (!layout_.part(other).claim.compare_exchange_strong(claim, claim_of(progress.generation, rank_),
                                                           std::memory_order_acq_rel, std::memory_order_relaxed)) {
      continue;
    }
    SMELT_LOG_POINT(21);
    receiver_ = other;
    receiver_generation_ = progress.generation;
    sent_chunks_ = 0;
    outgoing_index_ = delivered_;
    if (!write_state(&outgoing_)) {
      receiver_ = -1;
      return;
    }
    layout_.part(rank_).outgoing.header.store(0, std::memory_order_release);
    return send_chunk();
  }
}

void Replica::send_chunk() noexcept {
  Outgoing& to = layout_.part(rank_).outgoing;
  const auto progress = Progress::of(layout_.part(receiver_).progress.load(std::memory_order_acquire));
  const bool waits = progress.standing == Standing::granted && progress.generation == receiver_generation_;
  const std::size_t begin = sent_chunks_ * Outgoing::chunk_bytes;
  if (!waits || space_->gone(receiver_)) {
    receiver_ = -1;
    return;
  }
  // Acquire: pairs with receive_chunk(). The chunk before has been copied.
  if ((to.header.load(std::memory_order_acquire) & full) != 0 || begin >= outgoing_.size()) return;
  const std::size_t bytes = std::min(Outgoing::chunk_bytes, outgoing_.size() - begin);
  for (std::size_t i = 0; i < (bytes + 7) / 8; ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, outgoing_.data() + begin + i * 8, std::min<std::size_t>(8, bytes - i * 8));
    to.data[i].store(word, std::memory_order_relaxed);
  }
  to.total_bytes.store(outgoing_.size(), std::memory_order_relaxed);
  to.index.store(outgoing_index_, std::memory_order_relaxed);
  SMELT_LOG_POINT(22);
  to.header.store(header_of(receiver_, receiver_generation_, sent_chunks_), std::memory_order_release);
  SMELT_LOG_POINT(23);
  ++sent_chunks_;
  ring();
}

// ---- A log that is kept

/// Goes on where the former life of the log ended: from the newest state that was saved.
void Replica::continue_kept() {
  // The highest number in the cells: a client writes its stamps in order.
  for (std::uint64_t cell = 0; cell < shape_.requests; ++cell) {
    started_ = std::max(started_, request_of(layout_.cell(rank_, cell)->load(std::memory_order_acquire)));
  }
  const auto state = space_->kept()->newest();
  if (!state) {
    fail(state.error().status, state.error().message);
    return;
  }
  if (!*state) return;
  std::uint64_t word = own_progress().load(std::memory_order_acquire);
  const Progress now = Progress::of(word);
  // The floor is at most the place that the former life's end left to this replica, or at most the state's if others
  // have gone on: invariant 3 of kept.hpp.
  const bool is_live = now.standing == Standing::live && now.index <= (*state)->index &&
                       own_progress().compare_exchange_strong(word, now.with(Standing::live, (*state)->index).word(),
                                                              std::memory_order_acq_rel, std::memory_order_relaxed);
  if (!is_live) return drop_out();
  adopt_state((*state)->index, (*state)->bytes);
  learn();
}

/// The leader saves the state when half of the log is full of what no saved state has, or somebody waits for room that
/// only a saved state gives.
void Replica::keep_state() noexcept {
  Kept& kept = *space_->kept();
  const std::uint64_t saved = kept.index();
  if (delivered_ <= saved) return;
  const bool is_due =
      delivered_ - saved >= shape_.entries / 2 || layout_.head().pressed.load(std::memory_order_relaxed) > saved;
  if (!is_due) return;
  std::vector<std::byte> state;
  if (!write_state(&state)) return;
  if (const auto done = kept.save(delivered_, state); !done) {
    resign();
    fail(Status::broken,
         fmt::format("replicated log: cannot save its state of {} bytes: {}", state.size(), done.error().message));
    return;
  }
  raise_floor();
}

}  // namespace smelt::state::log
