// Tests the checkers on maps behind a mutex that break one promise each, and on a correct one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "checker.hpp"
#include "porcupine.hpp"

namespace smelt::state {
namespace {

using Kind = Event::Kind;
using History = std::vector<Event>;

// ---- histories by hand ----------------------------------------------------------------------

Event event(int client, std::uint64_t begin, std::uint64_t end, Kind kind, std::uint64_t key, std::uint64_t argument,
            bool done = true, std::uint64_t result = 0, std::uint64_t expected = 0) {
  return {begin, end, key, argument, expected, result, client, kind, done};
}
Event put(int client, std::uint64_t begin, std::uint64_t end, std::uint64_t key, std::uint64_t value) {
  return event(client, begin, end, Kind::put, key, value);
}
Event get(int client, std::uint64_t begin, std::uint64_t end, std::uint64_t key, std::uint64_t value) {
  return event(client, begin, end, Kind::get, key, 0, true, value);
}
Event get_none(int client, std::uint64_t begin, std::uint64_t end, std::uint64_t key) {
  return event(client, begin, end, Kind::get, key, 0, false);
}

struct Sample {
  std::string what;
  History history;
  Verdict linearizable, sequential;
};

const auto holds = Verdict::holds;
const auto violated = Verdict::violated;

const Sample samples[] = {
    {"nothing", {}, holds, holds},
    {"one after the other", {put(0, 1, 2, 7, 5), get(1, 3, 4, 7, 5)}, holds, holds},
    {"a stale read", {put(0, 1, 2, 7, 5), get_none(1, 3, 4, 7)}, violated, holds},
    {"at the same time, either", {put(0, 1, 4, 7, 5), get_none(1, 2, 3, 7)}, holds, holds},
    {"at the same time, or so", {put(0, 1, 4, 7, 5), get(1, 2, 3, 7, 5)}, holds, holds},
    {"new, then old", {put(0, 1, 9, 7, 5), get(1, 2, 3, 7, 5), get_none(1, 4, 5, 7)}, violated, violated},
    {"new, then old elsewhere", {put(0, 1, 9, 7, 5), get(1, 2, 3, 7, 5), get_none(2, 4, 5, 7)}, violated, holds},
    {"a value that nobody wrote", {put(0, 1, 2, 7, 5), get(0, 3, 4, 7, 6)}, violated, violated},
    {"of another key", {put(0, 1, 2, 7, 5), get_none(0, 3, 4, 8)}, holds, holds},
    {"without answer, seen later", {put(0, 1, 0, 7, 5), get_none(1, 2, 3, 7), get(1, 4, 5, 7, 5)}, holds, holds},
    {"without answer, never seen", {put(0, 1, 0, 7, 5), get_none(1, 2, 3, 7)}, holds, holds},
    {"without answer, seen before", {get(1, 1, 2, 7, 5), put(0, 3, 0, 7, 5)}, violated, holds},
    {"without answer, seen and gone",
     {put(0, 1, 0, 7, 5), get(1, 2, 3, 7, 5), get_none(1, 4, 5, 7)},
     violated,
     violated},
    // [Shahmirzadi14] figure 3.17a: each key alone is sequentially consistent.
    {"two servers, updates return early",
     {put(0, 1, 2, 2, 5), put(0, 3, 4, 1, 5), get(1, 5, 6, 1, 5), get_none(1, 7, 8, 2)},
     violated,
     violated},
    {"replicas in different orders",
     {put(0, 1, 9, 7, 5), put(1, 1, 9, 7, 6), get(2, 2, 3, 7, 5), get(2, 4, 5, 7, 6), get(3, 2, 3, 7, 6),
      get(3, 4, 5, 7, 5)},
     violated,
     violated},
    {"erase and insert",
     {event(0, 1, 2, Kind::insert, 7, 5), event(0, 3, 4, Kind::insert, 7, 6, false), get(0, 5, 6, 7, 5),
      event(0, 7, 8, Kind::erase, 7, 0), event(0, 9, 10, Kind::erase, 7, 0, false), get_none(0, 11, 12, 7)},
     holds,
     holds},
    {"inserted twice", {event(0, 1, 2, Kind::insert, 7, 5), event(1, 3, 4, Kind::insert, 7, 6)}, violated, violated},
    {"refused an empty place", {event(0, 1, 2, Kind::insert, 7, 5, false)}, violated, violated},
    {"erased nothing", {event(0, 1, 2, Kind::erase, 7, 0)}, violated, violated},
    {"exchanges",
     {event(0, 1, 2, Kind::compare_exchange, 7, 1, false, Event::absent, 0), put(0, 3, 4, 7, 1),
      event(0, 5, 6, Kind::compare_exchange, 7, 2, true, 1, 1),
      event(0, 7, 8, Kind::compare_exchange, 7, 3, false, 2, 1), get(0, 9, 10, 7, 2)},
     holds,
     holds},
    {"two winners",
     {put(0, 1, 2, 7, 1), event(0, 3, 6, Kind::compare_exchange, 7, 2, true, 1, 1),
      event(1, 3, 6, Kind::compare_exchange, 7, 3, true, 1, 1)},
     violated,
     violated},
    {"an exchange that says what it did not find",
     {put(0, 1, 2, 7, 1), event(0, 3, 4, Kind::compare_exchange, 7, 2, false, 5, 9)},
     violated,
     violated},
    {"sums",
     {event(0, 1, 4, Kind::fetch_add, 7, 2, true, 3), event(1, 1, 4, Kind::fetch_add, 7, 3, true, 0)},
     holds,
     holds},
    {"a lost sum",
     {event(0, 1, 4, Kind::fetch_add, 7, 2, true, 0), event(1, 1, 4, Kind::fetch_add, 7, 3, true, 0)},
     violated,
     violated},
    {"a sum without answer, counted once",
     {event(0, 1, 0, Kind::fetch_add, 7, 2), get(1, 5, 6, 7, 2), get(1, 7, 8, 7, 2)},
     holds,
     holds},
    {"a sum without answer, counted twice",
     {event(0, 1, 0, Kind::fetch_add, 7, 2), get(1, 5, 6, 7, 2), get(1, 7, 8, 7, 4)},
     violated,
     violated},
};

TEST(Checkers, KnowTheDifference) {
  for (const auto& sample : samples) {
    EXPECT_EQ(check_linearizable(sample.history), sample.linearizable) << sample.what;
    EXPECT_EQ(check_sequential(sample.history), sample.sequential) << sample.what;
  }
}

TEST(Checkers, GiveUp) {
  History history;
  for (int client = 0; client < 6; ++client) {
    for (std::uint64_t i = 0; i < 4; ++i) {
      history.push_back(put(client, 1, 100, 7, static_cast<std::uint64_t>(client) * 10 + i));
    }
  }
  history.push_back(get(9, 200, 201, 7, 99));
  EXPECT_EQ(check_linearizable(history, 100), Verdict::unknown);
  EXPECT_EQ(check_sequential(history, 100), Verdict::unknown);
}

TEST(Checkers, PorcupineSaysTheSame) {
  if (!porcupine_is_missing().empty()) GTEST_SKIP() << porcupine_is_missing();
  std::vector<History> histories;
  for (const auto& sample : samples) histories.push_back(sample.history);
  const auto verdicts = check_with_porcupine(histories);
  ASSERT_EQ(verdicts.size(), std::size(samples));
  for (std::size_t i = 0; i < verdicts.size(); ++i) EXPECT_EQ(verdicts[i], samples[i].linearizable) << samples[i].what;
}

/// Short histories with random answers, a mixture of correct and subtly wrong ones.
History random_history(std::mt19937& random) {
  const auto below = [&](unsigned most) { return random() % most; };
  History history;
  const int clients = 2 + static_cast<int>(below(2));
  for (int client = 0; client < clients; ++client) {
    std::uint64_t now = 1 + below(3);
    for (unsigned i = 0; i < 2 + below(2); ++i) {
      const auto kind = static_cast<Kind>(below(6));
      Event next =
          event(client, now, now + 1 + below(6), kind, below(2), 1 + below(2), below(2) == 0, below(3), below(3));
      if (kind == Kind::compare_exchange && next.result == 0) next.result = Event::absent;
      if (kind == Kind::put || kind == Kind::fetch_add) next.done = true;
      now = next.end + 1 + below(2);
      history.push_back(next);
    }
    if (below(4) == 0) history.back().end = 0;
  }
  return history;
}

/// A reference that tries every order.
bool some_order_is_right(const History& left, std::map<std::uint64_t, std::optional<std::uint64_t>> values,
                         bool by_time) {
  if (std::ranges::all_of(left, [](const Event& each) { return each.end == 0; })) return true;
  for (std::size_t i = 0; i < left.size(); ++i) {
    const Event& next = left[i];
    const bool first = std::ranges::all_of(left, [&](const Event& other) {
      if (other.client == next.client && other.begin < next.begin) return false;
      return !by_time || other.end == 0 || next.begin <= other.end;
    });
    if (!first) continue;
    auto after = values;
    History rest = left;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
    if (follows(next, after[next.key]) && some_order_is_right(rest, after, by_time)) return true;
  }
  return false;
}

TEST(Checkers, AgreeWithTryingEveryOrder) {
  std::mt19937 random(25);
  int right = 0, stale = 0;
  constexpr int histories = 3000;
  for (int i = 0; i < histories; ++i) {
    const History history = random_history(random);
    const bool by_time = some_order_is_right(history, {}, true), by_client = some_order_is_right(history, {}, false);
    ASSERT_EQ(check_linearizable(history), by_time ? holds : violated) << format_history(history);
    ASSERT_EQ(check_sequential(history), by_client ? holds : violated) << format_history(history);
    right += by_time;
    stale += by_client && !by_time;
  }
  EXPECT_GT(right, 50);
  EXPECT_GT(stale, 50);
}

// ---- a map behind a mutex, and its mutants --------------------------------------------------

enum class Defect {
  none,
  loses_updates,      ///< some puts do nothing
  reads_late_copy,    ///< lookups read a copy that follows some operations later
  adds_in_two_steps,  ///< fetch_add reads and writes under two locks
  adds_twice,         ///< a repeated fetch_add is executed again
  returns_early,      ///< puts are executed by the client's next operation on another key
  exchanges_blindly,  ///< compare_exchange does not compare
  inserts_over,       ///< insert replaces an existing value
  erases_nothing,     ///< erase reports success without effect
  splits_puts,        ///< a put removes the key first, and lets others see it
  invents_answers,    ///< compare_exchange fails without reading
};

constexpr Defect defects[] = {Defect::loses_updates,  Defect::reads_late_copy, Defect::adds_in_two_steps,
                              Defect::adds_twice,     Defect::returns_early,   Defect::exchanges_blindly,
                              Defect::inserts_over,   Defect::erases_nothing,  Defect::splits_puts,
                              Defect::invents_answers};

class LockedMap {
 public:
  explicit LockedMap(Defect defect) : defect_(defect) {}

