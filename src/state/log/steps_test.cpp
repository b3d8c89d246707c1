// The log step by step, by one thread for all replicas: how much fits, when room is free again, what tickets tell.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include "base/patience_test_util.hpp"
#include "smelt/replicated_log.hpp"

namespace smelt {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

LogOptions options_of(std::uint32_t entries, std::uint32_t requests, Faults faults = Faults::none) {
  LogOptions options;
  options.entries = entries;
  options.requests = requests;
  options.leader = 0;
  options.faults = faults;
  options.evict_after_s = 1e9;
  return options;
}

/// Replicas of which those with `apply` count their entries.
class LogSteps : public testing::Test {
 protected:
  void make(int ranks, const LogOptions& options) {
    CommunicatorOptions plain;
    plain.pin = false;
    plain.search_ms = 1;
    plain.profile = "none";
    auto made = ReplicatedLog::create(*Communicator::create(ranks, plain), options);
    ASSERT_TRUE(made) << made.error().message;
    log.emplace(*std::move(made));
  }

  Replica counting(int rank) {
    const auto apply = [](void* self, const Entry& entry) {
      auto& count = *static_cast<std::uint64_t*>(self);
      ASSERT_EQ(entry.index, count);
      ++count;
    };
    const auto save = [](void* self, std::vector<std::byte>& bytes) {
      const auto* from = static_cast<const std::byte*>(self);
      bytes.insert(bytes.end(), from, from + sizeof(std::uint64_t));
    };
    const auto load = [](void* self, std::span<const std::byte> bytes) {
      std::memcpy(self, bytes.data(), sizeof(std::uint64_t));
    };
    return *log->attach(rank, {&counts[rank], apply, save, load});
  }

  static Ticket start(Replica& replica) {
    Ticket ticket;
    EXPECT_EQ(replica.start("x", 1, &ticket), Status::ok) << replica.failure();
    return ticket;
  }
  /// Calls test() once, and for so long until it is done.
  static bool is_done(Replica& replica, Ticket ticket, std::chrono::milliseconds patience) {
    bool done = false;
    test::Patience limit(patience);
    do {
      EXPECT_EQ(replica.test(ticket, &done), Status::ok) << replica.failure();
    } while (!done && !limit.is_over());
    return done;
  }
  /// Entries that next() delivers until there is none.
  static std::vector<Entry> all_of(Replica& replica, std::size_t most = 1'000'000) {
    std::vector<Entry> all;
    Entry entry;
    for (bool there = true; all.size() < most && replica.next(&entry, &there) == Status::ok && there;) {
      all.push_back(entry);
    }
    return all;
  }

