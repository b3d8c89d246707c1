// kv: replicas that apply a replicated log. A rank with a replica appends its updates and reads its replica. Other
// ranks send their operations to a near replica and get answers.
//
//   client --request--> its replica --append--> log --next--> every replica: applies; the client's own one answers
//
// Linearizable: a lookup gets the log's read point, waits until the replica has applied all entries below, and reads.
// With Consistency::sequential it reads at once: all replicas go through the same states, and an update ends when its
// client's replica has applied it. Ranks with a replica survive the same faults as the log. A rank without one depends
// on its replica's rank.
// Source: [Smelt16] 5.7.
#include <algorithm>

#include "base/error.hpp"
#include "state/over_ranks/member.hpp"

namespace smelt::state::over_ranks {
namespace {

class Kv final : public Member {
 public:
  Kv(std::shared_ptr<Space> space, int rank, LocalTable table)
      : Member(std::move(space), rank, std::move(table)),
        own_replica_(shape().replica_of(rank)),
        waiting_(shape().ranks) {
    for (Waiting& waiting : waiting_) waiting.key.resize(shape().geometry.key_words);
  }

  /// Before the first call.
  Result<void> open() {
    if (own_replica_ != rank_) return {};
    auto replica = space_->log()->attach(rank_, {this, apply, save, load});
    if (!replica) return replica.error();
    replica_.emplace(*std::move(replica));
    return {};
  }

 private:
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

  MapAnswer update(const GroupCall& call) noexcept override {
    if (!replica_) return ask(call);
    call_ = &call;
    answered_ = false;
    if (append(message_of(Kind::request, call, rank_))) wait_for_answer();
    call_ = nullptr;
    if (!answered_) fail("an update's answer was lost, as this replica was evicted; it was done");
    return answer_;
  }

  void wait_for_answer() noexcept {
    if (!links_.none()) {
      await([this] { return answered_ || is_lost(); });
      return;
    }
    std::uint64_t index = 0;
    if (check(replica_->wait(ticket_, &index)) && index != Replica::unknown_index) {
      check(replica_->catch_up(index + 1));
    }
  }

  /// Whether this rank's update was executed and arrived in a snapshot, without its answer.
  bool is_lost() noexcept {
    bool done = false;
    std::uint64_t index = 0;
    check(replica_->test(ticket_, &done, &index));
    return done && index == Replica::unknown_index && !answered_;
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
    const std::size_t words = links_.coding().encode(message, command_.data());
    return check(replica_->start(command_.data(), words * sizeof(Word), &ticket_));
  }

  bool check(Status status) noexcept {
    if (status != Status::ok) fail(replica_->failure());
    return status == Status::ok;
  }

  void handle(int from, const Message& message) noexcept override {
    if (message.kind == Kind::answer) return take_answer(message.answer(), message.value);
    if (message.operation != Operation::get) {
      append(message);
      return;
    }
    // A lookup with read point `point` waits for these entries; work() answers it.
    Waiting& waiting = waiting_[static_cast<std::size_t>(from)];
    waiting.active = true;
    waiting.point = 0;
    if (shape().sequential == 0) check(replica_->read_point(&waiting.point));
    std::copy(message.key, message.key + waiting.key.size(), waiting.key.begin());
    ++lookups_waiting_;
  }

  bool work() noexcept override {
    if (!replica_) return false;
    const std::uint64_t before = replica_->delivered();
    check(replica_->progress());
    for (int rank = 0; lookups_waiting_ != 0 && rank < ranks(); ++rank) {
      Waiting& waiting = waiting_[static_cast<std::size_t>(rank)];
      if (!waiting.active || replica_->delivered() < waiting.point) continue;
      waiting.active = false;
      --lookups_waiting_;
      Message answer;
      answer.kind = Kind::answer;
      const bool found = table_.get(waiting.key.data(), table_.hash(waiting.key.data()), was_.data());
      answer.flags = found ? Message::found : 0;
      if (found) answer.value = was_.data();
      links_.post(rank, answer);
    }
    return replica_->delivered() != before;
  }

  void take_answer(const MapAnswer& answer, const Word* value) noexcept {
    answer_ = answer;
    if (value != nullptr && call_->result != nullptr) {
      std::copy(value, value + shape().geometry.value_words, call_->result);
    }
    answered_ = true;
  }

  void deliver(const Entry& entry) noexcept {
    const Message update = links_.coding().decode(static_cast<const Word*>(entry.data));
    const MapAnswer done = table_.apply(update, table_.hash(update.key), was_.data());
    if (done.status != Status::ok) fail("a replica has no memory for an update that others have");
    if (entry.client != rank_) return;
    const Word* value = done.found ? was_.data() : nullptr;
    if (update.client == rank_) {
      if (call_ != nullptr) take_answer(done, value);
      return;
    }
    Message answer;
    answer.kind = Kind::answer;
    answer.flags = flags_of(done);
    const bool tells = update.operation == Operation::compare_exchange || update.operation == Operation::fetch_add;
    if (tells) answer.value = value;
    links_.post(update.client, answer);
  }

  // ---- the log's side

  static void apply(void* self, const Entry& entry) { static_cast<Kv*>(self)->deliver(entry); }

  /// All cells, one after the other.
  static void save(void* self, std::vector<std::byte>& bytes) {
    struct To {
      std::vector<std::byte>& bytes;
      std::size_t cell_bytes;
    };
    auto& kv = *static_cast<Kv*>(self);
    const Geometry& geometry = kv.shape().geometry;
    To to{bytes, (geometry.key_words + geometry.value_words) * sizeof(Word)};
    kv.table_.for_each(
        [](void* context, const Word* cell) {
          auto& saved = *static_cast<To*>(context);
          const auto* begin = reinterpret_cast<const std::byte*>(cell);
          saved.bytes.insert(saved.bytes.end(), begin, begin + saved.cell_bytes);
        },
        &to);
  }

  static void load(void* self, std::span<const std::byte> bytes) {
    auto& kv = *static_cast<Kv*>(self);
    auto empty = LocalTable::create(kv.shape().geometry, kv.space_->capacity());
    if (!empty) {
      kv.fail("no memory for a snapshot: " + empty.error().message);
      return;
    }
    kv.table_ = *std::move(empty);
    const std::size_t key_words = kv.shape().geometry.key_words;
    std::vector<Word> cell(key_words + kv.shape().geometry.value_words);
    for (; bytes.size() >= cell.size() * sizeof(Word); bytes = bytes.subspan(cell.size() * sizeof(Word))) {
      std::memcpy(cell.data(), bytes.data(), cell.size() * sizeof(Word));
      kv.table_.put(cell.data(), kv.table_.hash(cell.data()), cell.data() + key_words);
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

  /// A lookup of a client; at most one of each.
  struct Waiting {
    bool active = false;
    std::uint64_t point = 0;
    std::vector<Word> key;
  };

  const int own_replica_;
  std::vector<Word> command_ = std::vector<Word>(links_.coding().most_words());
  std::vector<Word> was_ = std::vector<Word>(shape().geometry.value_words);
  std::vector<Waiting> waiting_;  ///< by client
  int lookups_waiting_ = 0;
  Ticket ticket_;
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