  /// Fills in the answer.
  void run(Event& asked) {
    if (defect_ == Defect::returns_early && asked.kind == Kind::put) {
      const std::scoped_lock lock(mutex_);
      std::swap(delayed_, asked_later_);
      if (delayed_) values_[delayed_->key] = delayed_->argument;
      delayed_.reset();
      asked_later_ = asked;
      asked.done = true;
      return;
    }
    if (defect_ == Defect::adds_in_two_steps && asked.kind == Kind::fetch_add) return add_in_two_steps(asked);
    if (defect_ == Defect::splits_puts && asked.kind == Kind::put) {
      const std::scoped_lock lock(mutex_);
      values_.erase(asked.key);
    }
    std::this_thread::yield();
    const std::scoped_lock lock(mutex_);
    ++count_;
    if (defect_ == Defect::reads_late_copy && count_ % 5 == 0) copy_ = values_;
    apply(asked);
  }

 private:
  using Values = std::map<std::uint64_t, std::uint64_t>;

  void add_in_two_steps(Event& asked) {
    {
      const std::scoped_lock lock(mutex_);
      asked.result = values_.contains(asked.key) ? values_[asked.key] : 0;
    }
    std::this_thread::yield();
    const std::scoped_lock lock(mutex_);
    values_[asked.key] = asked.result + asked.argument;
    asked.done = true;
  }

