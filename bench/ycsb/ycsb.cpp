// Question: how many operations per second do clients get from one map under the loads A to F of YCSB (Cooper et al.,
// SoCC 2010), next to other libraries, and servers?
//   A half lookups, half updates     B 95 % lookups, 5 % updates      C lookups
//   D 95 % lookups of the latest, 5 % inserts      E 95 % scans of 1 to 100 records, 5 % inserts
//   F half lookups, half read-modify-write
// Method: records are chosen by a scrambled Zipf distribution (.99); of D by their age. A hash table has no order: a scan
// is lookups of records with consecutive numbers, in one call where a map has one for many keys (smelt, memcached,
// Redis). A read-modify-write is a lookup and an update, as YCSB has it. Every client does the
// same operations on every map, of a stream made before; those of servers a 64th of them. All maps take turns in each
// round; clients are threads or processes on PUs of their own; time is from the first begin to the last end. Per map
// the median over the rounds of operations per second, and of its ratio to smelt in the same round; the first round is
// not counted. Every value that is read is checked against its key.
//
//   bench_ycsb [--keys 8|string] [--values BYTES] [--loads ABCDEF] [--records N] [--operations N] [--clients N]
//              [--rounds N] [--processes] [--json FILE]
#include <array>
#include <cmath>
#include <map>
#include <random>
#include <span>

#include "state/map_peers.hpp"
#include "state/socket_peers.hpp"
#include "state/turns.hpp"

namespace {

using bench::maps::Size;

struct Options {
  bool strings = false, processes = false;
  std::size_t value_bytes = 16, records = 100'000, operations = 1 << 16;
  int clients = 2, rounds = 5;
  std::string loads = "ABCDEF";
  const char* json = nullptr;
};

constexpr std::size_t key_bytes = 24;  // of a string
constexpr std::size_t most_scanned = 100;
constexpr int most_clients = 64;
constexpr std::size_t server_share = 64, scan_share = 32;

enum class Kind : std::uint8_t { read, read_latest, update, insert, scan, modify };

/// One operation of a stream.
struct Operation {
  std::uint32_t record;  ///< its number; of read_latest: how many are younger
  Kind kind;
  std::uint8_t length;  ///< records of a scan
};
using Stream = std::vector<Operation>;

std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ x >> 27) * 0x94d049bb133111ebull;
  return x ^ x >> 31;
}

// ---- records
// ----------------------------------------------------------------------------------------------------------

/// What all records' keys are, made before.
std::string key_texts;

void make_key_texts(std::size_t records) {
  key_texts.resize(records * key_bytes + 1);
  for (std::size_t i = 0; i < records; ++i) {
    std::snprintf(&key_texts[i * key_bytes], key_bytes + 1, "user%020llu",
                  static_cast<unsigned long long>(mixed(i + 1)));
  }
}

void make_key(std::size_t record, std::uint64_t* key) { *key = mixed(record + 1) | 1; }  // 0 is no key of ck_ht
void make_key(std::size_t record, std::string* key) { key->assign(&key_texts[record * key_bytes], key_bytes); }

template <std::size_t N>
using Bytes = std::array<char, N>;

/// A value says at both ends whose it is.
template <class Value>
void mark(Value* value, std::uint64_t record) {
  std::memcpy(value->data(), &record, sizeof record);
  std::memcpy(value->data() + value->size() - sizeof record, &record, sizeof record);
}
template <class Value>
bool is_of(const Value& value, std::uint64_t record) {
  std::uint64_t first = 0, last = 0;
  if (value.size() < sizeof first) return false;
  std::memcpy(&first, value.data(), sizeof first);
  std::memcpy(&last, value.data() + value.size() - sizeof last, sizeof last);
  return first == record && last == record;
}

// ---- clients
// ----------------------------------------------------------------------------------------------------------

/// What clients tell: of each one what it has inserted so far, and when it began and ended its turn.
struct Board {
  bench::turns::Gate gate;
  std::atomic<std::uint64_t> inserted[most_clients];
  std::atomic<std::int64_t> begin_ns[most_clients], end_ns[most_clients];
};

struct Contestant {
  explicit Contestant(std::string called) : name(std::move(called)) {}
  virtual ~Contestant() = default;
  virtual void load() = 0;
  virtual void enter() = 0;
  virtual void leave() = 0;
  virtual void settle() = 0;
  /// Does the operations, and returns the number of records that the client has inserted, of which there were
  /// `inserted`.
  virtual std::uint64_t run(std::span<const Operation> operations, int client, std::uint64_t inserted) = 0;
  std::string name;
  std::size_t share = 1;
  std::array<std::uint64_t, most_clients> inserted{};
};

