// A map over the ranks of a communicator: any algorithm of map_algorithms(), on threads or processes.
//
//   auto map = smelt::MapGroup<std::uint64_t, double>::create(*comm, {.algorithm = "part_simple"});
//   auto mine = map->attach(rank);                  // on each rank's thread
//   mine->put(42, 1.5);
//   mine->finish();                                 // serves the others until they have finished, too
//
// StringMapGroup holds byte strings. The promises of each algorithm: docs/reference/map.md. A map that needs no ranks
// is smelt::Map.
// Source: [Shahmirzadi14] 3.4; kv: [Smelt16] 5.7.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "smelt/communicator.hpp"
#include "smelt/map.hpp"
#include "smelt/map_model.hpp"

namespace smelt {

namespace map_detail {

enum class Operation : std::uint8_t { get, put, insert, erase, compare_exchange, fetch_add };

/// The type in which fetch_add() adds.
enum class Number : std::uint8_t { none, i8, i16, i32, i64, u8, u16, u32, u64, f32, f64, f128 };

template <class Value>
constexpr Number number_of() noexcept {
  if constexpr (!std::is_arithmetic_v<Value>) {
    return Number::none;
  } else if constexpr (std::is_floating_point_v<Value>) {
    return sizeof(Value) == 4 ? Number::f32 : sizeof(Value) == 8 ? Number::f64 : Number::f128;
  } else {
    const int size = sizeof(Value) == 1 ? 0 : sizeof(Value) == 2 ? 1 : sizeof(Value) == 4 ? 2 : 3;
    return static_cast<Number>((std::is_signed_v<Value> ? 1 : 5) + size);
  }
}

/// A key or a value: the bytes of its words, or those of a string. Without data: none.
using Bytes = std::string_view;
inline Bytes bytes_of(const Word* words, std::size_t count) noexcept {
  return {reinterpret_cast<const char*>(words), count * sizeof(Word)};
}

/// Copies one or two words in place, since a call of memcpy() takes longer than they do.
inline void copy_short(Word* to, Bytes from) noexcept {
  if (from.size() == sizeof(Word)) {
    std::memcpy(to, from.data(), sizeof(Word));
  } else if (from.size() == 2 * sizeof(Word)) {
    std::memcpy(to, from.data(), 2 * sizeof(Word));
  } else {
    std::memcpy(to, from.data(), from.size());
  }
}

/// Where a value is copied to: words of the map's value size, or a string; nowhere if both are null.
struct Target {
  Word* words = nullptr;
  std::string* text = nullptr;

  void take(Bytes value) const {
    if (words != nullptr) return copy_short(words, value);
    if (text != nullptr) text->assign(value);
  }
};

/// Gets the key and the value of each cell.
using VisitBytes = void (*)(void* context, Bytes key, Bytes value);

/// One operation.
struct GroupCall {
  Operation operation = Operation::get;
  Number number = Number::none;
  Word hash = 0;
  Bytes key{};
  Bytes value{};     ///< put, insert, compare_exchange: the new one; fetch_add: the term
  Bytes expected{};  ///< compare_exchange
  Target result{};   ///< receives the former value, if any
};

/// One rank of a map, for any algorithm.
class GroupMember {
 public:
  virtual ~GroupMember() = default;
  virtual MapAnswer call(const GroupCall& call) noexcept = 0;
  virtual void run(std::span<const GroupCall> calls, std::span<MapAnswer> answers) noexcept = 0;
  virtual Status progress() noexcept = 0;
  virtual Status serve(bool (*stop)(void* context), void* context) noexcept = 0;
  virtual Status finish() noexcept = 0;
  virtual Status status() const noexcept = 0;
  virtual const std::string& failure() const noexcept = 0;
  virtual void for_each_here(VisitBytes visit, void* context) const = 0;
  /// All cells at one moment, from all ranks.
  virtual Status snapshot(VisitBytes visit, void* context) noexcept = 0;
};

/// Common state of a process's ranks.
class GroupSpace {
 public:
  virtual ~GroupSpace() = default;
  /// A rank of this process (check_rank). Errors: invalid_argument if it has been attached before.
  virtual Result<std::unique_ptr<GroupMember>> attach(int rank) = 0;

