// part_caching: part_simple with copies at the clients, which an update invalidates.
//
//   lookup   a copy here; else server: value, may_copy; the server notes who holds a copy
//   update   client --request--> server --invalidate--> holders --invalidated--> server: applies --answer--> client
//
// Rules:
//   1. An update is applied when no copy of its key is left. Meanwhile, lookups of the key are answered with the former
//      value, without may_copy, and other updates of the key wait. Other keys are not affected.
//   2. A client drops its own copy before it asks for an update, and the server then does not count it as a holder.
//   3. Invalidations and values use the same FIFO channel, so no value overtakes an invalidation.
// Linearizable: a copy is read only before the update that ends it has been applied, and thus before it is answered.
// Source: [Shahmirzadi14] figures 3.12, 3.13, theorem 3.4.2; rule 1 is that of the model (before 3.48), rule 3 is not in
// the figures, where a value can arrive after the invalidation of its key and stay.
#include <algorithm>

#include "base/error.hpp"
#include "state/over_ranks/member.hpp"

namespace smelt::state::over_ranks {
namespace {

class PartCaching final : public Member {
 public:
  PartCaching(std::shared_ptr<Space> space, int rank, LocalTable table, LocalTable copies, LocalTable holders)
      : Member(std::move(space), rank, std::move(table)),
        copies_(std::move(copies)),
        holders_(std::move(holders)),
        updates_(shape().ranks) {
    for (Update& update : updates_) update.words.resize(links_.coding().most_words());
  }

  /// A set of ranks, one bit each.
  static std::size_t holder_words(const Shape& shape) { return (shape.ranks + 63) / 64; }

 private:
  /// A client's update that this server has not applied yet.
  struct Update {
    enum class State { none, waits, invalidates };
    State state = State::none;
    std::uint64_t turn = 0;  ///< of the waiting updates of a key, the one with the lowest turn is next
    int missing = 0;         ///< holders that have not answered
    Word hash = 0;
    std::vector<Word> words;
  };

  int owner_of(Word hash) const noexcept { return shape().server(server_of(hash, shape().servers)); }

  MapAnswer look_up(const GroupCall& call) noexcept override {
    step_now_and_then();
    if (owner_of(call.hash) == rank_) return {Status::ok, table_.get(call.key, call.hash, call.result), false};
    if (copies_.get(call.key, call.hash, call.result)) return {Status::ok, true, false};
    return ask(call);
  }

  MapAnswer update(const GroupCall& call) noexcept override {
    copies_.erase(call.key, call.hash);
    return ask(call);
  }

  MapAnswer ask(const GroupCall& call) noexcept {
    call_ = &call;
    answered_ = false;
    links_.post(owner_of(call.hash), message_of(Kind::request, call, rank_));
    await([this] { return answered_; });
    return answer_;
  }

  void handle(int from, const Message& message) noexcept override {
    switch (message.kind) {
      case Kind::request: return accept(from, message);
      case Kind::invalidated: return count_invalidated(message.client);
      case Kind::invalidate: {
        copies_.erase(message.key, table_.hash(message.key));
        Message answer;
        answer.kind = Kind::invalidated;
        answer.client = message.client;
        return links_.post(from, answer);
      }
      default: return take_answer(message);
    }
  }

  void take_answer(const Message& message) noexcept {
    answer_ = message.answer();
    if (message.value != nullptr && call_->result != nullptr) {
      std::copy(message.value, message.value + shape().geometry.value_words, call_->result);
    }
    // Immediately, because the next message may be the invalidation.
    if ((message.flags & Message::may_copy) != 0) copies_.put(call_->key, call_->hash, message.value);
    answered_ = true;
  }

  // ---- server

  void accept(int from, const Message& request) noexcept {
    const Word hash = table_.hash(request.key);
    const bool changing = is_changing(request.key, hash);
    if (request.operation == Operation::get) {
      if (!changing && from != rank_) hold(request.key, hash, from);
      const bool refused = changing && !is_mutant(Mutant::part_caching_copies_while_changing);
      return answer(from, request, hash, refused || from == rank_ ? 0 : Message::may_copy);
    }
    Update& update = updates_[static_cast<std::size_t>(from)];
    links_.coding().encode(request, update.words.data());
    update.hash = hash;
    if (!changing) return begin(from);
    update.state = Update::State::waits;
    update.turn = ++turns_;
    ++active_;
  }

