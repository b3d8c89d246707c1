// Configuration "paxos" beside "cas": who may replace a leader, what is left when replicas are late and then die, and
// when the log says that it cannot go on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/patience_test_util.hpp"
#include "smelt/replicated_log.hpp"

namespace smelt {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

ReplicatedLog make_log(int ranks, const LogOptions& options) {
  CommunicatorOptions of_communicator;
  of_communicator.pin = false;
  of_communicator.search_ms = 1;
  of_communicator.profile = "none";
  auto log = ReplicatedLog::create(*Communicator::create(ranks, of_communicator), options);
  EXPECT_TRUE(log) << log.error().message;
  return *std::move(log);
}

LogOptions with(const std::string& configuration, Faults faults) {
  LogOptions options;
  options.configuration = configuration;
  options.faults = faults;
  options.entries = 64;
  options.requests = 1024;
  options.leader = 0;
  options.suspect_after_s = 0.003;
  options.evict_after_s = 1e9;
  return options;
}

/// A replica that counts what it delivers.
struct Counting {
  std::uint64_t count = 0;
  std::optional<Replica> replica;

  void attach(ReplicatedLog& log, int rank) {
    const auto apply = [](void* self, const Entry& entry) {
      auto& count = static_cast<Counting*>(self)->count;
      ASSERT_EQ(entry.index, count);
      ++count;
    };
    const auto save = [](void* self, std::vector<std::byte>& bytes) {
      const auto* from = reinterpret_cast<const std::byte*>(&static_cast<Counting*>(self)->count);
      bytes.insert(bytes.end(), from, from + sizeof(count));
    };
    const auto load = [](void* self, std::span<const std::byte> bytes) {
      std::memcpy(&static_cast<Counting*>(self)->count, bytes.data(), sizeof(count));
    };
    auto attached = log.attach(rank, {this, apply, save, load});
    ASSERT_TRUE(attached) << attached.error().message;
    replica.emplace(*std::move(attached));
  }

