// The promises of the maps over ranks, on histories of random operations of threads and of processes: linearizable ones
// by Porcupine and by our own checker, sequentially consistent ones by ours; rep_sc is not linearizable. Each defect
// that the algorithms can be given is found.
//
// SMELT_TEST_HISTORIES: how many histories of each kind; default 3 long and 60 short ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <latch>
#include <random>
#include <thread>

#include "base/segment.hpp"
#include "checker.hpp"
#include "porcupine.hpp"
#include "smelt/map_group.hpp"
#include "state/over_ranks/mutants.hpp"

namespace smelt::state {

namespace over_ranks {
Mutant mutant = Mutant::none;
}

namespace {

using over_ranks::Mutant;
using History = std::vector<Event>;
using Kind = Event::Kind;
using Numbers = MapGroup<std::uint64_t, std::uint64_t>;
using Client = MapRank<std::uint64_t, std::uint64_t>;

int histories_or(int usual) {
  const char* text = std::getenv("SMELT_TEST_HISTORIES");
  return text != nullptr ? std::max(1, std::atoi(text)) : usual;
}

struct Load {
  int clients = 2;
  int operations = 500;  ///< of each client
  int keys = 4;
  bool zipf = false;
  double lookups = 0.4;
  bool puts_alone = false;  ///< no other updates
};

class Keys {
 public:
  explicit Keys(const Load& load) {
    for (int key = 1; key <= load.keys; ++key) weights_.push_back(load.zipf ? std::pow(key, -0.99) : 1.0);
    chosen_ = std::discrete_distribution<std::uint64_t>(weights_.begin(), weights_.end());
  }
  std::uint64_t operator()(std::mt19937_64& random) { return chosen_(random); }

 private:
  std::vector<double> weights_;
  std::discrete_distribution<std::uint64_t> chosen_;
};

void do_one(Client& map, ClientHistory& history, std::mt19937_64& random, std::uint64_t key, const Load& load) {
  const std::uint64_t value = random() % 1000 + 1;
  if (static_cast<double>(random() % 1000) < load.lookups * 1000) {
    history.begin(Kind::get, key);
    const auto found = map.get(key);
    return history.end(found.has_value(), found.value_or(0));
  }
  switch (load.puts_alone ? 0 : random() % 6) {
    case 0:
    case 1:
      history.begin(Kind::put, key, value);
      map.put(key, value);
      return history.end(true);
    case 2: {
      history.begin(Kind::erase, key);
      return history.end(map.erase(key).found);
    }
    case 3: history.begin(Kind::insert, key, value); return history.end(map.insert(key, value).changed);
    case 4: {
      std::uint64_t expected = map.get(key).value_or(1);
      const std::uint64_t wanted = expected;
      history.begin(Kind::compare_exchange, key, value, wanted);
      const MapAnswer answer = map.compare_exchange(key, expected, value);
      return history.end(answer.changed, answer.found ? expected : Event::absent);
    }
    default: {
      std::uint64_t before = 0;
      history.begin(Kind::fetch_add, key, value);
      map.fetch_add(key, value, &before);
      return history.end(true, before);
    }
  }
}

void do_all(Client& map, std::span<Event> events, unsigned seed, const Load& load) {
  std::mt19937_64 random(seed * 64 + static_cast<unsigned>(map.rank()));
  Keys keys(load);
  for (ClientHistory history(map.rank(), events); !history.full();) do_one(map, history, random, keys(random), load);
}

MapOptions options_of(const std::string& algorithm, int servers = 0) {
  MapOptions options;
  options.algorithm = algorithm;
  options.servers = servers;
  options.faults = Faults::none;
  if (algorithm == "rep_sc") options.consistency = Consistency::sequential;
  return options;
}

CommunicatorOptions plain() {
  CommunicatorOptions options;
  options.pin = false;
  options.search_ms = 0;
  options.profile = "none";
  options.timeout_s = 30;
  return options;
}

/// Of threads that share a map, or of processes.
History of_threads(const Communicator& communicator, const MapOptions& options, unsigned seed, const Load& load) {
  auto group = Numbers::create(communicator, options);
  EXPECT_TRUE(group) << group.error().message;
  const auto each = static_cast<std::size_t>(load.operations);
  std::vector<Event> events(each * static_cast<std::size_t>(load.clients));
  std::latch start(load.clients);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < load.clients; ++rank) {
    threads.emplace_back([&, rank] {
      auto mine = group->attach(rank);
      start.arrive_and_wait();
      do_all(*mine, std::span(events).subspan(static_cast<std::size_t>(rank) * each, each), seed, load);
      EXPECT_EQ(mine->finish(), Status::ok) << mine->failure();
    });
  }
  for (auto& thread : threads) thread.join();
  return events;
}

std::vector<History> of_processes(const MapOptions& options, unsigned seed, const Load& load, int histories) {
  const auto each = static_cast<std::size_t>(load.operations);
  const std::size_t all = each * static_cast<std::size_t>(load.clients);
  auto segment = *Segment::anonymous(all * static_cast<std::size_t>(histories) * sizeof(Event));
  auto* events = reinterpret_cast<Event*>(segment.data());
  const std::string name = "map-histories-" + std::to_string(getpid()) + "-" + std::to_string(seed);
  std::vector<pid_t> children;
  for (int rank = 0; rank < load.clients; ++rank) {
    const pid_t child = fork();
    if (child != 0) {
      children.push_back(child);
      continue;
    }
    const int ranks[] = {rank};
    auto communicator = Communicator::create_shared(name, load.clients, ranks, plain());
    if (!communicator) _exit(1);
    for (int history = 0; history < histories; ++history) {
      auto group = Numbers::create(*communicator, options);
      if (!group) _exit(2);
      auto mine = group->attach(rank);
      if (!mine) _exit(3);
      Event* own = events + static_cast<std::size_t>(history) * all + static_cast<std::size_t>(rank) * each;
      do_all(*mine, {own, each}, seed + static_cast<unsigned>(history), load);
      if (mine->finish() != Status::ok) _exit(4);
    }
    communicator->~Communicator();
    _exit(0);
  }
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
    EXPECT_EQ(WEXITSTATUS(status), 0) << options.algorithm;
  }
  std::vector<History> result;
  for (int history = 0; history < histories; ++history) {
    const Event* first = events + static_cast<std::size_t>(history) * all;
    result.emplace_back(first, first + all);
  }
  return result;
}

