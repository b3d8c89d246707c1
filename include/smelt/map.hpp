// A concurrent map over threads or processes. It survives the death of any process that uses it, at any instruction.
//
//   auto map = smelt::Map<std::uint64_t, double>::create_shared("prices", {.capacity = 100'000});
//   map->put(42, 1.5);
//   if (const auto price = map->get(42)) std::printf("%f\n", *price);
//
// Promises and costs: docs/reference/map.md.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "smelt/error.hpp"
#include "smelt/map_algorithms.hpp"
#include "smelt/map_table.hpp"

namespace smelt {

struct MapOptions {
  /// "best", or the name of one of map_algorithms(). A map without ranks (Map, StringMap) is always `shared`; the
  /// others need the ranks of a communicator: MapGroup (smelt/map_group.hpp).
  std::string algorithm = "best";
  Consistency consistency = Consistency::linearizable;  ///< required; stronger ones are allowed
  /// Faults that must be survived. Unset: none over threads; over processes those that a named algorithm survives,
  /// otherwise crash. kv then replaces a leader that is late, and waits two seconds for other late ranks.
  std::optional<Faults> faults{};
  std::size_t capacity = 1000;  ///< keys that fit before the table grows for the first time
  bool keep = false;            ///< for create_shared(): the map outlives its last process, until remove_map()
  /// Address space that each process reserves, at least 2 MiB. The table can grow to about a quarter of it. Memory is
  /// allocated as needed.
  std::size_t most_bytes = std::size_t{64} << 30;

  // For MapGroup only:
  int servers =
      0;  ///< ranks among which part_* divide the keys, or replicas of kv; 0: chosen for the algorithm and machine
  bool colocate = true;  ///< whether servers and the sequencer are also clients; otherwise they only serve()
  double lookups = 0.9;  ///< expected share of lookups, for "best"
  double keys = 0.0;     ///< expected number of keys, for "best"; 0: capacity
  double skew = 0.0;     ///< skew of the keys (MapLoad::skew), for "best"
  std::string wait{};    ///< spin|yield|sleep|auto; empty: SMELT_WAIT
};

/// The result of an update.
struct MapAnswer {
  Status status = Status::ok;  ///< out_of_memory: there was no room for the key, and nothing has changed
  bool found = false;          ///< the key existed before
  bool changed = false;        ///< the update took effect, unlike, for example, an erase() of an absent key