/// A client's records: the first ones, which are there from the beginning, and every clients-th of those behind them.
struct Numbers {
  std::size_t records, all;
  std::uint64_t clients;

  /// A record that the client inserts as its n-th. After the last there is none, and it begins again.
  std::size_t inserted(int client, std::uint64_t n) const {
    const std::uint64_t room = (all - records) / clients;
    return records + (n % room) * clients + static_cast<std::uint64_t>(client);
  }
  /// The one of which `younger` are younger, as a client sees it that has inserted n.
  std::size_t latest(int client, std::uint64_t n, std::uint64_t younger) const {
    const std::uint64_t newest = std::min(all, records + n * clients + static_cast<std::uint64_t>(client));
    return newest > younger ? newest - younger - 1 : 0;
  }
};

/// The operations on a map with get(key, value*), put(key, value), and perhaps get_many.
template <class Map, class Key, class Value>
struct Direct : Contestant {
  Direct(std::string called, const Size& made_for, const Numbers& of)
      : Contestant(std::move(called)), map(made_for), numbers(of) {
    if constexpr (std::is_same_v<Value, std::string>)
      pattern.assign(made_for.value_bytes, 'v');
    else
      pattern.fill('v');
  }
  void enter() override { bench::maps::enter(map); }
  void leave() override { bench::maps::leave(map); }
  void settle() override { bench::maps::settle(map); }
  void load() override {
    bench::maps::fill(map, [&](auto&& put) {
      Key key{};
      Value value = pattern;
      for (std::size_t record = 0; record < numbers.records; ++record) {
        make_key(record, &key);
        mark(&value, record);
        put(key, value);
      }
    });
  }

  /// One client's.
  struct Hands {
    Key key{};
    Value value{};
    std::vector<Key> keys;
    std::vector<std::conditional_t<std::is_same_v<Key, std::string>, std::string_view, Key>> views;
    std::vector<std::optional<Value>> values;
  };

  void check(bool found, const Value& value, std::size_t record) const {
    // A record that another client inserts may not be there yet.
    if (found ? !is_of(value, record) : record < numbers.records) bench::maps::fail(name.c_str(), "a wrong value");
  }
  void read(Hands& hands, std::size_t record) {
    make_key(record, &hands.key);
    const bool found = map.get(hands.key, &hands.value);
    check(found, hands.value, record);
  }
  void put(Hands& hands, std::size_t record) {
    make_key(record, &hands.key);
    mark(&hands.value, record);
    map.put(hands.key, hands.value);
  }
  void scan(Hands& hands, std::size_t first, std::size_t count) {
    constexpr bool takes_keys = requires { map.map.get_many(hands.keys, hands.values); };
    constexpr bool takes_views = requires { map.map.get_many(hands.views, hands.values); };
    if constexpr (takes_keys || takes_views) {
      hands.keys.resize(count);
      hands.values.resize(count);
      for (std::size_t i = 0; i < count; ++i) make_key(first + i, &hands.keys[i]);
      if constexpr (takes_keys) {
        map.map.get_many(hands.keys, hands.values);
      } else {
        hands.views.assign(hands.keys.begin(), hands.keys.end());
        map.map.get_many(hands.views, hands.values);
      }
      for (std::size_t i = 0; i < count; ++i) {
        const auto& value = hands.values[i];
        check(value.has_value(), value ? *value : hands.value, first + i);
      }
    } else {
      for (std::size_t i = 0; i < count; ++i) read(hands, first + i);
    }
  }
  std::uint64_t run(std::span<const Operation> operations, int client, std::uint64_t inserted) override {
    Hands hands;
    hands.value = pattern;
    for (const Operation& what : operations) {
      switch (what.kind) {
        case Kind::read: read(hands, what.record); break;
        case Kind::read_latest: read(hands, numbers.latest(client, inserted, what.record)); break;
        case Kind::update:
          if (hands.value.size() != pattern.size()) hands.value = pattern;
          put(hands, what.record);
          break;
        case Kind::insert: put(hands, numbers.inserted(client, inserted++)); break;
        case Kind::scan: scan(hands, what.record, what.length); break;
        case Kind::modify:
          read(hands, what.record);
          put(hands, what.record);
          break;
      }
    }
    return inserted;
  }

