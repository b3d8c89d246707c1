#include "base/segment.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <string>
#include <thread>

#include "base/own_mounts_test_util.hpp"

namespace smelt {
namespace {

std::string test_name(const char* what) { return "/smelt-test-" + std::to_string(getpid()) + "-" + what; }

TEST(Segment, AnonymousIsZeroedAndAligned) {
  auto segment = Segment::anonymous(5000);
  ASSERT_TRUE(segment) << segment.error().message;
  EXPECT_GE(segment->size(), 5000u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(segment->data()) % 4096, 0u);
  EXPECT_TRUE(
      std::all_of(segment->data(), segment->data() + segment->size(), [](auto b) { return b == std::byte{0}; }));
  EXPECT_EQ(segment->fd(), -1);
}

/// ok if it can be had.
Status status_of(const Result<Segment>& segment) { return segment ? Status::ok : segment.error().status; }

TEST(Segment, RefusesImpossibleSizes) {
  constexpr std::size_t most = std::size_t{1} << 46;
  EXPECT_EQ(status_of(Segment::anonymous(0)), Status::invalid_argument);
  EXPECT_EQ(status_of(Segment::memfd(most + 1)), Status::invalid_argument);
  EXPECT_NE(status_of(Segment::memfd(most)), Status::invalid_argument);  // there may be no room for it
}

TEST(Segment, IsNothingByItself) {
  const Segment none;
  EXPECT_EQ(none.data(), nullptr);
  EXPECT_EQ(none.size(), 0u);
  EXPECT_EQ(none.fd(), -1);
}

TEST(Segment, TakesWholePages) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  EXPECT_EQ(Segment::anonymous(1)->size(), page);
  EXPECT_EQ(Segment::anonymous(page)->size(), page);
  EXPECT_EQ(Segment::anonymous(page + 1)->size(), 2 * page);
}

bool is_mapped(const std::byte* page) { return msync(const_cast<std::byte*>(page), 1, MS_ASYNC) == 0; }

TEST(Segment, GivesItsMemoryAndItsDescriptorBack) {
  auto segment = *Segment::memfd(4096);
  const std::byte* const data = segment.data();
  const int fd = segment.fd();
  EXPECT_TRUE(is_mapped(data));
  segment = Segment();
  EXPECT_FALSE(is_mapped(data));
  EXPECT_EQ(fcntl(fd, F_GETFD), -1);
  // Also one of number 0, as a process without a standard input gets.
  const int input = dup(0);
  close(0);
  segment = *Segment::memfd(4096);
  EXPECT_EQ(segment.fd(), 0);
  segment = Segment();
  EXPECT_EQ(fcntl(0, F_GETFD), -1);
  dup2(input, 0);
  close(input);
  auto other = *Segment::unnamed(4096);
  const std::byte* const small = other.data();
  ASSERT_TRUE(other.grow(1 << 20));
  EXPECT_TRUE(other.data() == small || !is_mapped(small));
}

// A process without standard input gets its number for the next file.
TEST(Segment, GivesDescriptorZeroBack) {
  const int input = dup(STDIN_FILENO);
  close(STDIN_FILENO);
  {
    const auto segment = Segment::unnamed(4096);
    EXPECT_EQ(segment ? segment->fd() : -1, STDIN_FILENO);
  }
  EXPECT_EQ(fcntl(STDIN_FILENO, F_GETFD), -1);
  if (input >= 0) {
    EXPECT_EQ(dup2(input, STDIN_FILENO), STDIN_FILENO);
    close(input);
  }
}

TEST(Segment, MemfdIsSharedBetweenMappings) {
  auto first = Segment::memfd(4096);
  ASSERT_TRUE(first) << first.error().message;
  auto second = Segment::from_fd(first->fd());
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_NE(first->data(), second->data());
  first->data()[17] = std::byte{42};
  EXPECT_EQ(second->data()[17], std::byte{42});
  EXPECT_NE(fcntl(first->fd(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(Segment, MemfdCannotShrinkUnderItsReaders) {
  auto segment = Segment::memfd(8192);
  ASSERT_TRUE(segment);
  EXPECT_NE(ftruncate(segment->fd(), 0), 0);
  EXPECT_NE(ftruncate(segment->fd(), 16384), 0);
  EXPECT_EQ(fcntl(segment->fd(), F_ADD_SEALS, F_SEAL_WRITE), -1) << "and nobody can seal it further";
}

TEST(Segment, ALimitOfFilesIsAnErrorAndNoSignal) {
  auto large = Segment::memfd(1 << 20);
  ASSERT_TRUE(large);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit little{100'000, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &little), 0);
  const auto name = test_name("limited");
  EXPECT_EQ(status_of(Segment::memfd(1 << 20)), Status::out_of_memory);
  EXPECT_EQ(status_of(Segment::unnamed(1 << 20)), Status::out_of_memory);
  EXPECT_EQ(status_of(Segment::create_named(name, 1 << 20)), Status::out_of_memory);
  EXPECT_EQ(status_of(Segment::open_named(name)), Status::not_found);
  const auto small = Segment::unnamed(4096);
  const auto same = Segment::reopen(large->fd(), 1 << 20);
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_TRUE(small) << small.error().message;
  EXPECT_TRUE(same) << same.error().message;
}

TEST(Segment, NamedIsExclusivePrivateAndRemovable) {
  const auto name = test_name("named");
  auto created = Segment::create_named(name, 4096);
  ASSERT_TRUE(created) << created.error().message;
  struct stat status = {};
  ASSERT_EQ(fstat(created->fd(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777u, 0600u);

  EXPECT_FALSE(Segment::create_named(name, 4096));
  auto opened = Segment::open_named(name);
  ASSERT_TRUE(opened) << opened.error().message;
  opened->data()[0] = std::byte{1};
  EXPECT_EQ(created->data()[0], std::byte{1});

  EXPECT_TRUE(Segment::remove_named(name));
  EXPECT_EQ(Segment::open_named(name).error().status, Status::not_found);
}

TEST(Segment, AViewIsOfAnyFileThatIsNotEmpty) {
  const int fd = memfd_create("smelt-test", MFD_CLOEXEC);
  EXPECT_EQ(status_of(Segment::view(fd)), Status::bad_format);
  ASSERT_EQ(write(fd, "x", 1), 1);
  const auto view = Segment::view(fd);
  ASSERT_TRUE(view) << view.error().message;
  EXPECT_EQ(view->size(), 1u);
  EXPECT_EQ(view->data()[0], std::byte{'x'});
  close(fd);
}

TEST(Segment, DoesNotFollowSymbolicLinks) {
  const auto name = test_name("link");
  const auto link = "/dev/shm" + name;
  if (symlink("/dev/null", link.c_str()) != 0) GTEST_SKIP() << "cannot make a link in /dev/shm";
  EXPECT_FALSE(Segment::create_named(name, 4096));
  EXPECT_FALSE(Segment::open_named(name));
  unlink(link.c_str());
}

TEST(Segment, RefusesOtherModesAndOwners) {
  const auto name = test_name("mode");
  const auto path = "/dev/shm" + name;
  auto segment = Segment::create_named(name, 4096);
  ASSERT_TRUE(segment) << segment.error().message;
  for (const mode_t mode : {0601, 0602, 0604, 0610, 0620, 0640, 0644, 0700, 0400, 01600, 04600}) {
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
    EXPECT_EQ(status_of(Segment::open_named(name)), Status::permission_denied) << std::oct << mode;
  }
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  EXPECT_TRUE(Segment::open_named(name));
  if (chown(path.c_str(), 54321, 54321) == 0) {  // only root may
    EXPECT_EQ(Segment::open_named(name).error().status, Status::permission_denied);
  }
  unlink(path.c_str());
}

TEST(Segment, GetsItsNameInOneStepAndOnlyItsOwnIsTaken) {
  const auto name = test_name("late");
  auto first = Segment::unnamed(4096);
  ASSERT_TRUE(first) << first.error().message;
  first->data()[7] = std::byte{7};
  auto given = first->give_name(name);
  ASSERT_TRUE(given && *given) << (given ? "name taken" : given.error().message);
  EXPECT_EQ(Segment::open_named(name)->data()[7], std::byte{7});

  auto second = Segment::unnamed(4096);
  ASSERT_TRUE(second);
  EXPECT_FALSE(*second->give_name(name));
  int last = 0;
  const auto count = [&] { ++last; };
  EXPECT_FALSE(*second->take_name(name, count));
  EXPECT_EQ(last, 0);
  auto opened = Segment::open_named(name);
  EXPECT_TRUE(*opened->take_name(name, count));
  EXPECT_EQ(last, 1);
  EXPECT_FALSE(*first->take_name(name));
  EXPECT_TRUE(*second->give_name(name));
  EXPECT_FALSE(*first->take_name(name));
  EXPECT_TRUE(*second->take_name(name));
  EXPECT_EQ(Segment::open_named(name).error().status, Status::not_found);
}

TEST(Segment, ANameThatWasTakenMeanwhileIsNotTakenFromItsNewOwner) {
  const auto name = test_name("race");
  auto old = Segment::create_named(name, 4096);
  auto fresh = Segment::unnamed(4096);
  auto slow = Segment::open_named(name);
  ASSERT_TRUE(old && fresh && slow);
  ASSERT_TRUE(old->lock());
  std::thread taker([&] {
    auto taken = slow->take_name(name);  // finds its name there, and waits for the lock
    EXPECT_TRUE(taken && !*taken);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ASSERT_TRUE(Segment::remove_named(name));
  ASSERT_TRUE(*fresh->give_name(name));
  old->unlock();
  taker.join();
  EXPECT_TRUE(*fresh->take_name(name));
}

TEST(Segment, WaitsForALockASecondAtMost) {
  auto first = Segment::create_named(test_name("lock"), 4096);
  auto second = Segment::open_named(test_name("lock"));
  ASSERT_TRUE(first && second);
  ASSERT_TRUE(Segment::remove_named(test_name("lock")));
  ASSERT_TRUE(first->lock());
  std::thread holder([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    first->unlock();
  });
  EXPECT_TRUE(second->lock());
  holder.join();
  EXPECT_EQ(first->lock().error().status, Status::timed_out);
  second->unlock();
  EXPECT_TRUE(first->lock());
  EXPECT_FALSE(Segment::anonymous(4096)->lock());
}

TEST(Segment, GrowsAndKeepsItsContent) {
  auto segment = Segment::unnamed(4096);
  ASSERT_TRUE(segment);
  segment->data()[9] = std::byte{9};
  ASSERT_TRUE(segment->grow(1 << 20));
  EXPECT_EQ(segment->size(), std::size_t{1} << 20);
  EXPECT_EQ(segment->data()[9], std::byte{9});
  segment->data()[segment->size() - 1] = std::byte{1};
  ASSERT_TRUE(segment->grow(4096));
  EXPECT_EQ(segment->size(), std::size_t{1} << 20);
  EXPECT_FALSE(Segment::anonymous(4096)->grow(8192));
}

/// While it lives, no file of this process grows beyond this size, whatever is tried.
class LargestFile {
 public:
  explicit LargestFile(std::size_t bytes) : handler_(signal(SIGXFSZ, SIG_IGN)) {
    EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &before_), 0);
    rlimit lower = before_;
    lower.rlim_cur = std::min<rlim_t>(bytes, before_.rlim_max);
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &lower), 0);
  }
  ~LargestFile() {
    setrlimit(RLIMIT_FSIZE, &before_);
    signal(SIGXFSZ, handler_);
  }
  LargestFile(const LargestFile&) = delete;
  LargestFile& operator=(const LargestFile&) = delete;

 private:
  void (*handler_)(int);
  rlimit before_ = {};
};

TEST(Segment, MoreThanDevShmHoldsIsAnError) {
  struct statvfs room = {};
  if (statvfs("/dev/shm", &room) != 0) GTEST_SKIP() << "no /dev/shm";
  const auto total = static_cast<std::size_t>(room.f_blocks) * room.f_frsize;
  if (total == 0 || total > std::size_t{1} << 45) GTEST_SKIP() << "/dev/shm has no limit";
  const auto name = test_name("full");
  const LargestFile bound(std::size_t{64} << 20);  // the machine keeps its memory even if this fails
  EXPECT_EQ(Segment::create_named(name, 2 * total).error().status, Status::out_of_memory);
  EXPECT_EQ(Segment::open_named(name).error().status, Status::not_found);
}

/// Bytes of memory that are behind it.
std::size_t backed_bytes(const Segment& segment) {
  struct stat status = {};
  EXPECT_EQ(fstat(segment.fd(), &status), 0);
  return static_cast<std::size_t>(status.st_blocks) * 512;
}

TEST(Segment, HasItsMemoryFromTheBeginning) {
  constexpr std::size_t bytes = (80 << 20) + 4096;  // more than is asked for at a time
  auto segment = Segment::unnamed(bytes);
  ASSERT_TRUE(segment) << segment.error().message;
  EXPECT_GE(backed_bytes(*segment), bytes);
  struct stat file = {};
  ASSERT_EQ(fstat(segment->fd(), &file), 0);
  EXPECT_EQ(static_cast<std::size_t>(file.st_size), bytes) << "and no more";
  auto small = Segment::unnamed(4096);
  ASSERT_TRUE(small->grow(1 << 20));
  EXPECT_GE(backed_bytes(*small), std::size_t{1} << 20);
}

/// What is wrong in a /dev/shm of 1 MiB.
std::string fill_small_dev_shm() {
  constexpr std::size_t most = 600 << 10;
  auto first = Segment::create_named("/first", most);
  if (!first) return first.error().message;
  const auto second = Segment::create_named("/second", most);  // of which there is room for a part
  if (status_of(second) != Status::out_of_memory) return "a second one";
  if (second.error().message.find("free memory") == std::string::npos) return second.error().message;
  if (status_of(Segment::open_named("/second")) != Status::not_found) return "the name of the second one";
  const auto large = Segment::create_named("/large", (1 << 20) + 4096);
  if (status_of(large) != Status::out_of_memory) return "a large one";
  if (large.error().message.find("larger than /dev/shm") == std::string::npos) return large.error().message;
  if (const auto grown = first->grow(1 << 20); !grown) return grown.error().message;
  if (const auto grown = first->grow(2 << 20); grown.error().status != Status::out_of_memory) return "growing";
  if (!Segment::remove_named("/first")) return "removing";
  if (status_of(Segment::unnamed(4096)) != Status::out_of_memory) return "what has no name any more takes room";
  first = Segment();
  return Segment::unnamed(1 << 20) ? "" : "nothing is there any more, but takes room";
}

TEST(Segment, AFailedAllocationLeavesNothingBehind) {
  constexpr int failed = 1, skipped = 2;
  const pid_t child = fork();
  if (child == 0) {
    if (!test::have_own_dev_shm("1m")) _exit(skipped);
    const std::string problem = fill_small_dev_shm();
    if (!problem.empty()) fprintf(stderr, "%s\n", problem.c_str());
    _exit(problem.empty() ? 0 : failed);
  }
  int status = -1;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == skipped) GTEST_SKIP() << "no namespace for a small /dev/shm";
  EXPECT_EQ(status, 0);
}

TEST(Segment, ReopensAndSizesADescriptor) {
  const int fd = memfd_create("smelt-test", MFD_CLOEXEC);
  ASSERT_GE(fd, 0);
  auto first = Segment::reopen(fd, 5000);
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_GE(first->size(), 5000u);
  auto second = Segment::reopen(fd, 100);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->size(), first->size());
  first->data()[3] = std::byte{3};
  EXPECT_EQ(second->data()[3], std::byte{3});
  close(fd);
  EXPECT_FALSE(Segment::reopen(fd, 100));
}

TEST(Segment, RefusesBadNamesAndDescriptors) {
  const std::string long_name = "/" + std::string(249, 'n');
  for (const std::string& name : {std::string(), std::string("/"), std::string("noslash"), std::string("/two/slashes"),
                                  std::string("//"), std::string("/a\0b", 4), long_name + "n"}) {
    EXPECT_EQ(status_of(Segment::create_named(name, 4096)), Status::invalid_argument) << name;
    EXPECT_EQ(status_of(Segment::open_named(name)), Status::invalid_argument) << name;
    EXPECT_EQ(Segment::remove_named(name).error().status, Status::invalid_argument) << name;
    auto segment = Segment::unnamed(4096);
    EXPECT_EQ(segment->give_name(name).error().status, Status::invalid_argument) << name;
    EXPECT_EQ(segment->take_name(name).error().status, Status::invalid_argument) << name;
  }
  for (const std::string& name : {"/" + std::to_string(getpid() % 10), long_name}) {
    EXPECT_TRUE(Segment::create_named(name, 4096)) << name;
    EXPECT_TRUE(Segment::remove_named(name)) << name;
    EXPECT_EQ(Segment::remove_named(name).error().status, Status::not_found);
  }
  EXPECT_FALSE(Segment::from_fd(-1));
  const int empty = memfd_create("smelt-test", MFD_CLOEXEC);
  EXPECT_EQ(status_of(Segment::from_fd(empty)), Status::bad_format);
  ASSERT_EQ(ftruncate(empty, 1), 0);
  const auto single = Segment::from_fd(empty);
  EXPECT_EQ(single ? single->size() : 0, 1u);
  close(empty);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_EQ(status_of(Segment::from_fd(ends[0])), Status::bad_format);
  EXPECT_EQ(status_of(Segment::reopen(ends[0], 4096)), Status::bad_format);
  close(ends[0]);
  close(ends[1]);
}

TEST(Segment, MovesOwnership) {
  auto segment = *Segment::memfd(4096);
  const auto* const data = segment.data();
  const int fd = segment.fd();
  const auto expect_it = [&](const Segment& now, const Segment& before) {
    EXPECT_EQ(now.data(), data);
    EXPECT_EQ(now.size(), 4096u);
    EXPECT_EQ(now.fd(), fd);
    EXPECT_EQ(before.data(), nullptr);  // the moved-from state is defined
    EXPECT_EQ(before.size(), 0u);
    EXPECT_EQ(before.fd(), -1);
  };
  Segment moved = std::move(segment);
  expect_it(moved, segment);  // NOLINT(bugprone-use-after-move)
  segment = std::move(moved);
  expect_it(segment, moved);  // NOLINT(bugprone-use-after-move)
}

}  // namespace
}  // namespace smelt
