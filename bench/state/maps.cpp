// Question: how many operations per second do threads, or processes, get from one map, next to other libraries?
// Method: all keys (random, 8 bytes) are there; every client takes its own stream of lookups and of puts of values of 16
// bytes, made before; all maps take turns in each round, with the same streams; per map the median over the rounds of
// operations per second, and of its ratio to smelt in the same round. Every lookup's value is checked against its key.
// With --one-writer client 0 alone puts, as the blackboard of iceoryx2 demands, which then takes part.
// Expected shape: a table whose readers write nothing gains most where lookups of few keys are many; batches where the
// table is much larger than the caches.
//
//   bench_maps [--keys N] [--clients N] [--rounds N] [--ms N] [--processes] [--one-writer]
//              [--crates LIBRARY] [--json FILE]
#include <cmath>
#include <map>
#include <random>

#include "state/crates.hpp"
#include "state/map_peers.hpp"
#include "state/turns.hpp"

namespace {

using Key = std::uint64_t;
struct Value {
  std::uint64_t key, number;
};

struct Options {
  std::size_t keys = 10'000;
  int clients = 2, rounds = 5, milliseconds = 20;
  bool processes = false, one_writer = false;
  const char *json = nullptr, *crates = nullptr;
};

/// What a client asks for: keys, and in the lowest bit whether to put.
using Stream = std::vector<std::uint32_t>;

std::vector<Key> all_keys;

// ---- maps -----------------------------------------------------------------------------------

using bench::maps::Size;

[[noreturn]] void wrong(const std::string& map) { bench::maps::fail(map.c_str(), "a wrong value"); }

struct Contestant {
  explicit Contestant(std::string called) : name(std::move(called)) {}
  virtual ~Contestant() = default;
  /// Called by each client's thread or process before and after.
  virtual void enter(int) {}
  virtual void leave() {}
  /// Called between turns.
  virtual void settle() {}
  virtual void load() = 0;
  /// Does the operations of the stream from `at` on.
  virtual void run(const Stream& stream, std::size_t at, std::size_t count) = 0;
  std::string name;
};

/// The loop, for a map with `bool get(Key, Value*)` and `void put(Key, const Value&)`.
template <class Map>
struct Single : Contestant {
  Single(std::string called, const Size& size) : Contestant(std::move(called)), map(size) {}
  void enter(int) override { bench::maps::enter(map); }
  void leave() override { bench::maps::leave(map); }
  void settle() override { bench::maps::settle(map); }
  void load() override {
    bench::maps::fill(map, [&](auto&& put) {
      for (const Key key : all_keys) put(key, Value{key, 0});
    });
  }
  void run(const Stream& stream, std::size_t at, std::size_t count) override {
    const std::size_t mask = stream.size() - 1;
    for (std::size_t i = at; i < at + count; ++i) {
      const std::uint32_t what = stream[i & mask];
      const Key key = all_keys[what >> 1];
      if ((what & 1) != 0) {
        map.put(key, {key, i});
      } else {
        Value value;
        if (!map.get(key, &value) || value.key != key) wrong(name);
      }
    }
  }
  Map map;
};

struct SmeltBatches : Contestant {
  explicit SmeltBatches(const Size& size) : Contestant("smelt, batches"), map(size) {}
  void load() override {
    for (const Key key : all_keys) map.put(key, {key, 0});
  }
  void run(const Stream& stream, std::size_t at, std::size_t count) override {
    using Call = smelt::Map<Key, Value>::Call;
    const std::size_t mask = stream.size() - 1;
    Call calls[64];
    for (std::size_t i = at; i < at + count; i += 64) {
      for (std::size_t j = 0; j < 64; ++j) {
        const std::uint32_t what = stream[(i + j) & mask];
        calls[j].key = all_keys[what >> 1];
        calls[j].kind = (what & 1) != 0 ? Call::Kind::put : Call::Kind::get;
        if ((what & 1) != 0) calls[j].value = {calls[j].key, i};
      }
      map.map.run(calls);
      for (const auto& call : calls) {
        if (call.value.key != call.key) wrong(name);
      }
    }
  }
  bench::maps::SmeltMap<Key, Value> map;
};

/// The blackboard of iceoryx2, which has one writer: client 0. Keys are all there from the beginning. A reader holds an
/// entry of each key, which it need not look up, or looks it up each time, as in a map.
struct Blackboard : Contestant {
  Blackboard(std::string called, const bench::Crates& crates, bool by_key)
      : Contestant(std::move(called)),
        looks_up(by_key),
        board_name(bench::maps::unique_name()),
        create(crates.get<void*(const char*, const Key*, std::size_t)>("peers_board_create")),
        destroy(crates.get<void(void*)>("peers_board_destroy")),
        open_reader(crates.get<void*(void*, const Key*, std::size_t)>("peers_board_reader")),
        open_writer(crates.get<void*(void*, const Key*, std::size_t)>("peers_board_writer")),
        close(crates.get<void(void*, void*)>("peers_board_leave")),
        get(crates.get<void(void*, std::size_t, Value*)>("peers_board_get")),
        look_up(crates.get<bool(void*, Key, Value*)>("peers_board_look_up")),
        put(crates.get<void(void*, std::size_t, const Value*)>("peers_board_put")) {}
  ~Blackboard() override {
    if (getpid() == owner) destroy(board);
  }
  void load() override { board = create(board_name.c_str(), all_keys.data(), all_keys.size()); }
  void enter(int client) override {
    reader = open_reader(board, all_keys.data(), all_keys.size());
    if (client == 0) writer = open_writer(board, all_keys.data(), all_keys.size());
  }
  void leave() override { close(reader, writer); }
  void run(const Stream& stream, std::size_t at, std::size_t count) override {
    const std::size_t mask = stream.size() - 1;
    for (std::size_t i = at; i < at + count; ++i) {
      const std::uint32_t what = stream[i & mask];
      const Key key = all_keys[what >> 1];
      Value value{key, i};
      if ((what & 1) != 0) {
        put(writer, what >> 1, &value);
      } else if (looks_up ? !look_up(reader, key, &value) : (get(reader, what >> 1, &value), false)) {
        wrong(name);
      }
      if (value.key != key) wrong(name);
    }
  }