  /// Whether an update of the key has been begun.
  bool is_changing(const Word* key, Word hash) const noexcept {
    if (active_ == 0) return false;
    return std::ranges::any_of(updates_, [&](const Update& update) {
      return update.state == Update::State::invalidates && is_of(update, key, hash);
    });
  }
  bool is_of(const Update& update, const Word* key, Word hash) const noexcept {
    const Word* other = links_.coding().decode(update.words.data()).key;
    return update.hash == hash && std::equal(key, key + shape().geometry.key_words, other);
  }

  /// Asks the holders of copies to drop them.
  void begin(int client) noexcept {
    Update& update = updates_[static_cast<std::size_t>(client)];
    const Message request = links_.coding().decode(update.words.data());
    if (update.state == Update::State::none) ++active_;
    update.state = Update::State::invalidates;
    update.missing = 0;
    if (holders_.get(request.key, update.hash, set_.data())) {
      holders_.erase(request.key, update.hash);
      Message drop;
      drop.kind = Kind::invalidate;
      drop.client = client;
      drop.key = request.key;
      for (int rank = 0; rank < ranks(); ++rank) {
        if (rank == client || (set_[static_cast<std::size_t>(rank) / 64] >> (rank % 64) & 1) == 0) continue;
        links_.post(rank, drop);
        ++update.missing;
      }
    }
    if (is_mutant(Mutant::part_caching_applies_at_once)) update.missing = 0;
    if (update.missing == 0) apply(client);
  }

  void count_invalidated(int client) noexcept {
    if (is_mutant(Mutant::part_caching_applies_at_once)) return;
    if (--updates_[static_cast<std::size_t>(client)].missing == 0) apply(client);
  }

  void apply(int client) noexcept {
    Update& update = updates_[static_cast<std::size_t>(client)];
    const Message request = links_.coding().decode(update.words.data());
    answer(client, request, update.hash, 0);
    update.state = Update::State::none;
    --active_;
    // The next update of this key, if one waits.
    int next = -1;
    for (int rank = 0; active_ != 0 && rank < ranks(); ++rank) {
      const Update& other = updates_[static_cast<std::size_t>(rank)];
      if (other.state != Update::State::waits || !is_of(other, request.key, update.hash)) continue;
      if (next < 0 || other.turn < updates_[static_cast<std::size_t>(next)].turn) next = rank;
    }
    if (next >= 0) begin(next);
  }

  void answer(int client, const Message& request, Word hash, std::uint8_t more_flags) noexcept {
    const MapAnswer done = table_.apply(request, hash, was_.data());
    Message answer;
    answer.kind = Kind::answer;
    answer.flags = flags_of(done);
    const bool tells = request.operation == Operation::get || request.operation == Operation::compare_exchange ||
                       request.operation == Operation::fetch_add;
    if (tells && done.found) {
      answer.value = was_.data();
      answer.flags |= more_flags;
    }
    links_.post(client, answer);
  }

  void hold(const Word* key, Word hash, int rank) noexcept {
    if (!holders_.get(key, hash, set_.data())) std::ranges::fill(set_, 0);
    set_[static_cast<std::size_t>(rank) / 64] |= Word{1} << (rank % 64);
    holders_.put(key, hash, set_.data());
  }

  LocalTable copies_;   ///< of others' keys
  LocalTable holders_;  ///< of own keys: the ranks that have a copy
  std::vector<Update> updates_;
  std::uint64_t turns_ = 0;
  int active_ = 0;  ///< updates that are not `none`
  std::vector<Word> set_ = std::vector<Word>(holder_words(shape()));
  std::vector<Word> was_ = std::vector<Word>(shape().geometry.value_words);
  const GroupCall* call_ = nullptr;
  MapAnswer answer_;
  bool answered_ = false;
};

}  // namespace

Result<std::unique_ptr<Member>> make_part_caching(std::shared_ptr<Space> space, int rank, LocalTable table) {
  const Shape& shape = space->shape();
  auto copies = LocalTable::create(shape.geometry, space->capacity());
  auto holders = LocalTable::create(
      map_detail::geometry_of(shape.geometry.key_bytes, PartCaching::holder_words(shape) * sizeof(Word)),
      space->capacity());
  if (!copies) return copies.error();
  if (!holders) return holders.error();
  return std::unique_ptr<Member>(
      std::make_unique<PartCaching>(std::move(space), rank, std::move(table), *std::move(copies), *std::move(holders)));
}

}  // namespace smelt::state::over_ranks
