// Maps of strings over ranks, and snapshots, by each algorithm.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
using namespace test;

constexpr std::size_t longest = StringMapRank::most_string_bytes;

/// Most have some bytes, some are empty, and a few are longer than any channel.
std::string text_of(std::uint64_t n) {
  const std::size_t bytes = n % 97 == 0 ? longest : n % 11 == 0 ? n % 5000 : n % 40;
  return std::string(bytes, static_cast<char>('a' + n % 26));
}

class StringsOverRanks : public testing::TestWithParam<Setting> {};
INSTANTIATE_TEST_SUITE_P(All, StringsOverRanks, testing::ValuesIn(settings()));

TEST_P(StringsOverRanks, AgreeWithAnOrderedMap) {
  auto group = StringMapGroup::create(communicator(GetParam().ranks), options_of(GetParam()));
  ASSERT_TRUE(group) << group.error().message;
  on_all(GetParam(), *group, [&](StringMapRank& mine) {
    std::mt19937_64 random(static_cast<unsigned>(mine.rank()));
    std::map<std::string, std::string> reference;
    for (int i = 0; i < 300; ++i) {
      const std::uint64_t n = random() % 40;
      const std::string key =
          text_of(n * 13).substr(0, longest - 10) + std::to_string(mine.rank()) + ":" + std::to_string(n);
      ASSERT_NO_FATAL_FAILURE(call_both(mine, reference, random, key, text_of));
    }
    for (const auto& [key, value] : reference) ASSERT_EQ(mine.get(key), value);
  });
}

TEST_P(StringsOverRanks, TakeTheLongestKeysAndValuesAndEmptyOnes) {
  auto group = StringMapGroup::create(communicator(GetParam().ranks), options_of(GetParam()));
  ASSERT_TRUE(group) << group.error().message;
  on_all(GetParam(), *group, [&](StringMapRank& mine) {
    const std::string own = std::to_string(mine.rank()), key = std::string(longest - own.size(), 'k') + own;
    ASSERT_TRUE(mine.put(key, std::string(longest, 'v')));
    ASSERT_EQ(mine.get(key), std::string(longest, 'v'));
    std::string expected(longest, 'v');
    ASSERT_TRUE(mine.compare_exchange(key, expected, std::string(longest, 'w')).changed);
    ASSERT_FALSE(mine.compare_exchange(key, expected, "x").changed);
    ASSERT_EQ(expected, std::string(longest, 'w'));
    ASSERT_TRUE(mine.put(own, {}));
    ASSERT_EQ(mine.get(own), "");
    ASSERT_EQ(mine.put(key + "1", "x").status, Status::invalid_argument);
    ASSERT_EQ(mine.put("x", key + "1").status, Status::invalid_argument);
    ASSERT_TRUE(mine.erase(key).found);
    ASSERT_EQ(mine.get(key), std::nullopt);
    ASSERT_EQ(mine.status(), Status::ok);
  });
}

TEST_P(StringsOverRanks, AreWholeWhileOthersReplaceThem) {
  auto group = StringMapGroup::create(communicator(GetParam().ranks), options_of(GetParam()));
  ASSERT_TRUE(group) << group.error().message;
  on_all(GetParam(), *group, [&](StringMapRank& mine) {
    for (int i = 0; i < 40; ++i) {
      const char letter = static_cast<char>('a' + mine.rank());
      ASSERT_TRUE(mine.put("same", std::string(i % 4 == 0 ? longest : 3000, letter)));
      const auto found = mine.get("same");
      ASSERT_TRUE(found);
      ASSERT_EQ(found->find_first_not_of((*found)[0]), std::string::npos);
      ASSERT_TRUE(found->size() == longest || found->size() == 3000);
    }
  });
}

// ---- snapshots ------------------------------------------------------------------------------

using Numbers = MapGroup<std::uint64_t, std::uint64_t>;

/// Two keys; the first server owns the first one, and another server, if there is one, the second one.
struct Pair {
  std::uint64_t first = 0, second = 0;
  explicit Pair(std::size_t servers) {
    const auto server = [&](std::uint64_t key) {
      const map_detail::Word hash = map_detail::hash_words(&key, 1);
      return (hash >> 16 & 0xffffffff) * servers >> 32;
    };
    while (servers > 1 && server(first) != 0) ++first;
    while (servers > 1 && server(second) == 0) ++second;
    if (second == first) ++second;
  }
};