  explicit operator bool() const noexcept { return status == Status::ok; }
};

/// The contents and the users of a map.
struct MapState {
  std::string name;  ///< "": of one process
  bool kept = false;
  bool strings = false;  ///< of a StringMap
  std::size_t key_bytes = 0, value_bytes = 0;
  std::uint64_t keys = 0;
  std::uint64_t buckets = 0, overflow_buckets = 0, longest_chain = 0;
  std::uint64_t memory_bytes = 0;
  bool growing = false;
  std::uint64_t takeovers = 0;     ///< number of take-overs from processes that died in an update
  std::uint64_t refused = 0;       ///< number of failed allocations
  std::vector<pid_t> processes{};  ///< live processes that use the map
};

/// All shared maps of this user: those in use, and kept ones. Those of a MapGroup only if its algorithm is `shared`.
/// Errors: /proc or /dev/shm cannot be read. Cost: reads the open files of every process of this user.
Result<std::vector<MapState>> list_maps();

/// One of them. Errors: not_found.
Result<MapState> inspect_map(const std::string& name);

/// A map over the ranks of processes that has a name (MapGroup::create_shared), by any algorithm but `shared`.
struct MapGroupState {
  std::string name;
  std::string algorithm;
  int ranks = 0;
  bool strings = false;  ///< of a StringMapGroup
  std::size_t key_bytes = 0, value_bytes = 0;
  std::vector<pid_t> processes{};  ///< live processes that use the map
};

/// Those of this user. Their contents are in the memory of their ranks and are not known here.
/// Cost: as list_maps().
std::vector<MapGroupState> list_map_groups();

/// Removes a kept map. Processes that use it continue to use it without a name.
/// Errors: not_found.
Result<void> remove_map(const std::string& name);

namespace map_detail {
/// Common implementation of Map and StringMap, by the sizes of keys and values.
Result<std::shared_ptr<Table>> create(const Geometry& geometry, const MapOptions& options, bool strings = false);
/// The same for processes.
Result<std::shared_ptr<Table>> create_shared(const std::string& name, const Geometry& geometry,
                                             const MapOptions& options, bool strings = false);
/// One that there is.
Result<std::shared_ptr<Table>> attach(const std::string& name, const Geometry& geometry, bool strings = false);
/// One that was kept.
Result<std::shared_ptr<Table>> open(const std::string& name, const Geometry& geometry, bool strings = false);
/// What Map::state() returns.
MapState state_of(const Table& table);
/// The hash of a string, the same in every process.
Word hash_text(std::string_view text) noexcept;
/// Whether a type has no padding. Of the floating-point types, long double has some.
template <class T>
inline constexpr bool equals_by_bytes =
    std::has_unique_object_representations_v<T> || std::is_same_v<std::remove_cv_t<T>, float> ||
    std::is_same_v<std::remove_cv_t<T>, double>;
}  // namespace map_detail

/// All calls are thread-safe. Copies of a Map refer to the same map. Keys are equal if all their bytes are equal.
///
/// Ordering: linearizable, except for_each() and keys(). A thread's writes before an update are visible to every thread
/// whose operation sees that update.
/// Progress: readers write nothing and never wait. An update waits for another update of a key in the same bucket. If
/// the process of that update has died, it continues after a millisecond; if that process is stopped, it waits.
/// Cost: a lookup usually reads two cache lines. No call takes a lock of the system, allocates on the heap, or makes a
/// system call, except to wait, to grow, and where documented.
template <class Key, class Value>
class Map {
  static_assert(std::is_trivially_copyable_v<Key> && std::is_trivially_copyable_v<Value>,
                "keys and values live in shared memory: they must be trivially copyable; StringMap holds strings");
  static_assert(map_detail::equals_by_bytes<Key>, "keys are compared by their bytes: they must have no padding");
  static_assert(sizeof(Key) + sizeof(Value) <= 128 * 1024, "at most 128 KiB for a key and its value");

 public:
  /// A map for the threads of this process. Errors: invalid_argument; not_supported for an algorithm that needs ranks
  /// or does not keep a required promise; out_of_memory.
  static Result<Map> create(const MapOptions& options = {}) {
    return made(map_detail::create(shape.geometry, options));
  }

  /// A map for all processes of this user that use the name. The first one creates it, the others attach to it. It is
  /// freed with the last process that uses it, however that ends, unless `keep` is set.
  /// Requirements: the processes trust each other and are in one PID namespace. `name`: 1 to 180 characters without
  /// '/'. Errors: as create(); invalid_argument if the name is in use for other types or with another `keep`.
  static Result<Map> create_shared(const std::string& name, const MapOptions& options = {}) {
    return made(map_detail::create_shared(name, shape.geometry, options));
  }

  /// Attaches to a map that another process has created. Errors: not_found, invalid_argument for other types.
  static Result<Map> attach(const std::string& name) { return made(map_detail::attach(name, shape.geometry)); }

  /// Opens a kept map, whether it is in use or not. Errors: as attach(); bad_format if its file has been cut off or
  /// damaged. Cost: of a map that is not in use, reads the table.
  static Result<Map> open(const std::string& name) { return made(map_detail::open(name, shape.geometry)); }

  /// The value of a key.
  std::optional<Value> get(const Key& key) const noexcept {
    const KeyWords words = words_of_key(key);
    std::optional<Value> value;
    get_hashed(words, hash(words), value);
    return value;
  }

  /// The same for large values: copies it to `*value`. False: there is no such key, and `*value` stays as it is.
  bool get(const Key& key, Value* value) const noexcept {
    const KeyWords words = words_of_key(key);
    if constexpr (is_long) {
      std::array<std::byte, sizeof(Value)> former;
      return find_long(words, hash(words), value, former.data());
    } else {
      ValueWords found;
      if (!table_->get(shape, words.data(), hash(words), found.data())) return false;
      std::memcpy(static_cast<void*>(value), found.data(), sizeof(Value));
      return true;
    }
  }