struct Case {
  std::string algorithm;
  int servers = 0;
};
std::ostream& operator<<(std::ostream& out, const Case& each) { return out << each.algorithm << " " << each.servers; }

class Linearizable : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Maps, Linearizable,
                         testing::Values(Case{"part_simple"}, Case{"part_simple", 1}, Case{"part_caching"},
                                         Case{"part_caching", 1}, Case{"rep_remote"}, Case{"rep_local"},
                                         Case{"rep_2pc"}, Case{"shared"}, Case{"kv"}, Case{"kv", 2}));

void expect_linearizable(const std::vector<History>& histories) {
  const auto verdicts = check_with_porcupine(histories);
  EXPECT_THAT(verdicts, testing::Each(Verdict::holds));
}

TEST_P(Linearizable, LongHistoriesOfThreads) {
  if (!porcupine_is_missing().empty()) GTEST_SKIP() << porcupine_is_missing();
  const MapOptions options = options_of(GetParam().algorithm, GetParam().servers);
  const int count = histories_or(2);
  for (const int clients : {2, 4, 8}) {
    const auto communicator = *Communicator::create(clients, plain());
    std::vector<History> histories;
    for (int i = 0; i < count; ++i) {
      const bool zipf = i % 2 != 0;
      const Load load{clients, 2000 / clients, zipf ? 100 : 4, zipf};
      histories.push_back(of_threads(communicator, options, static_cast<unsigned>(i), load));
    }
    expect_linearizable(histories);
  }
}

TEST_P(Linearizable, LongHistoriesOfProcesses) {
  if (!porcupine_is_missing().empty()) GTEST_SKIP() << porcupine_is_missing();
  const MapOptions options = options_of(GetParam().algorithm, GetParam().servers);
  for (const int clients : {2, 4}) {
    expect_linearizable(of_processes(options, 1, {clients, 1000 / clients, 4}, histories_or(2)));
  }
}

TEST_P(Linearizable, ShortHistories) {
  const MapOptions options = options_of(GetParam().algorithm, GetParam().servers);
  const auto communicator = *Communicator::create(3, plain());
  for (int i = 0; i < histories_or(40); ++i) {
    const History history = of_threads(communicator, options, static_cast<unsigned>(i), {3, 20, 3});
    ASSERT_EQ(check_linearizable(history), Verdict::holds) << format_history(history);
  }
}

class Sequential : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Maps, Sequential, testing::Values(Case{"rep_sc"}, Case{"kv", 2}));

TEST_P(Sequential, ShortHistories) {
  MapOptions options = options_of(GetParam().algorithm, GetParam().servers);
  options.consistency = Consistency::sequential;
  const auto communicator = *Communicator::create(3, plain());
  for (int i = 0; i < histories_or(60); ++i) {
    const History history = of_threads(communicator, options, static_cast<unsigned>(i), {3, 8, 2});
    ASSERT_EQ(check_sequential(history), Verdict::holds) << format_history(history);
  }
}

/// Whether a history that `check` refuses comes within a minute; on another machine perhaps never, so that this may
/// only be asked of what happens often.
template <class Check>
bool is_refuted(const MapOptions& options, const Load& load, Check check) {
  const auto communicator = *Communicator::create(load.clients, plain());
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  for (unsigned seed = 0; std::chrono::steady_clock::now() < end; ++seed) {
    if (check(of_threads(communicator, options, seed, load)) == Verdict::violated) return true;
  }
  return false;
}

Verdict linearizable(const History& history) { return check_linearizable(history); }
Verdict sequential(const History& history) { return check_sequential(history); }

TEST(Promises, RepScIsNotLinearizable) {
  EXPECT_TRUE(is_refuted(options_of("rep_sc"), {2, 200, 2, false, 0.5, true}, linearizable));
}