  std::optional<ReplicatedLog> log;
  std::uint64_t counts[3] = {};
};

TEST_F(LogSteps, TicketsTellThePlaceOfTheLastRequests) {
  make(1, options_of(64, 4));
  auto replica = *log->attach(0);
  Ticket tickets[5];
  for (std::uint64_t i = 0; i < 5; ++i) {
    std::uint64_t index = 99;
    tickets[i] = start(replica);
    ASSERT_EQ(replica.wait(tickets[i], &index), Status::ok);
    EXPECT_EQ(index, i);
    EXPECT_EQ(replica.started(), i + 1);
    EXPECT_EQ(all_of(replica).size(), 1u);
    EXPECT_EQ(replica.delivered(), i + 1);
  }
  for (std::uint64_t i = 0; i < 5; ++i) {
    std::uint64_t index = 99;
    bool done = false;
    ASSERT_EQ(replica.test(tickets[i], &done, &index), Status::ok);
    EXPECT_TRUE(done);
    EXPECT_EQ(index, i == 0 ? Replica::unknown_index : i) << "its cell was used again";
  }
  for (const Ticket none : {Ticket{0}, Ticket{6}}) {
    bool done = true;
    EXPECT_EQ(replica.test(none, &done), Status::invalid_argument);
    EXPECT_FALSE(done);
    EXPECT_EQ(replica.wait(none), Status::invalid_argument);
    EXPECT_THAT(replica.failure(), HasSubstr("no such ticket"));
  }
}

TEST_F(LogSteps, ARequestsPlaceIsFreeWhenAllHaveReadIt) {
  make(2, options_of(64, 4));
  auto first = counting(0);
  auto second = *log->attach(1);
  for (int i = 0; i < 4; ++i) ASSERT_EQ(first.append("x", 1), Status::ok);
  for (std::size_t read = 1; read <= 3; ++read) {
    std::atomic<bool> started{false};
    std::thread other([&] {
      EXPECT_EQ(first.append("x", 1), Status::ok) << first.failure();
      started.store(true);
    });
    std::this_thread::sleep_for(10ms);
    EXPECT_FALSE(started.load()) << read;
    EXPECT_EQ(all_of(second, 1).size(), 1u);
    other.join();
  }
}

TEST_F(LogSteps, OneSlotStaysFree) {
  make(2, options_of(64, 1024));
  auto first = counting(0);
  auto second = *log->attach(1);
  for (int i = 1; i < 64; ++i) ASSERT_TRUE(is_done(first, start(first), 10s)) << i;
  for (int read = 0; read < 3; ++read) {
    const Ticket more = start(first);
    EXPECT_FALSE(is_done(first, more, 10ms));
    EXPECT_EQ(all_of(second, 1).size(), 1u);
    EXPECT_TRUE(is_done(first, more, 10s));
  }
}

TEST_F(LogSteps, ASlotTakes32Requests) {
  make(2, options_of(64, 4096));
  auto first = counting(0);
  auto second = *log->attach(1);
  Ticket last;
  for (int i = 0; i < 63 * 32; ++i) last = start(first);
  EXPECT_TRUE(is_done(first, last, 10s));
  EXPECT_EQ(counts[0], 63u * 32);
  const Ticket more = start(first);
  EXPECT_FALSE(is_done(first, more, 10ms));
  const auto read = all_of(second, 1);
  ASSERT_EQ(read.size(), 1u);
  EXPECT_TRUE(is_done(first, more, 10s)) << "a slot is copied as a whole";
  std::uint64_t index = 0;
  ASSERT_EQ(first.wait(more, &index), Status::ok);
  EXPECT_EQ(index, 63u * 32);
  const auto rest = all_of(second);
  ASSERT_EQ(rest.size(), 63u * 32);
  for (std::size_t i = 0; i < rest.size(); ++i) {
    ASSERT_EQ(rest[i].index, i + 1);
    ASSERT_EQ(rest[i].request, i + 2);
    ASSERT_EQ(rest[i].client, 0);
  }
}

/// Of a rank that is not the leader; entries are counted, not slots.
TEST_F(LogSteps, TheLeaderTakesWhatOthersHaveStarted) {
  make(3, options_of(64, 128));
  auto first = counting(0), second = counting(1);
  auto third = *log->attach(2);
  Ticket tickets[40];
  for (auto& ticket : tickets) ticket = start(second);
  bool done = true;
  EXPECT_EQ(second.test(tickets[0], &done), Status::ok);
  EXPECT_FALSE(done) << "the leader has made no call";
  for (int i = 0; i < 3; ++i) EXPECT_EQ(first.progress(), Status::ok);
  std::uint64_t point = 0;
  for (auto* replica : {&first, &second, &third}) {
    EXPECT_EQ(replica->read_point(&point), Status::ok);
    EXPECT_EQ(point, 40u);
  }
  EXPECT_EQ(counts[0], 40u);
  EXPECT_EQ(first.delivered(), 40u);
  EXPECT_EQ(third.delivered(), 0u);
  for (std::uint64_t i = 0; i < 40; ++i) {
    std::uint64_t index = 0;
    EXPECT_EQ(second.test(tickets[i], &done, &index), Status::ok);
    EXPECT_TRUE(done);
    EXPECT_EQ(index, i);
  }
  EXPECT_EQ(all_of(third).size(), 40u);
  EXPECT_EQ(first.catch_up(40), Status::ok);
  Entry entry;
  bool there = true;
  EXPECT_EQ(first.next(&entry, &there), Status::invalid_argument);
  EXPECT_THAT(first.failure(), HasSubstr("next() is for replicas without `apply`"));
  EXPECT_EQ(third.catch_up(40), Status::ok) << "it has them";
  EXPECT_EQ(third.catch_up(41), Status::invalid_argument);
  EXPECT_THAT(third.failure(), HasSubstr("catch_up() is for replicas with `apply`"));
  const auto now = third.configuration();
  EXPECT_EQ(now.epoch, 1u);
  EXPECT_EQ(now.leader, 0);
  EXPECT_THAT(now.replicas, testing::ElementsAre(0, 1, 2));
}

/// Each leaves: the next one leads at once, without a wait for anything.
TEST_F(LogSteps, LeadersFollowEachOther) {
  make(3, options_of(64, 16, Faults::crash));
  std::optional<Replica> replicas[3];
  for (int rank = 0; rank < 3; ++rank) replicas[rank].emplace(counting(rank));
  std::uint64_t epoch = 0;
  for (int left = 0; left < 3; ++left) {
    for (int rank = left; rank < 3; ++rank) {
      const Ticket ticket = start(*replicas[rank]);
      for (test::Patience limit(10s); !is_done(*replicas[rank], ticket, 0s) && !limit.is_over();) {
        for (int other = left; other < 3; ++other) ASSERT_EQ(replicas[other]->progress(), Status::ok);
      }
    }
    const auto now = replicas[2]->configuration();
    EXPECT_GT(now.epoch, epoch);
    epoch = now.epoch;
    EXPECT_GE(now.leader, left);
    EXPECT_EQ(now.replicas.size(), static_cast<std::size_t>(3 - left));
    replicas[left].reset();
    for (int other = left + 1; other < 3; ++other) {
      EXPECT_EQ(replicas[other]->configuration().leader, -1) << "until somebody calls";
    }
  }
  EXPECT_EQ(counts[2], 6u);
}

/// Where a request was decided is not in a snapshot, but that it was.
TEST_F(LogSteps, TicketsOutliveAnEviction) {
  LogOptions options = options_of(64, 16, Faults::stop);
  options.evict_after_s = 0.005;
  options.suspect_after_s = 1e9;
  make(2, options);
  auto first = counting(0), second = counting(1);
  Ticket known = start(second);
  while (!is_done(second, known, 0s)) ASSERT_EQ(first.progress(), Status::ok);
  Ticket tickets[3];
  for (auto& ticket : tickets) ticket = start(second);
  while (second.configuration().replicas.size() == 2) ASSERT_EQ(first.append("x", 1), Status::ok);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(first.append("x", 1), Status::ok);  // over what it has not read
  const std::uint64_t all = counts[0];
  for (test::Patience limit(10s); counts[1] < all && !limit.is_over();) {
    ASSERT_EQ(first.progress(), Status::ok);
    ASSERT_EQ(second.progress(), Status::ok) << second.failure();
  }
  EXPECT_EQ(counts[1], all);
  EXPECT_EQ(second.started(), 4u);
  for (const Ticket ticket : tickets) {
    std::uint64_t index = 0;
    bool done = false;
    EXPECT_EQ(second.test(ticket, &done, &index), Status::ok);
    EXPECT_TRUE(done);
    EXPECT_EQ(index, Replica::unknown_index);
  }
  std::uint64_t index = 99;
  EXPECT_EQ(second.wait(known, &index), Status::ok);
  EXPECT_EQ(index, 0u);
  // Its next requests are new ones.
  const Ticket next = start(second);
  EXPECT_EQ(next.request, 5u);
  while (!is_done(second, next, 0s)) ASSERT_EQ(first.progress(), Status::ok);
  EXPECT_EQ(second.wait(next, &index), Status::ok);
  EXPECT_EQ(index, all);
  EXPECT_EQ(counts[1], all + 1);
}

/// The floor is then above all that it knows, and the places of its commands are not free: others have yet to read
/// them.
TEST_F(LogSteps, AnEvictedReplicaThatDoesNotKnowItOverwritesNothing) {
  LogOptions options = options_of(64, 4, Faults::stop);
  options.evict_after_s = 0.005;
  options.suspect_after_s = 1e9;
  make(3, options);
  auto first = *log->attach(0), second = *log->attach(1), third = *log->attach(2);
  const auto finish = [&](Replica& replica, Ticket ticket) {
    while (!is_done(replica, ticket, 0s)) ASSERT_EQ(first.progress(), Status::ok);
  };
  for (int i = 0; i < 4; ++i) finish(third, start(third));  // which it never reads
  std::size_t read = all_of(first).size(), read_by_second = all_of(second).size();
  while (first.configuration().replicas.size() == 3) {
    finish(first, start(first));
    read += all_of(first).size(), read_by_second += all_of(second).size();
  }
  std::size_t appended = read;
  Ticket ticket;
  for (int i = 0; i < 12 && third.start("y", 1, &ticket) == Status::ok; ++i, ++appended) {
    finish(third, ticket);
  }
  EXPECT_EQ(third.start("y", 1, &ticket), Status::broken);
  EXPECT_THAT(third.failure(), HasSubstr("rank 2 was evicted"));
  read += all_of(first).size(), read_by_second += all_of(second).size();
  EXPECT_EQ(read, appended) << first.failure();
  EXPECT_EQ(read_by_second, appended) << second.failure();
}

}  // namespace
}  // namespace smelt