  /// What must live as long as the last rank.
  std::shared_ptr<const void> keeps{};
};

/// The chosen algorithm, and the reason.
struct GroupPlan {
  std::string algorithm;
  int servers = 0;
  std::vector<int> serving;  ///< the ranks that serve
  std::vector<int> replicas;
  bool dedicated = false;  ///< serving ranks issue no operations
  Consistency consistency = Consistency::linearizable;
  Faults faults = Faults::none;
  std::string reason;
  /// The model's ranking, the fastest first; empty if the machine has no costs.
  std::vector<MapPrediction> ranking;
};

/// A process's part of a group.
struct GroupParts {
  GroupPlan plan;
  std::shared_ptr<GroupSpace> space;
  std::shared_ptr<Table> shared;        ///< in place of `space`
  std::vector<int> ranks;               ///< those of this process
  std::shared_ptr<const void> keeps{};  ///< what must live as long as this
};

/// Checks the options, chooses, and creates memory and channels, collectively over all processes. `strings`: keys and
/// values are strings, whatever the geometry. Errors: as MapGroup::create().
Result<GroupParts> make_group(const Communicator& communicator, const Geometry& geometry, bool strings,
                              const MapOptions& options);
/// The same for processes that meet under a name.
Result<GroupParts> make_group(const std::string& name, int size, std::span<const int> ranks, const Geometry& geometry,
                              bool strings, const MapOptions& options);
/// Whether it is a rank of this process. Errors: invalid_argument.
Result<void> check_rank(const GroupParts& group, int rank);
/// Waits without making progress for others.
void wait_until(bool (*stop)(void* context), void* context) noexcept;

}  // namespace map_detail

/// One rank of a map. Used by one thread at a time. Movable. Destroying it leaves the map, and calls of others that
/// need this rank then return `broken`; call finish() before.
///
/// Progress: every call also serves the operations of others, and so do progress(), serve() and finish().
/// docs/reference/map.md lists the operations that wait for a rank that makes no calls.
/// Errors of every call: broken (a rank that the algorithm needs died or left), invalid_argument (this rank only
/// serves). failure() says more. Cost: no lock, no allocation on the usual path.
template <class Key, class Value>
class MapRank {
 public:
  int rank() const noexcept { return rank_; }

  /// The value of a key; also empty if status() is not ok.
  std::optional<Value> get(const Key& key) noexcept {
    if (shared_) return shared_->get(key);
    const KeyWords words = words_of<KeyWords>(key);
    ValueWords value;
    GroupCall call = call_of(Operation::get, words);
    call.result = {value.data()};
    const MapAnswer answer = member_->call(call);
    if (answer.status != Status::ok || !answer.found) return std::nullopt;
    return value_of(value);
  }

  /// As those of Map.
  MapAnswer put(const Key& key, const Value& value) noexcept {
    if (shared_) return shared_->put(key, value);
    return update(Operation::put, key, value);
  }
  MapAnswer insert(const Key& key, const Value& value) noexcept {
    if (shared_) return shared_->insert(key, value);
    return update(Operation::insert, key, value);
  }
  MapAnswer erase(const Key& key) noexcept {
    if (shared_) return shared_->erase(key);
    const KeyWords words = words_of<KeyWords>(key);
    return member_->call(call_of(Operation::erase, words));
  }
  MapAnswer compare_exchange(const Key& key, Value& expected, const Value& desired) noexcept {
    static_assert(map_detail::equals_by_bytes<Value>, "compare_exchange compares bytes: values must have no padding");
    if (shared_) return shared_->compare_exchange(key, expected, desired);
    const KeyWords words = words_of<KeyWords>(key);
    const ValueWords fresh = words_of<ValueWords>(desired), wanted = words_of<ValueWords>(expected);
    ValueWords was;
    GroupCall call = call_of(Operation::compare_exchange, words);
    call.value = bytes_of(fresh);
    call.expected = bytes_of(wanted);
    call.result = {was.data()};
    const MapAnswer answer = member_->call(call);
    if (answer.status == Status::ok && answer.found && !answer.changed) expected = value_of(was);
    return answer;
  }
  MapAnswer fetch_add(const Key& key, const Value& term,
                      Value* before = nullptr) noexcept requires std::is_arithmetic_v<Value> {
    if (shared_) return shared_->fetch_add(key, term, before);
    const KeyWords words = words_of<KeyWords>(key);
    const ValueWords fresh = words_of<ValueWords>(term);
    ValueWords was;
    GroupCall call = call_of(Operation::fetch_add, words);
    call.value = bytes_of(fresh);
    call.result = {was.data()};
    const MapAnswer answer = member_->call(call);
    if (before != nullptr && answer.status == Status::ok) *before = answer.found ? value_of(was) : Value{};
    return answer;
  }

