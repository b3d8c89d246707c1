// The replicated log over threads: order, reads, pipelining, fail-over of ranks that leave or are late, eviction.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/patience_test_util.hpp"
#include "smelt/replicated_log.hpp"
#include "state/log/layout.hpp"

namespace smelt {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

Communicator communicator(int ranks) {
  CommunicatorOptions options;
  options.pin = false;
  options.search_ms = 1;
  options.profile = "none";
  return *Communicator::create(ranks, options);
}

ReplicatedLog make_log(int ranks, const LogOptions& options = {}) {
  auto log = ReplicatedLog::create(communicator(ranks), options);
  EXPECT_TRUE(log) << log.error().message;
  return *std::move(log);
}

LogOptions small() {
  LogOptions options;
  options.entries = 64;
  options.requests = 4;
  return options;
}

struct Command {
  std::uint64_t client = 0, number = 0;
  bool operator==(const Command&) const = default;
};

/// Runs f(rank, replica) on a thread per rank.
template <class F>
void on_all(ReplicatedLog& log, F f) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < log.size(); ++rank) {
    threads.emplace_back([&log, &f, rank] {
      auto replica = log.attach(rank);
      ASSERT_TRUE(replica) << replica.error().message;
      f(rank, *replica);
    });
  }
  for (auto& thread : threads) thread.join();
}

void deliver(Replica& replica, std::vector<Command>& delivered) {
  Entry entry;
  for (bool there = true; replica.next(&entry, &there) == Status::ok && there;) {
    ASSERT_EQ(entry.index, delivered.size());
    ASSERT_EQ(entry.bytes, sizeof(Command));
    Command command;
    std::memcpy(&command, entry.data, sizeof command);
    ASSERT_EQ(command.client, static_cast<std::uint64_t>(entry.client));
    ASSERT_EQ(command.number, entry.request);
    delivered.push_back(command);
  }
}

void expect_each_once(const std::vector<Command>& delivered, int clients, std::uint64_t each) {
  std::vector<std::uint64_t> last(static_cast<std::size_t>(clients));
  for (const auto& command : delivered) {
    EXPECT_EQ(command.number, last[command.client] + 1) << "of client " << command.client;
    last[command.client] = command.number;
  }
  EXPECT_THAT(last, testing::Each(each));
}

struct Setting {
  int ranks;
  std::string algorithm;
  bool is_small;
};

class Orders : public testing::TestWithParam<Setting> {};

TEST_P(Orders, AllReplicasDeliverTheSame) {
  const auto [ranks, algorithm, is_small] = GetParam();
  LogOptions options = is_small ? small() : LogOptions{};
  options.algorithm = algorithm;
  auto log = make_log(ranks, options);
  constexpr std::uint64_t each = 3000;
  std::atomic<int> done{0};
  const int count = ranks;
  std::vector<std::vector<Command>> delivered(static_cast<std::size_t>(ranks));
  on_all(log, [&](int rank, Replica& replica) {
    auto& mine = delivered[static_cast<std::size_t>(rank)];
    for (std::uint64_t number = 1; number <= each; ++number) {
      const Command command{static_cast<std::uint64_t>(rank), number};
      std::uint64_t index = 0;
      ASSERT_EQ(replica.append(&command, sizeof command, &index), Status::ok) << replica.failure();
      std::uint64_t point = 0;
      ASSERT_EQ(replica.read_point(&point), Status::ok);
      ASSERT_GT(point, index);
      deliver(replica, mine);
      ASSERT_EQ(mine.at(index), command);
    }
    while (mine.size() < each * static_cast<std::uint64_t>(count)) {
      deliver(replica, mine);
      ASSERT_EQ(replica.progress(), Status::ok) << replica.failure();
    }
    // The fixed sequencer must not leave before the others have their entries.
    done.fetch_add(1);
    while (done.load() < count) replica.progress();
  });
  for (const auto& one : delivered) EXPECT_EQ(one, delivered[0]);
  expect_each_once(delivered[0], ranks, each);
}