  Map map;
  Numbers numbers;
  Value pattern;
};

/// A server, by its protocol. Keys of 8 bytes are sent as 16 hexadecimal digits.
template <class Peer, class Key>
struct Remote {
  Peer peer;
  std::vector<std::string> texts;
  std::vector<std::string_view> names;
  template <class... Arguments>
  explicit Remote(Arguments... arguments) : peer(arguments...) {}
  void enter() { peer.enter(); }
  void leave() { peer.leave(); }
  std::string text_of(const Key& key) {
    if constexpr (std::is_same_v<Key, std::string>)
      return key;
    else {
      char digits[17];
      std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(key));
      return digits;
    }
  }
  void get_many(const std::vector<Key>& keys, std::vector<std::optional<std::string>>& values) {
    texts.clear();
    for (const Key& key : keys) texts.push_back(text_of(key));
    names.assign(texts.begin(), texts.end());
    for (auto& value : values) value.reset();
    peer.get(names, [&](std::size_t i, std::string_view value) { values[i].emplace(value); });
  }
  bool get(const Key& key, std::string* value) {
    bool there = false;
    const std::string text = text_of(key);
    names.assign(1, text);
    peer.get(names, [&](std::size_t, std::string_view found) {
      there = true;
      value->assign(found);
    });
    return there;
  }
  void put(const Key& key, const std::string& value) { peer.put(text_of(key), value); }
};
template <class Key>
struct MemcachedMap {
  Remote<bench::maps::Memcached, Key> map;
  explicit MemcachedMap(const Size& size) : map(256 + size.records * 4 * (size.value_bytes + 200) / (1 << 20)) {}
  void enter() { map.enter(); }
  void leave() { map.leave(); }
  bool get(const Key& key, std::string* value) { return map.get(key, value); }
  void put(const Key& key, const std::string& value) { map.put(key, value); }
};
template <class Key>
struct RedisMap {
  Remote<bench::maps::Redis, Key> map;
  explicit RedisMap(const Size&) {}
  void enter() { map.enter(); }
  void leave() { map.leave(); }
  bool get(const Key& key, std::string* value) { return map.get(key, value); }
  void put(const Key& key, const std::string& value) { map.put(key, value); }
};

// ---- who takes part
// ---------------------------------------------------------------------------------------------------

using Contestants = std::vector<std::unique_ptr<Contestant>>;

template <template <class, class> class Map, class Key, class Value>
void add(Contestants* all, const char* name, const Size& size, const Numbers& numbers) {
  all->push_back(std::make_unique<Direct<Map<Key, Value>, Key, Value>>(name, size, numbers));
}

template <template <class> class Map, class Key>
void add_server(Contestants* all, const char* name, const Size& size, const Numbers& numbers, const char* program) {
  if (!bench::maps::Server::is_installed(program)) {
    std::fprintf(stderr, "bench_ycsb: %s not found, without it\n", program);
    return;
  }
  all->push_back(std::make_unique<Direct<Map<Key>, Key, std::string>>(name, size, numbers));
  all->back()->share = server_share;
}

template <class Key, class Value>
Contestants threads(const Size& size, const Numbers& numbers) {
  using namespace bench::maps;
  Contestants all;
  add<SmeltMap, Key, Value>(&all, "smelt", size, numbers);
  add<LockedMap, Key, Value>(&all, "unordered_map + shared_mutex", size, numbers);
#ifdef BENCH_TBB
  add<TbbMap, Key, Value>(&all, "tbb", size, numbers);
#endif
#ifdef BENCH_CUCKOO
  add<CuckooMap, Key, Value>(&all, "libcuckoo", size, numbers);
#endif
#ifdef BENCH_CK
  add<CkMap, Key, Value>(&all, "ck_ht", size, numbers);
#endif
#ifdef BENCH_URCU
  add<UrcuMap, Key, Value>(&all, "urcu", size, numbers);
#endif
#ifdef BENCH_BOOST_FLAT
  add<FlatMap, Key, Value>(&all, "boost::concurrent_flat_map", size, numbers);
#endif
  return all;
}

