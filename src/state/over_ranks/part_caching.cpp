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
#include "state/over_ranks/partitioned.hpp"

namespace smelt::state::over_ranks {
namespace {

class PartCaching final : public Partitioned {
 public:
  PartCaching(std::shared_ptr<Space> space, int rank, LocalTable table, LocalTable copies, LocalTable holders)
      : Partitioned(std::move(space), rank, std::move(table)),
        copies_(std::move(copies)),
        holders_(std::move(holders)),
        updates_(shape().ranks),
        holders_of_key_(holder_words(shape()), strings()) {}

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
    if (is_handled(from, message)) return;
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
    if (message.value.data() != nullptr) call_->result.take(message.value);
    // Immediately, because the next message may be the invalidation.
    if ((message.flags & Message::may_copy) != 0) copies_.put(call_->key, call_->hash, message.value);
    answered_ = true;
  }

  // ---- server

  void accept(int from, const Message& request) noexcept override {
    const Word hash = table_.hash(request.key);
    const bool changing = is_changing(request.key, hash);
    if (request.operation == Operation::get) {
      if (!changing && from != rank_) hold(request.key, hash, from);
      const bool refused = changing && !is_mutant(Mutant::part_caching_copies_while_changing);
      return answer(from, request, hash, refused || from == rank_ ? 0 : Message::may_copy);
    }
    Update& update = updates_[static_cast<std::size_t>(from)];
    links_.coding().encode(request, update.words);
    update.hash = hash;
    if (!changing) return begin(from);
    update.state = Update::State::waits;
    update.turn = ++turns_;
    ++active_;
  }

  /// Whether an update of the key has been begun.
  bool is_changing(Bytes key, Word hash) const noexcept {
    if (active_ == 0) return false;
    return std::ranges::any_of(updates_, [&](const Update& update) {
      return update.state == Update::State::invalidates && is_of(update, key, hash);
    });
  }
  bool is_of(const Update& update, Bytes key, Word hash) const noexcept {
    return update.hash == hash && links_.coding().decode(update.words.data()).key == key;
  }

  /// Asks the holders of copies to drop them.
  void begin(int client) noexcept {
    Update& update = updates_[static_cast<std::size_t>(client)];
    const Message request = links_.coding().decode(update.words.data());
    if (update.state == Update::State::none) ++active_;
    update.state = Update::State::invalidates;
    update.missing = 0;
    if (load_holders(request.key, update.hash)) {
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
    if (--updates_[static_cast<std::size_t>(client)].missing == 0 && !is_frozen()) apply(client);
  }

  /// Updates whose copies were dropped meanwhile.
  void thaw() noexcept override {
    for (int client = 0; client < ranks(); ++client) {
      const Update& update = updates_[static_cast<std::size_t>(client)];
      if (update.state == Update::State::invalidates && update.missing == 0) apply(client);
    }
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
    const MapAnswer done = table_.apply(request, hash, was_.target());
    Message answer;
    answer.kind = Kind::answer;
    answer.flags = flags_of(done);
    if (tells_value(request.operation) && done.found) {
      answer.value = was_.bytes();
      answer.flags |= more_flags;
    }
    links_.post(client, answer);
  }

  void hold(Bytes key, Word hash, int rank) noexcept {
    if (!load_holders(key, hash)) std::ranges::fill(set_, 0);
    set_[static_cast<std::size_t>(rank) / 64] |= Word{1} << (rank % 64);
    holders_.put(key, hash, bytes_of(set_.data(), set_.size()));
  }
  bool load_holders(Bytes key, Word hash) noexcept {
    if (!holders_.get(key, hash, holders_of_key_.target())) return false;
    std::memcpy(set_.data(), holders_of_key_.bytes().data(), set_.size() * sizeof(Word));
    return true;
  }

  LocalTable copies_;   ///< of others' keys
  LocalTable holders_;  ///< of own keys: the ranks that have a copy
  std::vector<Update> updates_;
  std::uint64_t turns_ = 0;
  int active_ = 0;  ///< updates that are not `none`
  std::vector<Word> set_ = std::vector<Word>(holder_words(shape()));
  Buffer holders_of_key_;
  Buffer was_ = value_buffer();
  const GroupCall* call_ = nullptr;
  MapAnswer answer_;
  bool answered_ = false;
};

}  // namespace

Result<std::unique_ptr<Member>> make_part_caching(std::shared_ptr<Space> space, int rank, LocalTable table) {
  const Shape& shape = space->shape();
  const bool strings = shape.strings != 0;
  auto copies = LocalTable::create(shape.geometry, strings, space->capacity());
  auto holders = LocalTable::create(
      map_detail::geometry_of(shape.geometry.key_bytes, PartCaching::holder_words(shape) * sizeof(Word)), strings,
      space->capacity());
  if (!copies) return copies.error();
  if (!holders) return holders.error();
  return std::unique_ptr<Member>(
      std::make_unique<PartCaching>(std::move(space), rank, std::move(table), *std::move(copies), *std::move(holders)));
}

}  // namespace smelt::state::over_ranks