INSTANTIATE_TEST_SUITE_P(Settings, Orders,
                         testing::Values(Setting{1, "1paxos", false}, Setting{2, "1paxos", false},
                                         Setting{2, "1paxos", true}, Setting{3, "1paxos", true},
                                         Setting{5, "1paxos", false}, Setting{2, "broadcast", true},
                                         Setting{3, "broadcast", false}));

TEST(Log, StartsManyAtOnce) {
  LogOptions options;
  options.requests = 16;
  auto log = make_log(2, options);
  std::atomic<bool> stop{false};
  std::vector<Command> delivered[2];
  on_all(log, [&](int rank, Replica& replica) {
    if (rank == 0) {
      while (delivered[0].size() < 1600) {
        deliver(replica, delivered[0]);
        replica.progress();
      }
      while (!stop.load()) replica.progress();
      return;
    }
    for (std::uint64_t batch = 0; batch < 100; ++batch) {
      Ticket tickets[16];
      for (std::uint64_t i = 0; i < 16; ++i) {
        const Command command{1, batch * 16 + i + 1};
        ASSERT_EQ(replica.start(&command, sizeof command, &tickets[i]), Status::ok) << replica.failure();
      }
      std::uint64_t before = 0;
      for (auto& ticket : tickets) {
        std::uint64_t index = 0;
        ASSERT_EQ(replica.wait(ticket, &index), Status::ok);
        EXPECT_TRUE(batch == 0 || index > before);
        before = index;
        bool done = false;
        ASSERT_EQ(replica.test(ticket, &done, &index), Status::ok);
        EXPECT_TRUE(done);
        EXPECT_EQ(index, before);
      }
      deliver(replica, delivered[1]);
    }
    stop.store(true);
  });
  EXPECT_EQ(delivered[0], delivered[1]);
  EXPECT_EQ(delivered[0].size(), 1600u);
}

TEST(Log, CommandsOfAllSizes) {
  LogOptions options;
  options.command_bytes = 1000;
  options.requests = 2;
  auto log = make_log(1, options);
  auto replica = log.attach(0);
  ASSERT_TRUE(replica);
  for (std::size_t bytes = 0; bytes <= 1000; bytes += 7) {
    const std::string command(bytes, static_cast<char>('a' + bytes % 26));
    ASSERT_EQ(replica->append(command.data(), bytes), Status::ok) << replica->failure();
    Entry entry;
    ASSERT_EQ(replica->next(&entry), Status::ok);
    EXPECT_EQ(std::string(static_cast<const char*>(entry.data), entry.bytes), command);
  }
  EXPECT_EQ(replica->append(nullptr, 0), Status::ok);
  EXPECT_EQ(replica->append(nullptr, 1), Status::invalid_argument);
  EXPECT_EQ(replica->append(std::string(1001, 'a').data(), 1001), Status::invalid_argument);
  EXPECT_THAT(replica->failure(), HasSubstr("1001 bytes"));
}

TEST(Log, ARankThatDoesNotReadGetsAnError) {
  LogOptions options = small();
  options.requests = 1024;
  auto log = make_log(1, options);
  auto replica = log.attach(0);
  Status status = Status::ok;
  int appended = 0;
  for (; status == Status::ok && appended < 1000; ++appended) status = replica->append("x", 1);
  EXPECT_EQ(status, Status::invalid_argument);
  EXPECT_THAT(replica->failure(), HasSubstr("call next()"));
  Entry entry;
  bool there = true;
  while (replica->next(&entry, &there) == Status::ok && there) {}
  EXPECT_EQ(replica->append("x", 1), Status::ok);

  auto few = make_log(1, small());
  auto other = few.attach(0);
  for (status = Status::ok, appended = 0; status == Status::ok && appended < 1000; ++appended) {
    status = other->append("x", 1);
  }
  EXPECT_EQ(appended, 5);
  EXPECT_THAT(other->failure(), HasSubstr("call next() first"));
}