template <class Key, class Value>
Contestants processes(const Size& size, const Numbers& numbers) {
  using namespace bench::maps;
  Contestants all;
  add<SmeltMap, Key, Value>(&all, "smelt", size, numbers);
#ifdef BENCH_INTERPROCESS
  add<InterprocessMap, Key, Value>(&all, "boost.interprocess", size, numbers);
#endif
#ifdef BENCH_LMDB
  add<LmdbMap, Key, Value>(&all, "lmdb", size, numbers);
#endif
  add_server<MemcachedMap, Key>(&all, "memcached", size, numbers, "memcached");
  add_server<RedisMap, Key>(&all, "redis", size, numbers, "redis-server");
  return all;
}

Contestants contestants(const Options& options, const Numbers& numbers) {
  const Size size{options.records, options.value_bytes, options.processes};
  const auto both = [&]<class Key, class Value>() {
    return options.processes ? processes<Key, Value>(size, numbers) : threads<Key, Value>(size, numbers);
  };
  if (options.strings) return both.operator()<std::string, std::string>();
  switch (options.value_bytes) {
    case 16: return both.operator()<std::uint64_t, Bytes<16>>();
    case 100: return both.operator()<std::uint64_t, Bytes<100>>();
    case 1000: return both.operator()<std::uint64_t, Bytes<1000>>();
    default: std::fprintf(stderr, "bench_ycsb: --values is 16, 100 or 1000 for keys of 8 bytes\n"); std::exit(2);
  }
}

// ---- loads
// ------------------------------------------------------------------------------------------------------------

/// Ranks from 0 on, the k-th with a weight of k^-.99.
class Zipf {
 public:
  explicit Zipf(std::size_t count) {
    double sum = 0;
    for (std::size_t k = 1; k <= count; ++k) sums_.push_back(sum += std::pow(static_cast<double>(k), -0.99));
  }
  template <class Random>
  std::size_t operator()(Random& random) const {
    const double at = std::uniform_real_distribution<>(0, sums_.back())(random);
    const auto found = std::ranges::lower_bound(sums_, at) - sums_.begin();
    return std::min(static_cast<std::size_t>(found), sums_.size() - 1);
  }

 private:
  std::vector<double> sums_;
};

struct Load {
  char name;
  double often;  ///< share of the first kind
  Kind first, second;
};
constexpr Load all_loads[] = {{'A', 0.5, Kind::read, Kind::update},  {'B', 0.95, Kind::read, Kind::update},
                              {'C', 1.0, Kind::read, Kind::read},    {'D', 0.95, Kind::read_latest, Kind::insert},
                              {'E', 0.95, Kind::scan, Kind::insert}, {'F', 0.5, Kind::read, Kind::modify}};

Stream make_stream(const Options& options, const Load& load, const Zipf& zipf, unsigned seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<> unit(0, 1);
  Stream stream(options.operations / (load.first == Kind::scan ? scan_share : 1));
  for (auto& what : stream) {
    what.kind = unit(random) < load.often ? load.first : load.second;
    const std::size_t rank = zipf(random);
    what.length = static_cast<std::uint8_t>(1 + random() % most_scanned);
    what.record = static_cast<std::uint32_t>(rank);
    if (what.kind == Kind::read_latest) continue;
    what.record = static_cast<std::uint32_t>(mixed(rank) % (options.records - most_scanned));
  }
  return stream;
}

// ---- timing
// -----------------------------------------------------------------------------------------------------------

std::int64_t now_ns() { return std::chrono::nanoseconds(bench::turns::Clock::now().time_since_epoch()).count(); }

/// Operations per second of all clients. Each round takes another part of what a server does of the streams.
double turn(Contestant& map, const std::vector<Stream>& streams, const Options& options, int round, Board& board) {
  const std::size_t count = std::max<std::size_t>(streams[0].size() / map.share, 1);
  const std::size_t from = static_cast<std::size_t>(round) % map.share * count;
  board.gate.open_for(options.clients);
  const auto body = [&](int client) {
    bench::turns::pin(client);
    map.enter();
    const auto at = static_cast<std::size_t>(client);
    const auto mine = std::span(streams[at]).subspan(from, count);
    board.gate.pass();
    board.begin_ns[at] = now_ns();
    board.inserted[at] = map.run(mine, client, map.inserted[at]);
    board.end_ns[at] = now_ns();
    map.leave();
  };
  if (!bench::turns::run_clients(options.clients, options.processes, body, [] {})) {
    bench::maps::fail(map.name.c_str(), "a client failed");
  }
  map.settle();
  std::int64_t begin = INT64_MAX, end = 0;
  for (int i = 0; i < options.clients; ++i) {
    map.inserted[static_cast<std::size_t>(i)] = board.inserted[i];
    begin = std::min(begin, board.begin_ns[i].load());
    end = std::max(end, board.end_ns[i].load());
  }
  return static_cast<double>(count) * options.clients * 1e9 / static_cast<double>(end - begin);
}

