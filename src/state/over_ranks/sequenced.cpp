// rep_remote, rep_local, rep_sc: every client has a replica; a sequencer numbers the updates and sends them down a
// tree.
//
//   client --request--> sequencer: number n --update n--> along the tree, first in, first out --> all replicas
//
//   rep_remote   applied on arrival. A lookup asks the sequencer how many updates there are, waits for these here, and
//                reads here. Linearizable: an update that has ended was numbered before the sequencer was asked.
//   rep_sc       applied on arrival. A lookup reads here, at once. Sequentially consistent, not linearizable: all
//                replicas go through the same states, and a client's update ends when it has been applied here.
//   rep_local    kept on arrival, and a word "received up to n" goes up the tree; when all have n, a word "commit up to
//                n" goes down, upon which it is applied. A lookup of a key that has an update kept here waits; else it
//                reads here. Linearizable: when a first replica applies an update, all others have kept it, so the
//                former value is no longer read.
//
// An update ends when it has been applied at its client. The printed figures differ in two points. Clients send updates
// to all others themselves, which needs a channel between all pairs (3.5, 3.7, 3.15). Figure 3.8 clears the flag of a
// key before the value is applied (lines 18, 19), so that a lookup may return the former value after another one has
// returned the new one. The remark after figure 3.6 still allows a sequencer to send the updates itself: it numbers an
// update before it sends it, and the update ends after it has come back.
// Source: [Shahmirzadi14] 3.4.2, 3.4.3.
#include <algorithm>

#include "base/clock.hpp"
#include "state/over_ranks/member.hpp"

namespace smelt::state::over_ranks {
namespace {

class Sequenced final : public Member {
 public:
  Sequenced(std::shared_ptr<Space> space, int rank, LocalTable table)
      : Member(std::move(space), rank, std::move(table)),
        sequencer_(shape().server(0)),
        parent_(layout_.parents()[static_cast<std::size_t>(rank)]),
        replica_(rank != sequencer_ || shape().dedicated == 0),
        kept_(shape().ranks) {
    for (int other = 0; other < ranks(); ++other) {
      if (layout_.parents()[static_cast<std::size_t>(other)] == rank) children_.push_back({other, 0});
    }
  }

 private:
  static constexpr std::size_t most_kept = 64;
  static constexpr std::uint64_t longest_pause_ns = 1'000'000;

  struct Child {
    int rank;
    std::uint64_t received;
  };
  /// An update that rep_local has not applied yet; at most one of each client, so that a ring of `ranks` holds all.
  struct Kept {
    Word hash = 0;
    std::vector<Word> words;
  };

  MapAnswer look_up(const GroupCall& call) noexcept override {
    if (shape().algorithm == Algorithm::rep_remote) {
      ask_count();
    } else {
      step_now_and_then();
      if (applied_ != received_ && is_kept(call)) await([&] { return !is_kept(call); });
    }
    return {Status::ok, table_.get(call.key, call.hash, call.result), false};
  }

  /// Of rep_local: an update that another rank may have seen before this call has been received here. For the others,
  /// as a lookup.
  void collect(map_detail::VisitBytes visit, void* context) noexcept override {
    if (shape().algorithm == Algorithm::rep_remote) {
      ask_count();
    } else if (!is_mutant(Mutant::rep_local_snapshot_does_not_wait)) {
      step();
      const std::uint64_t seen = received_;
      await([&] { return applied_ >= seen; });
    }
    if (status_ == Status::ok) table_.for_each(visit, context);
  }

  /// Waits until all updates that the sequencer has numbered have arrived.
  void ask_count() noexcept {
    if (rank_ == sequencer_ || is_mutant(Mutant::rep_remote_does_not_ask)) {
      step();
      return;
    }
    counted_ = false;
    Message ask;
    ask.kind = Kind::ask;
    ask.client = rank_;
    links_.post(sequencer_, ask);
    await([this] { return counted_ && applied_ >= count_; });
  }

  MapAnswer update(const GroupCall& call) noexcept override {
    if (links_.kept() > most_kept) let_others_catch_up();
    call_ = &call;
    done_ = false;
    links_.post(sequencer_, message_of(Kind::request, call, rank_));
    if (is_mutant(Mutant::rep_sc_returns_early) && call.operation == Operation::put) done_ = true;
    await([this] { return done_; });
    call_ = nullptr;
    return answer_;
  }

