// kv: replicas that apply a replicated log. A rank with a replica appends its updates and reads its replica. Other
// ranks send their operations to a near replica and get answers.
//
//   client --request--> its replica --append--> log --next--> every replica: applies; the client's own one answers
//
// Linearizable: a lookup gets the log's read point, waits until the replica has applied all entries below, and reads.
// With Consistency::sequential it reads at once: all replicas go through the same states, and an update ends when its
// client's replica has applied it. Ranks with a replica survive the same faults as the log. A rank without one depends
// on its replica's rank.
//
// An update of strings that is longer than a command of the log is appended in pieces:
//   | words of the message, 32 bits | number of the piece's first word, 32 bits | words ...
// A rank's pieces follow each other in the log's order of that rank's commands. The last one executes the update. What
// a rank that died has left incomplete has no effect; its next message, in another life of a kept log, begins anew.
// Source: [Smelt16] 5.7.
#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "state/over_ranks/member.hpp"

namespace smelt::state::over_ranks {
namespace {

class Kv final : public Member {
 public:
  Kv(std::shared_ptr<Space> space, int rank, LocalTable table)
      : Member(std::move(space), rank, std::move(table)),
        own_replica_(shape().replica_of(rank)),
        incomplete_(shape().ranks),
        asked_(shape().ranks),
        waiting_(shape().ranks, Waiting{false, 0, key_buffer()}) {}

  /// Before the first call.
  Result<void> open() {
    if (own_replica_ != rank_) return {};
    auto replica = space_->log()->attach(rank_, {this, apply, save, load});
    if (!replica) return replica.error();
    replica_.emplace(*std::move(replica));
    return {};
  }

 private:
  static constexpr const char* answer_was_lost = "an update's answer was lost, as its replica was evicted; it was done";

  /// A lookup of a client; at most one of each.
  struct Waiting {
    bool active = false;
    std::uint64_t point = 0;
    Buffer key;
    bool lists = false;  ///< of all keys
  };

  MapAnswer look_up(const GroupCall& call) noexcept override {
    if (!replica_) return ask(call);
    step_now_and_then();
    if (shape().sequential == 0) {
      std::uint64_t point = 0;
      check(replica_->read_point(&point));
      check(replica_->catch_up(point));
    }
    return {Status::ok, table_.get(call.key, call.hash, call.result), false};
  }

  /// As a lookup of all keys.
  void collect(map_detail::VisitBytes visit, void* context) noexcept override {
    if (!replica_) {
      collect_from(own_replica_, visit, context);
      return;
    }
    std::uint64_t point = 0;
    if (shape().sequential == 0 && !(check(replica_->read_point(&point)) && check(replica_->catch_up(point)))) return;
    table_.for_each(visit, context);
  }

  MapAnswer update(const GroupCall& call) noexcept override {
    if (!replica_) return ask(call);
    call_ = &call;
    answered_ = false;
    if (append(message_of(Kind::request, call, rank_))) wait_for_answer();
    call_ = nullptr;
    asked_[static_cast<std::size_t>(rank_)] = 0;
    if (!answered_) fail(answer_was_lost);
    return answer_;
  }

  void wait_for_answer() noexcept {
    if (!links_.none()) {
      await([this] { return answered_; });
      return;
    }
    std::uint64_t index = 0;
    if (check(replica_->wait(ticket_, &index)) && index != Replica::unknown_index) {
      check(replica_->catch_up(index + 1));
    }
  }

  /// Whether an update that waits for its answer was executed in a snapshot that this replica has got, so that none
  /// comes.
  bool is_lost(std::uint64_t request) noexcept {
    bool done = false;
    std::uint64_t index = 0;
    check(replica_->test({request}, &done, &index));
    return done && (index == Replica::unknown_index || index < replica_->delivered());
  }

  /// After a snapshot.
  void report_lost_answers() noexcept {
    has_loaded_ = false;
    for (int client = 0; client < ranks(); ++client) {
      std::uint64_t& asked = asked_[static_cast<std::size_t>(client)];
      // The test may take steps, which may bring the answer.
      if (asked == 0 || !is_lost(asked) || asked == 0) continue;
      asked = 0;
      if (client == rank_) {
        fail(answer_was_lost);
        continue;
      }
      Message answer;
      answer.kind = Kind::answer;
      answer.flags = Message::lost;
      links_.post(client, answer);
    }
  }

  MapAnswer ask(const GroupCall& call) noexcept {
    call_ = &call;
    answered_ = false;
    links_.post(own_replica_, message_of(Kind::request, call, rank_));
    await([this] { return answered_; });
    call_ = nullptr;
    return answer_;
  }

