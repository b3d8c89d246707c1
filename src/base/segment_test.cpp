#include "base/segment.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

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

TEST(Segment, RefusesImpossibleSizes) {
  EXPECT_EQ(Segment::anonymous(0).error().status, Status::invalid_argument);
  EXPECT_EQ(Segment::memfd(std::size_t{1} << 60).error().status, Status::invalid_argument);
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
  ASSERT_EQ(chmod(path.c_str(), 0644), 0);
  EXPECT_EQ(Segment::open_named(name).error().status, Status::permission_denied);
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
  EXPECT_FALSE(*second->take_name(name));
  auto opened = Segment::open_named(name);
  EXPECT_TRUE(*opened->take_name(name));
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

TEST(Segment, MoreThanDevShmHoldsIsAnError) {
  struct statvfs room = {};
  if (statvfs("/dev/shm", &room) != 0) GTEST_SKIP() << "no /dev/shm";
  const auto total = static_cast<std::size_t>(room.f_blocks) * room.f_frsize;
  if (total == 0 || total > std::size_t{1} << 45) GTEST_SKIP() << "/dev/shm has no limit";
  const auto name = test_name("full");
  EXPECT_EQ(Segment::create_named(name, 2 * total).error().status, Status::out_of_memory);
  EXPECT_EQ(Segment::open_named(name).error().status, Status::not_found);
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
  for (const char* name : {"", "/", "noslash", "/two/slashes"}) {
    EXPECT_EQ(Segment::create_named(name, 4096).error().status, Status::invalid_argument) << name;
  }
  EXPECT_FALSE(Segment::from_fd(-1));
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_EQ(Segment::from_fd(ends[0]).error().status, Status::bad_format);
  close(ends[0]);
  close(ends[1]);
}

TEST(Segment, MovesOwnership) {
  auto segment = *Segment::memfd(4096);
  std::byte* data = segment.data();
  Segment moved = std::move(segment);
  EXPECT_EQ(moved.data(), data);
  EXPECT_EQ(segment.data(), nullptr);  // NOLINT(bugprone-use-after-move): the moved-from state is defined
  segment = std::move(moved);
  EXPECT_EQ(segment.data(), data);
}

}  // namespace
}  // namespace smelt