  void apply(Event& asked) {
    const Values& seen = defect_ == Defect::reads_late_copy && asked.kind == Kind::get ? copy_ : values_;
    const auto found = seen.find(asked.key);
    const bool present = found != seen.end();
    const std::uint64_t value = present ? found->second : 0;
    const bool sometimes = count_ % 7 == 0;
    asked.done = true;
    switch (asked.kind) {
      case Kind::get:
        asked.done = present;
        asked.result = value;
        break;
      case Kind::put:
        if (!(defect_ == Defect::loses_updates && sometimes)) values_[asked.key] = asked.argument;
        break;
      case Kind::erase:
        asked.done = present;
        if (!(defect_ == Defect::erases_nothing && sometimes)) values_.erase(asked.key);
        break;
      case Kind::insert:
        asked.done = !present;
        if (!present || defect_ == Defect::inserts_over) values_[asked.key] = asked.argument;
        break;
      case Kind::compare_exchange: {
        const bool equal = (present && value == asked.expected) || (defect_ == Defect::exchanges_blindly && present);
        asked.result = present ? value : Event::absent;
        asked.done = equal && !(defect_ == Defect::invents_answers && sometimes);
        if (asked.done) values_[asked.key] = asked.argument;
        break;
      }
      case Kind::fetch_add:
        asked.result = value;
        values_[asked.key] = value + asked.argument * (defect_ == Defect::adds_twice && sometimes ? 2 : 1);
        break;
    }
  }