  bool append(const Message& message) noexcept {
    const std::size_t words = links_.coding().encode(message, command_);
    const std::size_t pieces = strings() ? (words + piece_words - 1) / piece_words : 1;
    asked_[static_cast<std::size_t>(message.client)] = replica_->started() + pieces;
    if (!strings()) return check(replica_->start(command_.data(), words * sizeof(Word), &ticket_));
    std::array<Word, 1 + piece_words> piece;
    for (std::size_t first = 0; first < words; first += piece_words) {
      const std::size_t count = std::min(piece_words, words - first);
      piece[0] = words | Word{first} << 32;
      std::copy_n(command_.data() + first, count, piece.data() + 1);
      if (!check(replica_->start(piece.data(), (1 + count) * sizeof(Word), &ticket_))) return false;
    }
    return true;
  }

  bool check(Status status) noexcept {
    if (status != Status::ok) fail(replica_->failure());
    return status == Status::ok;
  }

  void handle(int from, const Message& message) noexcept override {
    if (message.kind == Kind::answer) {
      if ((message.flags & Message::lost) != 0) return static_cast<void>(fail(answer_was_lost));
      return take_answer(message.answer(), message.value);
    }
    if (message.kind == Kind::cell || message.kind == Kind::listed) return take_cell(message);
    if (message.operation != Operation::get) {
      append(message);
      return;
    }
    // A lookup with read point `point` waits for these entries; work() answers it.
    Waiting& waiting = waiting_[static_cast<std::size_t>(from)];
    waiting.active = true;
    waiting.point = 0;
    if (shape().sequential == 0) check(replica_->read_point(&waiting.point));
    waiting.lists = message.kind == Kind::list;
    if (!waiting.lists) waiting.key.assign(message.key);
    ++lookups_waiting_;
  }

  bool work() noexcept override {
    if (!replica_) return false;
    const std::uint64_t before = replica_->delivered();
    check(replica_->progress());
    if (has_loaded_) report_lost_answers();
    for (int rank = 0; lookups_waiting_ != 0 && rank < ranks(); ++rank) {
      Waiting& waiting = waiting_[static_cast<std::size_t>(rank)];
      if (!waiting.active || replica_->delivered() < waiting.point) continue;
      waiting.active = false;
      --lookups_waiting_;
      answer_lookup(rank, waiting);
    }
    return replica_->delivered() != before;
  }

  void answer_lookup(int rank, const Waiting& waiting) noexcept {
    if (waiting.lists) return send_cells(rank);
    Message answer;
    answer.kind = Kind::answer;
    const Bytes key = waiting.key.bytes();
    const bool found = table_.get(key, table_.hash(key), was_.target());
    answer.flags = found ? Message::found : 0;
    if (found) answer.value = was_.bytes();
    links_.post(rank, answer);
  }

  void take_answer(const MapAnswer& answer, Bytes value) noexcept {
    answer_ = answer;
    if (value.data() != nullptr) call_->result.take(value);
    answered_ = true;
  }

  void deliver(const Entry& entry) noexcept {
    const auto* words = static_cast<const Word*>(entry.data);
    if (strings()) words = completed(entry.client, words, entry.bytes / sizeof(Word) - 1);
    if (words == nullptr) return;
    const Message update = links_.coding().decode(words);
    const MapAnswer done = table_.apply(update, table_.hash(update.key), was_.target());
    if (done.status != Status::ok) fail("a replica has no memory for an update that others have");
    if (entry.client != rank_) return;
    std::uint64_t& asked = asked_[static_cast<std::size_t>(update.client)];
    if (asked != entry.request) return;  // of a former life, in a log that was kept
    asked = 0;
    const Bytes value = done.found && tells_value(update.operation) ? was_.bytes() : Bytes();
    if (update.client == rank_) return take_answer(done, value);
    Message answer;
    answer.kind = Kind::answer;
    answer.flags = flags_of(done);
    answer.value = value;
    links_.post(update.client, answer);
  }

  /// The words of the message that this piece completes; null: some are missing.
  const Word* completed(int client, const Word* piece, std::size_t count) noexcept {
    const std::size_t words = piece[0] & 0xffff'ffff, first = piece[0] >> 32;
    if (count == words) return piece + 1;
    std::vector<Word>& message = incomplete_[static_cast<std::size_t>(client)];
    if (first == 0) message.clear();
    message.insert(message.end(), piece + 1, piece + 1 + count);
    return message.size() == words ? message.data() : nullptr;
  }

