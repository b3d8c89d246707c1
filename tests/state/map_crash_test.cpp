// Kills processes at each numbered point of the shared map, and also the processes that take over. No acknowledged
// operation may be lost, no key may exist twice, no process may hang, and no file may be left.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "smelt/map.hpp"

namespace smelt {
namespace {

constexpr int points = 26;
constexpr std::uint64_t keys = 1500, operations = 6000;
constexpr std::uint64_t erased = ~std::uint64_t{0}, nothing = 0;

/// Acknowledged and pending updates; in shared memory, because the writers are killed.
struct Ledger {
  std::atomic<std::uint64_t> acknowledged[keys];  ///< number of the last update of a key, `erased`, or `nothing`
  std::atomic<std::uint64_t> pending[keys];       ///< of the one that was not acknowledged
  std::atomic<std::uint64_t> hits[points + 1];    ///< how often each point is reached
  std::atomic<std::uint64_t> numbers;
};

// The point at which this process is killed.
Ledger* ledger = nullptr;
int fatal_point = 0;
std::uint64_t hits_left = 0;
std::function<void()> at_release;  ///< called where a chain is given up

int rounds_per_point() {
  const char* text = std::getenv("SMELT_TEST_DEATHS");
  return text == nullptr ? 4 : std::max(1, std::atoi(text) / points);
}

}  // namespace

namespace map_detail {
void reach_point(int number) noexcept {
  if (number == 1 && at_release) at_release();
  if (ledger == nullptr) return;
  if (number == fatal_point && --hits_left == 0) kill(getpid(), SIGKILL);
  ledger->hits[number].fetch_add(1, std::memory_order_relaxed);
}
}  // namespace map_detail

namespace {

template <class Value>
Value value_of(std::uint64_t key, std::uint64_t number);
template <>
std::uint64_t value_of(std::uint64_t, std::uint64_t number) {
  return number;
}
using Wide = std::array<std::uint64_t, 3>;
template <>
Wide value_of(std::uint64_t key, std::uint64_t number) {
  return {number, key ^ number, ~number};
}

/// So long that it is copied from the caller's memory at once, by wide moves and one word.
using Long = std::array<std::uint64_t, 41>;
template <>
Long value_of(std::uint64_t key, std::uint64_t number) {
  Long value;
  value.fill(key ^ number);
  value.front() = number;
  return value;
}

template <>
std::string value_of(std::uint64_t key, std::uint64_t number) {
  return std::to_string(number) + std::string(key % 200, 'x');
}

/// A map of strings with numbers as keys.
class Strings {
 public:
  static Result<Strings> made(Result<StringMap> map) {
    if (!map) return map.error();
    return Strings(std::move(*map));
  }
  static Result<Strings> create() { return made(StringMap::create()); }
  static Result<Strings> create_shared(const std::string& name, const MapOptions& options) {
    return made(StringMap::create_shared(name, options));
  }
  static Result<Strings> attach(const std::string& name) { return made(StringMap::attach(name)); }

  std::optional<std::string> get(std::uint64_t key) const { return map_.get(std::to_string(key)); }
  void put(std::uint64_t key, const std::string& value) { map_.put(std::to_string(key), value); }
  void erase(std::uint64_t key) { map_.erase(std::to_string(key)); }
  template <class Visit>
  void for_each(Visit visit) const {
    for (const auto& [key, value] : map_.snapshot()) visit(std::stoull(key), value);
  }

 private:
  explicit Strings(StringMap map) : map_(std::move(map)) {}
  StringMap map_;
};

template <class Value>
struct MapOf {
  using type = Map<std::uint64_t, Value>;
};
template <>
struct MapOf<std::string> {
  using type = Strings;
};

template <class Value>
class CrashTest : public testing::Test {
 protected:
  using Shared = typename MapOf<Value>::type;

