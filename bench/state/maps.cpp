// Question: how many operations per second do threads, or processes, get from one map, next to other libraries?
// Method: all keys (random, 8 bytes) are there; every client takes its own stream of lookups and of puts of values of 16
// bytes, made before; all maps take turns in each round, with the same streams; per map the median over the rounds of
// operations per second, and of its ratio to smelt in the same round. Every lookup's value is checked against its key.
// Expected shape: a table whose readers write nothing gains most where lookups of few keys are many; batches where the
// table is much larger than the caches.
//
//   bench_maps [--keys N] [--clients N] [--rounds N] [--ms N] [--processes] [--json FILE]
#include <dlfcn.h>

#include <cmath>
#include <map>
#include <random>

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
  bool processes = false;
  const char* json = nullptr;
};

/// What a client asks for: keys, and in the lowest bit whether to put.
using Stream = std::vector<std::uint32_t>;

std::vector<Key> all_keys;

// ---- maps -----------------------------------------------------------------------------------

[[noreturn]] void wrong(const char* map) {
  std::fprintf(stderr, "%s: a wrong value\n", map);
  std::abort();
}

struct Contestant {
  explicit Contestant(std::string called) : name(std::move(called)) {}
  virtual ~Contestant() = default;
  /// Called by each client's thread or process before and after.
  virtual void enter() {}
  virtual void leave() {}
  virtual void load() = 0;
  /// Does the operations of the stream from `at` on.
  virtual void run(const Stream& stream, std::size_t at, std::size_t count) = 0;
  std::string name;
};

/// The loop, for a map with `bool get(Key, Value*)` and `void put(Key, const Value&)`.
template <class Map>
struct Single : Contestant {
  explicit Single(std::string called) : Contestant(std::move(called)) {}
  void load() override {
    for (const Key key : all_keys) map.put(key, {key, 0});
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
        if (!map.get(key, &value) || value.key != key) wrong(name.c_str());
      }
    }
  }
  Map map;
};

smelt::MapOptions smelt_options() { return {.capacity = all_keys.size()}; }

struct SmeltBatches : Contestant {
  SmeltBatches(std::string called, bool shared) : Contestant(std::move(called)) {
    if (shared)
      map = *smelt::Map<Key, Value>::create_shared("bench-batches-" + std::to_string(getpid()), smelt_options());
  }
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
      map.run(calls);
      for (const auto& call : calls) {
        if (call.value.key != call.key) wrong(name.c_str());
      }
    }
  }
  smelt::Map<Key, Value> map = *smelt::Map<Key, Value>::create(smelt_options());
};

std::vector<std::unique_ptr<Contestant>> contestants(bool processes) {
  std::vector<std::unique_ptr<Contestant>> all;
  if (processes) {
    all.push_back(std::make_unique<Single<SmeltShared>>("smelt"));
    all.push_back(std::make_unique<SmeltBatches>("smelt, batches", true));
#ifdef BENCH_INTERPROCESS
    all.push_back(std::make_unique<Single<InterprocessMap>>("boost.interprocess"));
#endif
#ifdef BENCH_LMDB
    all.push_back(std::make_unique<Lmdb>("lmdb"));
#endif
    return all;
  }
  all.push_back(std::make_unique<Single<SmeltMap>>("smelt"));
  all.push_back(std::make_unique<SmeltBatches>("smelt, batches", false));
  all.push_back(std::make_unique<Single<LockedMap>>("unordered_map + shared_mutex"));
#ifdef BENCH_TBB
  all.push_back(std::make_unique<Single<TbbMap>>("tbb"));
#endif
#ifdef BENCH_CUCKOO
  all.push_back(std::make_unique<Single<CuckooMap>>("libcuckoo"));
#endif
#ifdef BENCH_CK
  all.push_back(std::make_unique<Single<CkMap>>("ck_ht"));
#endif
#ifdef BENCH_URCU
  all.push_back(std::make_unique<Urcu>("urcu"));
#endif
#ifdef BENCH_BOOST_FLAT
  all.push_back(std::make_unique<Single<FlatMap>>("boost::concurrent_flat_map"));
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
      what = static_cast<std::uint32_t>(std::min(at, options.keys - 1) << 1) | (unit(random) >= lookups ? 1u : 0u);
    }
    streams.push_back(std::move(stream));
  }
  return streams;
}