  // ---- the log's side

  static void apply(void* self, const Entry& entry) { static_cast<Kv*>(self)->deliver(entry); }

  /// Incomplete updates of each rank, then all cells. Strings and updates have their lengths before them.
  static void save(void* self, std::vector<std::byte>& bytes) {
    struct To {
      std::vector<std::byte>& bytes;
      bool lengths;

      void add(Bytes part) {
        const Word length = part.size();
        const auto* begin = reinterpret_cast<const std::byte*>(part.data());
        if (lengths) append(reinterpret_cast<const std::byte*>(&length), sizeof length);
        append(begin, part.size());
      }
      void append(const std::byte* begin, std::size_t count) { bytes.insert(bytes.end(), begin, begin + count); }
    };
    auto& kv = *static_cast<Kv*>(self);
    To to{bytes, kv.strings()};
    for (const auto& message : kv.incomplete_) {
      if (kv.strings()) to.add(bytes_of(message.data(), message.size()));
    }
    kv.table_.for_each(
        [](void* context, Bytes key, Bytes value) {
          auto& saved = *static_cast<To*>(context);
          saved.add(key);
          saved.add(value);
        },
        &to);
  }

  static void load(void* self, std::span<const std::byte> bytes) {
    auto& kv = *static_cast<Kv*>(self);
    kv.has_loaded_ = true;
    const Geometry& geometry = kv.shape().geometry;
    auto empty = LocalTable::create(geometry, kv.strings(), kv.space_->capacity());
    if (!empty) {
      kv.fail("no memory for a snapshot: " + empty.error().message);
      return;
    }
    kv.table_ = *std::move(empty);
    const auto take = [&](std::size_t fixed_words, std::vector<Word>& to) {
      Word length = fixed_words * sizeof(Word);
      if (kv.strings()) {
        std::memcpy(&length, bytes.data(), sizeof length);
        bytes = bytes.subspan(sizeof length);
      }
      to.resize(map_detail::words_of(length));
      std::copy_n(bytes.data(), length, reinterpret_cast<std::byte*>(to.data()));
      bytes = bytes.subspan(length);
      return Bytes(reinterpret_cast<const char*>(to.data()), length);
    };
    for (auto& message : kv.incomplete_) {
      if (kv.strings()) take(0, message);
    }
    std::vector<Word> key_words, value_words;
    key_words.reserve(1), value_words.reserve(1);  // an empty string has an address, too
    while (!bytes.empty()) {
      const Bytes key = take(geometry.key_words, key_words);
      kv.table_.put(key, kv.table_.hash(key), take(geometry.value_words, value_words));
    }
  }

  // ---- deaths, and the end

  Status serve(bool (*stop)(void* context), void* context) noexcept override {
    if (!replica_ || !links_.none()) return Member::serve(stop, context);
    check(replica_->serve(stop, context));
    return status_;
  }

  int missing() noexcept override {
    if (replica_) return -1;  // the log reports it
    return members().present(own_replica_) ? -1 : own_replica_;
  }

  void close() noexcept override {
    // All appends have returned, so their indices are smaller.
    if (replica_) check(replica_->read_point(&end_));
  }
  bool is_closed() noexcept override { return !replica_ || replica_->delivered() >= end_; }

  const int own_replica_;
  std::vector<Word> command_;
  Buffer was_ = value_buffer();
  std::vector<std::vector<Word>> incomplete_;  ///< by client: pieces of strings that have arrived
  std::vector<std::uint64_t> asked_;           ///< by client: the log's request, its last piece, of the update that
                                               ///< waits for its answer; 0: none
  std::vector<Waiting> waiting_;               ///< by client
  int lookups_waiting_ = 0;
  Ticket ticket_;
  bool has_loaded_ = false;  ///< a snapshot, since answers were last looked for in it
  std::uint64_t end_ = 0;
  const GroupCall* call_ = nullptr;
  MapAnswer answer_;
  bool answered_ = false;
  std::optional<Replica> replica_;  ///< last member, since its destruction uses the others
};

}  // namespace

Result<std::unique_ptr<Member>> make_kv(std::shared_ptr<Space> space, int rank, LocalTable table) {
  auto kv = std::make_unique<Kv>(std::move(space), rank, std::move(table));
  if (auto opened = kv->open(); !opened) return opened.error();
  return std::unique_ptr<Member>(std::move(kv));
}

}  // namespace smelt::state::over_ranks
