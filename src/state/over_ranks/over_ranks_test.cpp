// Maps over the ranks of a communicator: semantics of the calls of each algorithm, with one rank and with several.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <random>
#include <thread>

#include "smelt/map_group.hpp"
#include "state/over_ranks/settings_of_tests.hpp"
#include "state/random_calls.hpp"

namespace smelt {
namespace {

using testing::HasSubstr;
using Key = std::uint64_t;
struct Value16 {
  std::uint64_t a = 0, b = 0;
  bool operator==(const Value16&) const = default;
};

using test::communicator;
using test::on_all;
using test::options_of;
using test::Setting;
using test::settings;

class MapsOverRanks : public testing::TestWithParam<Setting> {};
INSTANTIATE_TEST_SUITE_P(All, MapsOverRanks, testing::ValuesIn(settings()));

/// Each rank works on its own keys and sees its own updates. In between, it reads all keys.
template <class Value, class MakeValue>
void compare_with_std(const Setting& setting, int operations, MakeValue make_value) {
  auto group = MapGroup<Key, Value>::create(communicator(setting.ranks), options_of(setting));
  ASSERT_TRUE(group) << group.error().message;
  EXPECT_EQ(group->algorithm(), setting.algorithm);
  on_all(setting, *group, [&](MapRank<Key, Value>& mine) {
    std::mt19937_64 random(static_cast<unsigned>(mine.rank()));
    std::map<Key, Value> reference;
    for (int i = 0; i < operations; ++i) {
      const Key key = random() % 50 * 8 + static_cast<unsigned>(mine.rank());
      ASSERT_NO_FATAL_FAILURE(test::call_both(mine, reference, random, key, make_value));
      mine.get(random() % 400);
    }
    for (const auto& [key, value] : reference) ASSERT_EQ(mine.get(key), value);
  });
}

TEST_P(MapsOverRanks, AgreeWithAnOrderedMap) {
  compare_with_std<Value16>(GetParam(), 1000, [](std::uint64_t n) { return Value16{n, n + 1}; });
  compare_with_std<std::uint16_t>(GetParam(), 300, [](std::uint64_t n) { return static_cast<std::uint16_t>(n); });
}

TEST_P(MapsOverRanks, SendValuesOfManyLines) {
  using Large = std::array<std::uint64_t, 100>;
  compare_with_std<Large>(GetParam(), 300, [](std::uint64_t n) {
    Large value;
    value.fill(n);
    return value;
  });
}

TEST_P(MapsOverRanks, AddEachTermOnce) {
  auto group = MapGroup<int, double>::create(communicator(GetParam().ranks), options_of(GetParam()));
  ASSERT_TRUE(group) << group.error().message;
  constexpr int rounds = 500;
  std::atomic<int> clients{0};
  std::mutex mutex;
  std::vector<double> befores;
  on_all(GetParam(), *group, [&](MapRank<int, double>& mine) {
    clients.fetch_add(1);
    std::vector<double> own;
    for (int i = 0; i < rounds; ++i) {
      double before = -1;
      ASSERT_TRUE(mine.fetch_add(7, 1.0, &before));
      own.push_back(before);
    }
    const std::lock_guard lock(mutex);
    befores.insert(befores.end(), own.begin(), own.end());
  });
  std::ranges::sort(befores);
  ASSERT_EQ(befores.size(), static_cast<std::size_t>(clients.load() * rounds));
  for (std::size_t i = 0; i < befores.size(); ++i) ASSERT_EQ(befores[i], static_cast<double>(i));
}

TEST_P(MapsOverRanks, LeaveEqualReplicas) {
  const Setting& setting = GetParam();
  auto group = MapGroup<Key, Value16>::create(communicator(setting.ranks), options_of(setting));
  ASSERT_TRUE(group) << group.error().message;
  std::mutex mutex;
  std::vector<std::map<Key, std::uint64_t>> tables;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < setting.ranks; ++rank) {
    threads.emplace_back([&, rank] {
      auto mine = group->attach(rank);
      ASSERT_TRUE(mine);
      std::mt19937_64 random(static_cast<unsigned>(rank));
      const bool serves = std::ranges::count(group->servers(), rank) != 0;
      for (int i = 0; i < 300 && !(serves && group->servers_are_dedicated()); ++i) {
        const Key key = random() % 20;
        if (random() % 3 == 0) {
          mine->erase(key);
        } else {
          mine->put(key, {random(), 0});
        }
      }
      ASSERT_EQ(mine->finish(), Status::ok);
      const bool is_replica = setting.algorithm.starts_with("rep_") || (setting.algorithm == "kv" && serves);
      if (!is_replica || (serves && group->servers_are_dedicated())) return;
      std::map<Key, std::uint64_t> table;
      for (const auto& [key, value] : mine->here()) table.emplace(key, value.a);
      const std::lock_guard lock(mutex);
      tables.push_back(std::move(table));
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& table : tables) EXPECT_EQ(table, tables.front());
}

TEST_P(MapsOverRanks, DoBatches) {
  const Setting& setting = GetParam();
  auto group = MapGroup<Key, Value16>::create(communicator(setting.ranks), options_of(setting));
  ASSERT_TRUE(group) << group.error().message;
  on_all(setting, *group, [&](MapRank<Key, Value16>& mine) {
    using Call = MapRank<Key, Value16>::Call;
    const auto own = [&](Key key) { return key * 8 + static_cast<unsigned>(mine.rank()); };
    std::vector<Call> calls;
    for (Key key = 0; key < 200; ++key) {
      calls.push_back({Call::Kind::put, own(key), {key, 1}});
      calls.push_back({Call::Kind::get, own(key)});
      calls.push_back({Call::Kind::insert, own(key), {key, 2}});
      if (key % 2 == 0) calls.push_back({Call::Kind::erase, own(key)});
    }
    mine.run(calls);
    for (const Call& call : calls) {
      ASSERT_TRUE(call.answer);
      ASSERT_EQ(call.answer.found, call.kind != Call::Kind::put);
      if (call.kind == Call::Kind::get) {
        ASSERT_EQ(call.value, (Value16{(call.key - static_cast<unsigned>(mine.rank())) / 8, 1}));
      }
    }
    for (Key key = 0; key < 200; ++key) ASSERT_EQ(mine.get(own(key)).has_value(), key % 2 != 0);
  });
}

// ---- errors, choice, ends -------------------------------------------------------------------

using Numbers = MapGroup<std::uint64_t, std::uint64_t>;

void refuses(int ranks, const MapOptions& options, const char* text, Status status) {
  const auto group = Numbers::create(communicator(ranks), options);
  ASSERT_FALSE(group);
  EXPECT_THAT(group.error().message, HasSubstr(text));
  EXPECT_EQ(group.error().status, status);
}

TEST(MapGroup, RefusesWhatAnAlgorithmCannotDo) {
  refuses(2, {.algorithm = "rep"}, "no algorithm 'rep'", Status::invalid_argument);
  refuses(2, {.algorithm = "rep_sc"}, "rep_sc is sequential", Status::not_supported);
  refuses(2, {.algorithm = "part_simple", .faults = Faults::crash}, "survives 'none'", Status::not_supported);
  refuses(2, {.algorithm = "rep_2pc", .keep = true}, "not kept", Status::not_supported);
  refuses(2, {.algorithm = "part_simple", .servers = 3}, "servers is 3", Status::invalid_argument);
  refuses(1, {.algorithm = "part_simple", .colocate = false}, "one rank at least", Status::invalid_argument);
  refuses(3, {.algorithm = "kv", .faults = Faults::crash, .servers = 2}, "every rank", Status::invalid_argument);
  refuses(2, {.algorithm = "rep_local", .wait = "never"}, "wait mode", Status::invalid_argument);
  const auto large = MapGroup<Key, std::array<char, 5000>>::create(communicator(2), {.algorithm = "rep_local"});
  ASSERT_FALSE(large);
  EXPECT_THAT(large.error().message, HasSubstr("take shared"));
  EXPECT_THAT(large.error().message, HasSubstr("up to 4096 bytes, these have 5008"));
  using Text = std::array<char, 4088>;
  EXPECT_TRUE((MapGroup<Key, Text>::create(communicator(2), {.algorithm = "rep_local"}))) << "the largest";
  EXPECT_FALSE((MapGroup<Key, std::array<char, 4089>>::create(communicator(2), {.algorithm = "rep_local"})));
  EXPECT_TRUE((MapGroup<Key, std::array<char, 5000>>::create(communicator(2), {.algorithm = "shared"})));
}

TEST(MapGroup, HasTheRanksOfItsCommunicator) {
  for (const auto& algorithm : map_algorithms()) {
    const MapOptions options{.algorithm = algorithm.name, .consistency = Consistency::sequential};
    auto map = MapGroup<Key, Key>::create(communicator(2), options);
    auto strings = StringMapGroup::create(communicator(2), options);
    ASSERT_TRUE(map && strings);
    for (const int outside : {-1, 2}) {
      EXPECT_FALSE(map->attach(outside)) << algorithm.name;
      EXPECT_FALSE(strings->attach(outside)) << algorithm.name;
    }
  }
}

TEST(MapGroup, DedicatedServersIssueNothing) {
  auto group = Numbers::create(communicator(2), {.algorithm = "part_simple", .servers = 1, .colocate = false});
  ASSERT_TRUE(group);
  auto server = group->attach(group->servers().front());
  ASSERT_TRUE(server);
  EXPECT_EQ(server->put(1, 2).status, Status::invalid_argument);
  EXPECT_THAT(server->failure(), HasSubstr("issues nothing"));
  EXPECT_FALSE(group->attach(server->rank()));
  EXPECT_FALSE(group->attach(2));
}

TEST(MapGroup, ARankThatLeavesEarlyBreaksCallsThatNeedIt) {
  for (const char* algorithm : {"part_simple", "part_caching", "rep_remote", "rep_local", "rep_2pc", "kv"}) {
    auto group = Numbers::create(communicator(2), {.algorithm = algorithm, .servers = 1});
    ASSERT_TRUE(group) << group.error().message;
    { auto first = group->attach(0); }
    auto second = group->attach(1);
    ASSERT_TRUE(second);
    EXPECT_EQ(second->put(1, 2).status, Status::broken) << algorithm;
    EXPECT_THAT(second->failure(), HasSubstr("rank 0 has left")) << algorithm;
    EXPECT_EQ(second->status(), Status::broken);
    EXPECT_EQ(second->finish(), Status::broken);
  }
}

/// Each rank's update has its turn before the others have done many. A rank needs the votes of all for its next one,
/// and the vote of a rank whose update is earlier only after that. So each of the others does one before it, one that
/// was already under way, and those whose messages one look into a channel may find: 64, two for each update.
TEST(MapGroup, UpdatesOfRep2pcTakeTurns) {
  constexpr int ranks = 3, most = 64 / 2 + 3;
  auto group = Numbers::create(communicator(ranks), {.algorithm = "rep_2pc"});
  ASSERT_TRUE(group) << group.error().message;
  std::atomic<int> done[ranks] = {};
  std::atomic<bool> is_over{false};
  std::atomic<int> longest{0};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      auto mine = *group->attach(rank);
      for (std::uint64_t i = 0; rank == 0 ? i < 500 : !is_over.load(); ++i) {
        const int before[ranks] = {0, done[1].load(), done[2].load()};
        const std::uint64_t key = rank == 0 ? i % 8 : static_cast<std::uint64_t>(rank);
        if (rank == 0 && i % 2 != 0) {
          mine.get(i / 2 % ranks);
        } else {
          mine.fetch_add(key, 1);
        }
        done[rank].fetch_add(1);
        for (int other = 1; rank == 0 && other < ranks; ++other) {
          longest = std::max(longest.load(), done[other].load() - before[other]);
        }
      }
      is_over.store(true);
      EXPECT_EQ(mine.finish(), Status::ok) << mine.failure();
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_LE(longest.load(), most) << "updates of another rank during one call";
}

/// Sets of ranks have several words.
TEST(MapGroup, AllHoldersOfCopiesDropThemAmongManyRanks) {
  constexpr std::uint64_t key = 7, rounds = 10;
  constexpr int holders[] = {2, 63, 64, 66};
  constexpr std::uint64_t all = std::size(holders);
  auto group = Numbers::create(communicator(67), {.algorithm = "part_caching", .servers = 1});
  ASSERT_TRUE(group) << group.error().message;
  ASSERT_THAT(group->servers(), testing::ElementsAre(0));
  std::atomic<std::uint64_t> written{0}, seen{0}, ended{0};
  const auto serve_until = [](auto& mine, auto&& is_so) {
    while (!is_so() && mine.progress() == Status::ok) std::this_thread::yield();
    EXPECT_EQ(mine.status(), Status::ok) << mine.failure();
  };
  /// Nobody leaves while others call.
  const auto end = [&] {
    for (++ended; ended < all + 2;) std::this_thread::yield();
  };
  std::vector<std::thread> threads;
  threads.emplace_back([&] {
    auto server = group->attach(0);
    serve_until(*server, [&] { return seen == rounds * all; });
    end();
  });
  for (const int rank : holders) {
    threads.emplace_back([&, rank] {
      auto mine = group->attach(rank);
      for (std::uint64_t round = 1; round <= rounds; ++round) {
        serve_until(*mine, [&] { return written >= round; });
        EXPECT_EQ(mine->get(key), round) << "rank " << rank;
        EXPECT_EQ(mine->get(key), round) << "rank " << rank << ", its copy";
        ++seen;
      }
      end();
    });
  }
  auto writer = group->attach(1);
  for (std::uint64_t round = 1; round <= rounds; ++round) {
    EXPECT_EQ(writer->put(key, round).status, Status::ok) << writer->failure();
    written = round;
    serve_until(*writer, [&] { return seen >= round * all; });
  }
  end();
  for (auto& thread : threads) thread.join();
}

TEST(MapGroup, ChoosesByTheModel) {
  const auto best = Numbers::create(communicator(2));
  ASSERT_TRUE(best);
  EXPECT_FALSE(best->reason().empty());
  if (!best->ranking().empty()) {
    EXPECT_EQ(best->algorithm(), best->ranking().front().algorithm);
  }
  const auto survives = Numbers::create(communicator(2), {.faults = Faults::crash});
  ASSERT_TRUE(survives);
  EXPECT_GE(find_map_algorithm(survives->algorithm())->survives, Faults::crash);
  const auto asked = Numbers::create(communicator(2), {.algorithm = "rep_local"});
  ASSERT_TRUE(asked);
  EXPECT_EQ(asked->reason(), "asked for");
}

/// Over a machine whose costs are known: four cores, two NUMA nodes.
class ChoiceOfServers : public testing::Test {
 protected:
  ChoiceOfServers() {
    SynthSpec spec;
    spec.packages = 2;
    spec.cores = 2;
    CommunicatorOptions options;
    options.pin = false;
    options.search_ms = 0;
    options.profile = "none";
    const Machine machine = *synthesize_machine(spec);
    over_.emplace(*Communicator::create(machine, whole_machine(machine), options));
  }
  Numbers make(const MapOptions& options) {
    auto group = Numbers::create(*over_, options);
    EXPECT_TRUE(group) << group.error().message;
    return *std::move(group);
  }
  std::vector<int> servers(const MapOptions& options) { return make(options).servers(); }

  std::optional<Communicator> over_;
};

TEST_F(ChoiceOfServers, IsThatOfTheAlgorithm) {
  using testing::ElementsAre;
  using testing::IsEmpty;
  EXPECT_THAT(servers({.algorithm = "part_simple"}), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(servers({.algorithm = "part_caching", .servers = 2}), ElementsAre(0, 2));
  EXPECT_THAT(servers({.algorithm = "part_simple", .servers = 4}), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(servers({.algorithm = "part_simple", .servers = 3, .colocate = false}), ElementsAre(0, 1, 2));
  EXPECT_THAT(servers({.algorithm = "rep_local", .servers = 3}), ElementsAre(0));
  EXPECT_THAT(servers({.algorithm = "rep_2pc"}), IsEmpty());
  EXPECT_THAT(servers({.algorithm = "shared"}), IsEmpty());
  EXPECT_THAT(servers({.algorithm = "kv"}), ElementsAre(0, 2)) << "one for each NUMA node";
  EXPECT_THAT(servers({.algorithm = "kv", .servers = 3}), ElementsAre(0, 1, 2));
  EXPECT_THAT(servers({.algorithm = "kv", .faults = Faults::crash}), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(servers({.algorithm = "kv", .faults = Faults::stop, .servers = 4}), ElementsAre(0, 1, 2, 3));
  SynthSpec small;
  small.packages = 1;
  small.cores = 4;
  const Machine one_node = *synthesize_machine(small);
  CommunicatorOptions options;
  options.pin = false;
  options.search_ms = 0;
  options.profile = "none";
  const auto near = *Communicator::create(one_node, whole_machine(one_node), options);
  EXPECT_THAT(Numbers::create(near, {.algorithm = "kv"})->servers(), ElementsAre(0));
  const auto apart = make({.algorithm = "part_simple", .colocate = false});
  const auto& ranking = apart.ranking();
  const auto predicted = std::ranges::find(ranking, "part_simple", &MapPrediction::algorithm);
  ASSERT_NE(predicted, ranking.end());
  EXPECT_EQ(apart.servers().size(), static_cast<std::size_t>(predicted->servers));
  EXPECT_TRUE(apart.servers_are_dedicated());
  EXPECT_FALSE(make({.algorithm = "part_simple"}).servers_are_dedicated());
  EXPECT_FALSE(make({.algorithm = "rep_2pc", .colocate = false}).servers_are_dedicated());
}

TEST_F(ChoiceOfServers, IsRefusedWhereNobodyIsLeft) {
  const auto refuses = [&](const MapOptions& options, const char* says) {
    const auto group = Numbers::create(*over_, options);
    ASSERT_FALSE(group) << says;
    EXPECT_THAT(group.error().message, HasSubstr(says));
  };
  refuses({.algorithm = "part_simple", .servers = 5}, "servers is 5; it must be 0 to 4");
  refuses({.algorithm = "part_simple", .servers = -1}, "servers is -1");
  refuses({.algorithm = "part_simple", .servers = 4, .colocate = false}, "one rank at least must be left");
  refuses({.algorithm = "kv", .faults = Faults::crash, .servers = 3}, "every rank has a replica");
  refuses({.algorithm = "part_caching", .faults = Faults::crash}, "part_caching survives 'none', not 'crash'");
  refuses({.algorithm = "shared", .faults = Faults::stop}, "shared survives 'crash', not 'stop'");
  refuses({.algorithm = "best", .lookups = 1.5}, "lookups");
}

TEST_F(ChoiceOfServers, FollowsTheModel) {
  const auto best = make({.lookups = 0.5, .keys = 1000});
  ASSERT_GE(best.ranking().size(), 2u);
  EXPECT_EQ(best.algorithm(), best.ranking()[0].algorithm);
  EXPECT_THAT(best.reason(), HasSubstr("the model expects "));
  EXPECT_THAT(best.reason(), HasSubstr(" of " + best.ranking()[1].algorithm));
  MapLoad load;
  load.lookups = 0.5, load.keys = 1000;
  load.bytes_per_key = 128 / 6.0 * 1.5;  // six cells to a bucket of two lines, filled to two thirds
  const Machine machine = *synthesize_machine({.packages = 2, .cores = 2});
  const auto expected = *rank_maps(*platform_of(machine, whole_machine(machine)), load, 4);
  ASSERT_EQ(best.ranking().size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(best.ranking()[i].algorithm, expected[i].algorithm);
    EXPECT_NEAR(best.ranking()[i].per_s, expected[i].per_s, expected[i].per_s * 1e-9);
  }
  // Without a number of keys, the capacity is it; with neither, there is one key.
  const auto first = [&](const MapOptions& options) { return make(options).ranking()[0].per_s; };
  EXPECT_EQ(first({.capacity = 50'000, .keys = 5}), first({.capacity = 5}));
  EXPECT_EQ(first({.capacity = 0}), first({.capacity = 1}));
  EXPECT_LT(first({.keys = 1e9}), first({.capacity = 1'000}));
  const auto kv = make({.algorithm = "kv", .consistency = Consistency::sequential});
  EXPECT_EQ(kv.consistency(), Consistency::sequential);
  EXPECT_EQ(make({.algorithm = "kv"}).consistency(), Consistency::linearizable);
  EXPECT_EQ(make({.algorithm = "rep_local", .consistency = Consistency::sequential}).consistency(),
            Consistency::linearizable);
}

}  // namespace
}  // namespace smelt