  using Call = typename Map<Key, Value>::Call;

  /// Executes the calls; those of one key in order. Not atomic. Cost: part_simple has many pending requests at a time,
  /// `shared` overlaps cache misses, all others execute one call after the other.
  void run(std::span<Call> calls) noexcept {
    if (shared_) return shared_->run(calls);
    constexpr std::size_t batch = 64;
    for (std::size_t first = 0; first < calls.size(); first += batch) {
      run_batch(calls.subspan(first, std::min(batch, calls.size() - first)));
    }
  }

  /// This rank's part of the map: everything for replicas and `shared`, a server's keys, nothing for other ranks.
  /// Excludes uncommitted updates. For tests, statistics, digests.
  std::vector<std::pair<Key, Value>> here() const {
    std::vector<std::pair<Key, Value>> all;
    if (shared_) return shared_->snapshot();
    member_->for_each_here(add_to, &all);
    return all;
  }

  /// All keys and values of the map at one moment, with the same promise as a lookup: linearizable, or sequentially
  /// consistent. The ranks from which a lookup needs an answer must make progress meanwhile; with part_*, all servers,
  /// and updates of others wait. Empty also if status() is not ok. Cost: a copy of everything; part_* and a client of
  /// kv get it in messages.
  std::vector<std::pair<Key, Value>> snapshot() {
    std::vector<std::pair<Key, Value>> all;
    if (shared_) return shared_->snapshot();
    if (member_->snapshot(add_to, &all) != Status::ok) all.clear();
    return all;
  }

  /// Serves pending operations of others without waiting.
  Status progress() noexcept { return shared_ ? Status::ok : member_->progress(); }

  /// The same until `stop`.
  Status serve(const std::atomic<bool>& stop) noexcept {
    const auto is_set = [](void* flag) {
      return static_cast<const std::atomic<bool>*>(flag)->load(std::memory_order_acquire);
    };
    return serve(is_set, const_cast<std::atomic<bool>*>(&stop));
  }
  Status serve(bool (*stop)(void* context), void* context) noexcept {
    if (!shared_) return member_->serve(stop, context);
    map_detail::wait_until(stop, context);
    return Status::ok;
  }

  /// Ends this rank's operations: serves the others until all have called this or have left.
  Status finish() noexcept { return shared_ ? Status::ok : member_->finish(); }

  /// ok, or the reason why calls fail.
  Status status() const noexcept { return shared_ ? Status::ok : member_->status(); }
  std::string failure() const { return shared_ ? std::string() : member_->failure(); }

 private:
  template <class, class>
  friend class MapGroup;
  using Word = map_detail::Word;
  using Operation = map_detail::Operation;
  using GroupCall = map_detail::GroupCall;
  static constexpr map_detail::Geometry geometry = map_detail::geometry_of(sizeof(Key), sizeof(Value));
  using KeyWords = std::array<Word, geometry.key_words>;
  using ValueWords = std::array<Word, geometry.value_words>;

  MapRank(int rank, std::unique_ptr<map_detail::GroupMember> member) : rank_(rank), member_(std::move(member)) {}
  MapRank(int rank, Map<Key, Value> shared) : rank_(rank), shared_(std::move(shared)) {}