void report(std::FILE* json, const char* separator, char load, const std::string& map, std::vector<double> rates,
            const std::vector<double>& ratios) {
  std::ranges::sort(rates);
  std::printf("  %-30s %10.3f Mops/s   smelt is %7.2f times as fast\n", map.c_str(), bench::turns::median(rates) / 1e6,
              bench::turns::median(ratios));
  if (json == nullptr) return;
  std::fprintf(
      json,
      "%s {\"load\": \"%c\", \"map\": \"%s\", \"per_s\": %.0f, \"lowest_per_s\": %.0f, \"highest_per_s\": %.0f, "
      "\"smelt_ratio\": %.4f}",
      separator, load, map.c_str(), bench::turns::median(rates), rates.front(), rates.back(),
      bench::turns::median(ratios));
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--processes") {
      options.processes = true;
      continue;
    }
    if (i + 1 == argc) {
      std::fprintf(stderr, "bench_ycsb: %s: no such option, or its value is missing\n", argv[i]);
      std::exit(2);
    }
    const char* value = argv[++i];
    if (name == "--keys") options.strings = std::string_view(value) == "string";
    if (name == "--values") options.value_bytes = std::strtoull(value, nullptr, 10);
    if (name == "--loads") options.loads = value;
    if (name == "--records") options.records = std::strtoull(value, nullptr, 10);
    if (name == "--operations") options.operations = std::strtoull(value, nullptr, 10);
    if (name == "--clients") options.clients = std::atoi(value);
    if (name == "--rounds") options.rounds = std::atoi(value);
    if (name == "--json") options.json = value;
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  if (options.clients < 1 || options.clients > most_clients || options.records <= most_scanned ||
      options.value_bytes < 16) {
    std::fprintf(stderr, "bench_ycsb: clients are 1 to %d, records more than %zu, values at least 16 bytes\n",
                 most_clients, most_scanned);
    return 2;
  }
  const Numbers numbers{options.records, options.records * 2, static_cast<std::uint64_t>(options.clients)};
  make_key_texts(numbers.all + most_clients);
  auto& board = bench::turns::shared_memory<Board>();
  auto maps = contestants(options, numbers);
  for (auto& map : maps) map->load();
  std::FILE* json = options.json == nullptr ? nullptr : std::fopen(options.json, "w");
  if (json != nullptr) {
    std::fprintf(json,
                 "{\"keys\": \"%s\", \"value_bytes\": %zu, \"records\": %zu, \"clients\": %d, \"processes\": %s, "
                 "\"rounds\": %d, \"operations\": %zu, \"cells\": [",
                 options.strings ? "string" : "8", options.value_bytes, options.records, options.clients,
                 options.processes ? "true" : "false", options.rounds, options.operations);
  }
  const Zipf zipf(options.records);
  const char* separator = "\n";
  for (const Load& load : all_loads) {
    if (options.loads.find(load.name) == std::string::npos) continue;
    std::vector<Stream> streams;
    for (int i = 0; i < options.clients; ++i) {
      streams.push_back(make_stream(options, load, zipf, static_cast<unsigned>(i) + 1));
    }
    std::map<std::string, std::vector<double>> rates, ratios;
    for (int round = 0; round <= options.rounds; ++round) {
      for (auto& map : maps) {
        const double rate = turn(*map, streams, options, round, board);
        if (round != 0) rates[map->name].push_back(rate);
      }
      for (auto& map : maps) {
        if (round != 0) ratios[map->name].push_back(rates["smelt"].back() / rates[map->name].back());
      }
    }
    std::printf("load %c, keys %s, values %zu bytes, %d %s\n", load.name, options.strings ? "strings" : "8 bytes",
                options.value_bytes, options.clients, options.processes ? "processes" : "threads");
    for (auto& map : maps) {
      report(json, separator, load.name, map->name, rates[map->name], ratios[map->name]);
      separator = ",\n";
    }
    std::fflush(stdout);
  }
  if (json != nullptr) {
    std::fprintf(json, "\n]}\n");
    std::fclose(json);
  }
}
