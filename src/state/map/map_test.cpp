#include "smelt/map.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <thread>

#include "state/random_calls.hpp"

namespace smelt {
namespace {

using testing::HasSubstr;

struct Value16 {
  std::uint64_t a = 0, b = 0;
  bool operator==(const Value16&) const = default;
};
using Wide = std::array<std::uint64_t, 5>;

// ---- one thread -----------------------------------------------------------------------------

TEST(Map, DoesWhatItsCallsSay) {
  auto map = *Map<std::uint64_t, Value16>::create();
  EXPECT_FALSE(map.get(1));
  MapAnswer answer = map.put(1, {2, 3});
  EXPECT_TRUE(answer);
  EXPECT_FALSE(answer.found);
  EXPECT_TRUE(answer.changed);
  EXPECT_EQ(map.get(1), (Value16{2, 3}));
  answer = map.put(1, {4, 5});
  EXPECT_TRUE(answer.found);
  EXPECT_EQ(map.get(1), (Value16{4, 5}));
  answer = map.insert(1, {6, 7});
  EXPECT_TRUE(answer.found);
  EXPECT_FALSE(answer.changed);
  EXPECT_TRUE(map.insert(2, {8, 9}).changed);
  Value16 expected{1, 1};
  answer = map.compare_exchange(1, expected, {10, 11});
  EXPECT_TRUE(answer.found);
  EXPECT_FALSE(answer.changed);
  EXPECT_EQ(expected, (Value16{4, 5}));
  EXPECT_TRUE(map.compare_exchange(1, expected, {10, 11}).changed);
  EXPECT_EQ(map.get(1), (Value16{10, 11}));
  EXPECT_FALSE(map.compare_exchange(3, expected, {1, 1}).found);
  EXPECT_EQ(map.size(), 2u);
  EXPECT_TRUE(map.erase(1).found);
  EXPECT_FALSE(map.erase(1).found);
  EXPECT_FALSE(map.contains(1));
  EXPECT_TRUE(map.contains(2));
}

TEST(Map, AddsToNumbers) {
  auto map = *Map<int, double>::create();
  double before = 7;
  EXPECT_FALSE(map.fetch_add(-3, 1.5, &before).found);
  EXPECT_EQ(before, 0.0);
  EXPECT_TRUE(map.fetch_add(-3, 1.5, &before).found);
  EXPECT_EQ(before, 1.5);
  EXPECT_EQ(map.get(-3), 3.0);
}

template <class Key, class Value, class MakeKey, class MakeValue>
void compare_with_std(std::size_t capacity, int operations, int keys, MakeKey make_key, MakeValue make_value) {
  auto map = *Map<Key, Value>::create({.capacity = capacity});
  std::map<Key, Value> reference;
  std::mt19937_64 random(1);
  for (int i = 0; i < operations; ++i) {
    ASSERT_NO_FATAL_FAILURE(
        test::call_both(map, reference, random, make_key(random() % static_cast<unsigned>(keys)), make_value));
  }
  std::map<Key, Value> found;
  map.for_each([&](const Key& key, const Value& value) { ASSERT_TRUE(found.emplace(key, value).second); });
  EXPECT_EQ(found, reference);
  found.clear();
  for (const auto& [key, value] : map.snapshot()) found.emplace(key, value);
  EXPECT_EQ(found, reference);
}

TEST(Map, AgreesWithAnOrderedMap) {
  const auto wide = [](std::uint64_t n) { return Wide{n, n + 1, n + 2, n + 3, n + 4}; };
  const auto number = [](std::uint64_t n) { return n; };
  const auto small = [](std::uint64_t n) { return static_cast<std::uint16_t>(n); };
  for (const std::size_t capacity : {0, 100, 5000}) {
    compare_with_std<std::uint64_t, std::uint64_t>(capacity, 50'000, 3000, number, number);
    compare_with_std<std::uint64_t, Wide>(capacity, 50'000, 3000, number, wide);
    compare_with_std<Wide, std::uint16_t>(capacity, 50'000, 3000, wide, small);
    compare_with_std<std::uint16_t, std::uint16_t>(capacity, 50'000, 3000, small, small);
    compare_with_std<Wide, Wide>(capacity, 50'000, 3000, wide, wide);
  }
}

TEST(Map, TakesKeysAndValuesOfManySizes) {
  struct Large {
    std::array<char, 5001> text;
  };
  auto map = *Map<std::array<char, 301>, Large>::create({.capacity = 10});
  std::array<char, 301> key{};
  Large value{};
  for (int i = 0; i < 200; ++i) {
    key.fill(static_cast<char>(i));
    value.text.fill(static_cast<char>(i + 1));
    ASSERT_TRUE(map.put(key, value));
  }
  for (int i = 0; i < 200; ++i) {
    key.fill(static_cast<char>(i));
    const auto found = map.get(key);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->text[5000], static_cast<char>(i + 1));
  }
}

TEST(Map, GrowsWithoutLosingKeys) {
  auto map = *Map<std::uint64_t, Value16>::create({.capacity = 0});
  const auto before = map.state().buckets;
  for (std::uint64_t key = 0; key < 100'000; ++key) {
    ASSERT_TRUE(map.put(key, {key, ~key}));
    if (key % 997 == 0) {
      for (std::uint64_t old = 0; old <= key; old += 101) ASSERT_EQ(map.get(old), (Value16{old, ~old})) << key;
    }
  }
  for (std::uint64_t key = 0; key < 100'000; ++key) ASSERT_EQ(map.get(key), (Value16{key, ~key}));
  const MapState state = map.state();
  EXPECT_GE(state.buckets, 100 * before);
  EXPECT_EQ(state.keys, 100'000u);
  EXPECT_EQ(map.snapshot().size(), 100'000u);
  EXPECT_LT(state.longest_chain, 16u);
}

TEST(Map, ReusesTheMemoryOfOverflowBuckets) {
  auto map = *Map<std::uint64_t, Value16>::create({.capacity = 100});
  const auto churn = [&] {
    for (std::uint64_t key = 0; key < 20'000; ++key) {
      map.put(key, {key, key});
      map.erase(key);
    }
  };
  churn();
  const auto before = map.state().memory_bytes;
  churn();
  EXPECT_EQ(map.state().memory_bytes, before);
}

TEST(Map, BatchesDoTheSame) {
  auto map = *Map<std::uint64_t, Value16>::create();
  std::vector<Map<std::uint64_t, Value16>::Call> calls(200);
  using Kind = Map<std::uint64_t, Value16>::Call::Kind;
  for (std::uint64_t i = 0; i < 100; ++i) calls[i] = {Kind::put, i, {i, 2 * i}, {}};
  for (std::uint64_t i = 100; i < 150; ++i) calls[i] = {Kind::get, i - 100, {}, {}};
  for (std::uint64_t i = 150; i < 175; ++i) calls[i] = {Kind::erase, i - 150, {}, {}};
  for (std::uint64_t i = 175; i < 200; ++i) calls[i] = {Kind::insert, i - 150, {1, 1}, {}};
  map.run(calls);
  for (std::uint64_t i = 100; i < 150; ++i) {
    EXPECT_TRUE(calls[i].answer.found);
    EXPECT_EQ(calls[i].value, (Value16{i - 100, 2 * (i - 100)}));
  }
  for (std::uint64_t i = 150; i < 175; ++i) EXPECT_TRUE(calls[i].answer.changed);
  for (std::uint64_t i = 175; i < 200; ++i) EXPECT_FALSE(calls[i].answer.changed);
  std::vector<std::uint64_t> keys;
  for (std::uint64_t i = 0; i < 130; ++i) keys.push_back(i);
  std::vector<std::optional<Value16>> values(keys.size());
  map.get_many(keys, values);
  for (const auto key : keys) EXPECT_EQ(values[key], map.get(key)) << key;
  EXPECT_TRUE(values[99]);
  EXPECT_FALSE(values[0]);
}

// Bytes are compared; six of the sixteen of a long double have any value.
static_assert(map_detail::equals_by_bytes<double> && map_detail::equals_by_bytes<const float>);
static_assert(map_detail::equals_by_bytes<Value16> && map_detail::equals_by_bytes<bool>);
static_assert(!map_detail::equals_by_bytes<long double> && !map_detail::equals_by_bytes<const long double>);

TEST(Map, SaysWhatIsWrong) {
  using Numbers = Map<std::uint64_t, std::uint64_t>;
  const auto says = [](const auto& result, const std::string& text, Status status) {
    ASSERT_FALSE(result);
    EXPECT_THAT(result.error().message, HasSubstr(text));
    EXPECT_EQ(result.error().status, status);
  };
  says(Numbers::create({.algorithm = "none"}), "there is no map algorithm 'none'", Status::invalid_argument);
  says(Numbers::create({.algorithm = "part_simple"}), "needs ranks", Status::not_supported);
  says(Numbers::create({.faults = Faults::stop}), "does not survive 'stop'", Status::not_supported);
  says(Numbers::create({.keep = true}), "without a name", Status::invalid_argument);
  says(Numbers::create({.capacity = std::size_t{1} << 41}), "at most 2^40", Status::invalid_argument);
  says(Numbers::create({.capacity = 1'000'000, .most_bytes = std::size_t{32} << 20}), "raise most_bytes",
       Status::invalid_argument);
  says(Numbers::create_shared("a/b"), "without '/'", Status::invalid_argument);
  says(Numbers::create_shared(""), "1 to 180", Status::invalid_argument);
  says(Numbers::attach("there is no such map"), "create it first", Status::not_found);
  says(Numbers::open("there is no such map"), "was kept", Status::not_found);
}

TEST(Map, RunsOutOfMemoryWithoutLosingKeys) {
  auto map = *Map<std::uint64_t, Value16>::create({.capacity = 100, .most_bytes = std::size_t{4} << 20});
  std::uint64_t key = 0;
  while (map.put(key, {key, key})) ++key;
  EXPECT_EQ(map.put(key, {1, 1}).status, Status::out_of_memory);
  EXPECT_GT(map.state().refused, 0u);
  for (std::uint64_t i = 0; i < key; ++i) ASSERT_EQ(map.get(i), (Value16{i, i}));
  EXPECT_TRUE(map.put(0, {5, 5})) << "an update needs no memory";
  EXPECT_TRUE(map.erase(1));
}

/// What was full and is emptied takes other keys, as many as before but for chance.
template <class TheMap, class MakeKey, class Value>
void fill_again(Result<TheMap> map, MakeKey key_of, const Value& value) {
  ASSERT_TRUE(map) << map.error().message;
  const auto fill = [&](std::uint64_t from) {
    std::uint64_t count = 0;
    while (map->put(key_of(from + count), value)) ++count;
    return count;
  };
  const std::uint64_t first = fill(0);
  for (std::uint64_t i = 0; i < first; ++i) ASSERT_TRUE(map->erase(key_of(i)).changed) << i;
  EXPECT_EQ(map->state().keys, 0u);
  EXPECT_EQ(map->state().overflow_buckets, 0u);
  EXPECT_GT(fill(std::uint64_t{1} << 40), first * 95 / 100) << first;
}

template <class Value>
void fill_maps_again() {
  const MapOptions options = {.capacity = 0, .most_bytes = std::size_t{4} << 20};
  const auto key_of = [](std::uint64_t i) { return i; };
  using Filled = Map<std::uint64_t, Value>;
  fill_again(Filled::create(options), key_of, Value{});
  fill_again(Filled::create_shared("fill-again-" + std::to_string(getpid()), options), key_of, Value{});
}

TEST(Map, TakesAsManyKeysOnceItWasEmptied) {
  fill_maps_again<std::uint64_t>();
  fill_maps_again<std::array<char, 100>>();
  fill_maps_again<std::array<char, 1000>>();
  for (const std::size_t bytes : {8, 100, 1000}) {
    fill_again(
        StringMap::create({.capacity = 0, .most_bytes = std::size_t{4} << 20}),
        [](std::uint64_t i) { return std::to_string(i); }, std::string(bytes, 'x'));
  }
}

// ---- strings --------------------------------------------------------------------------------

TEST(StringMap, AgreesWithAnOrderedMap) {
  auto map = *StringMap::create({.capacity = 0});
  std::map<std::string, std::string> reference;
  std::mt19937_64 random(2);
  int calls = 0;
  const auto text = [&](std::uint64_t number) {
    std::string made = std::to_string(number);
    made.resize(std::max(made.size(), random() % (calls % 1000 == 0 ? 60'000 : 100)), 'x');
    return made;
  };
  for (; calls < 30'000; ++calls) {
    const std::string key = std::string(random() % 3 * 9, 'k') + std::to_string(random() % 500);
    ASSERT_NO_FATAL_FAILURE(test::call_both(map, reference, random, key, text));
  }
  auto all = map.snapshot();
  std::ranges::sort(all);
  EXPECT_TRUE(std::ranges::equal(
      all, reference, [](const auto& a, const auto& b) { return a.first == b.first && a.second == b.second; }));
  EXPECT_EQ(map.size(), reference.size());
}

TEST(Map, CopiesAValueToTheCaller) {
  auto map = *Map<std::uint64_t, Value16>::create();
  map.put(1, {2, 3});
  Value16 value{7, 8};
  EXPECT_FALSE(map.get(2, &value));
  EXPECT_EQ(value, (Value16{7, 8}));
  EXPECT_TRUE(map.get(1, &value));
  EXPECT_EQ(value, (Value16{2, 3}));
}

TEST(StringMap, CopiesValuesOfAllLengthsToTheSameString) {
  auto map = *StringMap::create();
  std::string value, text;
  for (std::size_t length = 0; length <= 300; ++length) {
    text.push_back(static_cast<char>('a' + length % 23));
    EXPECT_TRUE(map.put(text, text.substr(1)));
  }
  for (std::size_t length = 301; length-- > 0;) {
    ASSERT_TRUE(map.get(text.substr(0, length + 1), &value)) << length;
    ASSERT_EQ(value, text.substr(1, length));
  }
  EXPECT_FALSE(map.get("none", &value));
}

/// Whole batches and the rest; keys that are not there; some long values, some in chains of several buckets.
TEST(StringMap, GetsManyAtOnce) {
  auto map = *StringMap::create({.capacity = 0});
  const auto value_of = [](std::size_t i) {
    return std::string(i % 7 == 0 ? 3000 : i, static_cast<char>('a' + i % 26));
  };
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < 300; ++i) {
    texts.push_back(std::string(i % 40, 'k') + std::to_string(i));
    if (i % 3 == 1) continue;
    ASSERT_TRUE(map.put(texts.back(), value_of(i)));
  }
  for (const std::size_t count : {0, 1, 63, 64, 65, 128, 300}) {
    const std::vector<std::string_view> keys(texts.begin(), texts.begin() + static_cast<std::ptrdiff_t>(count));
    std::vector<std::optional<std::string>> values(count + 1, "before");
    map.get_many(keys, std::span(values).first(count));
    for (std::size_t i = 0; i < count; ++i) {
      const auto expected = i % 3 == 1 ? std::nullopt : std::optional(value_of(i));
      ASSERT_EQ(values[i], expected) << i;
    }
    EXPECT_EQ(values[count], "before");
  }
}

TEST(StringMap, TakesUpTo64KiBAndEmptyOnes) {
  auto map = *StringMap::create();
  const std::string longest(StringMap::most_string_bytes, 'l');
  EXPECT_TRUE(map.put(longest, longest));
  EXPECT_EQ(map.get(longest), longest);
  EXPECT_TRUE(map.put("", ""));
  EXPECT_EQ(map.get(""), "");
  EXPECT_EQ(map.put(longest + "l", "").status, Status::invalid_argument);
  EXPECT_EQ(map.insert("k", longest + "l").status, Status::invalid_argument);
  EXPECT_FALSE(map.get("k"));
  EXPECT_FALSE(map.get(std::string_view("\0", 1)));
}

TEST(StringMap, ReusesMemoryWhileOthersRead) {
  auto map = *StringMap::create({.capacity = 0});
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int reader = 0; reader < 2; ++reader) {
    threads.emplace_back([&] {
      while (!stop) {
        if (const auto value = map.get("key 7")) {
          ASSERT_EQ(value->find_first_not_of(value->front()), std::string::npos) << *value;
        }
      }
    });
  }
  const auto churn = [&] {
    for (int i = 0; i < 30'000; ++i) {
      map.put("key " + std::to_string(i % 8),
              std::string(static_cast<std::size_t>(1 + i % 500), static_cast<char>('a' + i % 26)));
    }
  };
  churn();
  const auto before = map.state().memory_bytes;
  churn();
  EXPECT_EQ(map.state().memory_bytes, before);
  stop = true;
  for (auto& thread : threads) thread.join();
}

// ---- threads --------------------------------------------------------------------------------

template <class Body>
void run_threads(int count, Body body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back([&body, i] { body(i); });
  for (auto& thread : threads) thread.join();
}

TEST(MapThreads, CountTogetherWhileTheTableGrows) {
  constexpr int threads = 4;
  constexpr std::uint64_t keys = 5000, rounds = 20;
  auto map = *Map<std::uint64_t, std::uint64_t>::create({.capacity = 0});
  run_threads(threads, [&](int) {
    for (std::uint64_t round = 0; round < rounds; ++round) {
      for (std::uint64_t key = 0; key < keys; ++key) map.fetch_add(key, 1);
    }
  });
  for (std::uint64_t key = 0; key < keys; ++key) ASSERT_EQ(map.get(key), threads * rounds);
  EXPECT_EQ(map.size(), keys);
}

/// Two threads write arrays of one number, the last of which depends on the key; two others read, in different ways.
template <std::size_t words>
void read_what_others_write(int updates) {
  using Value = std::array<std::uint64_t, words>;
  const auto value_of = [](std::uint64_t n, std::uint64_t key) {
    Value value;
    value.fill(n);
    value.back() = n + key;
    return value;
  };
  auto map = *Map<std::uint64_t, Value>::create({.capacity = 0});
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> seen{0};
  run_threads(4, [&](int me) {
    std::mt19937_64 random(static_cast<unsigned>(me));
    if (me < 2) {
      for (int i = 0; i < updates || seen == 0; ++i) {
        const std::uint64_t n = random(), key = random() % 1000;
        if (n % 7 == 0) {
          map.erase(key);
        } else {
          map.put(key, value_of(n, key));
        }
      }
      stop = true;
    } else {
      Value value;
      while (!stop) {
        const std::uint64_t key = random() % 1000;
        if (me == 2) {
          if (!map.get(key, &value)) continue;
          ++seen;
          ASSERT_EQ(value, value_of(value[0], key));
        } else if (const auto found = map.get(key)) {
          ++seen;
          ASSERT_EQ(*found, value_of((*found)[0], key));
        }
      }
    }
  });
  EXPECT_GT(seen, 0u);
}

TEST(MapThreads, ReadersSeeWholeValues) {
  read_what_others_write<5>(200'000);
  read_what_others_write<21>(200'000);  // lines, and words behind them
  read_what_others_write<125>(50'000);  // copied to its place at once
}

/// One thread erases and puts a key whose value takes long to copy; what the other finds is whole, or what was there.
template <std::size_t words>
void look_for_what_comes_and_goes() {
  using Value = std::array<std::uint64_t, words>;
  auto map = *Map<int, Value>::create({.capacity = 0});
  std::atomic<bool> stop{false};
  std::uint64_t present = 0, absent = 0;
  run_threads(2, [&](int me) {
    auto value = std::make_unique<Value>();
    if (me == 0) {
      for (std::uint64_t n = 1; !stop; ++n) {
        value->fill(n);
        map.put(1, *value);
        for (int i = 0; i < 4; ++i) value->fill(n + 1);  // long enough for the other to copy
        map.erase(1);
      }
      return;
    }
    for (int i = 0; i < 40'000 || present == 0 || absent == 0; ++i) {
      value->fill(0);
      const bool found = map.get(1, value.get());
      ++(found ? present : absent);
      const std::uint64_t first = (*value)[0];
      if (found == (first == 0) || std::ranges::count(*value, first) != std::ssize(*value)) {
        ADD_FAILURE() << (found ? "torn" : "overwritten") << " at attempt " << i;
        break;
      }
    }
    stop = true;
  });
  EXPECT_GT(present, 0u);
  EXPECT_GT(absent, 0u);
}

TEST(MapThreads, AnAbsentKeyLeavesTheValueAsItIs) {
  look_for_what_comes_and_goes<8000>();
  look_for_what_comes_and_goes<125>();  // in registers, where the CPU has enough
}

TEST(Map, LongValuesByEveryCall) {
  using Value = std::array<std::uint64_t, 40>;
  const auto of = [](std::uint64_t n) {
    Value value;
    value.fill(n);
    return value;
  };
  auto map = *Map<std::uint64_t, Value>::create({.capacity = 0});
  for (std::uint64_t key = 0; key < 300; ++key) ASSERT_TRUE(map.put(key, of(key)));
  EXPECT_TRUE(map.insert(7, of(1)).found);
  EXPECT_EQ(map.get(7), of(7)) << "insert() changes nothing";
  EXPECT_TRUE(map.insert(300, of(300)).changed);
  Value value = of(5);
  EXPECT_FALSE(map.get(1000, &value));
  EXPECT_EQ(value, of(5));
  EXPECT_FALSE(map.get(1000));
  EXPECT_TRUE(map.compare_exchange(7, value = of(7), of(8)).changed);
  const std::vector<std::uint64_t> keys = {7, 1000, 300, 299};
  std::vector<std::optional<Value>> values(keys.size(), of(9));
  values[0].reset();
  map.get_many(keys, values);
  EXPECT_EQ(values, (std::vector<std::optional<Value>>{of(8), std::nullopt, of(300), of(299)}));
  using Call = Map<std::uint64_t, Value>::Call;
  std::vector<Call> calls = {
      {Call::Kind::put, 400, of(400)}, {Call::Kind::get, 400, of(1)}, {Call::Kind::get, 1000, of(2)}};
  map.run(calls);
  EXPECT_TRUE(calls[1].answer.found);
  EXPECT_EQ(calls[1].value, of(400));
  EXPECT_FALSE(calls[2].answer.found);
  EXPECT_EQ(calls[2].value, of(2));
}

TEST(MapThreads, OneOfManyInsertsAKey) {
  auto map = *Map<std::uint64_t, std::uint64_t>::create({.capacity = 0});
  std::atomic<std::uint64_t> inserted{0}, erased{0};
  run_threads(4, [&](int me) {
    for (std::uint64_t key = 0; key < 20'000; ++key)
      inserted += map.insert(key, static_cast<std::uint64_t>(me)).changed;
  });
  EXPECT_EQ(inserted, 20'000u);
  run_threads(4, [&](int) {
    for (std::uint64_t key = 0; key < 20'000; ++key) erased += map.erase(key).changed;
  });
  EXPECT_EQ(erased, 20'000u);
  EXPECT_EQ(map.size(), 0u);
}

TEST(MapThreads, ASnapshotIsOfOneMoment) {
  constexpr std::uint64_t keys = 64;
  auto map = *Map<std::uint64_t, std::uint64_t>::create({.capacity = 0});
  for (std::uint64_t key = 0; key < keys; ++key) map.put(key, 0);
  std::atomic<bool> stop{false};
  run_threads(3, [&](int me) {
    if (me == 0) {
      // Increments one key after the other, so in every snapshot the values decrease by at most one, in one place.
      for (std::uint64_t round = 1; round < 300; ++round) {
        for (std::uint64_t key = 0; key < keys; ++key) map.put(key, round);
        map.put(1000 + round, 0);  // and the table grows
      }
      stop = true;
    }
    while (!stop && me == 1) {
      auto all = map.snapshot();
      std::erase_if(all, [&](const auto& each) { return each.first >= keys; });
      std::ranges::sort(all);
      ASSERT_EQ(all.size(), keys);
      for (std::uint64_t key = 1; key < keys; ++key) ASSERT_LE(all[key].second, all[key - 1].second);
      ASSERT_LE(all.front().second - all.back().second, 1u);
    }
    while (!stop && me == 2) ASSERT_GE(map.size(), keys);
  });
}

TEST(MapThreads, WritesBeforeAnUpdateAreVisibleWithTheUpdate) {
  auto map = *Map<std::uint64_t, Value16>::create();
  std::vector<int> plain(1000, 0);
  run_threads(2, [&](int me) {
    for (std::uint64_t i = 0; i < plain.size(); ++i) {
      if (me == 0) {
        plain[i] = 7;
        map.put(i, {});
      } else {
        while (!map.contains(i)) std::this_thread::yield();
        ASSERT_EQ(plain[i], 7);
      }
    }
  });
}

}  // namespace
}  // namespace smelt
