#include "comm/group/rendezvous.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <thread>

#include "base/clock.hpp"
#include "base/own_mounts_test_util.hpp"
#include "base/process.hpp"
#include "base/segment.hpp"
#include "comm/group/tombstones.hpp"
#include "smelt/communicator.hpp"
#include "smelt/machine.hpp"

namespace smelt::comm {
namespace {

#ifdef __SANITIZE_THREAD__
constexpr int kill_rounds = 40;  // processes start slowly there
#else
constexpr int kill_rounds = 200;
#endif

void sleep_us(int us) { std::this_thread::sleep_for(std::chrono::microseconds(us)); }

std::string test_name() {
  static int count = 0;
  return "test-" + std::to_string(getpid()) + "-" + std::to_string(++count);
}

std::string path_of(const std::string& name) { return "/dev/shm/smelt-" + std::to_string(geteuid()) + "-" + name; }

bool exists(const std::string& name) {
  struct stat status = {};
  return lstat(path_of(name).c_str(), &status) == 0;
}

Result<SegmentContent> small_content() { return SegmentContent{"a configuration", 4096}; }

Result<Rendezvous> join_one(const std::string& name, int size, int rank, const Prepare& prepare = small_content,
                            const RendezvousOptions& options = {.timeout_s = 20.0}) {
  return join_rendezvous(name, size, std::span<const int>(&rank, 1), prepare, options);
}

// Counters that forked children share.
struct Shared {
  Shared() : segment(*Segment::anonymous(4096)) {}
  std::atomic<int>& operator[](int index) const { return reinterpret_cast<std::atomic<int>*>(segment.data())[index]; }
  Segment segment;
};

template <class Body>
pid_t fork_child(const Body& body) {
  const pid_t pid = fork();
  if (pid == 0) _exit([&]() noexcept { return body(); }());  // never on to the next test
  return pid;
}

// A child that takes part; its exit code is 0, or the status without its sign.
pid_t fork_member(const std::string& name, int size, int rank, const RendezvousOptions& options = {.timeout_s = 20.0},
                  const Prepare& prepare = small_content) {
  return fork_child([&] {
    auto rendezvous = join_one(name, size, rank, prepare, options);
    return rendezvous ? 0 : -static_cast<int>(rendezvous.error().status);
  });
}

constexpr int killed = 1000;

int wait_for(pid_t pid) {
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : killed;
}

int kill_and_wait(pid_t pid) {
  kill(pid, SIGKILL);
  return wait_for(pid);
}

constexpr int code(Status status) { return -static_cast<int>(status); }

template <class Condition>
bool eventually(const Condition& condition) {
  for (int i = 0; i < 30'000; ++i) {
    if (condition()) return true;
    sleep_us(1000);
  }
  return false;
}

// Tombstones of that name with an audience.
int tombstones_of(const std::string& name) {
  std::error_code none;
  const std::filesystem::directory_iterator tombstones(cache_path({}).parent_path() / "ended", none), end;
  return static_cast<int>(
      std::count_if(tombstones, end, [&](const auto& entry) { return entry.path().string().ends_with("-" + name); }));
}

// Whether that process is a member, present, of the rendezvous that has the name now.
bool has_joined(const std::string& name, pid_t pid) {
  const auto segment = Segment::open_named(path_of(name).substr(8));
  if (!segment) return false;
  const auto* words = reinterpret_cast<const std::atomic<std::uint64_t>*>(segment->data());
  return std::any_of(words, words + segment->size() / 8, [&](const auto& word) {
    return (word.load(std::memory_order_relaxed) & 0xff'ffff) == (static_cast<std::uint64_t>(pid) << 2 | 1);
  });
}

// Until processes that are started now were certainly started later than whatever has ended so far.
void let_all_end() { sleep_us(1'050'000); }

// A name that a child founded and left behind, being killed while it waited for rank 1.
void leave_stale(const std::string& name, int size = 2) {
  const pid_t creator = fork_member(name, size, 0);
  ASSERT_TRUE(eventually([&] { return exists(name); }));
  EXPECT_EQ(kill_and_wait(creator), killed);
  ASSERT_TRUE(exists(name));
}

// Runs the body of a test in a child with a /dev/shm of its own, where that is permitted: any other program that founds
// a rendezvous would sweep the names that the test leaves behind.
template <class Body>
void away_from_other_programs(const Body& body) {
  constexpr int failed = 1, not_permitted = 2;
  fflush(stdout);
  const int end = wait_for(fork_child([&] {
    if (!test::have_own_dev_shm("64m")) return not_permitted;
    body();
    fflush(stdout);
    return testing::Test::HasFailure() ? failed : 0;
  }));
  if (end == not_permitted) return body();
  EXPECT_EQ(end, 0);
}

// ---- rendezvous

int take_part_and_check(const std::string& name, int size, int rank, const Shared& shared) {
  const Prepare prepare = [&]() -> Result<SegmentContent> {
    ++shared[0];
    return SegmentContent{std::string(3000, 'b') + std::to_string(size), 100'000};
  };
  auto rendezvous = join_one(name, size, rank, prepare);
  if (!rendezvous) return 1;
  if (exists(name)) return 2;
  if (rendezvous->shared_config() != std::string(3000, 'b') + std::to_string(size)) return 3;
  if (rendezvous->user_bytes != 100'000 || rendezvous->user_offset % 4096 != 0) return 4;
  if (static_cast<int>(rendezvous->membership().survivors().size()) != size) return 5;
  auto* slots = reinterpret_cast<std::atomic<std::uint64_t>*>(rendezvous->user());
  slots[rank] = rendezvous->id + 1;
  const bool same = eventually([&] {
    for (int other = 0; other < size; ++other) {
      if (slots[other] != rendezvous->id + 1) return false;
    }
    return true;
  });
  rendezvous->membership().leave(rank);
  return same ? 0 : 6;
}

TEST(Rendezvous, AnyNumberOfProcessesMeet) {
  for (int size = 1; size <= 17; ++size) {
    const auto name = test_name();
    const Shared shared;
    std::vector<pid_t> children;
    for (int rank = 0; rank < size; ++rank) {
      children.push_back(fork_child([&] { return take_part_and_check(name, size, rank, shared); }));
    }
    for (const pid_t child : children) EXPECT_EQ(wait_for(child), 0) << size;
    EXPECT_EQ(shared[0], 1) << size;
    EXPECT_FALSE(exists(name));
  }
}

TEST(Rendezvous, AProcessMayBringSeveralRanksAtOnceOrByThreads) {
  const auto name = test_name();
  const pid_t child = fork_child([&] {
    const int ranks[] = {4, 1};
    auto rendezvous = join_rendezvous(name, 5, ranks, small_content);
    return rendezvous && rendezvous->membership().process(4).pid == getpid() ? 0 : 1;
  });
  std::vector<std::thread> threads;
  for (const int rank : {0, 2, 3}) {
    threads.emplace_back([&, rank] {
      auto rendezvous = join_one(name, 5, rank);
      EXPECT_TRUE(rendezvous) << rendezvous.error().message;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wait_for(child), 0);
  EXPECT_FALSE(exists(name));
}

// The last one may find the rendezvous complete before it has looked at it again.
TEST(Rendezvous, TheLastProcessMayBeTheOneThatCompletes) {
  for (int round = 0; round < 300; ++round) {
    const auto name = test_name();
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 3; ++rank) {
      threads.emplace_back([&, rank] {
        auto rendezvous = join_one(name, 3, rank, small_content, {.timeout_s = 5.0});
        EXPECT_TRUE(rendezvous) << rendezvous.error().message;
      });
    }
    for (auto& thread : threads) thread.join();
    ASSERT_FALSE(HasFailure());
  }
}

TEST(Rendezvous, ANameCanBeUsedAgain) {
  const auto name = test_name();
  std::set<std::uint64_t> ids;
  for (int i = 0; i < 20; ++i) {
    auto rendezvous = join_one(name, 1, 0);
    ASSERT_TRUE(rendezvous) << rendezvous.error().message;
    EXPECT_TRUE(rendezvous->prepared);
    ids.insert(rendezvous->id);
  }
  EXPECT_EQ(ids.size(), 20u);
}

TEST(Rendezvous, TheModeDoesNotDependOnTheUmask) {
  const auto name = test_name();
  const pid_t child = fork_child([&] {
    umask(0777);
    auto rendezvous = join_one(name, 2, 0);
    return rendezvous ? 0 : 1;
  });
  ASSERT_TRUE(eventually([&] { return exists(name); }));
  struct stat status = {};
  ASSERT_EQ(lstat(path_of(name).c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600u);
  EXPECT_TRUE(join_one(name, 2, 1));
  EXPECT_EQ(wait_for(child), 0);
}

// ---- refusals

TEST(Rendezvous, RefusesInvalidRequests) {
  const auto refused = [](const std::string& name, int size, std::vector<int> ranks, double timeout_s = 1.0) {
    auto rendezvous = join_rendezvous(name, size, ranks, small_content, {.timeout_s = timeout_s});
    return !rendezvous && rendezvous.error().status == Status::invalid_argument && !exists(name);
  };
  EXPECT_TRUE(refused("", 1, {0}));
  EXPECT_TRUE(refused("a/b", 1, {0}));
  EXPECT_TRUE(refused(std::string(201, 'x'), 1, {0}));
  EXPECT_TRUE(refused(std::string("a\0b", 3), 1, {0}));
  const auto name = test_name();
  EXPECT_TRUE(refused(name, 0, {0}));
  EXPECT_TRUE(refused(name, 1025, {0}));
  EXPECT_TRUE(refused(name, 2, {}));
  EXPECT_TRUE(refused(name, 2, {2}));
  EXPECT_TRUE(refused(name, 2, {-1}));
  EXPECT_TRUE(refused(name, 2, {1, 1}));
  EXPECT_TRUE(refused(name, 2, {1}, 0.0));
}

TEST(Rendezvous, RefusesAnotherSizeAndATakenRank) {
  const auto name = test_name();
  const pid_t waiting = fork_member(name, 3, 1);
  ASSERT_TRUE(eventually([&] { return exists(name); }));
  auto other_size = join_one(name, 2, 0);
  ASSERT_FALSE(other_size);
  EXPECT_EQ(other_size.error().status, Status::invalid_argument);
  EXPECT_NE(other_size.error().message.find("3 ranks"), std::string::npos) << other_size.error().message;
  auto taken = join_one(name, 3, 1);
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().status, Status::invalid_argument);
  EXPECT_NE(taken.error().message.find("rank 1"), std::string::npos) << taken.error().message;
  // Neither did the rendezvous any harm.
  const pid_t last = fork_member(name, 3, 0);
  EXPECT_TRUE(join_one(name, 3, 2));
  EXPECT_EQ(wait_for(waiting), 0);
  EXPECT_EQ(wait_for(last), 0);
}

TEST(Rendezvous, RefusesSegmentsOfOtherUsers) {
  const auto name = test_name();
  const auto path = path_of(name);
  const auto status_with = [&] {
    auto rendezvous = join_one(name, 1, 0);
    unlink(path.c_str());
    return rendezvous ? Status::ok : rendezvous.error().status;
  };
  ASSERT_EQ(symlink("/dev/shm/nowhere", path.c_str()), 0);
  EXPECT_EQ(status_with(), Status::permission_denied);

  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(status_with(), Status::bad_format);

  const auto plain = [&](mode_t mode) {
    const int fd = open(path.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600);
    EXPECT_EQ(fchmod(fd, mode), 0);
    EXPECT_EQ(ftruncate(fd, 8192), 0);
    return fd;
  };
  close(plain(0600));
  EXPECT_EQ(status_with(), Status::bad_format);
  close(plain(0666));
  EXPECT_EQ(status_with(), Status::permission_denied);
  const int fd = plain(0600);
  const bool given_away = fchown(fd, 54321, 54321) == 0;  // only root may
  close(fd);
  EXPECT_EQ(status_with(), given_away ? Status::permission_denied : Status::bad_format);
}

TEST(Rendezvous, AFullMemoryIsAnError) {
  struct statvfs room = {};
  if (statvfs("/dev/shm", &room) != 0 || room.f_blocks == 0) GTEST_SKIP() << "/dev/shm has no limit";
  const std::size_t too_much = static_cast<std::size_t>(room.f_blocks) * room.f_frsize * 2;
  const auto name = test_name();
  auto rendezvous = join_one(name, 1, 0, [&]() -> Result<SegmentContent> { return SegmentContent{"", too_much}; });
  ASSERT_FALSE(rendezvous);
  EXPECT_EQ(rendezvous.error().status, Status::out_of_memory) << rendezvous.error().message;
  EXPECT_FALSE(exists(name));
}

// docs/reference/processes.md has these numbers.
TEST(Rendezvous, TakesTheMemoryThatIsDocumented) {
  constexpr std::pair<int, double> documented_mib[] = {{2, 0.6}, {8, 2.4}, {16, 5.3}, {32, 13}, {64, 35}};
  for (const auto& [size, mib] : documented_mib) {
    const int fd = memfd_create("smelt-test", MFD_CLOEXEC);
    std::vector<int> ranks(static_cast<std::size_t>(size));
    std::iota(ranks.begin(), ranks.end(), 0);
    const auto communicator = Communicator::create_shared(fd, size, ranks);
    ASSERT_TRUE(communicator) << communicator.error().message;
    struct stat file = {};
    EXPECT_EQ(fstat(fd, &file), 0);
    EXPECT_NEAR(static_cast<double>(file.st_size) / (1 << 20), mib, 0.05 * mib) << size << " ranks";
    close(fd);
  }
}

TEST(Rendezvous, ThePreparersErrorReachesAll) {
  const auto name = test_name();
  const Shared shared;
  const pid_t creator = fork_member(name, 2, 0, {.timeout_s = 20.0}, [&]() -> Result<SegmentContent> {
    while (shared[0] == 0) sleep_us(100);
    sleep_us(2000);
    return Error{Status::not_found, "there is no model"};
  });
  ASSERT_TRUE(eventually([&] { return exists(name); }));
  shared[0] = 1;
  auto rendezvous = join_one(name, 2, 1);
  EXPECT_EQ(wait_for(creator), code(Status::not_found));
  ASSERT_FALSE(rendezvous);
  EXPECT_EQ(rendezvous.error().status, Status::not_found);
  EXPECT_NE(rendezvous.error().message.find("there is no model"), std::string::npos) << rendezvous.error().message;
  EXPECT_FALSE(exists(name));
}

TEST(Rendezvous, APreparerWithoutMemoryIsNotAwaited) {
  const auto name = test_name();
  const Shared shared;
  const pid_t creator = fork_member(name, 2, 0, {.timeout_s = 20.0}, [&]() -> Result<SegmentContent> {
    while (shared[0] == 0) sleep_us(100);
    throw std::bad_alloc();
  });
  ASSERT_TRUE(eventually([&] { return exists(name); }));
  shared[0] = 1;
  auto rendezvous = join_one(name, 2, 1);
  EXPECT_EQ(wait_for(creator), code(Status::out_of_memory));
  ASSERT_FALSE(rendezvous);
  EXPECT_EQ(rendezvous.error().status, Status::out_of_memory) << rendezvous.error().message;
}

TEST(Rendezvous, ATimeoutNamesTheMissingRanks) {
  const auto name = test_name();
  const pid_t other = fork_member(name, 5, 1);
  ASSERT_TRUE(eventually([&] { return exists(name); }));
  auto rendezvous = join_one(name, 5, 3, small_content, {.timeout_s = 0.05});
  ASSERT_FALSE(rendezvous);
  EXPECT_EQ(rendezvous.error().status, Status::timed_out);
  EXPECT_NE(rendezvous.error().message.find("0, 2, 4"), std::string::npos) << rendezvous.error().message;
  EXPECT_EQ(wait_for(other), code(Status::timed_out));  // one end for all
  EXPECT_FALSE(exists(name));
}

// ---- deaths

TEST(Rendezvous, ThePreparerIsKilled) {
  const auto name = test_name();
  const Shared shared;
  const pid_t creator = fork_member(name, 3, 2, {.timeout_s = 20.0}, [&]() -> Result<SegmentContent> {
    while (shared[0] == 0) sleep_us(100);
    sleep_us(3000);
    kill(getpid(), SIGKILL);
    return SegmentContent{};
  });
  ASSERT_TRUE(eventually([&] { return exists(name); }));
  const pid_t other = fork_member(name, 3, 1);
  shared[0] = 1;
  auto rendezvous = join_one(name, 3, 0);
  ASSERT_FALSE(rendezvous);
  EXPECT_EQ(rendezvous.error().status, Status::broken);
  EXPECT_NE(rendezvous.error().message.find("rank 2"), std::string::npos) << rendezvous.error().message;
  EXPECT_EQ(wait_for(other), code(Status::broken));
  EXPECT_EQ(wait_for(creator), killed);
  EXPECT_FALSE(exists(name));
}

TEST(Rendezvous, ARestartedRankStartsANewAttempt) {
  const auto name = test_name();
  const pid_t first = fork_member(name, 3, 0);
  ASSERT_TRUE(eventually([&] { return exists(name); }));
  const pid_t victim = fork_member(name, 3, 1);
  ASSERT_TRUE(eventually([&] { return has_joined(name, victim); }));
  kill(victim, SIGSTOP);
  kill(first, SIGSTOP);
  EXPECT_EQ(kill_and_wait(victim), killed);
  const pid_t again = fork_member(name, 3, 1);
  ASSERT_TRUE(eventually([&] { return has_joined(name, again); }));
  kill(first, SIGCONT);
  EXPECT_EQ(wait_for(first), code(Status::broken));
  const pid_t first_again = fork_member(name, 3, 0);
  auto last = join_one(name, 3, 2);
  ASSERT_FALSE(last);  // it lived when the first rendezvous ended
  EXPECT_NE(last.error().message.find("rank 1"), std::string::npos) << last.error().message;
  EXPECT_TRUE(join_one(name, 3, 2));
  EXPECT_EQ(wait_for(again), 0);
  EXPECT_EQ(wait_for(first_again), 0);
  EXPECT_FALSE(exists(name));
}

// As leave_stale(), many that end at about the same time; of several sizes. The first one waits until the last one is
// there, on a busy machine for long.
std::vector<std::string> leave_many_stale(int many) {
  std::vector<std::string> names;
  std::vector<pid_t> founders;
  for (int i = 0; i < many; ++i) {
    names.push_back(test_name());
    founders.push_back(fork_member(names.back(), 2 + i % 2, 0, {.timeout_s = 600.0}));
    EXPECT_TRUE(eventually([&] { return exists(names.back()); }));
  }
  for (const pid_t creator : founders) EXPECT_EQ(kill_and_wait(creator), killed);
  return names;
}

TEST(Rendezvous, RacersTakeOverAStaleNameAndMeet) {
  const auto names = leave_many_stale(60);
  let_all_end();
  for (const auto& name : names) {
    constexpr int size = 4;
    std::vector<pid_t> children;
    for (int rank = 0; rank < size; ++rank) children.push_back(fork_member(name, size, rank));
    for (const pid_t child : children) ASSERT_EQ(wait_for(child), 0) << name;
    ASSERT_FALSE(exists(name));
  }
}

// Whoever was started after the last sign of life, and a bit, begins anew, however many find at once that it has ended.
TEST(Rendezvous, AnEndFoundTwiceKeepsItsTime) {
  const Shared shared;
  const auto names = leave_many_stale(200);
  let_all_end();
  constexpr int sweepers = 4;
  std::vector<pid_t> children;
  for (int i = 0; i < sweepers; ++i) {
    children.push_back(fork_child([&] {
      for (++shared[0]; shared[0] < sweepers;) {}
      remove_stale_rendezvous();
      int told = 0;
      const int absent[] = {1};
      for (const auto& name : names) told += consume_tombstone(name, absent) ? 1 : 0;
      return std::min(told, 100);
    }));
  }
  for (const pid_t child : children) EXPECT_EQ(wait_for(child), 0) << "endings";
  for (const auto& name : names) EXPECT_FALSE(exists(name));
}

TEST(Rendezvous, ARecycledPidDoesNotKeepANameAlive) {
  const auto name = test_name();
  const pid_t creator = fork_member(name, 2, 0);
  ASSERT_TRUE(eventually([&] { return exists(name); }));
  auto segment = Segment::open_named(path_of(name).substr(8));
  ASSERT_TRUE(segment) << segment.error().message;
  kill(creator, SIGSTOP);  // it lives, but shall not be the one that joined
  const auto low = static_cast<std::uint64_t>(creator) << 2 | 1;
  auto* words = reinterpret_cast<std::uint64_t*>(segment->data());
  for (std::size_t i = 0; i < segment->size() / 8; ++i) {
    if ((words[i] & 0xff'ffff) == low) words[i] -= 1 << 24;
  }
  // This process lived before; those that are started now come to a name that nobody holds.
  EXPECT_EQ(join_one(name, 2, 1).error().status, Status::broken);
  const pid_t first = fork_member(name, 2, 0);
  EXPECT_TRUE(join_one(name, 2, 1));
  EXPECT_EQ(wait_for(first), 0);
  kill_and_wait(creator);
}

TEST(Rendezvous, StaleNamesCanBeSweptAndLiveOnesStay) {
  away_from_other_programs([] {
    const auto name = test_name(), live = test_name();
    leave_stale(name);
    const pid_t member = fork_member(live, 2, 0);
    // The founding of another rendezvous sweeps as well.
    EXPECT_TRUE(eventually([&] { return exists(live); }));
    remove_stale_rendezvous();
    EXPECT_FALSE(exists(name));
    EXPECT_TRUE(exists(live));
    EXPECT_TRUE(join_one(live, 2, 1));
    EXPECT_EQ(wait_for(member), 0);
    EXPECT_EQ(remove_stale_rendezvous(), 0);
  });
}

// What a rank that comes after a death finds out, once only, and instead of waiting in vain.
void expect_told(const std::string& name, int size, int rank, int dead) {
  auto rendezvous = join_one(name, size, rank);
  ASSERT_FALSE(rendezvous);
  EXPECT_EQ(rendezvous.error().status, Status::broken);
  EXPECT_NE(rendezvous.error().message.find("rank " + std::to_string(dead) + " of"), std::string::npos)
      << rendezvous.error().message;
  EXPECT_FALSE(exists(name));
}

TEST(Rendezvous, ALateRankIsToldOfADeath) {
  const auto name = test_name();
  const pid_t survivor = fork_member(name, 4, 0);
  ASSERT_TRUE(eventually([&] { return exists(name); }));
  const pid_t victim = fork_member(name, 4, 2);
  ASSERT_TRUE(eventually([&] { return has_joined(name, victim); }));
  EXPECT_EQ(kill_and_wait(victim), killed);
  EXPECT_EQ(wait_for(survivor), code(Status::broken));
  EXPECT_FALSE(exists(name));
  EXPECT_EQ(tombstones_of(name), 1);
  expect_told(name, 4, 3, 2);
  expect_told(name, 4, 1, 2);
  EXPECT_EQ(tombstones_of(name), 0);  // all have been
  const pid_t again = fork_member(name, 2, 0);
  EXPECT_TRUE(join_one(name, 2, 1));
  EXPECT_EQ(wait_for(again), 0);
}

TEST(Rendezvous, ALateRankIsToldAfterAllOthersDied) {
  away_from_other_programs([] {
    for (const bool swept : {false, true}) {
      const auto name = test_name();
      leave_stale(name);
      if (swept) remove_stale_rendezvous();
      EXPECT_EQ(exists(name), !swept);
      expect_told(name, 2, 1, 0);
      EXPECT_EQ(tombstones_of(name), 0);
    }
  });
}

TEST(Rendezvous, ACreatorIsToldOfAConcurrentDeath) {
  int ended = 0;
  for (int round = 0; round < kill_rounds / 2; ++round) {
    const auto name = test_name();
    const pid_t survivor = fork_member(name, 3, 0);
    const Shared go;
    const pid_t late = fork_child([&] {
      while (go[0] == 0) sched_yield();
      sleep_us(round * 40 % 3000);  // about as long as the death goes unnoticed
      auto rendezvous = join_one(name, 3, 2);
      return rendezvous ? 0 : code(rendezvous.error().status);
    });
    ASSERT_TRUE(eventually([&] { return exists(name); }));
    const pid_t victim = fork_child([&] {
      (void)join_one(name, 3, 1, small_content, {.timeout_s = 20.0, .stands = [&]() -> Result<void> {
                                                   ++go[1];  // it waits, and so has joined
                                                   return {};
                                                 }});
      return 0;
    });
    ASSERT_TRUE(eventually([&] { return go[1] > 1; }));
    kill(victim, SIGKILL);
    go[0] = 1;
    const int end = wait_for(late);
    EXPECT_TRUE(end == code(Status::broken) || end == 0) << end;  // 0: it was not dead yet when the last one came
    EXPECT_EQ(wait_for(survivor), end);
    wait_for(victim);
    ended += end != 0;
    ASSERT_FALSE(exists(name));
    ASSERT_EQ(tombstones_of(name), 0);
  }
  EXPECT_GT(ended, 0);
}

/// Whether that child has ended. It is not reaped.
bool has_ended(pid_t pid) {
  siginfo_t info = {};
  waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT);
  return info.si_pid == pid;
}

/// How rank 0 of 3 ends after rank 1 was killed while both waited; nothing where the machine was so busy that one of
/// them had given up before.
std::optional<int> end_beside_a_killed_one(const std::string& name, const RendezvousOptions& options) {
  const pid_t survivor = fork_member(name, 3, 0, options);
  EXPECT_TRUE(eventually([&] { return exists(name) || has_ended(survivor); }));
  const pid_t victim = fork_member(name, 3, 1, options);
  EXPECT_TRUE(eventually([&] { return has_joined(name, victim) || has_ended(victim); }));
  const bool in_time = kill_and_wait(victim) == killed;
  const int end = wait_for(survivor);
  return in_time ? std::optional(end) : std::nullopt;
}

TEST(Rendezvous, TombstonesExpireWithTheTimeout) {
  const RendezvousOptions options{.timeout_s = 0.5};
  std::string name;
  std::optional<int> end;
  for (int attempt = 0; attempt < 20 && !end; ++attempt) {
    name = test_name();
    end = end_beside_a_killed_one(name, options);
  }
  ASSERT_TRUE(end == code(Status::broken) || end == code(Status::timed_out)) << end.value_or(0);
  sleep_us(510'000);
  EXPECT_TRUE(join_one(test_name(), 1, 0));  // looks for tombstones
  EXPECT_EQ(tombstones_of(name), 0);
  auto rendezvous = join_one(name, 3, 2, small_content, {.timeout_s = 0.01});
  ASSERT_FALSE(rendezvous);
  EXPECT_EQ(rendezvous.error().status, Status::timed_out);
}

TEST(Rendezvous, AFailedConditionEndsItForAll) {
  const auto name = test_name();
  const Shared over;
  const RendezvousOptions options{.timeout_s = 20.0, .stands = [&]() -> Result<void> {
                                    if (over[0] != 0) return Error{Status::not_found, "the reason"};
                                    return {};
                                  }};
  const pid_t first = fork_member(name, 3, 0, options);
  const pid_t second = fork_member(name, 3, 1, options);
  ASSERT_TRUE(eventually([&] { return exists(name); }));
  over[0] = 1;
  EXPECT_EQ(wait_for(first), code(Status::not_found));
  EXPECT_EQ(wait_for(second), code(Status::not_found));
  EXPECT_EQ(join_one(name, 3, 2, small_content, options).error().message, "the reason");
  EXPECT_FALSE(exists(name));
}

// Members are killed at random moments: nobody hangs, either all survivors meet or none does, and
// no name stays.
TEST(Rendezvous, AllEndAlikeForKillsAtAnyMoment) {
  std::mt19937 random(7);
  int met = 0, ended = 0;
  for (int round = 0; round < kill_rounds; ++round) {
    const auto name = test_name();
    const int size = 2 + round % 4;
    const Shared entering;
    std::vector<pid_t> children;
    for (int rank = 0; rank < size; ++rank) {
      const int delay = static_cast<int>(random() % 400);
      children.push_back(fork_child([&] {
        ++entering[0];
        sleep_us(delay);
        auto rendezvous = join_one(name, size, rank, small_content, {.timeout_s = 0.06});
        return rendezvous ? 0 : code(rendezvous.error().status);
      }));
    }
    const int victim = static_cast<int>(random() % static_cast<unsigned>(size));
    while (entering[0] < size) sched_yield();
    sleep_us(static_cast<int>(random() % 600));
    kill(children[static_cast<std::size_t>(victim)], SIGKILL);
    std::set<int> codes;
    for (int rank = 0; rank < size; ++rank) {
      const int result = wait_for(children[static_cast<std::size_t>(rank)]);
      if (rank != victim) codes.insert(result);
    }
    ASSERT_TRUE(codes.count(0) == 0 || codes.size() == 1) << round;
    // Killed after all others had given up: then only the next one can clear up.
    if (codes.count(code(Status::timed_out)) != 0) remove_stale_rendezvous();
    ++(codes.count(0) != 0 ? met : ended);
    codes.erase(code(Status::broken));
    codes.erase(code(Status::timed_out));  // killed before it came: nobody can know
    codes.erase(0);
    ASSERT_TRUE(codes.empty()) << "round " << round << ": status " << -*codes.begin();
    ASSERT_FALSE(exists(name)) << round;
  }
  RecordProperty("met", met);
  RecordProperty("ended", ended);
}

// ---- survivors who meet anew

bool rank_three_is_gone(int rank) { return rank == 3; }

TEST(Rendezvous, RanksThatAreGoneAreNotAwaited) {
  const auto name = test_name();
  const RendezvousOptions options{.timeout_s = 20.0, .gone = rank_three_is_gone};
  const pid_t first = fork_member(name, 4, 0, options);
  const pid_t second = fork_member(name, 4, 1, options);
  auto rendezvous = join_one(name, 4, 2, small_content, options);
  ASSERT_TRUE(rendezvous) << rendezvous.error().message;
  EXPECT_EQ(rendezvous->membership().state(3), MemberState::dead);
  EXPECT_EQ(wait_for(first), 0);
  EXPECT_EQ(wait_for(second), 0);
  EXPECT_FALSE(exists(name));
}

TEST(Rendezvous, APreparerThatDiesAmongSurvivorsIsReplaced) {
  const auto name = test_name();
  const Shared shared;
  const RendezvousOptions options{.timeout_s = 20.0, .gone = [&](int rank) { return rank == 1 && shared[1] != 0; }};
  const pid_t creator = fork_member(name, 3, 1, options, [&]() -> Result<SegmentContent> {
    while (shared[0] == 0) sleep_us(100);
    sleep_us(3000);
    shared[1] = 1;
    kill(getpid(), SIGKILL);
    return SegmentContent{};
  });
  ASSERT_TRUE(eventually([&] { return exists(name); }));
  const pid_t other = fork_member(name, 3, 2, options);
  shared[0] = 1;
  auto rendezvous = join_one(name, 3, 0, small_content, options);
  ASSERT_TRUE(rendezvous) << rendezvous.error().message;
  EXPECT_EQ(wait_for(other), 0);
  EXPECT_EQ(wait_for(creator), killed);
  EXPECT_EQ(rendezvous->membership().first_dead(), 1);
  EXPECT_FALSE(exists(name));
}

// ---- over a descriptor

Result<Rendezvous> meet_fd_one(int fd, int size, int rank, const Prepare& prepare = small_content) {
  return join_rendezvous_fd(fd, size, std::span<const int>(&rank, 1), prepare, {.timeout_s = 20.0});
}

TEST(Rendezvous, ProcessesMeetOverAMemfd) {
  for (int size = 1; size <= 5; ++size) {
    const int fd = memfd_create("rendezvous", MFD_CLOEXEC);
    ASSERT_GE(fd, 0);
    const Shared prepared;
    std::vector<pid_t> children;
    for (int rank = 0; rank < size; ++rank) {
      children.push_back(fork_child([&] {
        auto rendezvous = meet_fd_one(fd, size, rank);
        if (!rendezvous) return 1;
        if (rendezvous->prepared) ++prepared[0];
        return rendezvous->shared_config() == "a configuration" && rendezvous->user_bytes == 4096 ? 0 : 2;
      }));
    }
    for (const pid_t child : children) EXPECT_EQ(wait_for(child), 0);
    EXPECT_EQ(prepared[0], 1);
    auto once_more = meet_fd_one(fd, size, 0);
    ASSERT_FALSE(once_more);
    EXPECT_EQ(once_more.error().status, Status::broken) << once_more.error().message;
    close(fd);
  }
}

TEST(Rendezvous, AMemfdOfFixedSizeMustBeLargeEnough) {
  auto large = Segment::memfd(1 << 20);
  auto small = Segment::memfd(8192);
  ASSERT_TRUE(large && small);
  EXPECT_TRUE(meet_fd_one(large->fd(), 1, 0));
  EXPECT_FALSE(meet_fd_one(small->fd(), 1, 0, [] { return Result<SegmentContent>(SegmentContent{"", 100'000}); }));
  EXPECT_FALSE(meet_fd_one(-1, 1, 0));
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_EQ(meet_fd_one(ends[0], 1, 0).error().status, Status::bad_format);
  close(ends[0]);
  close(ends[1]);
}

TEST(Rendezvous, ThePreparerOverAMemfdIsKilled) {
  const int fd = memfd_create("rendezvous", MFD_CLOEXEC);
  ASSERT_GE(fd, 0);
  const Shared shared;
  const pid_t creator = fork_child([&] {
    (void)meet_fd_one(fd, 2, 1, [&]() -> Result<SegmentContent> {
      shared[0] = 1;
      while (shared[1] == 0) sleep_us(100);
      sleep_us(3000);
      kill(getpid(), SIGKILL);
      return SegmentContent{};
    });
    return 0;
  });
  ASSERT_TRUE(eventually([&] { return shared[0] == 1; }));
  shared[1] = 1;
  auto rendezvous = meet_fd_one(fd, 2, 0);
  ASSERT_FALSE(rendezvous);
  EXPECT_EQ(rendezvous.error().status, Status::broken) << rendezvous.error().message;
  EXPECT_NE(rendezvous.error().message.find("rank 1 of"), std::string::npos) << rendezvous.error().message;
  // Who comes later finds the same.
  EXPECT_EQ(meet_fd_one(fd, 2, 0).error().message, rendezvous.error().message);
  EXPECT_EQ(wait_for(creator), killed);
  close(fd);
}

TEST(Rendezvous, AMemfdThatAnotherProcessHasLockedIsWaitedForUntilTheTimeout) {
  auto memory = Segment::memfd(1 << 20);
  ASSERT_TRUE(memory);
  auto holder = Segment::reopen(memory->fd(), 4096);
  ASSERT_TRUE(holder);
  ASSERT_TRUE(holder->lock());
  const int rank = 0;
  const auto refused =
      join_rendezvous_fd(memory->fd(), 1, std::span<const int>(&rank, 1), small_content, {.timeout_s = 0.1});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().status, Status::timed_out) << refused.error().message;
  std::thread slow([&] {
    // Longer than Segment::lock() waits.
    std::this_thread::sleep_for(std::chrono::milliseconds(2500));
    holder->unlock();
  });
  const auto rendezvous = meet_fd_one(memory->fd(), 1, 0);
  EXPECT_TRUE(rendezvous) << rendezvous.error().message;
  slow.join();
}

}  // namespace
}  // namespace smelt::comm