  /// Calls test() for so long, or until it is done.
  bool is_done(Ticket ticket, std::chrono::milliseconds patience) {
    bool done = false;
    for (test::Patience limit(patience); !done && !limit.is_over();) {
      EXPECT_EQ(replica->test(ticket, &done), Status::ok) << replica->failure();
    }
    return done;
  }
  Ticket start() {
    Ticket ticket;
    EXPECT_EQ(replica->start("x", 1, &ticket), Status::ok) << replica->failure();
    return ticket;
  }
};

TEST(Majority, ReplacesALeader) {
  for (const std::string configuration : {"cas", "paxos"}) {
    SCOPED_TRACE(configuration);
    auto log = make_log(3, with(configuration, Faults::stop));
    Counting first, second, third;
    first.attach(log, 0);
    second.attach(log, 1);
    third.attach(log, 2);
    ASSERT_EQ(first.replica->append("x", 1), Status::ok);
    // The leader makes no calls, and neither does the third.
    const Ticket ticket = second.start();
    EXPECT_EQ(second.is_done(ticket, configuration == "cas" ? 10s : 60ms), configuration == "cas");
    EXPECT_EQ(second.replica->configuration().epoch, configuration == "cas" ? 2u : 1u);
    if (configuration == "cas") continue;
    ASSERT_EQ(third.replica->progress(), Status::ok);
    EXPECT_TRUE(second.is_done(ticket, 10s));
    EXPECT_EQ(second.replica->configuration().leader, 1);
    // The consent was to the end of one epoch: the new leader is not replaced without another one.
    const Ticket next = third.start();
    EXPECT_FALSE(third.is_done(next, 60ms));
    EXPECT_EQ(third.replica->configuration().epoch, 2u);
    ASSERT_EQ(first.replica->progress(), Status::ok);
    EXPECT_TRUE(third.is_done(next, 10s));
    EXPECT_EQ(third.replica->configuration().leader, 2);
  }
}

TEST(Majority, SuspicionEndsWhenTheLeaderGoesOn) {
  auto log = make_log(3, with("paxos", Faults::stop));
  Counting first, second, third;
  first.attach(log, 0);
  second.attach(log, 1);
  third.attach(log, 2);
  const Ticket ticket = second.start();
  EXPECT_FALSE(second.is_done(ticket, 20ms));
  while (second.count == 0) {
    ASSERT_EQ(first.replica->progress(), Status::ok);
    ASSERT_EQ(second.replica->progress(), Status::ok);
  }
  ASSERT_EQ(third.replica->progress(), Status::ok);
  EXPECT_TRUE(second.is_done(ticket, 10s));
  ASSERT_EQ(second.replica->progress(), Status::ok);
  EXPECT_EQ(second.replica->configuration().epoch, 1u);
}

/// The leader is alone for longer than the log has room, and then dies.
TEST(Majority, HasTheStateWhenTheLeaderDies) {
  for (const std::string configuration : {"cas", "paxos"}) {
    SCOPED_TRACE(configuration);
    LogOptions options = with(configuration, Faults::stop);
    options.evict_after_s = 0.005;
    auto log = make_log(3, options);
    Counting first, second, third;
    second.attach(log, 1);
    third.attach(log, 2);
    constexpr std::uint64_t most = 300;
    std::uint64_t acknowledged = 0;
    std::size_t least_up_to_date = 3;
    std::thread([&] {
      first.attach(log, 0);
      while (acknowledged < most && first.is_done(first.start(), configuration == "cas" ? 10s : 100ms)) {
        ++acknowledged;
        least_up_to_date = std::min(least_up_to_date, first.replica->configuration().replicas.size());
      }
    }).join();  // ends while it has its replica: it counts as dead
    if (configuration == "cas") {
      EXPECT_EQ(acknowledged, most);
      EXPECT_EQ(second.replica->append("x", 1), Status::broken);
      EXPECT_THAT(second.replica->failure(), HasSubstr("no replica that is up to date"));
      continue;
    }
    EXPECT_LT(acknowledged, most);  // one of the others must read before there is more room
    EXPECT_GE(acknowledged, options.entries / 2);
    EXPECT_GE(least_up_to_date, 2u);
    test::Patience patience(10s);
    while ((second.count < acknowledged || third.count < acknowledged) && !patience.is_over()) {
      ASSERT_EQ(second.replica->progress(), Status::ok) << second.replica->failure();
      ASSERT_EQ(third.replica->progress(), Status::ok) << third.replica->failure();
    }
    EXPECT_GE(second.count, acknowledged);
    EXPECT_GE(third.count, acknowledged);
    EXPECT_LE(third.count, acknowledged + 1);  // one was under way
  }
}

/// Ends a replica's thread before the replica, so that it counts as dead.
void die(ReplicatedLog& log, int rank, Counting* replica) {
  std::thread([&] { replica->attach(log, rank); }).join();
}

TEST(Majority, IsToldWhenItHasEnded) {
  auto log = make_log(3, with("paxos", Faults::crash));
  Counting first, second, third;
  third.attach(log, 2);
  die(log, 0, &first);
  die(log, 1, &second);
  EXPECT_EQ(third.replica->append("x", 1), Status::broken);
  EXPECT_THAT(third.replica->failure(), HasSubstr("2 of its 3 replicas must agree"));
  EXPECT_THAT(third.replica->failure(), HasSubstr("2 have ended"));
}

TEST(Majority, GoesOnWithAMinorityDead) {
  auto log = make_log(5, with("paxos", Faults::crash));
  Counting replicas[5];
  for (const int rank : {2, 3, 4}) replicas[rank].attach(log, rank);
  die(log, 0, &replicas[0]);
  die(log, 1, &replicas[1]);
  const Ticket ticket = replicas[3].start();
  EXPECT_FALSE(replicas[3].is_done(ticket, 20ms));
  replicas[2].replica->progress();
  EXPECT_FALSE(replicas[3].is_done(ticket, 20ms));
  bool done = false;
  for (test::Patience limit(10s); !done && !limit.is_over();) {
    for (const int rank : {2, 4}) ASSERT_EQ(replicas[rank].replica->progress(), Status::ok);
    ASSERT_EQ(replicas[3].replica->test(ticket, &done), Status::ok);
  }
  EXPECT_TRUE(done);
}

/// A rank that gives up its replica agrees to whatever the others do.
TEST(Majority, IsNotMissedIfItLeaves) {
  auto log = make_log(3, with("paxos", Faults::crash));
  Counting third;
  third.attach(log, 2);
  for (const int rank : {0, 1}) {
    Counting leaves;
    leaves.attach(log, rank);
  }
  EXPECT_EQ(third.replica->append("x", 1), Status::ok) << third.replica->failure();
  EXPECT_EQ(third.replica->configuration().leader, 2);
}

/// What was agreed in a former life of a log that was kept does not count.
TEST(Majority, OfAKeptLogAgreesAnew) {
  const std::string name = "majority-" + std::to_string(getpid());
  const int ranks[] = {0, 1, 2};
  LogOptions options = with("paxos", Faults::stop);
  options.keep = true;
  for (std::uint64_t life = 1; life <= 2; ++life) {
    auto log = ReplicatedLog::create_shared(name, 3, ranks, options, 5.0);
    ASSERT_TRUE(log) << log.error().message;
    Counting first, second, third;
    first.attach(*log, 0);
    second.attach(*log, 1);
    third.attach(*log, 2);
    ASSERT_EQ(first.replica->append("x", 1), Status::ok) << first.replica->failure();
    const std::uint64_t epoch = first.replica->configuration().epoch;
    const Ticket ticket = second.start();
    EXPECT_FALSE(second.is_done(ticket, 30ms));
    EXPECT_EQ(second.replica->configuration().epoch, epoch);
    ASSERT_EQ(third.replica->progress(), Status::ok);
    EXPECT_TRUE(second.is_done(ticket, 10s));
  }
  EXPECT_TRUE(remove_log(name));
}

TEST(Majority, RefusesWhatItCannotBe) {
  const auto refusal = [](int ranks, const std::string& configuration, auto change) {
    LogOptions options = with(configuration, Faults::crash);
    change(options);
    CommunicatorOptions of_communicator;
    of_communicator.pin = false;
    of_communicator.search_ms = 1;
    of_communicator.profile = "none";
    auto log = ReplicatedLog::create(*Communicator::create(ranks, of_communicator), options);
    EXPECT_FALSE(log);
    return log ? std::string() : log.error().message;
  };
  const auto nothing = [](LogOptions&) {};
  EXPECT_THAT(refusal(3, "raft", nothing), HasSubstr("'cas' or 'paxos'"));
  EXPECT_THAT(refusal(2, "paxos", nothing), HasSubstr("a majority of 2 replicas survives no death"));
  EXPECT_THAT(refusal(4, "paxos",
                      [](LogOptions& options) {
                        options.replicas = {0, 3};
                      }),
              HasSubstr("a majority of 2 replicas"));
  EXPECT_THAT(refusal(3, "paxos", [](LogOptions& options) { options.faults.reset(); }), HasSubstr("crash or stop"));
  EXPECT_THAT(refusal(3, "paxos", [](LogOptions& options) { options.algorithm = "broadcast", options.faults.reset(); }),
              HasSubstr("algorithm = '1paxos'"));
}

}  // namespace
}  // namespace smelt