  bool contains(const Key& key) const noexcept { return get(key).has_value(); }

  /// Sets the value of a key.
  MapAnswer put(const Key& key, const Value& value) noexcept {
    const auto& fresh = stored(value);
    return update(key, [&](const Old& old, MapAnswer& answer) {
      answer.found = old.is_there();
      return &fresh;
    });
  }

  /// Adds a key with a value. No effect if the key exists.
  MapAnswer insert(const Key& key, const Value& value) noexcept {
    const auto& fresh = stored(value);
    return update(key, [&](const Old& old, MapAnswer& answer) {
      answer.found = old.is_there();
      return answer.found ? nullptr : &fresh;
    });
  }

  /// Removes a key.
  MapAnswer erase(const Key& key) noexcept {
    const KeyWords words = words_of_key(key);
    bool found = false;
    const auto outcome = table_->update(shape, words.data(), hash(words), [&](const auto* old, const auto*&) {
      found = old != nullptr;
      return found ? Act::erase : Act::keep;
    });
    return answer_of(outcome, found);
  }

  /// Sets the value of a key if its present value equals `expected` in all bytes. Otherwise, if the key exists, copies
  /// its value to `expected`. Of values without padding.
  MapAnswer compare_exchange(const Key& key, Value& expected, const Value& desired) noexcept {
    static_assert(map_detail::equals_by_bytes<Value>, "compare_exchange compares bytes: values must have no padding");
    const ValueWords fresh = words_of_value(desired), wanted = words_of_value(expected);
    return update(key, [&](const Old& old, MapAnswer& answer) -> const ValueWords* {
      answer.found = old.is_there();
      if (!answer.found) return nullptr;
      const ValueWords now = old.words();
      if (now == wanted) return &fresh;
      expected = value_of(now);
      return nullptr;
    });
  }

  /// Adds to the value of a key. An absent key counts as Value{}. `before`, unless null, gets the former value.
  MapAnswer fetch_add(const Key& key, const Value& term,
                      Value* before = nullptr) noexcept requires std::is_arithmetic_v<Value> {
    ValueWords fresh{};
    Value was{};
    const MapAnswer answer = update(key, [&](const Old& old, MapAnswer& told) {
      told.found = old.is_there();
      was = told.found ? value_of(old.words()) : Value{};
      fresh = words_of_value(static_cast<Value>(was + term));
      return &fresh;
    });
    if (before != nullptr) *before = was;
    return answer;
  }

  /// The values of many keys; `values` must have as many elements. Not atomic: only each single lookup is linearizable.
  /// Cost: the cache misses of up to 64 lookups overlap.
  void get_many(std::span<const Key> keys, std::span<std::optional<Value>> values) const noexcept {
    for (std::size_t first = 0; first < keys.size(); first += batch) {
      const std::size_t count = std::min(batch, keys.size() - first);
      std::array<Word, batch> hashes;
      for (std::size_t i = 0; i < count; ++i) {
        hashes[i] = hash(words_of_key(keys[first + i]));
        table_->prefetch(shape, hashes[i]);
      }
      for (std::size_t i = 0; i < count; ++i) {
        get_hashed(words_of_key(keys[first + i]), hashes[i], values[first + i]);
      }
    }
  }

  /// One of a batch of calls.
  struct Call {
    enum class Kind : std::uint8_t { get, put, insert, erase };
    Kind kind = Kind::get;
    Key key{};
    Value value{};       ///< get: filled in
    MapAnswer answer{};  ///< filled in
  };

  /// Executes the calls in order. Not atomic. Cost: as get_many().
  void run(std::span<Call> calls) noexcept {
    for (std::size_t first = 0; first < calls.size(); first += batch) {
      const auto group = calls.subspan(first, std::min(batch, calls.size() - first));
      for (const Call& call : group) table_->prefetch(shape, hash(words_of_key(call.key)));
      for (Call& call : group) run_one(call);
    }
  }

  /// Calls `visit(key, value)` once for each key that exists during the whole call. Keys that are added or erased
  /// meanwhile may be visited. Never waits. Cost: reads the table.
  template <class Visit>
  void for_each(Visit&& visit) const {
    table_->for_each(visitor<Visit>(), const_cast<void*>(static_cast<const void*>(std::addressof(visit))));
  }