  void SetUp() override {
    void* memory = mmap(nullptr, sizeof(Ledger), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    ledger = static_cast<Ledger*>(memory);
    name_ = "crash-test-" + std::to_string(getpid());
  }
  void TearDown() override {
    munmap(ledger, sizeof(Ledger));
    ledger = nullptr;
  }

  Shared make() {
    for (auto& each : ledger->acknowledged) each = nothing;
    for (auto& each : ledger->pending) each = nothing;
    return *Shared::create_shared(name_, {.capacity = 0, .most_bytes = std::size_t{1} << 30});
  }

  static void work(Shared& map, unsigned seed, std::uint64_t count) {
    std::mt19937_64 random(seed);
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t key = random() % keys;
      const std::uint64_t number = random() % 4 == 0 ? erased : ++ledger->numbers;
      ledger->pending[key] = number;
      if (number == erased) {
        map.erase(key);
      } else {
        map.put(key, value_of<Value>(key, number));
      }
      ledger->acknowledged[key] = number;
      ledger->pending[key] = nothing;
    }
  }

  /// A process that attaches, works, and dies at the `hit`-th time that it is at the point; 0: lives.
  int run_process(int point, std::uint64_t hit, unsigned seed) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(10);  // ends a hanging process
      auto map = Shared::attach(name_);
      if (!map) _exit(3);
      fatal_point = point;
      hits_left = hit;
      work(*map, seed, operations);
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return status;
  }

  /// Acknowledged updates must be present. A pending one may be present or not, but must not change any more.
  void check(Shared& map) {
    for (std::uint64_t key = 0; key < keys; ++key) {
      const auto value = map.get(key);
      const auto is = [&](std::uint64_t number) {
        if (number == nothing || number == erased) return !value.has_value();
        return value == value_of<Value>(key, number);
      };
      const std::uint64_t acknowledged = ledger->acknowledged[key], pending = ledger->pending[key];
      const bool took_effect = pending != nothing && is(pending);
      ASSERT_TRUE(is(acknowledged) || took_effect) << "key " << key << ": " << acknowledged << " or " << pending;
      if (took_effect) ledger->acknowledged[key] = pending;
      ledger->pending[key] = nothing;
    }
  }

  /// For strings, it takes every bucket, including those of dead processes.
  static void check_keys(const Shared& map) {
    std::set<std::uint64_t> found;
    map.for_each([&](std::uint64_t key, const Value&) { ASSERT_TRUE(found.insert(key).second) << "twice: " << key; });
  }

  std::string name_;
};

using ValueTypes = testing::Types<std::uint64_t, Wide, Long, std::string>;
TYPED_TEST_SUITE(CrashTest, ValueTypes);

TYPED_TEST(CrashTest, NothingIsLostWhereverAProcessDies) {
  std::mt19937_64 random(1);
  auto first = this->make();
  ASSERT_EQ(this->run_process(0, 0, 1), 0);  // counts how often each point is reached
  this->check(first);
  std::map<int, std::uint64_t> usual;
  for (int point = 1; point <= points; ++point) usual[point] = ledger->hits[point];
  first = *TestFixture::Shared::create();
  std::map<int, int> deaths;
  int second_deaths = 0;
  for (int point = 1; point <= points; ++point) {
    if (usual[point] == 0) continue;
    for (int round = 0; round < rounds_per_point(); ++round) {
      auto map = this->make();
      const std::uint64_t hit = 1 + random() % usual[point];
      const int status = this->run_process(point, hit, 1);
      ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "point " << point << ", status " << status;
      ++deaths[point];
      this->check(map);
      // The process that takes over may die as well: before the take-over, right after it, and later.
      for (const int again : {10, 11, 1 + static_cast<int>(random() % points)}) {
        const int next = this->run_process(again, 1, static_cast<unsigned>(random()));
        ASSERT_TRUE(next == 0 || (WIFSIGNALED(next) && WTERMSIG(next) == SIGKILL))
            << "point " << point << ", then " << again << ", status " << next;
        if (next != 0) {
          ++deaths[again];
          ++second_deaths;
        }
        this->check(map);
      }
      ASSERT_EQ(this->run_process(0, 0, static_cast<unsigned>(random())), 0) << "after point " << point;
      this->check(map);
      this->check_keys(map);
      if (testing::Test::HasFatalFailure()) FAIL() << "point " << point << ", hit " << hit;
    }
  }
  for (int point = 1; point <= points; ++point) {
    // Values of one word, also references to strings, are updated in place, longer ones are not.
    constexpr bool strings = std::is_same_v<TypeParam, std::string>, wide = !strings && sizeof(TypeParam) > 8;
    constexpr bool lines = map_detail::moves_lines && (strings || sizeof(TypeParam) >= 64);
    const bool not_reached = point == (wide ? 9 : 22) || (!strings && point == 23) || (!lines && point == 24);
    EXPECT_TRUE(not_reached || deaths[point] > 0) << "nobody died at point " << point;
  }
  EXPECT_GT(second_deaths, 0);
  EXPECT_FALSE((TestFixture::Shared::attach(this->name_))) << "the map outlived those who used it";
}

/// What an erase that empties a bucket may not do before it gives the chain up, because a reader may be in the bucket.
class EmptyBucket : public testing::Test {
 protected:
  static constexpr map_detail::FixedShape<8, 8> shape{};
  using Table = map_detail::Table;