int clients_of(const Setting& setting, const Numbers& group) {
  return setting.ranks - (group.servers_are_dedicated() ? static_cast<int>(group.servers().size()) : 0);
}

class Snapshots : public testing::TestWithParam<Setting> {};
INSTANTIATE_TEST_SUITE_P(All, Snapshots, testing::ValuesIn(settings()));

TEST_P(Snapshots, ContainAllKeysOfAllRanks) {
  auto group = Numbers::create(communicator(GetParam().ranks), options_of(GetParam()));
  ASSERT_TRUE(group) << group.error().message;
  constexpr std::uint64_t each = 40;
  std::atomic<int> wrote{0};
  on_all(GetParam(), *group, [&](MapRank<std::uint64_t, std::uint64_t>& mine) {
    const auto own = static_cast<std::uint64_t>(mine.rank());
    for (std::uint64_t i = 0; i < each; ++i) ASSERT_TRUE(mine.put(i * 8 + own, i));
    wrote.fetch_add(1);
    const int expected = clients_of(GetParam(), *group);
    while (wrote.load() != expected) mine.progress(), std::this_thread::yield();
    std::map<std::uint64_t, std::uint64_t> found;
    for (const auto& [key, value] : mine.snapshot()) ASSERT_TRUE(found.emplace(key, value).second);
    if (group->consistency() == Consistency::linearizable) {
      ASSERT_EQ(found.size(), each * static_cast<unsigned>(expected));
    }
    for (std::uint64_t i = 0; i < each; ++i) ASSERT_EQ(found.at(i * 8 + own), i);
    ASSERT_EQ(mine.status(), Status::ok) << mine.failure();
  });
}

TEST_P(Snapshots, AreOfOneMoment) {
  auto group = Numbers::create(communicator(GetParam().ranks), options_of(GetParam()));
  ASSERT_TRUE(group) << group.error().message;
  const Pair keys(GetParam().algorithm.starts_with("part_") ? group->servers().size() : 1);
  std::atomic<std::uint64_t> written{0};
  std::atomic<int> writer{-1}, readers{clients_of(GetParam(), *group) - 1};
  const bool linearizable = group->consistency() == Consistency::linearizable;
  on_all(GetParam(), *group, [&](MapRank<std::uint64_t, std::uint64_t>& mine) {
    int nobody = -1;
    if (writer.compare_exchange_strong(nobody, mine.rank())) {
      for (std::uint64_t i = 1; i <= 100 && readers.load() != 0; ++i) {
        ASSERT_TRUE(mine.put(keys.first, i));
        ASSERT_TRUE(mine.put(keys.second, i));
        written.store(i);
      }
      return;
    }
    for (int i = 0; i < 10; ++i) {
      const std::uint64_t least = written.load();
      std::uint64_t first = 0, second = 0;
      for (const auto& [key, value] : mine.snapshot()) (key == keys.first ? first : second) = value;
      ASSERT_EQ(mine.status(), Status::ok) << mine.failure();
      ASSERT_TRUE(first == second || first == second + 1) << first << " " << second;
      if (linearizable) {
        ASSERT_GE(second, least);
        // After the snapshot, which must not depend on them: copies of part_caching, which the writer's next updates
        // have to invalidate.
        ASSERT_GE(mine.get(keys.second).value_or(0), second);
        ASSERT_GE(mine.get(keys.first).value_or(0), first);
      }
    }
    readers.fetch_sub(1);
  });
}

TEST(SnapshotsOfStrings, HaveThemWhole) {
  for (const auto& algorithm : map_algorithms()) {
    const Setting setting{algorithm.name, 3, algorithm.name == "kv" ? 2 : 0, true};
    auto group = StringMapGroup::create(communicator(3), options_of(setting));
    ASSERT_TRUE(group) << group.error().message;
    on_all(setting, *group, [&](StringMapRank& mine) {
      std::map<std::string, std::string> own;
      for (std::uint64_t i = 0; i < 20; ++i) {
        const std::string key =
            std::to_string(mine.rank()) + text_of(i * 97 * (i % 3)).substr(0, longest - 10) + std::to_string(i);
        own[key] = text_of(i * 33);
        ASSERT_TRUE(mine.put(key, own[key]));
      }
      std::map<std::string, std::string> all;
      for (auto& [key, value] : mine.snapshot()) all.emplace(std::move(key), std::move(value));
      for (const auto& [key, value] : own) ASSERT_EQ(all.at(key), value);
    });
  }
}