  template <class Words, class T>
  static Words words_of(const T& value) noexcept {
    Words words{};
    std::memcpy(words.data(), &value, sizeof(T));
    return words;
  }
  static void add_to(void* all, map_detail::Bytes key, map_detail::Bytes value) {
    std::array<std::byte, sizeof(Key)> key_bytes;
    std::array<std::byte, sizeof(Value)> value_bytes;
    std::memcpy(key_bytes.data(), key.data(), sizeof(Key));
    std::memcpy(value_bytes.data(), value.data(), sizeof(Value));
    static_cast<std::vector<std::pair<Key, Value>>*>(all)->emplace_back(std::bit_cast<Key>(key_bytes),
                                                                        std::bit_cast<Value>(value_bytes));
  }
  static Value value_of(const ValueWords& words) noexcept {
    std::array<std::byte, sizeof(Value)> bytes;
    std::memcpy(bytes.data(), words.data(), sizeof(Value));
    return std::bit_cast<Value>(bytes);
  }
  template <class Words>
  static map_detail::Bytes bytes_of(const Words& words) noexcept {
    return map_detail::bytes_of(words.data(), words.size());
  }
  static GroupCall call_of(Operation operation, const KeyWords& key) noexcept {
    GroupCall call;
    call.operation = operation;
    call.number = map_detail::number_of<Value>();
    call.hash = map_detail::hash_words(key.data(), key.size());
    call.key = bytes_of(key);
    return call;
  }
  MapAnswer update(Operation operation, const Key& key, const Value& value) noexcept {
    const KeyWords words = words_of<KeyWords>(key);
    const ValueWords fresh = words_of<ValueWords>(value);
    GroupCall call = call_of(operation, words);
    call.value = bytes_of(fresh);
    return member_->call(call);
  }

  void run_batch(std::span<Call> calls) noexcept {
    std::array<KeyWords, 64> keys;
    std::array<ValueWords, 64> values;
    std::array<GroupCall, 64> raw;
    std::array<MapAnswer, 64> answers;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      keys[i] = words_of<KeyWords>(calls[i].key);
      values[i] = words_of<ValueWords>(calls[i].value);
      using Kind = typename Call::Kind;
      const Kind kind = calls[i].kind;
      raw[i] = call_of(kind == Kind::get      ? Operation::get
                       : kind == Kind::put    ? Operation::put
                       : kind == Kind::insert ? Operation::insert
                                              : Operation::erase,
                       keys[i]);
      if (kind == Kind::get) {
        raw[i].result = {values[i].data()};
      } else {
        raw[i].value = bytes_of(values[i]);
      }
    }
    member_->run(std::span(raw).first(calls.size()), std::span(answers).first(calls.size()));
    for (std::size_t i = 0; i < calls.size(); ++i) {
      calls[i].answer = answers[i];
      if (calls[i].kind == Call::Kind::get && answers[i].found) calls[i].value = value_of(values[i]);
    }
  }

  int rank_;
  std::unique_ptr<map_detail::GroupMember> member_;
  std::optional<Map<Key, Value>> shared_;
};

/// A process's handle of the map. Movable; its ranks keep it alive.
template <class Key, class Value>
class MapGroup {
  static constexpr map_detail::Geometry geometry = map_detail::geometry_of(sizeof(Key), sizeof(Value));

 public:
  /// Over the ranks of a communicator, threads or processes. Each process of it calls this once for each map, in the
  /// same order, with the same options. `algorithm` "best": the fastest by the model of the communicator's machine, of
  /// those that keep what the options ask for. Requirements: types as those of Map, of 4 KiB together but for `shared`.
  /// Errors: invalid_argument, not_supported (the algorithm does not promise what is asked for), out_of_memory,
  /// broken (a rank died while they met).
  static Result<MapGroup> create(const Communicator& communicator, const MapOptions& options = {}) {
    return made(map_detail::make_group(communicator, geometry, false, options));
  }

  /// Over processes of one user without a communicator: the others call this with the same name, size and options; this
  /// process brings `ranks`. Waits until all ranks have arrived. `smelt state list` shows the map while it is in use.
  /// If the algorithm is `shared`, the table is the map of that name: processes without a rank get it by Map::attach().
  /// `keep`: the contents outlive all processes, and as many call this again: `shared` and kv. Another algorithm's are
  /// in the memory of its ranks. Errors: as create(), and those of Communicator::create_shared(); not_supported for
  /// `keep` with the others; invalid_argument if the process that came first asks for other types or another algorithm.
  static Result<MapGroup> create_shared(const std::string& name, int size, std::span<const int> ranks,
                                        const MapOptions& options = {}) {
    return made(map_detail::make_group(name, size, ranks, geometry, false, options));
  }

  /// Makes the calling thread that rank, which must belong to this process. Once for each rank.
  Result<MapRank<Key, Value>> attach(int rank) {
    if (const auto good = map_detail::check_rank(group_, rank); !good) return good.error();
    if (shared_) return MapRank<Key, Value>(rank, *shared_);
    auto member = group_.space->attach(rank);
    if (!member) return member.error();
    return MapRank<Key, Value>(rank, *std::move(member));
  }