  static map_detail::Word hash(std::uint64_t key) { return map_detail::hash_words(&key, 1); }
  static std::vector<std::uint64_t> keys_of(std::uint64_t home, std::size_t count) {
    std::vector<std::uint64_t> found;
    for (std::uint64_t key = 0; found.size() < count; ++key) {
      if (hash(key) % 64 == home) found.push_back(key);
    }
    return found;
  }
  void put(std::uint64_t key) {
    const auto outcome = table->update(shape, &key, hash(key), [&](const auto*, const void*& fresh) {
      fresh = &key;
      return Table::Act::write;
    });
    EXPECT_EQ(outcome, Table::Outcome::changed);
  }
  void erase(std::uint64_t key) {
    const auto outcome = table->update(shape, &key, hash(key), [](const auto* old, const void*&) {
      return old != nullptr ? Table::Act::erase : Table::Act::keep;
    });
    EXPECT_EQ(outcome, Table::Outcome::changed);
  }
  /// Erases a key; calls `look` when its chain is about to be given up.
  void erase(std::uint64_t key, const std::function<void()>& look) {
    bool looked = false;
    at_release = [&] {
      if (std::exchange(looked, true)) return;
      look();
    };
    erase(key);
    at_release = nullptr;
    EXPECT_TRUE(looked);
  }

  std::shared_ptr<Table> table = *map_detail::create(shape.geometry, {.capacity = 0});
};

TEST_F(EmptyBucket, IsNotGivenToOthers) {
  const auto chain = keys_of(0, shape.geometry.cells + 1), other = keys_of(1, shape.geometry.cells + 1);
  for (const auto key : chain) put(key);
  const auto fill_other = [&] {
    const auto before = table->header().used.load();
    for (const auto key : other) put(key);
    const auto taken = table->header().used.load() - before;
    for (const auto key : other) erase(key);
    return taken;
  };
  erase(chain.back(), [&] { EXPECT_GT(fill_other(), 0u) << "the other chain got the bucket"; });
  EXPECT_EQ(fill_other(), 0u) << "then it may";
}

TEST_F(EmptyBucket, LeadsOnToTheBucketsBehind) {
  const auto keys = keys_of(0, 2 * shape.geometry.cells + 1);
  for (const auto key : keys) put(key);
  auto* const home = table->home(shape, table->header().active.load(), hash(keys[0]));
  auto* const middle = table->at(home->link.load());
  const auto last = middle->link.load();
  ASSERT_NE(last, 0u);
  for (std::size_t i = 1; i < shape.geometry.cells; ++i) erase(keys[shape.geometry.cells + i]);
  erase(keys[shape.geometry.cells], [&] {
    EXPECT_EQ(home->link.load(), last);
    EXPECT_EQ(middle->link.load(), last);
  });
}

}  // namespace
}  // namespace smelt