  /// All keys and values at one moment. Updates of others wait meanwhile, lookups do not. This thread must not make
  /// updates meanwhile. Empty in a fork if 4095 processes use the map, as more cannot: its updates are refused, too.
  /// Cost: as for_each(), and owns every bucket for a while.
  std::vector<std::pair<Key, Value>> snapshot() const {
    std::vector<std::pair<Key, Value>> all;
    auto add = [&](const Key& key, const Value& value) { all.emplace_back(key, value); };
    table_->snapshot(visitor<decltype(add)>(), &add);
    return all;
  }

  /// Counts the keys, by for_each().
  std::size_t size() const {
    std::size_t count = 0;
    for_each([&](const Key&, const Value&) { ++count; });
    return count;
  }

  /// Cost: as for_each().
  MapState state() const { return map_detail::state_of(*table_); }

 private:
  using Word = map_detail::Word;
  using Table = map_detail::Table;
  using Act = Table::Act;
  static constexpr map_detail::FixedShape<sizeof(Key), sizeof(Value)> shape{};
  static constexpr std::size_t batch = 64;
  /// Long values are copied once, from the caller's memory or to it; others are arrays of words in between.
  static constexpr bool is_long = sizeof(Value) >= map_detail::many_lines * 64;
  using KeyWords = std::array<Word, shape.geometry.key_words>;
  using ValueWords = std::array<Word, shape.geometry.value_words>;

  /// The value that an update finds.
  class Old {
   public:
    explicit Old(const map_detail::AtomicWord* value) : value_(value) {}
    bool is_there() const noexcept { return value_ != nullptr; }
    ValueWords words() const noexcept {
      ValueWords copy;
      for (std::size_t i = 0; i < copy.size(); ++i) copy[i] = value_[i].load(std::memory_order_relaxed);
      return copy;
    }

   private:
    const map_detail::AtomicWord* value_;
  };

  template <class, class>
  friend class MapGroup;
  explicit Map(std::shared_ptr<Table> table) : table_(std::move(table)) {}
  static Result<Map> made(Result<std::shared_ptr<Table>> table) {
    if (!table) return table.error();
    return Map(std::move(*table));
  }

  static KeyWords words_of_key(const Key& key) noexcept {
    KeyWords words{};
    std::memcpy(words.data(), &key, sizeof(Key));
    return words;
  }
  static ValueWords words_of_value(const Value& value) noexcept {
    ValueWords words;
    words.back() = 0;  // the last one may be filled in part
    std::memcpy(words.data(), &value, sizeof(Value));
    return words;
  }
  /// What an update stores: a reference if the value is long, otherwise its words.
  static decltype(auto) stored(const Value& value) noexcept {
    if constexpr (is_long) {
      return (value);
    } else {
      return words_of_value(value);
    }
  }
  static Value value_of(const ValueWords& words) noexcept {
    std::array<std::byte, sizeof(Value)> bytes;
    std::memcpy(bytes.data(), words.data(), sizeof(Value));
    return std::bit_cast<Value>(bytes);
  }
  static Word hash(const KeyWords& words) noexcept { return map_detail::hash_words(words.data(), words.size()); }

  /// Copies a long value at once to its place. If there is no such key, that stays as it is, or, without room for its
  /// former contents, has any contents.
  bool find_long(const KeyWords& key, Word hashed, Value* value, void* former) const noexcept {
    return table_->find(shape, key.data(), hashed,
                        [&](const map_detail::AtomicWord* from, const map_detail::Unchanged& unchanged) {
                          return map_detail::load_if_unchanged(value, from, sizeof(Value), unchanged, former);
                        });
  }

  void get_hashed(const KeyWords& key, Word hashed, std::optional<Value>& value) const noexcept {
    if constexpr (is_long && std::is_nothrow_default_constructible_v<Value>) {
      if (!value) value.emplace();
      if (!find_long(key, hashed, std::addressof(*value), nullptr)) value.reset();
    } else {
      ValueWords words;
      if (!table_->get(shape, key.data(), hashed, words.data())) return value.reset();
      value = value_of(words);
    }
  }

