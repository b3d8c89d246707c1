// Maps of other libraries, and ours, behind one interface: `bool get(const Key&, Value*)`, `void put(const Key&, const
// Value&)`. Keys are std::uint64_t or std::string, values trivially copyable or std::string. What is not installed is
// not there.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "smelt/map.hpp"

#ifdef BENCH_TBB
#include <tbb/concurrent_hash_map.h>
#endif
#ifdef BENCH_CUCKOO
#include <libcuckoo/cuckoohash_map.hh>
#endif
#ifdef BENCH_URCU
#include <urcu/urcu-memb.h>
//
#include <urcu/rculfhash.h>
#endif
#ifdef BENCH_CK
extern "C" {
#include <ck_ht.h>
}
#endif
#ifdef BENCH_BOOST_FLAT
#include <boost/unordered/concurrent_flat_map.hpp>
#endif
#ifdef BENCH_INTERPROCESS
#include <boost/interprocess/containers/string.hpp>
#include <boost/interprocess/managed_shared_memory.hpp>
#include <boost/interprocess/sync/interprocess_sharable_mutex.hpp>
#include <boost/interprocess/sync/scoped_lock.hpp>
#include <boost/interprocess/sync/sharable_lock.hpp>
#include <boost/unordered_map.hpp>
#endif
#ifdef BENCH_LMDB
#include <lmdb.h>
#endif