TEST(Log, RefusesWhatItCannotDo) {
  const auto problem = [](const char* what, auto change) {
    LogOptions options;
    change(options);
    auto log = ReplicatedLog::create(communicator(2), options);
    ASSERT_FALSE(log) << what;
    EXPECT_EQ(log.error().status, Status::invalid_argument);
    EXPECT_THAT(log.error().message, HasSubstr(what));
  };
  problem("entries", [](LogOptions& options) { options.entries = 100; });
  problem("requests", [](LogOptions& options) { options.requests = 1; });
  problem("command_bytes", [](LogOptions& options) { options.command_bytes = 0; });
  problem("suspect_after_s", [](LogOptions& options) { options.suspect_after_s = 0; });
  problem("evict_after_s", [](LogOptions& options) { options.evict_after_s = -1; });
  problem("algorithm", [](LogOptions& options) { options.algorithm = "raft"; });
  problem("survives nothing",
          [](LogOptions& options) { options.algorithm = "broadcast", options.faults = Faults::crash; });
  problem("rank 2 is not in 0 to 1", [](LogOptions& options) { options.replicas = {2}; });
  problem("rank 0 is no replica", [](LogOptions& options) { options.replicas = {1}, options.leader = 0; });
  problem("wait mode", [](LogOptions& options) { options.wait = "nap"; });

  LogOptions options;
  options.replicas = {1};
  auto log = make_log(2, options);
  EXPECT_THAT(log.attach(2).error().message, HasSubstr("not in the log"));
  EXPECT_THAT(log.attach(0).error().message, HasSubstr("replicas"));
  StateMachine half;
  half.save = [](void*, std::vector<std::byte>&) {};
  EXPECT_THAT(log.attach(1, half).error().message, HasSubstr("without the other"));
  ASSERT_TRUE(log.attach(1));
  EXPECT_THAT(log.attach(1).error().message, HasSubstr("before"));
}

/// A name is of one thing: a communicator that comes to a log is told.
TEST(Log, IsNoCommunicatorOfTheSameName) {
  const std::string name = "log-not-communicator-" + std::to_string(getpid());
  std::thread other([&] {
    const int rank = 1;
    (void)ReplicatedLog::create_shared(name, 2, std::span(&rank, 1));
  });
  const auto is_there = [&] {
    return std::ranges::any_of(std::filesystem::directory_iterator("/dev/shm"), [&](const auto& entry) {
      return entry.path().filename().string().find(name) != std::string::npos;
    });
  };
  while (!is_there()) std::this_thread::yield();
  const int rank = 0;
  const auto refused = Communicator::create_shared(name, 2, std::span(&rank, 1));
  other.join();
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("its name is that of something else, such as a log"));
}

/// Two meet under a name: whether the log is kept must be the same for both, and the one that comes later is told.
TEST(Log, IsKeptForAllOrForNone) {
  const std::string name = "log-name-" + std::to_string(getpid());
  const int ranks[] = {0, 1};
  const auto meet = [&](int rank, bool keep) {
    LogOptions options;
    options.keep = keep;
    const auto log = ReplicatedLog::create_shared(name, 2, std::span(ranks).subspan(rank, 1), options, 1.0);
    return log ? std::string() : log.error().message;
  };
  std::string first, second;
  std::thread other([&] { first = meet(0, true); });
  second = meet(1, false);
  other.join();
  EXPECT_THAT(first + second, HasSubstr("set `keep` likewise"));
  static_cast<void>(remove_log(name));

  // Of the same kind, they meet.
  std::thread same([&] { first = meet(0, false); });
  second = meet(1, false);
  same.join();
  EXPECT_EQ(first + second, "");
}