  static MapAnswer answer_of(Table::Outcome outcome, bool found) noexcept {
    return {outcome == Table::Outcome::no_memory ? Status::out_of_memory : Status::ok, found,
            outcome == Table::Outcome::changed};
  }

  /// `choose(old, answer)`: the new value, or null for none.
  template <class Choose>
  MapAnswer update(const Key& key, Choose&& choose) noexcept {
    const KeyWords words = words_of_key(key);
    MapAnswer answer;
    const auto outcome =
        table_->update(shape, words.data(), hash(words), [&](const map_detail::AtomicWord* old, const void*& fresh) {
          fresh = choose(Old(old), answer);
          return fresh == nullptr ? Act::keep : Act::write;
        });
    return answer_of(outcome, answer.found);
  }

  void run_one(Call& call) noexcept {
    switch (call.kind) {
      case Call::Kind::get: call.answer = {Status::ok, get(call.key, &call.value), false}; break;
      case Call::Kind::put: call.answer = put(call.key, call.value); break;
      case Call::Kind::insert: call.answer = insert(call.key, call.value); break;
      case Call::Kind::erase: call.answer = erase(call.key); break;
    }
  }

  template <class Visit>
  static Table::Visit visitor() {
    return [](void* context, const Word* cell) {
      std::array<std::byte, sizeof(Key)> key;
      std::memcpy(key.data(), cell, sizeof(Key));
      ValueWords value;
      std::memcpy(value.data(), cell + shape.geometry.key_words, sizeof value);
      (*static_cast<std::remove_reference_t<Visit>*>(context))(std::bit_cast<Key>(key), value_of(value));
    };
  }

  std::shared_ptr<Table> table_;
};

/// A map from byte strings to byte strings, each of up to 64 KiB. Everything else is as in Map, except that a lookup
/// reads one more cache line and allocates the string that it returns.
class StringMap {
 public:
  static constexpr std::size_t most_string_bytes = 64 * 1024;

  /// As Map::create().
  static Result<StringMap> create(const MapOptions& options = {});
  /// As Map::create_shared().
  static Result<StringMap> create_shared(const std::string& name, const MapOptions& options = {});
  /// As Map::attach().
  static Result<StringMap> attach(const std::string& name);
  /// As Map::open().
  static Result<StringMap> open(const std::string& name);

  /// The value of a key.
  std::optional<std::string> get(std::string_view key) const;
  /// The same into a string whose memory is used again: no allocation if it is large enough. False: there is no such
  /// key, and `*value` has any value.
  bool get(std::string_view key, std::string* value) const;

  /// The values of many keys; `values` must have as many elements, whose memory is used again. Not atomic: only each
  /// single lookup is linearizable. Cost: the cache misses of up to 64 lookups overlap.
  void get_many(std::span<const std::string_view> keys, std::span<std::optional<std::string>> values) const;

  /// Sets the value of a key. Status::invalid_argument for longer strings, here and below.
  MapAnswer put(std::string_view key, std::string_view value) noexcept;
  /// Adds a key with a value. No effect if the key exists.
  MapAnswer insert(std::string_view key, std::string_view value) noexcept;
  /// Removes a key.
  MapAnswer erase(std::string_view key) noexcept;
  /// If the key exists and has another value, that value is copied to `expected`.
  MapAnswer compare_exchange(std::string_view key, std::string& expected, std::string_view desired);

  /// All keys and values as they are at one moment. Updates of others wait meanwhile.
  std::vector<std::pair<std::string, std::string>> snapshot() const;
  std::size_t size() const;
  MapState state() const { return map_detail::state_of(*table_); }

 private:
  friend class StringMapGroup;
  explicit StringMap(std::shared_ptr<map_detail::Table> table) : table_(std::move(table)) {}
  static Result<StringMap> made(Result<std::shared_ptr<map_detail::Table>> table);

  /// `choose(reference)` of the value, 0 for none: whether it becomes the new one.
  template <class Choose>
  MapAnswer set(std::string_view key, std::string_view value, Choose&& choose) noexcept;

  std::shared_ptr<map_detail::Table> table_;
};

}  // namespace smelt