/// Messages longer than a command of the log are cut into pieces of 127 words.
TEST(LongStringsOfKv, AreCutAnywhere) {
  const Setting setting{"kv", 2, 2, true};
  auto group = StringMapGroup::create(communicator(2), options_of(setting));
  ASSERT_TRUE(group) << group.error().message;
  std::vector<std::size_t> lengths;
  for (const std::size_t words : {1, 122, 123, 124, 249, 250, 251, 377, 8188}) {
    for (const std::size_t less : {0, 1, 7}) lengths.push_back(words * 8 - less);
  }
  std::atomic<std::size_t> written{0};
  on_all(setting, *group, [&](StringMapRank& mine) {
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      const std::string value(lengths[i], static_cast<char>('a' + i % 26));
      if (mine.rank() == 0) {
        ASSERT_TRUE(mine.put(std::to_string(i), value));
        written.store(i + 1);
      }
      while (written.load() <= i) mine.progress();
      ASSERT_EQ(mine.get(std::to_string(i)), value) << lengths[i];
    }
  });
}

/// A replica that makes no call is evicted. Later it has everything, by a snapshot.
template <class Group, class Make>
void expect_whole_after_eviction(Make make) {
  MapOptions options;
  options.algorithm = "kv";
  options.faults = Faults::stop;
  auto group = Group::create(communicator(2), options);
  ASSERT_TRUE(group) << group.error().message;
  std::atomic<bool> done{false};
  auto lazy = group->attach(1);
  ASSERT_TRUE(lazy) << lazy.error().message;
  constexpr int keys = 300, updates = 40'000;  // more than the log has entries
  std::thread worker([&] {
    auto mine = group->attach(0);
    ASSERT_TRUE(mine);
    for (int i = 0; i < updates; ++i) {
      const auto [key, value] = make(i % keys, i);
      ASSERT_TRUE(mine->put(key, value)) << mine->failure();
    }
    const auto [key, value] = make(keys - 1, 0);
    ASSERT_TRUE(mine->erase(key).found);
    done.store(true);
    ASSERT_EQ(mine->finish(), Status::ok) << mine->failure();
  });
  while (!done.load()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  for (int i = 0; i < keys - 1; ++i) {
    const int last = (updates - 1 - i) / keys * keys + i;
    const auto [key, value] = make(i, last);
    ASSERT_EQ(lazy->get(key), value) << lazy->failure();
  }
  EXPECT_FALSE(lazy->get(make(keys - 1, 0).first));
  EXPECT_EQ(lazy->snapshot().size(), static_cast<std::size_t>(keys - 1));
  EXPECT_TRUE(lazy->put(make(0, 1).first, make(0, 1).second));
  EXPECT_EQ(lazy->finish(), Status::ok) << lazy->failure();
  worker.join();
}

TEST(EvictedReplicasOfKv, HaveAllNumbers) {
  using Value = std::array<std::uint64_t, 3>;
  expect_whole_after_eviction<MapGroup<std::uint64_t, Value>>([](int key, int number) {
    const auto n = static_cast<std::uint64_t>(number);
    return std::pair(static_cast<std::uint64_t>(key), Value{n, n + 1, n * n});
  });
}

TEST(EvictedReplicasOfKv, HaveAllStrings) {
  expect_whole_after_eviction<StringMapGroup>([](int key, int number) {
    const std::string name = key == 7 ? std::string() : std::to_string(key);
    return std::pair(name, key % 10 == 3 ? std::string() : std::string(static_cast<std::size_t>(number % 50), 'x'));
  });
}

TEST(SnapshotsOfDedicatedServers, AreRefused) {
  auto group = Numbers::create(communicator(2), {.algorithm = "part_simple", .servers = 1, .colocate = false});
  ASSERT_TRUE(group);
  auto server = group->attach(group->servers().front());
  ASSERT_TRUE(server);
  EXPECT_TRUE(server->snapshot().empty());
  EXPECT_THAT(server->failure(), HasSubstr("issues nothing"));
}

}  // namespace
}  // namespace smelt