/// What is there before belongs to the log: which commands the state contains.
TEST(Log, SaveMustAppend) {
  const std::string name = "log-save-" + std::to_string(getpid());
  LogOptions options = small();
  options.keep = true;
  const int rank = 0;
  {
    auto log = ReplicatedLog::create_shared(name, 1, std::span(&rank, 1), options);
    ASSERT_TRUE(log) << log.error().message;
    StateMachine machine;
    machine.apply = [](void*, const Entry&) {};
    machine.load = [](void*, std::span<const std::byte>) {};
    machine.save = [](void*, std::vector<std::byte>& bytes) { bytes.assign(8, std::byte{7}); };
    auto replica = log->attach(0, machine);
    ASSERT_TRUE(replica) << replica.error().message;
    Status status = Status::ok;
    for (int i = 0; i < 100 && status == Status::ok; ++i) status = replica->append("x", 1);
    EXPECT_EQ(status, Status::invalid_argument);
    EXPECT_THAT(replica->failure(), HasSubstr("save must append"));
  }
  EXPECT_TRUE(remove_log(name));
}

TEST(Log, IndicesAndEpochsFitTheirWords) {
  using namespace state::log;
  const Configuration configuration{most_epoch, nobody};
  EXPECT_EQ(Configuration::of(configuration.word()).epoch, most_epoch);
  EXPECT_EQ(Configuration::of(configuration.word()).leader, nobody);
  const std::uint64_t slot = decided_slot(0xffffffff, 1022, ~std::uint64_t{0}, most_in_a_slot);
  EXPECT_FALSE(is_sealed(slot));
  EXPECT_EQ(client_of(slot), 1022);
  EXPECT_EQ(count_of(slot), most_in_a_slot);
  EXPECT_EQ(lap_of(slot), 0xffffffffu);
  EXPECT_EQ(seal_epoch(sealed_slot(7, most_epoch)), most_epoch);
  EXPECT_TRUE(is_sealed(sealed_slot(7, 0)));
  const Progress progress{0x3fff, Standing::granted, Progress::index_mask};
  EXPECT_EQ(Progress::of(progress.word()).word(), progress.word());
  EXPECT_EQ(progress.with(Standing::live, 3, 1).generation, 0u);
  for (std::uint64_t index : {std::uint64_t{0}, Floor::mask, Floor::mask + 5, std::uint64_t{1} << 45}) {
    EXPECT_EQ(Floor::index(Floor::word(most_epoch, index), index + 12345), index);
    EXPECT_EQ(Floor::epoch(Floor::word(most_epoch, index)), most_epoch);
  }
}

/// Commands continue while one rank after the other leaves, the leader first.
TEST(Log, ContinuesWhenTheLeaderLeaves) {
  for (const auto faults : {Faults::none, Faults::crash, Faults::stop}) {
    LogOptions options = small();
    options.faults = faults;
    options.leader = 0;
    options.evict_after_s = 1e9;  // these replicas have no snapshots for a return, and may wait long for a PU
    auto log = make_log(4, options);
    std::vector<Command> delivered[4];
    on_all(log, [&](int rank, Replica& replica) {
      auto& mine = delivered[rank];
      for (std::uint64_t number = 1; number <= 200u * (rank + 1); ++number) {
        const Command command{static_cast<std::uint64_t>(rank), number};
        ASSERT_EQ(replica.append(&command, sizeof command), Status::ok) << replica.failure();
        deliver(replica, mine);
      }
      deliver(replica, mine);
    });
    EXPECT_GE(delivered[3].size(), 800u);
    for (const auto& one : delivered) {
      ASSERT_LE(one.size(), 2000u);
      const auto common = std::min(one.size(), delivered[3].size());
      EXPECT_TRUE(std::equal(one.begin(), one.begin() + static_cast<std::ptrdiff_t>(common), delivered[3].begin()));
    }
    std::vector<std::uint64_t> last(4);
    for (const auto& command : delivered[3]) EXPECT_EQ(command.number, ++last[command.client]);
    EXPECT_EQ(last[3], 800u);
  }
}

TEST(Log, AFixedSequencerThatLeavesBreaksIt) {
  LogOptions options;
  options.algorithm = "broadcast";
  options.leader = 0;
  auto log = make_log(2, options);
  auto second = log.attach(1);
  { auto first = log.attach(0); }
  EXPECT_EQ(second->append("x", 1), Status::broken);
  EXPECT_THAT(second->failure(), HasSubstr("rank 0, the fixed sequencer"));
}