namespace bench::maps {

/// What a map is made for.
struct Size {
  std::size_t records = 0;       ///< that it is filled with
  std::size_t value_bytes = 16;  ///< of a string
  bool processes = false;        ///< shared by processes, or by threads
};

[[noreturn]] inline void fail(const char* map, const char* what) {
  std::fprintf(stderr, "%s: %s\n", map, what);
  std::abort();
}

/// The bytes of a key or a value.
template <class T>
std::string_view bytes_of(const T& what) {
  if constexpr (std::is_same_v<T, std::string>) return what;
  return {reinterpret_cast<const char*>(&what), sizeof what};
}

template <class T>
void from_bytes(std::string_view bytes, T* what) {
  if constexpr (std::is_same_v<T, std::string>) {
    what->assign(bytes);
  } else {
    std::memcpy(what, bytes.data(), sizeof *what);
  }
}

/// A name that no other run uses. Each call gives another one.
inline std::string unique_name() {
  static int number = 0;
  return "bench-" + std::to_string(getpid()) + "-" + std::to_string(number++);
}

template <class Key, class Value>
struct SmeltMap {
  static constexpr bool strings = std::is_same_v<Key, std::string>;
  using Table = std::conditional_t<strings, smelt::StringMap, smelt::Map<std::conditional_t<strings, int, Key>, Value>>;
  Table map;
  explicit SmeltMap(const Size& size)
      : map(size.processes ? *Table::create_shared(unique_name(), {.capacity = size.records})
                           : *Table::create({.capacity = size.records})) {}
  bool get(const Key& key, Value* value) { return map.get(key, value); }
  void put(const Key& key, const Value& value) {
    if (!map.put(key, value)) fail("smelt", "no memory");
  }
};

template <class Key, class Value>
struct LockedMap {
  std::unordered_map<Key, Value> map;
  std::shared_mutex mutex;
  explicit LockedMap(const Size& size) { map.reserve(size.records); }
  bool get(const Key& key, Value* value) {
    const std::shared_lock lock(mutex);
    const auto found = map.find(key);
    if (found == map.end()) return false;
    *value = found->second;
    return true;
  }
  void put(const Key& key, const Value& value) {
    const std::unique_lock lock(mutex);
    map[key] = value;
  }
};

#ifdef BENCH_TBB
template <class Key, class Value>
struct TbbMap {
  tbb::concurrent_hash_map<Key, Value> map;
  explicit TbbMap(const Size& size) : map(size.records) {}
  bool get(const Key& key, Value* value) {
    typename decltype(map)::const_accessor at;
    if (!map.find(at, key)) return false;
    *value = at->second;
    return true;
  }
  void put(const Key& key, const Value& value) {
    typename decltype(map)::accessor at;
    map.insert(at, key);
    at->second = value;
  }
};
#endif

#ifdef BENCH_CUCKOO
template <class Key, class Value>
struct CuckooMap {
  libcuckoo::cuckoohash_map<Key, Value> map;
  explicit CuckooMap(const Size& size) { map.reserve(size.records); }
  bool get(const Key& key, Value* value) { return map.find(key, *value); }
  void put(const Key& key, const Value& value) { map.insert_or_assign(key, value); }
};
#endif

#ifdef BENCH_BOOST_FLAT
template <class Key, class Value>
struct FlatMap {
  boost::concurrent_flat_map<Key, Value> map;
  explicit FlatMap(const Size& size) : map(size.records) {}
  bool get(const Key& key, Value* value) {
    return map.visit(key, [&](const auto& each) { *value = each.second; }) != 0;
  }
  void put(const Key& key, const Value& value) { map.insert_or_assign(key, value); }
};
#endif

#ifdef BENCH_URCU
/// Values are replaced by new nodes, which are freed after a grace period, as its manual has it.
template <class Key, class Value>
struct UrcuMap {
  struct Node {
    cds_lfht_node link;
    rcu_head head;
    Key key;
    Value value;
  };
  cds_lfht* map = cds_lfht_new_flavor(1024, 1024, 0, CDS_LFHT_AUTO_RESIZE, &urcu_memb_flavor, nullptr);
  explicit UrcuMap(const Size&) {}
  static void enter() { urcu_memb_register_thread(); }
  static void leave() { urcu_memb_unregister_thread(); }
  static int match(cds_lfht_node* node, const void* key) {
    return caa_container_of(node, Node, link)->key == *static_cast<const Key*>(key);
  }
  static unsigned long hash(const Key& key) {
    if constexpr (std::is_same_v<Key, std::string>)
      return std::hash<Key>()(key);
    else
      return key * 0x9e3779b97f4a7c15ull >> 16;
  }
  bool get(const Key& key, Value* value) {
    urcu_memb_read_lock();
    cds_lfht_iter iter;
    cds_lfht_lookup(map, hash(key), match, &key, &iter);
    cds_lfht_node* found = cds_lfht_iter_get_node(&iter);
    if (found != nullptr) *value = caa_container_of(found, Node, link)->value;
    urcu_memb_read_unlock();
    return found != nullptr;
  }
  void put(const Key& key, const Value& value) {
    auto* node = new Node{{}, {}, key, value};
    cds_lfht_node_init(&node->link);
    urcu_memb_read_lock();
    cds_lfht_node* old = cds_lfht_add_replace(map, hash(key), match, &key, &node->link);
    urcu_memb_read_unlock();
    if (old == nullptr) return;
    urcu_memb_call_rcu(&caa_container_of(old, Node, link)->head,
                       [](rcu_head* head) { delete caa_container_of(head, Node, head); });
  }
};
#endif

#ifdef BENCH_CK
/// One writer at a time. An update replaces the entry's pointer. The table reclaims nothing, so what was replaced is
/// used again only after a turn, when nobody reads: less than it would have to do in earnest.
template <class Key, class Value>
struct CkMap {
  static constexpr bool strings = std::is_same_v<Key, std::string>;
  struct Entry {
    Value value;
  };
  ck_ht_t map;
  std::mutex writers;
  std::vector<std::unique_ptr<Entry>> all;
  std::vector<Entry*> retired, unused;
  std::vector<std::unique_ptr<char[]>> texts;
  static constexpr std::size_t text_bytes = 1 << 20;
  std::size_t text_used = text_bytes;
  static void* allocate(size_t bytes) { return std::malloc(bytes); }
  static void release(void* memory, size_t, bool) { std::free(memory); }
  explicit CkMap(const Size& size) {
    static ck_malloc allocator;
    allocator.malloc = allocate;
    allocator.free = release;
    ck_ht_init(&map, strings ? CK_HT_MODE_BYTESTRING : CK_HT_MODE_DIRECT, nullptr, &allocator, size.records * 2, 7);
  }
  /// Between turns.
  void settle() {
    unused.insert(unused.end(), retired.begin(), retired.end());
    retired.clear();
  }
  void look(const Key& key, ck_ht_hash_t* hash, ck_ht_entry_t* entry) {
    if constexpr (strings) {
      ck_ht_hash(hash, &map, key.data(), static_cast<std::uint16_t>(key.size()));
      ck_ht_entry_key_set(entry, key.data(), static_cast<std::uint16_t>(key.size()));
    } else {
      ck_ht_hash_direct(hash, &map, key);
      ck_ht_entry_key_set_direct(entry, key);
    }
  }
  static Entry* entry_of(ck_ht_entry_t* entry) {
    if constexpr (strings)
      return static_cast<Entry*>(ck_ht_entry_value(entry));
    else
      return reinterpret_cast<Entry*>(ck_ht_entry_value_direct(entry));
  }
  bool get(const Key& key, Value* value) {
    ck_ht_hash_t hash;
    ck_ht_entry_t entry;
    look(key, &hash, &entry);
    if (!ck_ht_get_spmc(&map, hash, &entry)) return false;
    *value = entry_of(&entry)->value;
    return true;
  }
  Entry* fresh() {
    if (unused.empty()) return all.emplace_back(std::make_unique<Entry>()).get();
    Entry* last = unused.back();
    unused.pop_back();
    return last;
  }
  /// The table keeps the pointer of a key, of the first one or of the last: no such memory is used again.
  const char* kept(const std::string& key) {
    if (text_bytes - text_used < key.size()) {
      texts.push_back(std::make_unique<char[]>(text_bytes));
      text_used = 0;
    }
    char* copy = texts.back().get() + std::exchange(text_used, text_used + key.size());
    std::memcpy(copy, key.data(), key.size());
    return copy;
  }
  void put(const Key& key, const Value& value) {
    const std::lock_guard lock(writers);
    Entry* made = fresh();
    made->value = value;
    ck_ht_hash_t hash;
    ck_ht_entry_t entry;
    look(key, &hash, &entry);
    if constexpr (strings) {
      ck_ht_entry_set(&entry, hash, kept(key), static_cast<std::uint16_t>(key.size()), made);
    } else {
      ck_ht_entry_set_direct(&entry, hash, key, reinterpret_cast<uintptr_t>(made));
    }
    ck_ht_set_spmc(&map, hash, &entry);
    // `entry` is now the one that was replaced, if there was one.
    if (!ck_ht_entry_empty(&entry)) retired.push_back(entry_of(&entry));
  }
};
#endif

#ifdef BENCH_INTERPROCESS
namespace interprocess_detail {
namespace bip = boost::interprocess;
using Memory = bip::managed_shared_memory;
using Characters = bip::allocator<char, Memory::segment_manager>;
using String = bip::basic_string<char, std::char_traits<char>, Characters>;

template <class T>
using Stored = std::conditional_t<std::is_same_v<T, std::string>, String, T>;

struct Hash {
  template <class T>
  std::size_t operator()(const T& key) const {
    if constexpr (std::is_integral_v<T>)
      return boost::hash<T>()(key);
    else
      return std::hash<std::string_view>()({key.data(), key.size()});
  }
};
struct Equal {
  template <class A, class B>
  bool operator()(const A& a, const B& b) const {
    if constexpr (std::is_integral_v<A>)
      return a == b;
    else
      return std::string_view(a.data(), a.size()) == std::string_view(b.data(), b.size());
  }
};
}  // namespace interprocess_detail

/// Boost.Interprocess: an unordered map in its segment, and its reader-writer mutex.
template <class Key, class Value>
struct InterprocessMap {
  using Memory = interprocess_detail::Memory;
  using Mutex = boost::interprocess::interprocess_sharable_mutex;
  using StoredKey = interprocess_detail::Stored<Key>;
  using StoredValue = interprocess_detail::Stored<Value>;
  using Allocator = boost::interprocess::allocator<std::pair<const StoredKey, StoredValue>, Memory::segment_manager>;
  using Table =
      boost::unordered_map<StoredKey, StoredValue, interprocess_detail::Hash, interprocess_detail::Equal, Allocator>;
  std::string name = unique_name();
  Memory memory;
  Mutex* mutex;
  Table* map;
  explicit InterprocessMap(const Size& size)
      : memory(boost::interprocess::create_only, name.c_str(),
               size.records * 2 * (256 + std::max(sizeof(Value), size.value_bytes)) + (1 << 20)),
        mutex(memory.construct<Mutex>("mutex")()),
        map(memory.construct<Table>("map")(size.records, interprocess_detail::Hash(), interprocess_detail::Equal(),
                                           Allocator(memory.get_segment_manager()))) {
    boost::interprocess::shared_memory_object::remove(name.c_str());
  }
  template <class T>
  interprocess_detail::Stored<T> stored(const T& what) {
    if constexpr (std::is_same_v<T, std::string>) {
      return interprocess_detail::String(what.data(), what.size(),
                                         interprocess_detail::Characters(memory.get_segment_manager()));
    } else {
      return what;
    }
  }
  auto find(const Key& key) { return map->find(key, interprocess_detail::Hash(), interprocess_detail::Equal()); }
  bool get(const Key& key, Value* value) {
    const boost::interprocess::sharable_lock<Mutex> lock(*mutex);
    const auto found = find(key);
    if (found == map->end()) return false;
    if constexpr (std::is_same_v<Value, std::string>)
      value->assign(found->second.data(), found->second.size());
    else
      *value = found->second;
    return true;
  }
  void put(const Key& key, const Value& value) {
    const boost::interprocess::scoped_lock<Mutex> lock(*mutex);
    const auto found = find(key);
    if (found == map->end()) {
      map->emplace(stored(key), stored(value));
    } else if constexpr (std::is_same_v<Value, std::string>) {
      found->second.assign(value.data(), value.size());
    } else {
      found->second = value;
    }
  }
};
#endif

#ifdef BENCH_LMDB
/// In /dev/shm, without synchronization to it: its fastest setting that several processes may use. A reader keeps its
/// transaction and renews it for each lookup. A process opens the file for itself, as the library demands.
template <class Key, class Value>
struct LmdbMap {
  std::string file = "/dev/shm/" + unique_name();
  std::size_t bytes;
  pid_t owner = getpid();
  MDB_env* environment = nullptr;
  MDB_dbi table = 0;
  MDB_txn* reader = nullptr;
  explicit LmdbMap(const Size& size)
      : bytes((std::size_t{64} << 20) + size.records * 6 * (128 + std::max(sizeof(Value), size.value_bytes))) {}
  ~LmdbMap() {
    if (getpid() != owner) return;
    std::remove(file.c_str());
    std::remove((file + "-lock").c_str());
  }
  static void check(int result) {
    if (result != 0) fail("lmdb", mdb_strerror(result));
  }
  void open() {
    check(mdb_env_create(&environment));
    check(mdb_env_set_mapsize(environment, bytes));
    check(mdb_env_open(environment, file.c_str(), MDB_NOSYNC | MDB_WRITEMAP | MDB_NOTLS | MDB_NOSUBDIR, 0600));
    MDB_txn* first = nullptr;
    check(mdb_txn_begin(environment, nullptr, 0, &first));
    check(mdb_dbi_open(first, nullptr, std::is_integral_v<Key> ? MDB_INTEGERKEY : 0u, &table));
    check(mdb_txn_commit(first));
    check(mdb_txn_begin(environment, nullptr, MDB_RDONLY, &reader));
    mdb_txn_reset(reader);
  }
  void enter() { open(); }
  void leave() {
    mdb_txn_abort(reader);
    mdb_env_close(environment);
  }
  static MDB_val pointer(std::string_view what) { return {what.size(), const_cast<char*>(what.data())}; }
  bool get(const Key& key, Value* value) {
    check(mdb_txn_renew(reader));
    MDB_val name = pointer(bytes_of(key)), found{};
    const bool there = mdb_get(reader, table, &name, &found) == 0;
    if (there) from_bytes({static_cast<const char*>(found.mv_data), found.mv_size}, value);
    mdb_txn_reset(reader);
    return there;
  }
  void put(const Key& key, const Value& value) {
    MDB_txn* writer = begin();
    put_in(writer, key, value);
    commit(writer);
  }
  /// Many puts between one begin and one commit, to fill the map.
  MDB_txn* begin() {
    MDB_txn* writer = nullptr;
    check(mdb_txn_begin(environment, nullptr, 0, &writer));
    return writer;
  }
  void commit(MDB_txn* writer) { check(mdb_txn_commit(writer)); }
  void put_in(MDB_txn* writer, const Key& key, const Value& value) {
    MDB_val name = pointer(bytes_of(key)), data = pointer(bytes_of(value));
    check(mdb_put(writer, table, &name, &data, 0));
  }
};
#endif

/// What a client does before its turn, and after it; what everybody waits for after a turn.
template <class Map>
void enter(Map& map) {
  if constexpr (requires { map.enter(); }) map.enter();
}
template <class Map>
void leave(Map& map) {
  if constexpr (requires { map.leave(); }) map.leave();
}
template <class Map>
void settle(Map& map) {
  if constexpr (requires { map.settle(); }) map.settle();
}

/// Fills a map: `put_all(put)` calls `put(key, value)` for each record.
template <class Map, class PutAll>
void fill(Map& map, PutAll&& put_all) {
  enter(map);
  if constexpr (requires { map.begin(); }) {
    auto* together = map.begin();
    put_all([&](const auto& key, const auto& value) { map.put_in(together, key, value); });
    map.commit(together);
  } else {
    put_all([&](const auto& key, const auto& value) { map.put(key, value); });
  }
  leave(map);
}

}  // namespace bench::maps