  bool looks_up;
  std::string board_name;
  pid_t owner = getpid();
  void *board = nullptr, *reader = nullptr, *writer = nullptr;
  void* (*create)(const char*, const Key*, std::size_t);
  void (*destroy)(void*);
  void* (*open_reader)(void*, const Key*, std::size_t);
  void* (*open_writer)(void*, const Key*, std::size_t);
  void (*close)(void*, void*);
  void (*get)(void*, std::size_t, Value*);
  bool (*look_up)(void*, Key, Value*);
  void (*put)(void*, std::size_t, const Value*);
};

using Contestants = std::vector<std::unique_ptr<Contestant>>;

template <template <class, class> class Map>
void add(Contestants* all, const char* name, const Size& size) {
  all->push_back(std::make_unique<Single<Map<Key, Value>>>(name, size));
}

Contestants of_processes(const Size& size, const bench::Crates& crates, bool one_writer) {
  using namespace bench::maps;
  Contestants all;
  add<SmeltMap>(&all, "smelt", size);
  all.push_back(std::make_unique<SmeltBatches>(size));
#ifdef BENCH_INTERPROCESS
  add<InterprocessMap>(&all, "boost.interprocess", size);
#endif
#ifdef BENCH_LMDB
  add<LmdbMap>(&all, "lmdb", size);
#endif
  if (one_writer && crates) {
    all.push_back(std::make_unique<Blackboard>("iceoryx2, entries held", crates, false));
    all.push_back(std::make_unique<Blackboard>("iceoryx2, by key", crates, true));
  }
  return all;
}

Contestants of_threads(const Size& size) {
  using namespace bench::maps;
  Contestants all;
  add<SmeltMap>(&all, "smelt", size);
  all.push_back(std::make_unique<SmeltBatches>(size));
  add<LockedMap>(&all, "unordered_map + shared_mutex", size);
#ifdef BENCH_TBB
  add<TbbMap>(&all, "tbb", size);
#endif
#ifdef BENCH_CUCKOO
  add<CuckooMap>(&all, "libcuckoo", size);
#endif
#ifdef BENCH_CK
  add<CkMap>(&all, "ck_ht", size);
#endif
#ifdef BENCH_URCU
  add<UrcuMap>(&all, "urcu", size);
#endif
#ifdef BENCH_BOOST_FLAT
  add<FlatMap>(&all, "boost::concurrent_flat_map", size);
#endif
  return all;
}

// ---- timing ---------------------------------------------------------------------------------

/// Popularity k^-skew of the k-th of all keys, in random order; or all alike.
std::vector<Stream> make_streams(const Options& options, double lookups, double skew) {
  constexpr std::size_t length = 1 << 18;
  std::vector<double> sums;
  double sum = 0;
  for (std::size_t k = 1; skew > 0 && k <= options.keys; ++k) sums.push_back(sum += std::pow(k, -skew));
  std::vector<Stream> streams;
  for (int client = 0; client < options.clients; ++client) {
    std::mt19937_64 random(static_cast<unsigned>(client) + 1);
    std::uniform_real_distribution<> unit(0, 1);
    Stream stream(length);
    for (auto& what : stream) {
      const std::size_t at =
          skew > 0 ? static_cast<std::size_t>(std::ranges::lower_bound(sums, unit(random) * sum) - sums.begin())
                   : random() % options.keys;
      const bool puts = unit(random) >= lookups && (client == 0 || !options.one_writer);
      what = static_cast<std::uint32_t>(std::min(at, options.keys - 1) << 1) | (puts ? 1u : 0u);
    }
    streams.push_back(std::move(stream));
  }
  return streams;
}

struct Shared {
  bench::turns::Gate gate;
  std::atomic<int> stop;
  std::atomic<std::uint64_t> done;
};

void client(Contestant& map, const Stream& stream, int index, Shared& shared) {
  constexpr std::size_t step = 256;
  bench::turns::pin(index);
  map.enter(index);
  shared.gate.pass();
  std::size_t at = static_cast<std::size_t>(index) * 7919 * 64;
  std::uint64_t done = 0;
  while (shared.stop.load(std::memory_order_relaxed) == 0) {
    map.run(stream, at, step);
    at += step;
    done += step;
  }
  shared.done.fetch_add(done);
  map.leave();
}

/// Operations per second of all clients.
double turn(Contestant& map, const std::vector<Stream>& streams, const Options& options, Shared& shared) {
  using bench::turns::Clock;
  shared.gate.open_for(options.clients + 1);
  shared.stop = 0;
  shared.done = 0;
  Clock::time_point begin, end;
  const bool well = bench::turns::run_clients(
      options.clients, options.processes, [&](int i) { client(map, streams[static_cast<std::size_t>(i)], i, shared); },
      [&] {
        while (shared.gate.waiting.load() != 1) sched_yield();
        begin = Clock::now();
        shared.gate.pass();
        std::this_thread::sleep_for(std::chrono::milliseconds(options.milliseconds));
        shared.stop = 1;
        end = Clock::now();
      });
  if (!well) wrong(map.name);
  map.settle();
  return static_cast<double>(shared.done.load()) / std::chrono::duration<double>(end - begin).count();
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--processes") {
      options.processes = true;
      continue;
    }
    if (name == "--one-writer") {
      options.one_writer = true;
      continue;
    }
    if (i + 1 == argc) {
      std::fprintf(stderr, "%s: a value is missing\n", argv[i]);
      std::exit(2);
    }
    const char* value = argv[++i];
    if (name == "--keys") options.keys = std::strtoull(value, nullptr, 10);
    if (name == "--clients") options.clients = std::atoi(value);
    if (name == "--rounds") options.rounds = std::atoi(value);
    if (name == "--ms") options.milliseconds = std::atoi(value);
    if (name == "--json") options.json = value;
    if (name == "--crates") options.crates = value;
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  std::mt19937_64 random(42);
  all_keys.resize(options.keys);
  for (auto& key : all_keys) key = random() | 1;  // 0 and the largest number are not keys of ck_ht
  auto& shared = bench::turns::shared_memory<Shared>();
  const bench::Crates crates(options.crates);
  const Size size{options.keys, sizeof(Value), options.processes};
  auto maps = options.processes ? of_processes(size, crates, options.one_writer) : of_threads(size);
  for (auto& map : maps) map->load();
  std::FILE* json = options.json == nullptr ? nullptr : std::fopen(options.json, "w");
  if (json != nullptr) {
    std::fprintf(json,
                 "{\"keys\": %zu, \"clients\": %d, \"processes\": %s, \"one_writer\": %s, \"rounds\": %d, \"turn_ms\": "
                 "%d, \"cells\": [",
                 options.keys, options.clients, options.processes ? "true" : "false",
                 options.one_writer ? "true" : "false", options.rounds, options.milliseconds);
  }
  const char* separator = "\n";
  for (const double skew : {0.0, 0.99}) {
    for (const double lookups : {0.5, 0.9, 0.99, 1.0}) {
      const auto streams = make_streams(options, lookups, skew);
      std::map<std::string, std::vector<double>> rates, ratios;
      for (int round = 0; round < options.rounds; ++round) {
        for (auto& map : maps) rates[map->name].push_back(turn(*map, streams, options, shared));
        for (auto& map : maps) ratios[map->name].push_back(rates["smelt"].back() / rates[map->name].back());
      }
      std::printf("keys %zu, clients %d, lookups %.2f, skew %.2f\n", options.keys, options.clients, lookups, skew);
      for (auto& map : maps) {
        auto sorted = rates[map->name];
        std::ranges::sort(sorted);
        std::printf("  %-30s %8.2f Mops/s   smelt is %5.2f times as fast\n", map->name.c_str(),
                    bench::turns::median(sorted) / 1e6, bench::turns::median(ratios[map->name]));
        if (json == nullptr) continue;
        std::fprintf(json,
                     "%s {\"lookups\": %.2f, \"skew\": %.2f, \"map\": \"%s\", \"per_s\": %.0f, \"lowest_per_s\": %.0f, "
                     "\"highest_per_s\": %.0f, \"smelt_ratio\": %.4f}",
                     separator, lookups, skew, map->name.c_str(), bench::turns::median(sorted), sorted.front(),
                     sorted.back(), bench::turns::median(ratios[map->name]));
        separator = ",\n";
      }
      std::fflush(stdout);
    }
  }
  if (json != nullptr) {
    std::fprintf(json, "\n]}\n");
    std::fclose(json);
  }
}