struct Shared {
  std::atomic<int> ready, stop;
  std::atomic<std::uint64_t> done;
};

void pin(int client) {
  cpu_set_t allowed, one;
  sched_getaffinity(getpid(), sizeof allowed, &allowed);
  CPU_ZERO(&one);
  int at = client % CPU_COUNT(&allowed);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &allowed) && at-- == 0) CPU_SET(cpu, &one);
  }
  pthread_setaffinity_np(pthread_self(), sizeof one, &one);
}

void client(Contestant& map, const Stream& stream, int index, Shared& shared) {
  constexpr std::size_t step = 256;
  pin(index);
  map.enter();
  shared.ready.fetch_sub(1);
  while (shared.ready.load() != 0) sched_yield();
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
  shared.ready = options.clients + 1;
  shared.stop = 0;
  shared.done = 0;
  std::vector<std::thread> threads;
  std::vector<pid_t> children;
  for (int i = 0; i < options.clients; ++i) {
    const auto body = [&, i] { client(map, streams[static_cast<std::size_t>(i)], i, shared); };
    if (!options.processes) {
      threads.emplace_back(body);
    } else if (const pid_t child = fork(); child == 0) {
      body();
      _exit(0);
    } else {
      children.push_back(child);
    }
  }
  while (shared.ready.load() != 1) sched_yield();
  const auto begin = std::chrono::steady_clock::now();
  shared.ready.fetch_sub(1);
  std::this_thread::sleep_for(std::chrono::milliseconds(options.milliseconds));
  shared.stop = 1;
  const auto end = std::chrono::steady_clock::now();
  for (auto& thread : threads) thread.join();
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    if (status != 0) wrong(map.name.c_str());
  }
  return static_cast<double>(shared.done.load()) / std::chrono::duration<double>(end - begin).count();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
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
      std::fprintf(stderr, "%s: a value is missing\n", argv[i]);
      std::exit(2);
    }
    const char* value = argv[++i];
    if (name == "--keys") options.keys = std::strtoull(value, nullptr, 10);
    if (name == "--clients") options.clients = std::atoi(value);
    if (name == "--rounds") options.rounds = std::atoi(value);
    if (name == "--ms") options.milliseconds = std::atoi(value);
    if (name == "--json") options.json = value;
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  std::mt19937_64 random(42);
  all_keys.resize(options.keys);
  for (auto& key : all_keys) key = random() | 1;  // 0 and the largest number are not keys of ck_ht
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto& shared = *new (memory) Shared{};
  auto maps = contestants(options.processes);
  for (auto& map : maps) map->load();
  std::FILE* json = options.json == nullptr ? nullptr : std::fopen(options.json, "w");
  if (json != nullptr) {
    std::fprintf(
        json, "{\"keys\": %zu, \"clients\": %d, \"processes\": %s, \"rounds\": %d, \"turn_ms\": %d, \"cells\": [",
        options.keys, options.clients, options.processes ? "true" : "false", options.rounds, options.milliseconds);
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
        std::printf("  %-30s %8.2f Mops/s   smelt is %5.2f times as fast\n", map->name.c_str(), median(sorted) / 1e6,
                    median(ratios[map->name]));
        if (json == nullptr) continue;
        std::fprintf(json,
                     "%s {\"lookups\": %.2f, \"skew\": %.2f, \"map\": \"%s\", \"per_s\": %.0f, \"lowest_per_s\": %.0f, "
                     "\"highest_per_s\": %.0f, \"smelt_ratio\": %.4f}",
                     separator, lookups, skew, map->name.c_str(), median(sorted), sorted.front(), sorted.back(),
                     median(ratios[map->name]));
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