TEST(Log, ASlowReplicaThatIsNotEvictedMissesNothing) {
  constexpr std::uint64_t each = 1000;
  LogOptions options = small();
  options.leader = 0;
  options.faults = Faults::crash;
  options.evict_after_s = 1e9;
  auto log = make_log(3, options);
  std::atomic<std::uint64_t> appended{0};
  std::atomic<int> finished{0};
  on_all(log, [&](int rank, Replica& replica) {
    std::vector<Command> delivered;
    if (rank == 1) {
      for (std::uint64_t number = 1; number <= each; ++number) {
        const Command command{1, number};
        ASSERT_EQ(replica.append(&command, sizeof command), Status::ok) << replica.failure();
        appended.store(number);
        deliver(replica, delivered);
      }
    }
    if (rank == 2) {
      std::this_thread::sleep_for(50ms);
      EXPECT_LE(appended.load(), options.requests);  // their places are not free
    }
    while (delivered.size() < each) {
      deliver(replica, delivered);
      ASSERT_EQ(replica.progress(), Status::ok) << replica.failure();
    }
    for (std::uint64_t i = 0; i < each; ++i) ASSERT_EQ(delivered[i], (Command{1, i + 1}));
    EXPECT_THAT(replica.configuration().replicas, testing::ElementsAre(0, 1, 2));
    finished.fetch_add(1);
    while (finished.load() < 3) replica.progress();
  });
}

TEST(Log, NoDeathIsSurvivedWithoutFaults) {
  for (const auto faults : {Faults::none, Faults::crash}) {
    LogOptions options;
    options.faults = faults;
    options.leader = 0;
    auto log = make_log(2, options);
    auto second = log.attach(1);
    std::optional<Replica> first;
    std::thread([&] { first.emplace(*log.attach(0)); }).join();  // ends while it has its replica
    EXPECT_EQ(second->append("x", 1), faults == Faults::none ? Status::broken : Status::ok) << second->failure();
    EXPECT_EQ(second->configuration().leader, faults == Faults::none ? 0 : 1);
  }
}

TEST(Log, ALateLeaderIsReplacedAndComesBackAsAReplica) {
  LogOptions options = small();
  options.faults = Faults::stop;
  options.leader = 0;
  options.suspect_after_s = 0.005;
  options.evict_after_s = 1e9;
  auto log = make_log(2, options);
  auto first = log.attach(0);
  auto second = log.attach(1);
  std::vector<Command> delivered[2];
  Command command{0, 1};
  ASSERT_EQ(first->append(&command, sizeof command), Status::ok);
  for (std::uint64_t number = 1; number <= 4; ++number) {
    command = {1, number};
    ASSERT_EQ(second->append(&command, sizeof command), Status::ok) << second->failure();
    deliver(*second, delivered[1]);
  }
  EXPECT_EQ(second->configuration().leader, 1);
  EXPECT_EQ(second->configuration().epoch, 2u);
  // The first leader does not know of the take-over yet, and is fenced.
  command = {0, 2};
  Ticket ticket;
  ASSERT_EQ(first->start(&command, sizeof command, &ticket), Status::ok);
  bool done = true;
  ASSERT_EQ(first->test(ticket, &done), Status::ok);
  EXPECT_FALSE(done);
  ASSERT_EQ(second->progress(), Status::ok);
  std::uint64_t index = 0;
  ASSERT_EQ(first->wait(ticket, &index), Status::ok);
  EXPECT_EQ(index, 5u);
  deliver(*first, delivered[0]);
  deliver(*second, delivered[1]);
  EXPECT_EQ(delivered[0], delivered[1]);
}

// ---- Replicated

using Map = std::map<std::uint64_t, std::uint64_t>;
struct Put {
  std::uint64_t key = 0, value = 0;
  void operator()(Map& map) const { map[key] = value; }
};
struct Add {
  std::uint64_t key = 0, value = 0;
  std::uint64_t operator()(Map& map) const { return map[key] += value; }
};