  Defect defect_;
  std::mutex mutex_{};
  Values values_{}, copy_{};
  std::optional<Event> delayed_{}, asked_later_{};
  std::uint64_t count_ = 0;
};

/// `clients` threads execute random operations of `map` on some keys.
History record(LockedMap& map, int clients, std::size_t each, unsigned keys, unsigned seed) {
  std::vector<std::vector<Event>> events(static_cast<std::size_t>(clients), std::vector<Event>(each));
  std::vector<std::thread> threads;
  for (int client = 0; client < clients; ++client) {
    threads.emplace_back([&, client] {
      std::mt19937 random(seed * 100 + static_cast<unsigned>(client));
      ClientHistory history(client, events[static_cast<std::size_t>(client)]);
      while (!history.full()) {
        Event asked;
        asked.kind = static_cast<Kind>(random() % 6);
        asked.key = random() % keys;
        asked.argument = 1 + random() % 4;
        asked.expected = 1 + random() % 4;
        history.begin(asked.kind, asked.key, asked.argument, asked.expected);
        map.run(asked);
        history.end(asked.done, asked.result);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  History all;
  for (const auto& list : events) all.insert(all.end(), list.begin(), list.end());
  return all;
}

TEST(LockedMaps, AreLinearizable) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    LockedMap map(Defect::none);
    const History history = record(map, 4, 60, 4, seed);
    EXPECT_EQ(check_linearizable(history), holds) << format_history(history);
  }
}

TEST(LockedMaps, MutantsAreFound) {
  for (const Defect defect : defects) {
    bool found = false;
    for (unsigned seed = 0; seed < 100 && !found; ++seed) {
      LockedMap map(defect);
      found = check_linearizable(record(map, 4, 60, 4, seed)) == violated;
    }
    EXPECT_TRUE(found) << "defect " << static_cast<int>(defect);
  }
}

TEST(LockedMaps, PorcupineFindsMutantsToo) {
  if (!porcupine_is_missing().empty()) GTEST_SKIP() << porcupine_is_missing();
  std::vector<History> good;
  for (unsigned seed = 0; seed < 10; ++seed) {
    LockedMap map(Defect::none);
    good.push_back(record(map, 4, 500, 4, seed));
  }
  EXPECT_THAT(check_with_porcupine(good), testing::Each(holds));
  for (const Defect defect : defects) {
    std::vector<History> bad;
    for (unsigned seed = 0; seed < 10; ++seed) {
      LockedMap map(defect);
      bad.push_back(record(map, 4, 500, 4, seed));
    }
    EXPECT_THAT(check_with_porcupine(bad), testing::Contains(violated)) << "defect " << static_cast<int>(defect);
  }
}

TEST(LockedMaps, PorcupineDrawsWhatIsWrong) {
  if (!porcupine_is_missing().empty()) GTEST_SKIP() << porcupine_is_missing();
  const std::string picture = testing::TempDir() + "history.html";
  EXPECT_THAT(check_with_porcupine({samples[2].history}, 60, picture), testing::ElementsAre(violated));
  EXPECT_GT(std::filesystem::file_size(picture), 1000u);
  std::filesystem::remove(picture);
}

// ---- replicas that lag ----------------------------------------------------------------------

/// Each client reads a replica of its own, which follows one log of updates; it sees its own updates.
class LaggingReplicas {
 public:
  enum class Defect { none, reorders, forgets_own, goes_back };

  LaggingReplicas(int clients, Defect defect) : defect_(defect), at_(static_cast<std::size_t>(clients)) {}

  WitnessedEvent put(int client, std::uint64_t key, std::uint64_t value) {
    log_.push_back({key, value});
    if (defect_ != Defect::forgets_own) at_[static_cast<std::size_t>(client)] = log_.size();
    WitnessedEvent done{state::put(client, now_, now_ + 1, key, value), log_.size() - 1};
    now_ += 2;
    return done;
  }

  WitnessedEvent get(int client, std::uint64_t key, std::mt19937& random) {
    auto& at = at_[static_cast<std::size_t>(client)];
    at = std::min(log_.size(), at + random() % 2);
    if (defect_ == Defect::goes_back && at > 1 && random() % 4 == 0) --at;
    std::optional<std::uint64_t> value;
    for (std::size_t i = 0; i < at; ++i) {
      // One of two replicas swaps neighbouring updates.
      const bool swapped = defect_ == Defect::reorders && client % 2 == 1;
      const std::size_t place = swapped ? (i % 2 == 0 ? std::min(i + 1, at - 1) : i - 1) : i;
      if (log_[place].first == key) value = log_[place].second;
    }
    WitnessedEvent done{event(client, now_, now_ + 1, Kind::get, key, 0, value.has_value(), value.value_or(0)), at};
    now_ += 2;
    return done;
  }

 private:
  static WitnessedEvent witness(const Event& event, std::uint64_t index) { return {event, index}; }

  Defect defect_;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> log_{};
  std::vector<std::size_t> at_;
  std::uint64_t now_ = 1;
};

std::vector<WitnessedEvent> lagging_history(LaggingReplicas::Defect defect, int events, unsigned seed) {
  LaggingReplicas replicas(3, defect);
  std::mt19937 random(seed);
  std::vector<WitnessedEvent> history;
  for (int i = 0; i < events; ++i) {
    const int client = static_cast<int>(random() % 3);
    const std::uint64_t key = random() % 2;
    history.push_back(random() % 3 == 0 ? replicas.put(client, key, static_cast<std::uint64_t>(i) + 1)
                                        : replicas.get(client, key, random));
  }
  return history;
}

History without_witness(const std::vector<WitnessedEvent>& history) {
  History events;
  for (const auto& each : history) events.push_back(each.event);
  return events;
}

TEST(Replicas, ThatLagAreSequentiallyConsistentAndNotLinearizable) {
  int stale = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    const auto history = lagging_history(LaggingReplicas::Defect::none, 24, seed);
    EXPECT_EQ(check_sequential(without_witness(history)), holds) << seed;
    EXPECT_EQ(check_witness(history), "") << seed;
    stale += check_linearizable(without_witness(history)) == violated;
  }
  EXPECT_GT(stale, 100);
}

TEST(Replicas, MutantsAreNotSequentiallyConsistent) {
  using Defect = LaggingReplicas::Defect;
  for (const auto defect : {Defect::reorders, Defect::forgets_own, Defect::goes_back}) {
    int exact = 0, by_witness = 0;
    for (unsigned seed = 0; seed < 300; ++seed) {
      const auto history = lagging_history(defect, 24, seed);
      exact += check_sequential(without_witness(history)) == violated;
      by_witness += !check_witness(history).empty();
      if (check_witness(history).empty()) {
        EXPECT_EQ(check_sequential(without_witness(history)), holds) << "a witness proves it";
      }
    }
    EXPECT_GT(exact, 10) << static_cast<int>(defect);
    EXPECT_GT(by_witness, 10) << static_cast<int>(defect);
  }
}

TEST(Replicas, WitnessesSayWhatIsWrong) {
  EXPECT_EQ(check_witness({}), "");
  EXPECT_THAT(check_witness({{put(0, 1, 2, 7, 5), 0}, {put(1, 1, 2, 7, 6), 0}}), testing::HasSubstr("two updates"));
  EXPECT_THAT(check_witness({{put(0, 1, 2, 7, 5), 3}, {get_none(0, 3, 4, 7), 3}}),
              testing::HasSubstr("goes back, from 4"));
  EXPECT_THAT(check_witness({{put(0, 1, 2, 7, 5), 3}, {get_none(1, 3, 4, 7), 4}}),
              testing::HasSubstr("a lookup returned"));
  EXPECT_EQ(check_witness({{put(0, 1, 2, 7, 5), 3}, {get_none(1, 3, 4, 7), 3}, {get(1, 5, 6, 7, 5), 4}}), "");
  EXPECT_THAT(check_witness({{event(0, 1, 2, Kind::fetch_add, 7, 1, true, 4), 0}}), testing::HasSubstr("answer"));
}

// ---- recording ------------------------------------------------------------------------------

TEST(Recording, StampsEncloseAndDeathsLeaveTheirMark) {
  std::vector<Event> events(3);
  ClientHistory history(4, events);
  const std::uint64_t before = ticks();
  history.begin(Kind::compare_exchange, 7, 8, 9);
  const std::uint64_t within = ticks();
  history.end(false, 10);
  history.begin(Kind::get, 11);  // and dies
  EXPECT_LE(before, events[0].begin);
  EXPECT_LE(events[0].begin, within);
  EXPECT_LE(within, events[0].end);
  EXPECT_EQ(history.events().size(), 2u);
  EXPECT_FALSE(history.full());
  Event copy;
  ASSERT_TRUE(load_event(events[0], &copy));
  EXPECT_EQ(format_history({copy}),
            "4 " + std::to_string(copy.begin) + " " + std::to_string(copy.end) + " compare_exchange 7 8 9 0 10\n");
  ASSERT_TRUE(load_event(events[1], &copy));
  EXPECT_EQ(copy.end, 0u);
  EXPECT_EQ(copy.key, 11u);
  EXPECT_FALSE(load_event(events[2], &copy));
  history.end(true, 1);
  history.begin(Kind::put, 1, 2);
  EXPECT_TRUE(history.full());
}

TEST(Recording, VerdictsHaveNames) {
  EXPECT_EQ(testing::PrintToString(holds), "holds");
  EXPECT_EQ(testing::PrintToString(violated), "violated");
  EXPECT_EQ(testing::PrintToString(Verdict::unknown), "unknown");
}

}  // namespace
}  // namespace smelt::state
