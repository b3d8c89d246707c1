#include "base/cgroup.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "base/clock.hpp"
#include "base/small_cgroup_test_util.hpp"

namespace smelt {
namespace {

namespace fs = std::filesystem;

/// A directory in place of "/".
class Throttling : public testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(mkdtemp(root_.data()), nullptr); }
  void TearDown() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    const fs::path file = root_ + path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  void write_time(const std::string& group, int time) {
    write(group + "/cpu.stat",
          "nr_periods 7\nnr_throttled 7\nthrottled_" + unit_ + ' ' + std::to_string(time) + "\nnr_bursts 7\n");
  }
  std::uint64_t time() const { return throttled_time(root_.c_str()); }

  std::string unit_ = "usec";

 private:
  std::string root_ = fs::temp_directory_path() / "smelt_throttling_XXXXXX";
};

TEST_F(Throttling, IsTheSumOverTheCgroupAndThoseAboveIt) {
  write("/proc/self/cgroup", "0::/a/b\n");
  write_time("/sys/fs/cgroup/a/b", 1);
  write_time("/sys/fs/cgroup/a", 20);
  write("/sys/fs/cgroup/cpu.stat", "usage_usec 77\nuser_usec 7\n");  // as at the top, where no quota can be
  write_time("/sys/fs/cgroup/a/c", 100);
  write_time("/sys/fs", 100);
  EXPECT_EQ(time(), 21u);
}

TEST_F(Throttling, IsThatOfTheCpuControllerInTheOldHierarchies) {
  unit_ = "time";
  for (const std::string controllers : {"cpu", "cpu,cpuacct", "cpuacct,cpu"}) {
    write("/proc/self/cgroup", "9:name=systemd:/s\n4:cpuset:/w\n3:" + controllers + ":/a\n2:cpuacct:/w\n");
    write_time("/sys/fs/cgroup/cpu/a", 1);
    write_time("/sys/fs/cgroup/cpu", 20);
    write_time("/sys/fs/cgroup/cpu/w", 100);
    write_time("/sys/fs/cgroup", 100);
    EXPECT_EQ(time(), 21u) << controllers;
  }
}

TEST_F(Throttling, IsThatOfBothWhereBothAreThere) {
  write("/proc/self/cgroup", "1:cpu:/\n0::/\n");
  write_time("/sys/fs/cgroup/cpu", 1);
  write_time("/sys/fs/cgroup", 20);
  EXPECT_EQ(time(), 21u);
}

// In a container without a namespace for cgroups: the path is that outside, and the mount point the cgroup itself.
TEST_F(Throttling, IsThatOfTheMountPointWhereThePathIsNotThere) {
  for (const char* path : {"/docker/0123", "/../../x", "/"}) {
    write("/proc/self/cgroup", std::string("0::") + path + "\n");
    write_time("/sys/fs/cgroup", 3);
    EXPECT_EQ(time(), 3u) << path;
  }
}

TEST_F(Throttling, IsNoneWhereNothingCanBeRead) {
  EXPECT_EQ(time(), 0u);
  write("/proc/self/cgroup", "0::/a\n");
  EXPECT_EQ(time(), 0u);
  for (const char* text :
       {"", "\n", "throttled_usec\n", "throttled_usec x\n", "throttled_usec ", "xthrottled_usec 5\n"}) {
    write("/sys/fs/cgroup/a/cpu.stat", text);
    EXPECT_EQ(time(), 0u) << text;
  }
  write_time("/sys/fs/cgroup/a", 4);
  for (const char* text : {"", "\n\n", "0", "0:", "0::", "0::\n", "0::a\n", ":", "::", "1:memory:/a\n"}) {
    write("/proc/self/cgroup", text);
    EXPECT_EQ(time(), 0u) << text;
  }
  for (const char* text : {"0::/a", "\n0::/a\n", "0:\n0::/a\n1:pids:/a"}) {
    write("/proc/self/cgroup", text);
    EXPECT_EQ(time(), 4u) << text;
  }
}

TEST_F(Throttling, SurvivesPathsAndListsThatAreTooLong) {
  write_time("/sys/fs/cgroup", 2);
  write("/proc/self/cgroup", "0::/" + std::string(1000, 'x') + "\n");
  EXPECT_EQ(time(), 0u);
  std::string lines;
  while (lines.size() < 10'000) lines += "5:pids:/a/b/c\n";
  write("/proc/self/cgroup", "0::/a\n" + lines);
  EXPECT_EQ(time(), 2u);
}

TEST(ThrottlingOfThisMachine, IsNoPlaceWhereAThreadMayBeCancelled) {
  bool returned = false;
  std::thread([&] {
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, nullptr);
    pthread_cancel(pthread_self());
    (void)throttled_time();
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
    returned = true;
  }).join();
  EXPECT_TRUE(returned);
}

TEST(ThrottlingOfThisMachine, Counts) {
  test::SmallCgroup group;
  if (!group.made()) GTEST_SKIP() << "no right to make a cgroup with a quota";
  EXPECT_TRUE(group.holds([] {
    const auto before = throttled_time(), start = monotonic_ns();
    while (throttled_time() == before && monotonic_ns() - start < 20'000'000'000) {}
    return throttled_time() != before;
  }));
}

TEST(FindCgroup, FindsTheLineOfAController) {
  constexpr std::string_view text = "9:name=systemd:/s\n4:cpuset:/w\n3:cpu,cpuacct:/a/b\n0::/u\n";
  EXPECT_EQ(find_cgroup(text, "cpu"), "/a/b");
  EXPECT_EQ(find_cgroup(text, "cpuacct"), "/a/b");
  EXPECT_EQ(find_cgroup(text, "cpuset"), "/w");
  EXPECT_EQ(find_cgroup(text, ""), "/u");
  EXPECT_EQ(find_cgroup(text, "memory"), std::nullopt);
  EXPECT_EQ(find_cgroup(text.substr(0, 50), ""), std::nullopt);
  EXPECT_EQ(find_cgroup("", ""), std::nullopt);
}

}  // namespace
}  // namespace smelt