struct Defect {
  Mutant mutant;
  const char* algorithm;
  int servers;
  Load load;
  Verdict (*check)(const History&);
};

std::ostream& operator<<(std::ostream& out, const Defect& defect) {
  return out << "number " << static_cast<int>(defect.mutant) << ", of " << defect.algorithm;
}

class Defects : public testing::TestWithParam<Defect> {};

const Load updates{4, 200, 2, false, 0.4, false}, puts{4, 100, 2, false, 0.5, true},
    lookups{4, 200, 2, false, 0.9, true};
const Load few{3, 8, 2, false, 0.5, true};

INSTANTIATE_TEST_SUITE_P(
    Maps, Defects,
    testing::Values(Defect{Mutant::part_simple_returns_early, "part_simple", 2, puts, linearizable},
                    Defect{Mutant::part_caching_applies_at_once, "part_caching", 1, lookups, linearizable},
                    Defect{Mutant::part_caching_copies_while_changing, "part_caching", 1, lookups, linearizable},
                    Defect{Mutant::rep_remote_does_not_ask, "rep_remote", 0, puts, linearizable},
                    Defect{Mutant::rep_sc_returns_early, "rep_sc", 0, few, sequential},
                    Defect{Mutant::rep_local_applies_on_arrival, "rep_local", 0, puts, linearizable},
                    Defect{Mutant::rep_local_does_not_wait, "rep_local", 0, puts, linearizable},
                    Defect{Mutant::rep_2pc_votes_for_higher, "rep_2pc", 0, updates, linearizable},
                    Defect{Mutant::rep_2pc_frees_others, "rep_2pc", 0, updates, linearizable}));

/// Whether a snapshot of a rank lacks what has been seen elsewhere, or has keys of different moments: the writer sets
/// one key after the other to the same number.
bool has_wrong_snapshot(const std::string& algorithm) {
  constexpr std::uint64_t numbers = 200;
  const auto communicator = *Communicator::create(3, plain());
  auto group = *Numbers::create(communicator, options_of(algorithm, 0));
  std::atomic<bool> wrong{false};
  std::atomic<std::uint64_t> seen{0};
  std::atomic<int> readers{2};
  const auto raise = [&](std::uint64_t now) {
    for (std::uint64_t before = seen.load(); before < now && !seen.compare_exchange_weak(before, now);) {}
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      auto mine = group.attach(rank);
      for (std::uint64_t i = 1; rank == 0 && i <= numbers && readers.load() != 0; ++i) {
        for (std::uint64_t key = 0; key < 6; ++key) {
          mine->put(key, i);
          if (key == 0) raise(i);
        }
      }
      // A snapshot holds no less than what an update has set, or a lookup or a snapshot has returned, on whatever rank.
      for (int i = 0; rank != 0 && i < 60; ++i) {
        // Meanwhile, an update of which rank 1 knows takes effect elsewhere.
        if (rank == 1) {
          mine->progress();
          std::this_thread::sleep_for(std::chrono::microseconds(100));
        }
        const std::uint64_t least = seen.load();
        std::uint64_t values[6] = {};
        for (const auto& [key, value] : mine->snapshot()) values[key] = value;
        if (values[0] < least) wrong.store(true);
        for (int key = 1; key < 6; ++key) {
          if (values[key] > values[key - 1] || values[key] + 1 < values[0]) wrong.store(true);
        }
        raise(values[0]);
        if (rank == 2) raise(mine->get(0).value_or(0));
      }
      if (rank != 0) readers.fetch_sub(1);
      mine->finish();
    });
  }
  for (auto& thread : threads) thread.join();
  return wrong.load();
}

TEST(SnapshotsOfMaps, AreOfOneMomentWithEachAlgorithm) {
  for (const auto& algorithm : map_algorithms()) {
    if (algorithm.consistency != Consistency::linearizable) continue;
    for (int i = 0; i < 5; ++i) EXPECT_FALSE(has_wrong_snapshot(algorithm.name)) << algorithm.name;
  }
}

TEST(SnapshotsOfMaps, DefectsAreFound) {
  const std::pair<Mutant, const char*> defects[] = {{Mutant::part_snapshot_does_not_freeze, "part_simple"},
                                                    {Mutant::part_snapshot_does_not_freeze, "part_caching"},
                                                    {Mutant::rep_local_snapshot_does_not_wait, "rep_local"},
                                                    {Mutant::rep_2pc_snapshot_does_not_wait, "rep_2pc"}};
  for (const auto& [mutant, algorithm] : defects) {
    over_ranks::mutant = mutant;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    bool found = false;
    while (!found && std::chrono::steady_clock::now() < end) found = has_wrong_snapshot(algorithm);
    EXPECT_TRUE(found) << algorithm;
  }
  over_ranks::mutant = Mutant::none;
}

TEST_P(Defects, AreFound) {
  const Defect& defect = GetParam();
  over_ranks::mutant = defect.mutant;
  EXPECT_TRUE(is_refuted(options_of(defect.algorithm, defect.servers), defect.load, defect.check));
  over_ranks::mutant = Mutant::none;
}

}  // namespace
}  // namespace smelt::state