  const std::string& algorithm() const noexcept { return group_.plan.algorithm; }
  /// Serving ranks, which own a part of the keys or order updates.
  const std::vector<int>& servers() const noexcept { return group_.plan.serving; }
  /// Whether serving ranks issue no operations and only call serve() or finish().
  bool servers_are_dedicated() const noexcept { return group_.plan.dedicated; }
  Consistency consistency() const noexcept { return group_.plan.consistency; }
  /// The reason for this algorithm, one line.
  const std::string& reason() const noexcept { return group_.plan.reason; }
  /// The model's ranking, the fastest first; empty if the communicator's machine has no costs.
  const std::vector<MapPrediction>& ranking() const noexcept { return group_.plan.ranking; }

 private:
  explicit MapGroup(map_detail::GroupParts group) : group_(std::move(group)) {
    if (group_.shared) shared_ = Map<Key, Value>(group_.shared);
  }
  static Result<MapGroup> made(Result<map_detail::GroupParts> group) {
    if (!group) return group.error();
    return MapGroup(*std::move(group));
  }

  map_detail::GroupParts group_;
  std::optional<Map<Key, Value>> shared_;
};

/// One rank of a map of byte strings. As MapRank, without fetch_add() and run(); calls allocate.
class StringMapRank {
 public:
  static constexpr std::size_t most_string_bytes = StringMap::most_string_bytes;

  int rank() const noexcept { return rank_; }

  /// The value of a key; also empty if status() is not ok.
  std::optional<std::string> get(std::string_view key);
  /// The same into a string whose memory is used again. False: no such key, and `*value` has any value.
  bool get(std::string_view key, std::string* value);

  /// As those of StringMap.
  MapAnswer put(std::string_view key, std::string_view value);
  MapAnswer insert(std::string_view key, std::string_view value);
  MapAnswer erase(std::string_view key);
  MapAnswer compare_exchange(std::string_view key, std::string& expected, std::string_view desired);

  /// As those of MapRank.
  std::vector<std::pair<std::string, std::string>> here() const;
  std::vector<std::pair<std::string, std::string>> snapshot();
  Status progress() noexcept { return shared_ ? Status::ok : member_->progress(); }
  Status serve(const std::atomic<bool>& stop) noexcept;
  Status serve(bool (*stop)(void* context), void* context) noexcept;
  Status finish() noexcept { return shared_ ? Status::ok : member_->finish(); }
  Status status() const noexcept { return shared_ ? Status::ok : member_->status(); }
  std::string failure() const { return shared_ ? std::string() : member_->failure(); }

 private:
  friend class StringMapGroup;
  StringMapRank(int rank, std::unique_ptr<map_detail::GroupMember> member) : rank_(rank), member_(std::move(member)) {}
  StringMapRank(int rank, StringMap shared) : rank_(rank), shared_(std::move(shared)) {}

  MapAnswer call(map_detail::Operation operation, std::string_view key, std::string_view value = {},
                 std::string_view expected = {}, std::string* result = nullptr);

  int rank_;
  std::unique_ptr<map_detail::GroupMember> member_;
  std::optional<StringMap> shared_;
};

/// A map over ranks from byte strings to byte strings, each of up to 64 KiB. They are out of line in every table, and
/// are sent in pieces. Everything else is as in MapGroup.
class StringMapGroup {
 public:
  /// As those of MapGroup.
  static Result<StringMapGroup> create(const Communicator& communicator, const MapOptions& options = {});
  static Result<StringMapGroup> create_shared(const std::string& name, int size, std::span<const int> ranks,
                                              const MapOptions& options = {});
  Result<StringMapRank> attach(int rank);

  const std::string& algorithm() const noexcept { return group_.plan.algorithm; }
  const std::vector<int>& servers() const noexcept { return group_.plan.serving; }
  bool servers_are_dedicated() const noexcept { return group_.plan.dedicated; }
  Consistency consistency() const noexcept { return group_.plan.consistency; }
  const std::string& reason() const noexcept { return group_.plan.reason; }
  const std::vector<MapPrediction>& ranking() const noexcept { return group_.plan.ranking; }

 private:
  explicit StringMapGroup(map_detail::GroupParts group) : group_(std::move(group)) {}
  static Result<StringMapGroup> made(Result<map_detail::GroupParts> group);

  map_detail::GroupParts group_;
};

}  // namespace smelt
