#include "machine/topology/allowance.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "machine/topology/affinity.hpp"
#include "smelt/machine.hpp"

namespace smelt {
namespace {

namespace fs = std::filesystem;

/// A directory that plays the root of a file system.
class FakeRoot : public testing::Test {
 protected:
  FakeRoot() : root_(fs::temp_directory_path() / ("smelt-allowance-" + std::to_string(getpid()))) {
    fs::remove_all(root_);
  }
  ~FakeRoot() override { fs::remove_all(root_); }

  void write(const std::string& file, const std::string& text) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }

  void unified(const std::string& group, const std::string& top = "/") {
    write("proc/self/cgroup", "0::" + group + "\n");
    write("proc/self/mountinfo", "25 20 0:22 / /proc rw - proc proc rw\n30 23 0:26 " + top +
                                     " /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
  }

  const fs::path root_;
};

TEST_F(FakeRoot, NothingThereMeansNoLimit) {
  const auto limits = read_cgroup_limits(root_);
  EXPECT_EQ(limits.cpu_quota, 0.0);
  EXPECT_FALSE(limits.pus);
}

TEST_F(FakeRoot, UnifiedQuotaOfTheGroup) {
  unified("/user.slice/app");
  write("sys/fs/cgroup/user.slice/app/cpu.max", "150000 100000\n");
  EXPECT_DOUBLE_EQ(read_cgroup_limits(root_).cpu_quota, 1.5);
}

TEST_F(FakeRoot, SmallestQuotaOnTheWayUpCounts) {
  unified("/a/b/c");
  write("sys/fs/cgroup/cpu.max", "max 100000\n");
  write("sys/fs/cgroup/a/cpu.max", "200000 100000\n");
  write("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  write("sys/fs/cgroup/a/b/c/cpu.max", "400000 100000\n");
  EXPECT_DOUBLE_EQ(read_cgroup_limits(root_).cpu_quota, 2.0);
}

TEST_F(FakeRoot, NoQuotaIsNoLimit) {
  unified("/a");
  write("sys/fs/cgroup/a/cpu.max", "max 100000\n");
  EXPECT_EQ(read_cgroup_limits(root_).cpu_quota, 0.0);
}

TEST_F(FakeRoot, DamagedFilesAreNoLimit) {
  unified("/a");
  for (const auto* text : {"", "\n", "x 100000", "100000 0", "-5 100000", "nan nan", "100000 y"}) {
    write("sys/fs/cgroup/a/cpu.max", text);
    EXPECT_EQ(read_cgroup_limits(root_).cpu_quota, 0.0) << text;
  }
}

TEST_F(FakeRoot, QuotasAtTheirBounds) {
  unified("/a");
  const auto quota_of = [&](const char* text) {
    write("sys/fs/cgroup/a/cpu.max", text);
    return read_cgroup_limits(root_).cpu_quota;
  };
  EXPECT_DOUBLE_EQ(quota_of("150000\n"), 1.5) << "a tenth of a second where no period is given";
  EXPECT_DOUBLE_EQ(quota_of("1 2"), 0.5);
  EXPECT_DOUBLE_EQ(quota_of("0.5 1"), 0.5);
  EXPECT_EQ(quota_of("0 100000"), 0.0);
  EXPECT_EQ(quota_of("100000 -1"), 0.0);
  EXPECT_EQ(quota_of("100000 0"), 0.0);
}

TEST_F(FakeRoot, TheSmallerQuotaOfTheTwoVersions) {
  write("proc/self/cgroup", "3:cpu:/job\n0::/job\n");
  write("proc/self/mountinfo",
        "31 23 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
        "33 23 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  for (const int one : {100000, 300000}) {
    write("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", std::to_string(one));
    write("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000");
    write("sys/fs/cgroup/unified/job/cpu.max", "200000 100000");
    EXPECT_DOUBLE_EQ(read_cgroup_limits(root_).cpu_quota, one == 100000 ? 1.0 : 2.0);
  }
}

TEST_F(FakeRoot, QuotasOfVersionOneAtTheirBounds) {
  write("proc/self/cgroup", "4:cpu,cpuacct:/job\n");
  const auto quota_of = [&](const char* quota, const char* period) {
    write("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", quota);
    write("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", period);
    return read_cgroup_limits(root_).cpu_quota;
  };
  // Without mountinfo it is looked for where it usually is.
  EXPECT_DOUBLE_EQ(quota_of("50000", "100000"), 0.5);
  EXPECT_DOUBLE_EQ(quota_of("1\n", "1\n"), 1.0);
  for (const auto& [quota, period] : {std::pair("0", "100000"),
                                      {"-1", "100000"},
                                      {"50000", "0"},
                                      {"50000", "-1"},
                                      {"x", "1"},
                                      {"1", "x"},
                                      {"", ""}}) {
    EXPECT_EQ(quota_of(quota, period), 0.0) << quota << ", " << period;
  }
  fs::remove(root_ / "sys/fs/cgroup/cpu/job/cpu.cfs_period_us");
  EXPECT_EQ(read_cgroup_limits(root_).cpu_quota, 0.0);
}

TEST_F(FakeRoot, UnifiedWithoutMountinfo) {
  write("proc/self/cgroup", "0::/a\n");
  write("sys/fs/cgroup/a/cpu.max", "100000 100000");
  EXPECT_DOUBLE_EQ(read_cgroup_limits(root_).cpu_quota, 1.0);
}

TEST_F(FakeRoot, LinesOfAnotherShapeAreSkipped) {
  write("proc/self/cgroup", "nothing\n0\n0:\n0:memory\n12:cpuset,memory:/no\n0::/job\n0::/other\n");
  write("proc/self/mountinfo",
        "too short - cgroup2 cgroup2 rw\n1 2 3 4 - cgroup2 cgroup2 rw\n1 2 3:4 / /nowhere rw - cgroup2 cgroup2\n"
        "1 2 3:4 / /wrong rw cgroup2 cgroup2 rw\n1 2 3:4 / /other rw - cgroup cgroup rw,cpu\n"
        "1 2 3:4 / /here rw - cgroup2 cgroup2 rw\n1 2 3:4 / /later rw - cgroup2 cgroup2 rw\n");
  write("here/job/cpu.max", "300000 100000");
  write("nowhere/job/cpu.max", "100000 100000");
  write("wrong/job/cpu.max", "100000 100000");
  write("later/job/cpu.max", "100000 100000");
  EXPECT_DOUBLE_EQ(read_cgroup_limits(root_).cpu_quota, 3.0);
  // Five fields before the dash and three behind it are enough.
  write("proc/self/mountinfo", "1 2 3:4 / /here - cgroup2 cgroup2 rw\n");
  EXPECT_DOUBLE_EQ(read_cgroup_limits(root_).cpu_quota, 3.0);
}

TEST_F(FakeRoot, AControllerIsAWholeWord) {
  write("proc/self/cgroup", "4:cpuacct,xcpu:/job\n");
  write("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "100000");
  write("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000");
  EXPECT_EQ(read_cgroup_limits(root_).cpu_quota, 0.0);
  write("proc/self/cgroup", "4:cpuacct,cpu:/job\n");
  EXPECT_DOUBLE_EQ(read_cgroup_limits(root_).cpu_quota, 1.0);
}

TEST_F(FakeRoot, GroupsBesideTheMountOrTooLong) {
  const std::string quota = "100000 100000";
  write("sys/fs/cgroup/cpu.max", "400000 100000");
  write("sys/fs/cgroup/23/cpu.max", quota);
  unified("/docker/0123", "/docker/01");  // begins like it
  EXPECT_DOUBLE_EQ(read_cgroup_limits(root_).cpu_quota, 4.0);
  unified("/docker/01/23", "/docker/01");
  EXPECT_DOUBLE_EQ(read_cgroup_limits(root_).cpu_quota, 1.0);
  unified("/23/..");
  EXPECT_DOUBLE_EQ(read_cgroup_limits(root_).cpu_quota, 4.0);
  unified("/23/");
  EXPECT_DOUBLE_EQ(read_cgroup_limits(root_).cpu_quota, 1.0);
  std::string longest(4096, 'x'), too_long(4097, 'x');
  longest[0] = too_long[0] = '/';
  unified(longest);
  EXPECT_DOUBLE_EQ(read_cgroup_limits(root_).cpu_quota, 4.0);
  unified(too_long);
  EXPECT_EQ(read_cgroup_limits(root_).cpu_quota, 0.0);
  // A top or a place too long counts as none.
  unified("/23", too_long);
  EXPECT_DOUBLE_EQ(read_cgroup_limits(root_).cpu_quota, 1.0);
  write("proc/self/mountinfo", "30 23 0:26 / " + too_long + " rw - cgroup2 cgroup2 rw\n");
  EXPECT_DOUBLE_EQ(read_cgroup_limits(root_).cpu_quota, 1.0);
}

TEST_F(FakeRoot, CpusetsOfVersionOne) {
  write("proc/self/cgroup", "3:cpuset:/a/b\n");
  write("sys/fs/cgroup/cpuset/a/cpuset.cpus", "0-7");
  EXPECT_EQ(read_cgroup_limits(root_).pus->size(), 8u);
  write("sys/fs/cgroup/cpuset/a/b/cpuset.cpus", "4");
  EXPECT_EQ(*read_cgroup_limits(root_).pus, std::vector<int>{4});
  write("sys/fs/cgroup/cpuset/a/b/cpuset.effective_cpus", "5-6");
  EXPECT_EQ(*read_cgroup_limits(root_).pus, (std::vector<int>{5, 6}));
  write("sys/fs/cgroup/cpuset/a/b/cpuset.effective_cpus", "");
  write("sys/fs/cgroup/cpuset/a/b/cpuset.cpus", "x");
  EXPECT_EQ(read_cgroup_limits(root_).pus->size(), 8u) << "of the group above";
}

TEST_F(FakeRoot, ContainerSeesOnlyItsOwnGroup) {
  // The group's path is that of the host; what is mounted is that group.
  unified("/docker/0123", "/docker/0123");
  write("sys/fs/cgroup/cpu.max", "50000 100000\n");
  EXPECT_DOUBLE_EQ(read_cgroup_limits(root_).cpu_quota, 0.5);
  // Below it, and beside it.
  unified("/docker/0123/inner", "/docker/0123");
  write("sys/fs/cgroup/inner/cpu.max", "25000 100000\n");
  EXPECT_DOUBLE_EQ(read_cgroup_limits(root_).cpu_quota, 0.25);
  unified("/../other", "/docker/0123");
  EXPECT_DOUBLE_EQ(read_cgroup_limits(root_).cpu_quota, 0.5);
}

TEST_F(FakeRoot, VersionOneQuota) {
  write("proc/self/cgroup", "9:name=systemd:/\n4:cpu,cpuacct:/job\n3:cpuset:/job\n");
  write("proc/self/mountinfo",
        "31 23 0:27 / /sys/fs/cgroup/cpu,cpuacct rw shared:5 - cgroup cgroup rw,cpu,cpuacct\n"
        "32 23 0:28 / /sys/fs/cgroup/cpuset rw shared:6 - cgroup cgroup rw,cpuset\n");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "300000\n");
  write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  write("sys/fs/cgroup/cpuset/job/cpuset.cpus", "0-1,6\n");
  const auto limits = read_cgroup_limits(root_);
  EXPECT_DOUBLE_EQ(limits.cpu_quota, 3.0);
  EXPECT_EQ(*limits.pus, (std::vector<int>{0, 1, 6}));
}

TEST_F(FakeRoot, BothVersionsAtOnce) {
  write("proc/self/cgroup", "3:cpu:/job\n0::/job\n");
  write("proc/self/mountinfo",
        "31 23 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
        "33 23 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  write("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "100000\n");
  write("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "50000\n");
  EXPECT_DOUBLE_EQ(read_cgroup_limits(root_).cpu_quota, 2.0);
}

TEST_F(FakeRoot, CpusetOfTheNearestGroup) {
  unified("/a/b");
  write("sys/fs/cgroup/cpuset.cpus.effective", "0-63\n");
  write("sys/fs/cgroup/a/cpuset.cpus.effective", "4-7\n");
  EXPECT_EQ(*read_cgroup_limits(root_).pus, (std::vector<int>{4, 5, 6, 7}));
}

TEST_F(FakeRoot, MountPointWithBlanks) {
  write("proc/self/cgroup", "0::/\n");
  write("proc/self/mountinfo", "30 23 0:26 / /my\\040cgroups rw - cgroup2 cgroup2 rw\n");
  write("my cgroups/cpu.max", "100000 100000");
  EXPECT_DOUBLE_EQ(read_cgroup_limits(root_).cpu_quota, 1.0);
}

TEST_F(FakeRoot, MountPointsAreUnescaped) {
  write("proc/self/cgroup", "0::/\n");
  const std::pair<const char*, const char*> points[] = {
      {"a\\134b", "a\\b"},    {"a\\011b", "a\tb"},    {"end\\040", "end "}, {"end\\04", "end\\04"},
      {"no\\0x0", "no\\0x0"}, {"no\\999", "no\\999"}, {"\\", "\\"}};
  for (const auto& [written, meant] : points) {
    write("proc/self/mountinfo", std::string("30 23 0:26 / /") + written + " rw - cgroup2 cgroup2 rw\n");
    write(std::string(meant) + "/cpu.max", "700000 100000");
    EXPECT_DOUBLE_EQ(read_cgroup_limits(root_).cpu_quota, 7.0) << written;
    fs::remove_all(root_ / meant);
  }
}

TEST(Allowance, FollowsTheAffinityMask) {
  const auto before = discover_allowance();
  ASSERT_TRUE(before) << before.error().message;
  ASSERT_FALSE(before->pus.empty());
  const SavedAffinity saved;
  ASSERT_TRUE(pin_this_thread(before->pus.back()));
  EXPECT_EQ(discover_allowance()->pus, std::vector<int>{before->pus.back()});
}

TEST(Allowance, Parallelism) {
  EXPECT_EQ((Allowance{{0, 1, 2, 3}, 0.0}).parallelism(), 4);
  EXPECT_EQ((Allowance{{0, 1, 2, 3}, 1.5}).parallelism(), 2);
  EXPECT_EQ((Allowance{{0, 1, 2, 3}, 0.1}).parallelism(), 1);
  EXPECT_EQ((Allowance{{0, 1}, 64.0}).parallelism(), 2);
  EXPECT_EQ((Allowance{{0, 1, 2, 3}, 2.0}).parallelism(), 2);
  EXPECT_EQ((Allowance{{0, 1, 2, 3}, -1.0}).parallelism(), 4);
  EXPECT_EQ(Allowance{}.parallelism(), 1);
}

}  // namespace
}  // namespace smelt