  /// The sequencer's own updates wait for nobody, so that others might never get through what is sent to them. A rank
  /// that makes no call delays it by a millisecond only.
  void let_others_catch_up() noexcept {
    const std::uint64_t until = monotonic_ns() + longest_pause_ns;
    await([&] { return links_.kept() <= most_kept || monotonic_ns() >= until; });
  }

  void handle(int from, const Message& message) noexcept override {
    switch (message.kind) {
      case Kind::request: {  // the sequencer alone gets them
        Message numbered = message;
        numbered.kind = Kind::update;
        numbered.stamp = received_ + 1;
        return accept(numbered);
      }
      case Kind::update: return accept(message);
      case Kind::ask: {
        Message answer;
        answer.kind = Kind::count;
        answer.stamp = received_;
        return links_.post(from, answer);
      }
      case Kind::count: count_ = message.stamp, counted_ = true; break;
      case Kind::received: {
        const auto child = std::ranges::find(children_, from, &Child::rank);
        child->received = message.stamp;
        return confirm();
      }
      default: return commit(message.stamp);
    }
  }

  void accept(const Message& update) noexcept {
    for (const Child& child : children_) links_.post(child.rank, update);
    received_ = update.stamp;
    const bool at_once = is_mutant(Mutant::rep_local_applies_on_arrival);
    if (shape().algorithm != Algorithm::rep_local || at_once) return deliver(update);
    Kept& kept = kept_[update.stamp % kept_.size()];
    links_.coding().encode(update, kept.words);
    kept.hash = table_.hash(update.key);
    confirm();
  }

  void deliver(const Message& update) noexcept {
    const bool own = update.client == rank_ && call_ != nullptr;
    if (replica_) {
      const MapAnswer answer = table_.apply(update, table_.hash(update.key), own ? call_->result : Target{});
      if (answer.status != Status::ok) fail("a replica has no memory for an update that others have");
      if (own) answer_ = answer;
    }
    if (own) done_ = true;
    applied_ = update.stamp;
  }

  // ---- rep_local

  bool is_kept(const GroupCall& call) const noexcept {
    if (is_mutant(Mutant::rep_local_does_not_wait)) return false;
    for (std::uint64_t number = applied_ + 1; number <= received_; ++number) {
      const Kept& kept = kept_[number % kept_.size()];
      if (kept.hash != call.hash) continue;
      if (links_.coding().decode(kept.words.data()).key == call.key) return true;
    }
    return false;
  }

  /// Reports the last update that all ranks below have received. The root then lets them apply it.
  void confirm() noexcept {
    std::uint64_t all = received_;
    for (const Child& child : children_) all = std::min(all, child.received);
    if (all <= confirmed_) return;
    confirmed_ = all;
    if (parent_ < 0) return commit(all);
    Message message;
    message.kind = Kind::received;
    message.stamp = all;
    links_.post(parent_, message);
  }

  void commit(std::uint64_t last) noexcept {
    Message message;
    message.kind = Kind::commit;
    message.stamp = last;
    for (const Child& child : children_) links_.post(child.rank, message);
    while (applied_ < last) deliver(links_.coding().decode(kept_[(applied_ + 1) % kept_.size()].words.data()));
  }

  // ---- the end

  void close() noexcept override {
    if (rank_ != sequencer_) return;
    step();
    layout_.part(rank_).last.store(received_ + 1, std::memory_order_release);
  }
  bool is_closed() noexcept override {
    // Acquire: pairs with close(). No update was numbered after this.
    const std::uint64_t last = layout_.part(sequencer_).last.load(std::memory_order_acquire);
    return last != 0 && applied_ + 1 == last;
  }

  const int sequencer_;
  const int parent_;  ///< -1: of the sequencer, the root
  const bool replica_;
  std::vector<Child> children_;
  std::vector<Kept> kept_;
  std::uint64_t received_ = 0;   ///< number of the last update that arrived; for the sequencer: that exists
  std::uint64_t applied_ = 0;    ///< ... that the replica has; rep_local: less than received_ while some are kept
  std::uint64_t confirmed_ = 0;  ///< ... that all from here down have received
  std::uint64_t count_ = 0;
  bool counted_ = false;
  const GroupCall* call_ = nullptr;
  MapAnswer answer_;
  bool done_ = false;
};

}  // namespace

std::unique_ptr<Member> make_sequenced(std::shared_ptr<Space> space, int rank, LocalTable table) {
  return std::make_unique<Sequenced>(std::move(space), rank, std::move(table));
}

}  // namespace smelt::state::over_ranks
