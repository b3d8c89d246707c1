// The table itself: places and sizes of buckets and blocks, growth step by step, owners that die, processes' numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "base/process.hpp"
#include "smelt/map.hpp"
#include "state/strings_in_tables.hpp"

namespace smelt {
namespace {

using map_detail::Table;
using map_detail::Word;
using testing::HasSubstr;
using Numbers = Map<std::uint64_t, std::uint64_t>;

constexpr map_detail::FixedShape<8, 8> shape{};
constexpr std::uint64_t bucket_bytes = 128, keys_per_bucket = 6;
constexpr std::uint64_t header_bytes = (sizeof(map_detail::Header) + 4095) / 4096 * 4096;

Word hash(std::uint64_t key) { return map_detail::hash_words(&key, 1); }

/// Keys whose hashes end in `low` under the mask, from `from` on.
std::vector<std::uint64_t> keys_of(Word low, Word mask, std::size_t count, std::uint64_t from = 0) {
  std::vector<std::uint64_t> keys;
  for (std::uint64_t key = from; keys.size() < count; ++key) {
    if ((hash(key) & mask) == low) keys.push_back(key);
  }
  return keys;
}

std::shared_ptr<Table> make(const MapOptions& options = {}) {
  auto made = map_detail::create(shape.geometry, options);
  EXPECT_TRUE(made) << made.error().message;
  return *std::move(made);
}

bool put(Table& table, std::uint64_t key, Word value) {
  const auto outcome = table.update(shape, &key, hash(key), [&](const auto*, const void*& fresh) {
    fresh = &value;
    return Table::Act::write;
  });
  return outcome == Table::Outcome::changed;
}

bool erase(Table& table, std::uint64_t key) {
  const auto outcome = table.update(shape, &key, hash(key), [&](const auto* old, const void*&) {
    return old == nullptr ? Table::Act::keep : Table::Act::erase;
  });
  return outcome == Table::Outcome::changed;
}

std::optional<Word> get(const Table& table, std::uint64_t key) {
  Word value = 0;
  return table.get(shape, &key, hash(key), &value) ? std::optional(value) : std::nullopt;
}

// ---- sizes ----------------------------------------------------------------------------------

TEST(Table, HasRoomForTheCapacityAtTwoThirds) {
  const auto buckets = [](std::size_t capacity) { return (*Numbers::create({.capacity = capacity})).state().buckets; };
  EXPECT_EQ(buckets(0), 64u);
  EXPECT_EQ(buckets(64 * 6 * 2 / 3 - 1), 64u);
  EXPECT_EQ(buckets(64 * 6 * 2 / 3), 128u);
  EXPECT_EQ(buckets(4095), 1024u);
  EXPECT_EQ(buckets(4096), 2048u);
  using Wide = Map<std::uint64_t, std::array<std::uint64_t, 2>>;  // four cells, one of which stays free
  EXPECT_EQ(Wide::create({.capacity = 127})->state().buckets, 64u);
  EXPECT_EQ(Wide::create({.capacity = 128})->state().buckets, 128u);
}

/// Three keys in the fewest lines; seven if these are more than eight lines, unless the cells are very long.
TEST(Table, HasMoreCellsInLongBuckets) {
  const auto cells = [](std::size_t value_bytes) {
    const auto geometry = map_detail::geometry_of(8, value_bytes);
    const auto words = map_detail::Bucket::header_words + geometry.cells * (geometry.key_words + geometry.value_words);
    EXPECT_EQ(geometry.bucket_words, (words + 7) / 8 * 8) << value_bytes;
    EXPECT_EQ(geometry.spare, 1u);
    return geometry.cells;
  };
  EXPECT_EQ(cells(100), 4u);
  EXPECT_EQ(cells(112), 4u) << "eight lines";
  EXPECT_EQ(cells(113), 8u);
  EXPECT_EQ(cells(1000), 8u);
  EXPECT_EQ(cells(255 * 8), 8u);
  EXPECT_EQ(cells(255 * 8 + 1), 4u);
  EXPECT_EQ(cells(100'000), 4u);
}

TEST(Table, FitsIntoHalfOfItsAddressSpace) {
  constexpr std::size_t space = std::size_t{4} << 20, most = space / 2 / bucket_bytes * 4;
  auto largest = make({.capacity = most - 1, .most_bytes = space + 1000});
  EXPECT_EQ(largest->header().reach, space) << "whole huge pages";
  EXPECT_EQ(largest->statistics().buckets * bucket_bytes, space / 2);
  EXPECT_TRUE(put(*largest, 1, 2));
  const auto too_large = Numbers::create({.capacity = most, .most_bytes = space});
  ASSERT_FALSE(too_large);
  EXPECT_THAT(too_large.error().message, HasSubstr("65536 keys of 16 bytes"));
  EXPECT_TRUE(Numbers::create({.capacity = most, .most_bytes = 2 * space}));
}

/// A table is written when it is made, so one that has no place in memory is refused before.
TEST(Table, TakesAllAddressSpaceButNotAllMemory) {
#ifndef SMELT_SANITIZED
  constexpr std::size_t all = std::numeric_limits<std::size_t>::max();
  auto table = make({.capacity = 0, .most_bytes = all});
  const std::uint64_t reach = table->header().reach;
  EXPECT_EQ(reach % (std::size_t{2} << 20), 0u);
  EXPECT_TRUE(put(*table, 1, 2));
  EXPECT_EQ(get(*table, 1), 2u);
  table.reset();  // it has most of the address space
  if (reach < std::size_t{1} << 44) GTEST_SKIP() << "there is little address space";
  const std::size_t most = std::min(reach / 2 / bucket_bytes * 4 - 1, std::size_t{1} << 40);
  const auto too_large = Numbers::create({.capacity = most, .most_bytes = all});
  ASSERT_FALSE(too_large);
  EXPECT_EQ(too_large.error().status, Status::out_of_memory);
  EXPECT_THAT(too_large.error().message, HasSubstr("bytes of memory for a map of " + std::to_string(most)));
#endif
}

// ---- blocks ---------------------------------------------------------------------------------

/// 64, 128, 192, 256, 384, 512, 768, ...: the smallest one for so many bytes.
std::uint64_t block_for(std::uint64_t bytes) {
  std::uint64_t size = 64;
  while (size < bytes) size = size == 64 ? 128 : (size & (size - 1)) == 0 ? size / 2 * 3 : size / 3 * 4;
  return size;
}

class Blocks : public testing::Test {
 protected:
  Word store(std::size_t value_bytes, std::size_t key_bytes = 8) {
    const std::string key(key_bytes, 'k'), value(value_bytes, 'v');
    return table->store_text(key.data(), key.size(), value.data(), value.size());
  }
  std::uint64_t used() const { return table->header().used.load(); }

  std::shared_ptr<Table> table = *map_detail::create(map_detail::text::geometry, {.most_bytes = 32 << 20}, true);
};

TEST_F(Blocks, AreTheSmallestThatFit) {
  for (const std::size_t value_bytes : {0,   1,   7,   8,   40,  47,  48,   49,   112,   113,   176,   177,   240,  241,
                                        368, 369, 496, 497, 752, 753, 1008, 1009, 65519, 65520, 65521, 65535, 65536}) {
    for (const std::size_t key_bytes : {0, 1, 8, 9, 255, 65535, 65536}) {
      const std::uint64_t before = used(), bytes = 8 + (value_bytes + 7) / 8 * 8 + (key_bytes + 7) / 8 * 8;
      const Word reference = store(value_bytes, key_bytes);
      ASSERT_NE(reference, 0u);
      std::size_t words = 0;
      const auto* text = table->text_of(reference, &words);
      ASSERT_EQ(words * 8, block_for(bytes)) << value_bytes << " " << key_bytes;
      ASSERT_EQ(used(), before + block_for(bytes));
      ASSERT_EQ(map_detail::text::lengths_of(text).key, key_bytes);
      ASSERT_EQ(map_detail::text::lengths_of(text).value, value_bytes);
      ASSERT_TRUE(map_detail::text::has_value(*table, reference, std::string(value_bytes, 'v')));
      ASSERT_FALSE(map_detail::text::has_value(*table, reference, std::string(value_bytes + 1, 'v')));
    }
  }
}

TEST_F(Blocks, AreUsedAgain) {
  const Word one = store(100), other = store(100), larger = store(150);
  const std::uint64_t before = used();
  table->drop_text(one);
  EXPECT_EQ(store(100), one);
  table->drop_text(one);
  table->drop_text(other);
  table->drop_text(larger);
  EXPECT_EQ(std::set({store(100), store(100)}), std::set({one, other}));
  EXPECT_EQ(store(150), larger);
  EXPECT_EQ(used(), before);
  store(150);
  EXPECT_EQ(used(), before + 192);
}

TEST_F(Blocks, OfSizesThatShareAPlaceAreNotConfused) {
  const Word small = store(100), large = store(2000);  // eight sizes apart
  const std::uint64_t before = used();
  for (int i = 0; i < 3; ++i) {
    table->drop_text(small);
    table->drop_text(large);
    EXPECT_EQ(store(100), small);
    EXPECT_EQ(store(2000), large);
    table->drop_text(large);
    EXPECT_NE(store(100), large);
    table->drop_text(small);
    EXPECT_EQ(store(2000), large);
    EXPECT_EQ(store(100), small);
  }
  EXPECT_EQ(used(), before + 3 * 128);
}

TEST_F(Blocks, ComeInPiecesOfMemoryUntilHalfOfTheSpaceIsUsed) {
  const auto& header = table->header();
  const std::uint64_t half = header.reach / 2;
  EXPECT_EQ(used(), header_bytes);
  store(0);
  EXPECT_EQ(header.backed.load(), 256u << 10);
  while (used() + (192 << 10) <= half) ASSERT_NE(store(65536, 65536), 0u);
  EXPECT_EQ(header.refused.load(), 0u);
  EXPECT_EQ(store(65536, 65536), 0u);
  EXPECT_EQ(header.refused.load(), 1u);
  while (used() < half) ASSERT_NE(store(0), 0u);
  EXPECT_EQ(used(), half);
  EXPECT_EQ(header.backed.load(), half);
  EXPECT_EQ(store(0), 0u);
  EXPECT_EQ(header.refused.load(), 2u);
}

/// A reference has 34 bits for a place, in lines of 64 bytes.
TEST_F(Blocks, EndWhereAReferenceDoes) {
  table = *map_detail::create(map_detail::text::geometry, {.most_bytes = std::size_t{4} << 40}, true);
  if (table->header().reach < Word{4} << 40) GTEST_SKIP() << "there is less address space";
  table->header().used.store((Word{1} << 40) - 64);
  EXPECT_EQ(store(0), (Word{1} << 34) - 1);
  EXPECT_EQ(store(0), 0u);
  EXPECT_EQ(table->header().refused.load(), 1u);
}

/// Of what a reader may find in a block that was used again, only what is in memory is read.
TEST_F(Blocks, AreFoundOnlyWhereTheyCanBe) {
  store(0);
  const std::uint64_t end = table->header().backed.load() / 64, begin = sizeof(map_detail::Header) / 64;
  const auto words = [&](Word size_class, Word line) {
    std::size_t found = 1;
    table->text_of(size_class << 34 | line, &found);
    return found;
  };
  EXPECT_EQ(words(0, begin), 8u);
  EXPECT_EQ(words(0, begin - 1), 0u);
  EXPECT_EQ(words(0, 0), 0u);
  EXPECT_EQ(words(0, end - 1), 8u);
  EXPECT_EQ(words(0, end), 0u);
  EXPECT_EQ(words(1, end - 2), 16u);
  EXPECT_EQ(words(1, end - 1), 0u);
  EXPECT_EQ(words(32, begin), 0u);
}

// ---- growth ---------------------------------------------------------------------------------

/// A quarter as many overflow buckets as buckets, then eight buckets per update.
TEST(Table, GrowsStepByStep) {
  auto table = make({.capacity = 0});
  std::map<std::uint64_t, Word> expected;
  const auto add = [&](std::uint64_t key) {
    ASSERT_TRUE(put(*table, key, key + 1));
    expected[key] = key + 1;
  };
  const auto check = [&] {
    using Found = std::map<std::uint64_t, Word>;
    const auto collect = [](void* found, const Word* cell) {
      ASSERT_TRUE(static_cast<Found*>(found)->emplace(cell[0], cell[1]).second);
    };
    Found all, at_once;
    table->for_each(collect, &all);
    ASSERT_TRUE(table->snapshot(collect, &at_once));
    ASSERT_EQ(all, expected);
    ASSERT_EQ(at_once, expected);
    for (const auto& [key, value] : expected) ASSERT_EQ(get(*table, key), value);
    ASSERT_EQ(table->statistics().keys, expected.size());
  };
  // One chain of three buckets, which stays one in the next table, and 13 of two.
  for (const auto key : keys_of(0, 127, 2 * keys_per_bucket + 1)) add(key);
  for (Word home = 1; home < 14; ++home) {
    for (const auto key : keys_of(home, 63, keys_per_bucket + 1)) add(key);
  }
  check();
  auto found = table->statistics();
  const std::uint64_t used = header_bytes + 15 * bucket_bytes;
  EXPECT_EQ(found.buckets, 64u);
  EXPECT_EQ(found.overflow_buckets, 15u);
  EXPECT_EQ(found.longest_chain, 3u);
  EXPECT_EQ(found.bytes, used + 64 * bucket_bytes);
  EXPECT_FALSE(found.growing);
  const auto last = keys_of(63, 63, keys_per_bucket + 1);
  for (const auto key : last) {
    EXPECT_FALSE(table->statistics().growing);
    add(key);
  }
  for (int more = 0; more < 8; ++more) {
    found = table->statistics();
    EXPECT_TRUE(found.growing) << more;
    EXPECT_EQ(found.buckets, 64u);
    EXPECT_EQ(found.bytes, table->header().used.load() + (64 + 128) * bucket_bytes);
    EXPECT_EQ(table->header().claimed[6].load(), 8u * (more + 1));
    check();
    add(last[0]);
  }
  found = table->statistics();
  EXPECT_FALSE(found.growing);
  EXPECT_EQ(found.buckets, 128u);
  EXPECT_EQ(found.longest_chain, 3u);
  EXPECT_EQ(found.overflow_buckets, 2u);
  EXPECT_EQ(found.bytes, table->header().used.load() + 128 * bucket_bytes);
  check();
  // The chains' memory is there for others.
  const std::uint64_t given = table->header().used.load();
  EXPECT_LE(given, used + 3 * bucket_bytes);
  for (Word home = 20; home < 30; ++home) {
    for (const auto key : keys_of(home, 127, keys_per_bucket + 1, 1'000'000)) add(key);
  }
  EXPECT_EQ(table->header().used.load(), given);
  check();
}

TEST(Table, DoesNotGrowBeyondItsSpace) {
  auto table = make({.capacity = 0, .most_bytes = 4 << 20});
  std::uint64_t key = 0;
  while (put(*table, key, key)) ++key;
  const auto found = table->statistics();
  // 2 MiB have room for 16384 buckets: for tables of 64, 128, ..., and 8192.
  EXPECT_EQ(found.buckets, 8192u);
  EXPECT_FALSE(found.growing);
  EXPECT_GT(found.refused, 0u);
  for (std::uint64_t i = 0; i < key; ++i) ASSERT_EQ(get(*table, i), i);
}

// ---- overflow buckets that become empty ------------------------------------------------------

/// Whichever bucket of a chain becomes empty first, the others stay, and another chain gets its memory.
TEST(Table, GivesTheMemoryOfAnEmptyBucketToOtherChains) {
  const auto keys = keys_of(0, 63, 5 * keys_per_bucket), others = keys_of(1, 63, 5 * keys_per_bucket);
  auto table = make({.capacity = 0});
  const auto length = [&] { return table->statistics().longest_chain; };
  for (const auto key : keys) ASSERT_TRUE(put(*table, key, key + 1));
  ASSERT_EQ(length(), 5u);
  const std::uint64_t used = table->header().used.load();
  std::set<std::uint64_t> left(keys.begin(), keys.end());
  const auto check = [&] {
    for (const auto key : keys) ASSERT_EQ(get(*table, key).has_value(), left.contains(key)) << key;
  };
  std::uint64_t expected = 5;
  for (const std::size_t bucket : {2, 4, 1, 3}) {  // in the middle, at the end, behind the home, the only one
    for (std::size_t i = 0; i < keys_per_bucket; ++i) {
      ASSERT_EQ(length(), expected);
      ASSERT_TRUE(erase(*table, keys[bucket * keys_per_bucket + i]));
      left.erase(keys[bucket * keys_per_bucket + i]);
      check();
    }
    ASSERT_EQ(length(), --expected);
  }
  for (std::size_t i = 0; i < keys_per_bucket; ++i) ASSERT_TRUE(erase(*table, keys[i]));
  EXPECT_EQ(length(), 1u) << "the home stays";
  for (const auto key : others) ASSERT_TRUE(put(*table, key, key + 1));
  EXPECT_EQ(length(), 5u);
  EXPECT_EQ(table->header().used.load(), used);
}

/// A reader that is in the bucket finds out (rule 3).
TEST(Table, ChangesAChainThatLosesABucket) {
  auto table = make({.capacity = 0});
  const auto keys = keys_of(0, 63, keys_per_bucket + 1);
  for (const auto key : keys) ASSERT_TRUE(put(*table, key, 1));
  const auto& home = table->home(shape, table->header().active.load(), hash(keys[0]))->word;
  const Word before = home.load();
  ASSERT_TRUE(erase(*table, keys.back()));
  EXPECT_EQ(home.load(), before + map_detail::one_change);
}

/// Buckets that come and go do not make the table grow, those that stay do.
TEST(Table, GrowsByTheOverflowBucketsThatItHas) {
  auto table = make({.capacity = 0});
  const auto fill = [&](Word home) {
    for (const auto key : keys_of(home, 63, keys_per_bucket + 1)) ASSERT_TRUE(put(*table, key, 1));
  };
  fill(0);
  const auto last = keys_of(0, 63, keys_per_bucket + 1).back();
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(erase(*table, last) && put(*table, last, 1));
  for (Word home = 1; home < 15; ++home) fill(home);
  EXPECT_FALSE(table->statistics().growing);
  fill(15);
  EXPECT_TRUE(table->statistics().growing);
}

/// Buckets that come from the table before are not counted, so their removal counts below zero.
TEST(Table, DoesNotGrowByBucketsOfTheTableBefore) {
  auto table = make({.capacity = 0});
  const auto chain = keys_of(0, 127, 2 * keys_per_bucket + 1);
  for (const auto key : chain) ASSERT_TRUE(put(*table, key, 1));
  for (Word home = 1; home < 15; ++home) {
    for (const auto key : keys_of(home, 63, keys_per_bucket + 1)) ASSERT_TRUE(put(*table, key, 1));
  }
  for (int more = 0; more < 8; ++more) ASSERT_TRUE(put(*table, chain[0], 1));
  ASSERT_EQ(table->statistics().buckets, 128u);
  ASSERT_EQ(table->statistics().longest_chain, 3u);
  for (const auto key : chain) ASSERT_TRUE(erase(*table, key));
  for (const auto key : chain) {
    ASSERT_TRUE(put(*table, key, 1));
    ASSERT_FALSE(table->statistics().growing);
  }
}

/// Two threads erase and put the keys of three long chains, whose buckets pass from one to the other; two look them up.
/// `states` counts the calls for a key: odd while there is one. After that, bit 1 says whether the key is there.
TEST(Table, IsRightWhileBucketsComeAndGo) {
  constexpr std::size_t chain = 4 * keys_per_bucket, chains = 3, all = chain * chains;
  auto table = make({.capacity = 0});
  std::vector<std::uint64_t> keys;
  for (Word home = 0; home < chains; ++home) std::ranges::copy(keys_of(home, 63, chain), std::back_inserter(keys));
  std::array<std::atomic<Word>, all> states{};
  std::atomic<int> writing{2};
  std::atomic<std::uint64_t> looked{0};
  const auto write = [&](std::size_t me) {
    std::mt19937_64 random(me);
    for (int round = 0; round < 40'000 || looked < 10'000; ++round) {
      // Often most keys of a chain go, then come.
      const std::size_t i = random() % (all / 2) * 2 + me;
      const bool comes = random() % 8 == 0 ? random() % 2 == 0 : (round / 64) % 2 == 0;
      const Word before = states[i].load();
      if (comes == ((before & 2) != 0)) continue;
      states[i].store(before + 1);
      ASSERT_TRUE(comes ? put(*table, keys[i], before + 2) : erase(*table, keys[i]));
      states[i].store(before + 2);
    }
    --writing;
  };
  const auto look = [&](std::size_t me) {
    std::mt19937_64 random(me);
    while (writing > 0) {
      const std::size_t i = random() % all;
      const Word before = states[i].load();
      const auto value = get(*table, keys[i]);
      if ((before & 1) != 0 || states[i].load() != before) continue;
      ++looked;
      ASSERT_EQ(value, (before & 2) != 0 ? std::optional(before) : std::nullopt) << keys[i];
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t me = 0; me < 4; ++me) threads.emplace_back([&, me] { me < 2 ? write(me) : look(me); });
  for (auto& thread : threads) thread.join();
  const auto found = table->statistics();
  EXPECT_EQ(found.keys, static_cast<Word>(std::ranges::count_if(states, [](const auto& s) { return (s & 2) != 0; })));
  EXPECT_EQ(found.buckets, 64u);
  EXPECT_LE(table->header().used.load(), header_bytes + (chains * 4 + 4) * bucket_bytes) << "all memory is used again";
}

// ---- processes ------------------------------------------------------------------------------

class SharedTable : public testing::Test {
 protected:
  const std::string name = "table-test-" + std::to_string(getpid());
  std::shared_ptr<Table> table = *map_detail::create_shared(name, shape.geometry, {.capacity = 0});

  std::shared_ptr<Table> attach() const {
    auto made = map_detail::attach(name, shape.geometry);
    EXPECT_TRUE(made) << made.error().message;
    return made ? *made : nullptr;
  }

  /// Runs `body` in another process; returns how that ended.
  template <class Body>
  static int run(Body body) {
    const pid_t child = fork();
    if (child == 0) _exit(body());
    int status = 0;
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  }

  /// The number of a process that has ended.
  static Word dead_process() {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    run([&] {
      const Word self = ProcessId::self()->packed();
      return write(ends[1], &self, sizeof self) == sizeof self ? 0 : 1;
    });
    Word number = 0;
    EXPECT_EQ(read(ends[0], &number, sizeof number), static_cast<ssize_t>(sizeof number));
    close(ends[0]), close(ends[1]);
    return number;
  }
};

/// A private map reserves half as much until it is allowed to; a shared one must be the same for all.
TEST_F(SharedTable, TakesWhatAddressSpaceThereIs) {
#ifndef SMELT_SANITIZED
  const int end = run([&] {
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const std::size_t bytes = pages * 4096 + (std::size_t{3} << 30);
    const rlimit limit = {bytes, bytes};
    if (setrlimit(RLIMIT_AS, &limit) != 0) return 1;
    auto own = map_detail::create(shape.geometry, {.capacity = 0});
    if (!own) return 2;
    const Word reach = (*own)->header().reach;
    if (reach != Word{1} << 31) return 3;
    if (!put(**own, 1, 2) || get(**own, 1) != 2) return 4;
    const auto none = map_detail::create(shape.geometry, {.capacity = 0, .most_bytes = std::size_t{16} << 20});
    if (!none) return 5;
    const auto refused = map_detail::attach(name, shape.geometry);
    return !refused && refused.error().message.find("cannot set aside") != std::string::npos ? 0 : 6;
  });
  EXPECT_EQ(end, 0);
#endif
}

TEST_F(SharedTable, IsTakenOverFromAnOwnerThatDies) {
  ASSERT_TRUE(put(*table, 1, 10));
  const int end = run([&] {
    std::uint64_t key = 1;
    table->update(shape, &key, hash(key), [](const auto*, const void*&) {
      kill(getpid(), SIGKILL);
      return Table::Act::erase;
    });
    return 0;
  });
  ASSERT_EQ(end, -SIGKILL);
  EXPECT_EQ(get(*table, 1), 10u) << "readers do not wait";
  EXPECT_TRUE(put(*table, 1, 11));
  EXPECT_EQ(get(*table, 1), 11u);
  EXPECT_EQ(table->statistics().takeovers, 1u);
  EXPECT_TRUE(put(*table, 1, 12));
  EXPECT_EQ(table->statistics().takeovers, 1u) << "it was released";
}

TEST_F(SharedTable, IsNotTakenFromAnOwnerThatLives) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    std::uint64_t key = 1;
    const Word value = 7;
    table->update(shape, &key, hash(key), [&](const auto*, const void*& fresh) {
      (void)!write(ends[1], "x", 1);
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      fresh = &value;
      return Table::Act::write;
    });
    _exit(0);
  }
  char x = 0;
  ASSERT_EQ(read(ends[0], &x, 1), 1);
  std::uint64_t key = 1;
  Word before = 0, fresh = 8;
  table->update(shape, &key, hash(key), [&](const auto* old, const void*& chosen) {
    before = old == nullptr ? 0 : old->load();
    chosen = &fresh;
    return Table::Act::write;
  });
  EXPECT_EQ(before, 7u);
  EXPECT_EQ(get(*table, 1), 8u);
  EXPECT_EQ(table->statistics().takeovers, 0u);
  int status = 0;
  waitpid(child, &status, 0);
  close(ends[0]), close(ends[1]);
}

TEST_F(SharedTable, GivesAForkItsOwnNumber) {
  EXPECT_EQ(table->statistics().members, 1u);
  EXPECT_EQ(run([&] { return put(*table, 1, 2) && table->statistics().members == 2 ? 0 : 1; }), 0);
  EXPECT_EQ(get(*table, 1), 2u);
  EXPECT_THAT(map_detail::state_of(*table).processes, testing::ElementsAre(getpid())) << "the fork has ended";
  auto second = attach();
  EXPECT_EQ(table->statistics().members, 3u) << "that of the dead one is not free yet";
  EXPECT_THAT(map_detail::state_of(*table).processes, testing::ElementsAre(getpid())) << "each once";
  second.reset();
  EXPECT_EQ(table->statistics().members, 2u);
  const auto own = make();
  ASSERT_TRUE(put(*own, 1, 3));
  EXPECT_EQ(run([&] { return put(*own, 1, 4) && get(*own, 1) == 4 ? 0 : 1; }), 0);
  EXPECT_EQ(get(*own, 1), 3u);
}

TEST_F(SharedTable, ReleasesWhatTheFormerHolderOfANumberOwned) {
  const Word dead = dead_process();
  auto& members = table->header().members;
  ASSERT_NE(members[0].load(), 0u);
  for (std::size_t i = 1; i < map_detail::most_members; ++i) members[i].store(dead);
  // Numbers 2 and 3 own a chain each.
  const auto owned = keys_of(0, 63, 1)[0], other = keys_of(63, 63, 1)[0];
  ASSERT_TRUE(put(*table, owned, 1) && put(*table, other, 1));
  const Word active = table->header().active.load();
  auto& word = table->home(shape, active, hash(owned))->word;
  const Word before = word.fetch_or(2);
  table->home(shape, active, hash(other))->word.fetch_or(3);
  auto second = attach();
  ASSERT_NE(second, nullptr);
  EXPECT_NE(members[1].load(), dead);
  EXPECT_EQ(members[2].load(), dead);
  EXPECT_EQ(word.load(), before + map_detail::one_change) << "readers notice";
  EXPECT_TRUE(put(*second, owned, 2));
  EXPECT_EQ(table->statistics().takeovers, 0u);
  EXPECT_TRUE(put(*second, other, 2));
  EXPECT_EQ(table->statistics().takeovers, 1u);
}

TEST_F(SharedTable, HasNoRoomForMoreProcessesThanNumbers) {
  auto& members = table->header().members;
  const Word self = members[0].load();
  for (std::size_t i = 0; i + 1 < map_detail::most_members; ++i) members[i].store(self);
  auto last = attach();
  ASSERT_NE(last, nullptr);
  EXPECT_EQ(members[map_detail::most_members - 1].load(), self);
  EXPECT_TRUE(put(*last, 1, 2)) << "the largest number";
  const auto refused = map_detail::attach(name, shape.geometry);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().status, Status::not_supported);
  EXPECT_THAT(refused.error().message, HasSubstr("in use by 4095 processes"));
  EXPECT_EQ(members[0].load(), self) << "what was refused leaves nothing behind";
  EXPECT_EQ(run([&] { return put(*table, 1, 3) ? 1 : 0; }), 0) << "a fork without a number changes nothing";
  EXPECT_EQ(run([&] { return table->snapshot([](void*, const Word*) {}, nullptr) ? 1 : 0; }), 0);
  EXPECT_EQ(get(*table, 1), 2u);
}

}  // namespace
}  // namespace smelt
