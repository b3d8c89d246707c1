// The leader: decisions, the floor, and take-over.
#include <algorithm>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "state/log/ordering.hpp"
#include "state/log/points.hpp"
#include "state/log/replica.hpp"

namespace smelt::state::log {
namespace {

/// Requests of a client whose lines are fetched while the ones before them are looked at.
constexpr std::uint64_t fetched_ahead = 8;
constexpr std::uint32_t idle_steps_between_raises = 32;

}  // namespace

void Replica::lead() noexcept {
  if (!leading_ && !establish()) return;
  bool any = false;
  for (const int client : replicas_) {
    const unsigned count = count_requests(client);
    if (count == 0) continue;
    if (!decide(client, count)) {
      if (any) ring();
      return;
    }
    any = true;
  }
  if (any) {
    ring();
    idle_steps_ = 0;
    if (since_raise_ >= raise_every_) raise_floor();
  } else if (++idle_steps_ >= idle_steps_between_raises) {
    idle_steps_ = 0;
    const bool asked = layout_.head().wanted.load(std::memory_order_acquire) != wanted_seen_;
    if (floor_ < learned_ || asked) raise_floor();
  }
}

/// How many of the client's requests after those that are decided are there; one slot takes no more.
unsigned Replica::count_requests(int client) noexcept {
  std::uint64_t request = seen_[static_cast<std::size_t>(client)] + 1;
  // What is decided has been started: seen_ <= started_.
  if (client == rank_) return static_cast<unsigned>(std::min<std::uint64_t>(started_ + 1 - request, most_in_a_slot));
  for (unsigned count = 0; count < most_in_a_slot; ++count, ++request) {
    // Acquire: pairs with start(). The command is there.
    const std::uint64_t stamp = layout_.cell(client, request)->load(ordering::log_propose);
    if (request_of(stamp) != request) return count;
    __builtin_prefetch(layout_.cell(client, request + fetched_ahead));
  }
  return most_in_a_slot;
}

/// Decides the client's next requests in the next slot. False: no room, or not the leader any more.
bool Replica::decide(int client, unsigned count) noexcept {
  // One slot stays free, for the seal of the next leader.
  if (learned_ + 1 >= floor_ + shape_.entries) {
    layout_.head().pressed.store(floor_ + 1, std::memory_order_relaxed);
    if (!raise_floor() || learned_ + 1 >= floor_ + shape_.entries) return false;
  }
  if (learned_ >= layout_.most_index()) {
    fail(Status::broken, "replicated log: its indices are used up; create another one");
    return false;
  }
  Word& slot = layout_.slot(learned_);
  const std::uint64_t lap = layout_.lap(learned_);
  const std::uint64_t word = decided_slot(lap, client, seen_[static_cast<std::size_t>(client)] + 1, count);
  SMELT_LOG_POINT(5);
  if (shape_.fixed != 0) {
    slot.store(word, ordering::log_decide);
  } else {
    std::uint64_t before = slot.load(std::memory_order_relaxed);
    const bool is_ours = before == sealed_slot(lap, epoch_) || (lap_of(before) + 1 == lap && !is_sealed(before));
    // Release: pairs with learn(). Relaxed on failure: learn() reads the slot again.
    if (!is_ours || !slot.compare_exchange_strong(before, word, ordering::log_decide, std::memory_order_relaxed)) {
      leading_ = false;
      return false;
    }
  }
  SMELT_LOG_POINT(6);
  note(client, count);
  since_raise_ += count;
  return true;
}

/// Seals the next slot for this leader. False: it is no longer the leader.
bool Replica::establish() noexcept {
  epoch_ = Configuration::of(configuration_word_).epoch;
  if (epoch_ > 1) {
    for (;;) {
      learn();
      if (!live_) return false;
      Word& slot = layout_.slot(learned_);
      const std::uint64_t lap = layout_.lap(learned_);
      SMELT_LOG_POINT(24);
      std::uint64_t word = slot.load(std::memory_order_acquire);
      if (lap_of(word) == lap && !is_sealed(word)) continue;
      // This replica was evicted since learn(), and the others have gone round the ring. A seal would destroy a
      // decision.
      if (lap_of(word) > lap) return drop_out(), false;
      if (lap_of(word) == lap && seal_epoch(word) > epoch_) return false;
      SMELT_LOG_POINT(8);
      // Acquire: earlier decisions of a former leader are visible. Release: earlier slots are not decided later.
      if (slot.compare_exchange_strong(word, sealed_slot(lap, epoch_), std::memory_order_acq_rel,
                                       std::memory_order_relaxed)) {
        break;
      }
    }
    SMELT_LOG_POINT(9);
  }
  Word& floor = layout_.head().floor;
  std::uint64_t word = floor.load(std::memory_order_acquire);
  do {
    if (Floor::epoch(word) > epoch_) return false;
    floor_ = Floor::index(word, learned_);
  } while (!floor.compare_exchange_weak(word, Floor::word(epoch_, floor_), std::memory_order_acq_rel,
                                        std::memory_order_acquire));
  SMELT_LOG_POINT(10);
  observed_.assign(shape_.ranks, {});
  wanted_seen_ = ~std::uint64_t{0};
  leading_ = true;
  return true;
}

void Replica::take_over() noexcept {
  if (shape_.fixed != 0 || !live_) return;
  Word& configuration = layout_.head().configuration;
  std::uint64_t word = configuration.load(std::memory_order_acquire);
  const Configuration before = Configuration::of(word);
  if (before.leader == rank_) return;
  if (before.epoch >= most_epoch) {
    fail(Status::broken, "replicated log: its epochs are used up; create another one");
    return;
  }
  if (shape_.majority != 0 && !is_agreed(before.epoch)) return;
  const std::uint64_t ours = Configuration{before.epoch + 1, rank_}.word();
  // Release: processes that see this replica's word below also see it as the leader. Acquire: see grants in
  // snapshot.cpp.
  if (!configuration.compare_exchange_strong(word, ours, std::memory_order_acq_rel, std::memory_order_relaxed)) return;
  SMELT_LOG_POINT(7);
  suspect_since_ns_ = 0;
  candidate_ = 0;
  // The new generation makes the CAS of a former leader that is about to evict this replica fail.
  std::uint64_t progress = Progress{generation_, Standing::live, delivered_}.word();
  const Progress next = Progress::of(progress).with(Standing::live, delivered_, 1);
  if (!own_progress().compare_exchange_strong(progress, next.word(), std::memory_order_acq_rel,
                                              std::memory_order_acquire)) {
    return drop_out();
  }
  generation_ = next.generation;
  configuration_word_ = ours;
  lead();
}

/// Configuration "paxos": agrees to the end of every epoch that somebody has asked to end.
void Replica::consent() noexcept {
  const std::uint64_t asked = layout_.head().contested.load(std::memory_order_acquire);
  if (asked <= consented_) return;
  SMELT_LOG_POINT(31);
  consented_ = asked;
  layout_.part(rank_).consent.store(asked, std::memory_order_release);
  SMELT_LOG_POINT(32);
  ring();
}

/// Configuration "paxos": asks all replicas for their consent to the end of the epoch. Whether a majority has given it.
bool Replica::is_agreed(std::uint64_t epoch) noexcept {
  Word& contested = layout_.head().contested;
  std::uint64_t asked = contested.load(std::memory_order_acquire);
  while (asked < epoch) {
    if (!contested.compare_exchange_weak(asked, epoch, std::memory_order_acq_rel, std::memory_order_acquire)) continue;
    SMELT_LOG_POINT(30);
    ring();
    break;
  }
  consent();
  candidate_ = epoch;
  const auto agreed = std::count_if(replicas_.begin(), replicas_.end(), [&](int other) {
    return layout_.part(other).consent.load(std::memory_order_acquire) >= epoch;
  });
  if (agreed >= shape_.majority) return true;
  check_majority(epoch);
  return false;
}

/// Configuration "paxos": fails if so many have ended without consent to the end of this epoch that no majority can be.
void Replica::check_majority(std::uint64_t epoch) noexcept {
  const auto lost = std::count_if(replicas_.begin(), replicas_.end(), [&](int other) {
    // In this order: one that has ended consents to nothing more.
    return space_->gone(other) && layout_.part(other).consent.load(std::memory_order_acquire) < epoch;
  });
  if (replicas_.size() - static_cast<std::size_t>(lost) >= shape_.majority) return;
  fail(Status::broken,
       fmt::format("replicated log: {} of its {} replicas must agree to another leader (configuration = 'paxos'), and "
                   "{} have ended",
                   shape_.majority, replicas_.size(), lost));
}

/// Gives up the lead. Any replica may take over.
void Replica::resign() noexcept {
  leading_ = false;
  std::uint64_t word = layout_.head().configuration.load(std::memory_order_acquire);
  const Configuration now = Configuration::of(word);
  if (now.leader != rank_ || shape_.fixed != 0 || now.epoch >= most_epoch) return;
  const std::uint64_t none = Configuration{now.epoch + 1, nobody}.word();
  if (layout_.head().configuration.compare_exchange_strong(word, none, std::memory_order_acq_rel,
                                                           std::memory_order_relaxed)) {
    ring();
  }
}

/// Whether the log waits for a replica without progress for a long time. A guess; safety does not depend on it.
bool Replica::is_stuck(int rank, const Progress& progress, std::uint64_t now_ns) noexcept {
  Observed& seen = observed_[static_cast<std::size_t>(rank)];
  const std::uint64_t state = progress.standing == Standing::granted ? chunk_on_its_way(rank) : progress.index;
  if (seen.since_ns == 0 || seen.state != state) {
    seen = {state, now_ns};
    return false;
  }
  if (progress.index >= layout_.head().pressed.load(std::memory_order_relaxed)) return false;
  if (static_cast<double>(now_ns - seen.since_ns) <= shape_.evict_after_s * 1e9) return false;
  const bool stop = static_cast<Faults>(shape_.faults) == Faults::stop;
  if (!stop && layout_.part(rank).returns.load(std::memory_order_relaxed) == 0) return false;
  // The state survives without `rank`: it need not, with Faults::stop and "cas".
  const unsigned least = std::max(stop ? 0u : 2u, progress.standing == Standing::live ? shape_.majority : 0u);
  return least == 0 || up_to_date_without(rank) >= least;
}

/// Replicas besides `rank` that are up to date.
unsigned Replica::up_to_date_without(int rank) const noexcept {
  return static_cast<unsigned>(std::count_if(replicas_.begin(), replicas_.end(), [&](int other) {
    const auto progress = Progress::of(layout_.part(other).progress.load(std::memory_order_acquire));
    return other != rank && progress.standing == Standing::live && !space_->gone(other);
  }));
}

/// False: this is no longer the leader.
bool Replica::evict(int rank, const Progress& progress) noexcept {
  // Checked after the load of its progress: any later leader would have written another generation there.
  if (layout_.head().configuration.load(std::memory_order_acquire) != configuration_word_) return leading_ = false;
  std::uint64_t word = progress.word();
  SMELT_LOG_POINT(11);
  layout_.part(rank).progress.compare_exchange_strong(word, progress.with(Standing::out, 0, 1).word(),
                                                      std::memory_order_acq_rel, std::memory_order_relaxed);
  SMELT_LOG_POINT(12);
  return true;
}

/// Raises the floor as far as the live replicas allow. Evicts replicas that have ended and grants a place to those that
/// ask. False: this is no longer the leader.
bool Replica::raise_floor() noexcept {
  since_raise_ = 0;
  // Relaxed here and in late(), since suspicion is a guess.
  if (layout_.head().pressed.load(std::memory_order_relaxed) > floor_) {
    layout_.head().looked.fetch_add(1, std::memory_order_relaxed);
  }
  wanted_seen_ = layout_.head().wanted.load(std::memory_order_acquire);
  space_->look_for_deaths();
  const std::uint64_t now_ns = monotonic_ns();
  std::uint64_t least = learned_;
  for (const int rank : replicas_) {
    // Acquire: pairs with take(). Entries below have been copied.
    const auto progress = Progress::of(layout_.part(rank).progress.load(ordering::log_collect));
    const bool counts = progress.standing == Standing::live || progress.standing == Standing::granted;
    if (!counts || progress.index < floor_) continue;  // below the floor: a former leader granted it too late
    if (rank != rank_ && (space_->gone(rank) || is_stuck(rank, progress, now_ns))) {
      if (!evict(rank, progress)) return false;
      if (Progress::of(layout_.part(rank).progress.load(std::memory_order_acquire)).standing == Standing::out) continue;
    }
    least = std::min(least, progress.index);
  }
  if (space_->kept() != nullptr) least = std::min(least, space_->kept()->index());
  Word& shared = layout_.head().floor;
  if (least > floor_) {
    std::uint64_t word = Floor::word(epoch_, floor_);
    SMELT_LOG_POINT(13);
    // Release: pairs with cell_is_free(). Acquire on failure: a later leader has changed it.
    if (!shared.compare_exchange_strong(word, Floor::word(epoch_, least), ordering::log_floor,
                                        std::memory_order_acquire)) {
      return leading_ = false;
    }
    SMELT_LOG_POINT(14);
    floor_ = least;
    ring();
  }
  for (const int rank : replicas_) {
    const auto progress = Progress::of(layout_.part(rank).progress.load(std::memory_order_acquire));
    if (progress.standing != Standing::joining || progress.index != epoch_) continue;
    std::uint64_t word = progress.word();
    SMELT_LOG_POINT(15);
    layout_.part(rank).progress.compare_exchange_strong(word, progress.with(Standing::granted, floor_).word(),
                                                        std::memory_order_acq_rel, std::memory_order_relaxed);
    SMELT_LOG_POINT(16);
    ring();
  }
  return true;
}

}  // namespace smelt::state::log