TEST(Replicated, AMapIsTheSameEverywhere) {
  auto log = make_log(3);
  std::vector<std::thread> threads;
  std::atomic<int> done{0};
  std::vector<Map> maps(3);
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      auto map = Replicated<Map, Put, Add>::attach(log, rank);
      ASSERT_TRUE(map) << map.error().message;
      std::uint64_t before = 0;
      for (std::uint64_t i = 0; i < 2000; ++i) {
        ASSERT_TRUE(map->update(Put{100 + i % 10, i}));
        auto sum = map->update(Add{1, 1});
        ASSERT_TRUE(sum) << sum.error().message;
        EXPECT_GT(*sum, before);
        before = *sum;
        auto seen = map->read([](const Map& now) { return now.at(1); });
        ASSERT_TRUE(seen);
        EXPECT_GE(*seen, before);
      }
      done.fetch_add(1);
      while (done.load() < 3) map->replica().progress();
      ASSERT_TRUE(map->read([&](const Map& now) { return maps[static_cast<std::size_t>(rank)] = now, true; }));
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(maps[0].at(1), 6000u);
  EXPECT_EQ(maps[0], maps[1]);
  EXPECT_EQ(maps[0], maps[2]);
}

struct Counter {
  using Command = std::uint64_t;
  std::uint64_t sum = 0;
  std::uint64_t apply(const Command& more) { return sum += more; }
};

TEST(Replicated, AStructWithApply) {
  auto log = make_log(1);
  auto counter = Replicated<Counter>::attach(log, 0);
  ASSERT_TRUE(counter);
  EXPECT_EQ(*counter->update(std::uint64_t{2}), 2u);
  EXPECT_EQ(*counter->update(std::uint64_t{3}), 5u);
  EXPECT_EQ(counter->local().sum, 5u);
}

/// A replica makes no calls. The others continue without it, and it returns with all entries.
TEST(Replicated, ALaggingReplicaIsEvictedAndReturnsBySnapshot) {
  LogOptions options = small();
  options.faults = Faults::crash;
  options.leader = 0;
  options.evict_after_s = 0.01;
  auto log = make_log(3, options);
  std::atomic<bool> finish{false}, appended{false};
  std::thread helper([&] {
    auto map = Replicated<Map, Put, Add>::attach(log, 0);
    map->replica().serve(finish);
  });
  auto lazy = Replicated<Map, Put, Add>::attach(log, 2);
  ASSERT_TRUE(lazy->update(Put{7, 7}));
  std::thread worker([&] {
    auto map = Replicated<Map, Put, Add>::attach(log, 1);
    for (std::uint64_t i = 0; i < 5000; ++i) ASSERT_TRUE(map->update(Put{i, i}));
    appended.store(true);
    map->replica().serve(finish);
  });
  while (!appended.load()) std::this_thread::sleep_for(1ms);
  EXPECT_THAT(lazy->replica().configuration().replicas, testing::ElementsAre(0, 1));
  for (int again = 0; again < 3; ++again) {
    auto size = lazy->read([](const Map& map) { return map.size(); });
    ASSERT_TRUE(size) << size.error().message;
    EXPECT_EQ(*size, 5000u);
    auto sum = lazy->update(Add{7, 1});
    ASSERT_TRUE(sum) << sum.error().message;
    EXPECT_EQ(*sum, 8u + static_cast<unsigned>(again));
  }
  EXPECT_THAT(lazy->replica().configuration().replicas, testing::ElementsAre(0, 1, 2));
  finish.store(true);
  helper.join();
  worker.join();
}

/// The leader makes no calls, and no rank appends. A returning replica does not wait for the leader.
TEST(Replicated, AReturningReplicaDoesNotNeedAStoppedLeader) {
  LogOptions options = small();
  options.faults = Faults::stop;
  options.leader = 0;
  options.suspect_after_s = 0.02;
  options.evict_after_s = 0.05;
  auto log = make_log(3, options);
  std::atomic<bool> finish{false};
  auto leader = Replicated<Map, Put, Add>::attach(log, 0);
  auto lazy = Replicated<Map, Put, Add>::attach(log, 2);
  std::thread helper([&] {
    auto map = Replicated<Map, Put, Add>::attach(log, 1);
    map->replica().serve(finish);
  });
  const auto is_up_to_date = [&](int rank) {
    const auto replicas = leader->replica().configuration().replicas;
    return std::find(replicas.begin(), replicas.end(), rank) != replicas.end();
  };
  for (std::uint64_t i = 0; is_up_to_date(2); ++i) ASSERT_TRUE(leader->update(Put{i % 100, i}));
  // On a busy machine, the helper may have been evicted as well.
  while (!is_up_to_date(1)) ASSERT_EQ(leader->replica().progress(), Status::ok);
  test::Patience patience(20s);
  while (!is_up_to_date(2) && !patience.is_over()) {
    ASSERT_EQ(lazy->replica().progress(), Status::ok) << lazy->replica().failure();
  }
  EXPECT_TRUE(is_up_to_date(2));
  EXPECT_EQ(lazy->replica().configuration().leader, 1);
  finish.store(true);
  helper.join();
}

using Texts = std::map<std::uint64_t, std::string>;
struct PutText {
  std::uint64_t key = 0;
  void operator()(Texts& texts) const { texts[key] = std::string(1 + key % 13, static_cast<char>('a' + key % 26)); }
};
struct PutSquare {
  std::uint64_t key = 0;
  void operator()(Map& map) const { map[key] = key * key + 1; }
};

/// An evicted replica returns by a snapshot of several chunks and has the same state as the others.
template <class State, class Command>
void expect_whole_snapshot(std::uint64_t keys, int lazy_rank) {
  LogOptions options = small();
  options.faults = Faults::crash;
  options.leader = (lazy_rank + 1) % 3;
  options.evict_after_s = 0.01;
  auto log = make_log(3, options);
  std::atomic<bool> finish{false}, appended{false};
  const auto work = [&](int rank, std::uint64_t updates) {
    auto state = Replicated<State, Command>::attach(log, rank);
    for (std::uint64_t key = 0; key < updates; ++key) ASSERT_TRUE(state->update(Command{key}));
    if (updates > 0) appended.store(true);
    state->replica().serve(finish);
  };
  auto lazy = Replicated<State, Command>::attach(log, lazy_rank);
  std::thread leader([&] { work(*options.leader, 0); }), worker([&] { work((lazy_rank + 2) % 3, keys); });
  while (!appended.load()) std::this_thread::sleep_for(1ms);
  State expected;
  for (std::uint64_t key = 0; key < keys; ++key) Command{key}(expected);
  auto same = lazy->read([&](const State& state) { return state == expected; });
  ASSERT_TRUE(same) << same.error().message;
  EXPECT_TRUE(*same);
  finish.store(true);
  leader.join();
  worker.join();
}

TEST(Replicated, SnapshotsArriveWhole) {
  for (const int lazy_rank : {0, 1, 2}) expect_whole_snapshot<Map, PutSquare>(5000, lazy_rank);
  for (const std::uint64_t keys : {4997, 4998, 5001}) expect_whole_snapshot<Texts, PutText>(keys, 2);
}

TEST(Replicated, SnapshotsOfContainers) {
  using Nested = std::map<std::string, std::vector<std::pair<int, std::string>>>;
  const Nested value{{"a", {{1, "x"}, {2, ""}}}, {"", {}}, {"long key, longer than any small buffer", {{3, "y"}}}};
  std::vector<std::byte> bytes;
  Snapshot<Nested>::save(value, bytes);
  Nested again{{"old", {}}};
  std::span<const std::byte> in(bytes);
  Snapshot<Nested>::load(again, in);
  EXPECT_EQ(again, value);
  EXPECT_TRUE(in.empty());
  struct Pointer {
    std::unique_ptr<int> value;
  };
  static_assert(!HasSnapshot<Pointer>);
  static_assert(HasSnapshot<Map> && HasSnapshot<Counter>);
}

}  // namespace
}  // namespace smelt
