#include "machine/topology/numa.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "machine/topology/allowance.hpp"

namespace smelt {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

class NumaFiles : public testing::Test {
 protected:
  NumaFiles() : root_(fs::temp_directory_path() / ("smelt-numa-" + std::to_string(getpid()))) {}
  ~NumaFiles() override { fs::remove_all(root_); }

  void write(const std::string& name, const std::string& text) {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text;
  }
  void node(int id, const std::string& pus, int mib_total, int mib_free, const std::string& distance) {
    const auto here = "sys/devices/system/node/node" + std::to_string(id) + "/";
    const auto line = [&](const char* key, int mib) {
      return "Node " + std::to_string(id) + " " + key + "    " + std::to_string(mib * 1024) + " kB\n";
    };
    write(here + "cpulist", pus + "\n");
    write(here + "distance", distance + "\n");
    write(here + "meminfo", line("MemTotal:", mib_total) + line("MemFree:", mib_free) + line("Active(file):", 3) +
                                line("Inactive(file):", 4));
  }
  const fs::path root_;
};

TEST_F(NumaFiles, MemoryAlonePusAloneAndForbiddenNodesAreToldApart) {
  write("sys/devices/system/node/online", "0-3\n");
  node(0, "0-1", 512, 100, "10 20 30 40");
  node(1, "2,3", 512, 200, "20 10 30 40");
  node(2, "", 1024, 300, "30 30 10 40");
  node(3, "4", 0, 0, "40 40 40 10");
  write("proc/self/status", "Name:\tx\nMems_allowed_list:\t0,2-3\n");
  const auto view = read_memory_view(root_);
  ASSERT_EQ(view.nodes.size(), 4u);
  EXPECT_THAT(view.usable_nodes(), ElementsAre(0, 2));
  EXPECT_THAT(view.home_nodes(), ElementsAre(0));
  EXPECT_THAT(view.nodes[1].pus, ElementsAre(2, 3));
  EXPECT_THAT(view.nodes[0].distances, ElementsAre(10, 20, 30, 40));
  EXPECT_EQ(view.nodes[0].total_bytes, 512u << 20);
  EXPECT_EQ(view.available_bytes(0), 107u << 20);
  EXPECT_EQ(view.available_bytes(9), 0u);
  EXPECT_EQ(view.node_of_pu(3), 1);
  EXPECT_EQ(view.node_of_pu(99), 0);
  EXPECT_EQ(view.limit_bytes, UINT64_MAX);
}

TEST_F(NumaFiles, WithoutNumaThereIsOneNode) {
  write("sys/devices/system/cpu/online", "0-2\n");
  write("proc/meminfo", "MemTotal:       2048 kB\nMemFree:        1024 kB\nMemAvailable: 1 kB\n");
  const auto view = read_memory_view(root_);
  ASSERT_EQ(view.nodes.size(), 1u);
  EXPECT_THAT(view.nodes[0].pus, ElementsAre(0, 1, 2));
  EXPECT_EQ(view.available_bytes(0), 1u << 20);
  EXPECT_THAT(view.usable_nodes(), ElementsAre(0)) << "nothing forbids it";
}

TEST_F(NumaFiles, ANodeOfUnknownSizeHasNoMemory) {
  write("sys/devices/system/node/online", "0-1\n");
  node(0, "0-1", 512, 100, "10 20");
  node(1, "2,3", 512, 200, "20 10");
  write("sys/devices/system/node/node1/meminfo", "Node 1 MemTotal:    many kB\nNode 1 MemFree:    5 kB\n");
  const auto view = read_memory_view(root_);
  ASSERT_EQ(view.nodes.size(), 2u);
  EXPECT_EQ(view.nodes[1].total_bytes, 0u);
  EXPECT_THAT(view.usable_nodes(), ElementsAre(0));
}

TEST_F(NumaFiles, TheCgroupsLimitExcludesMemoryInUse) {
  write("proc/self/cgroup", "0::/job\n");
  write("proc/self/mountinfo", "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  write("sys/fs/cgroup/job/memory.max", "max\n");
  write("sys/fs/cgroup/job/memory.high", "3000000\n");
  write("sys/fs/cgroup/job/memory.current", "1000000\n");
  EXPECT_EQ(read_memory_limit(root_), 2000000u);
  write("sys/fs/cgroup/job/memory.max", "500000\n");  // below what is in use
  EXPECT_EQ(read_memory_limit(root_), 0u);
  write("sys/fs/cgroup/job/memory.max", "max\n");
  write("sys/fs/cgroup/job/memory.high", "max\n");
  EXPECT_EQ(read_memory_limit(root_), UINT64_MAX);
}

TEST_F(NumaFiles, WhatTheKernelKeepsOfFilesIsNotInUse) {
  write("proc/self/cgroup", "0::/job\n");
  write("proc/self/mountinfo", "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  write("sys/fs/cgroup/job/memory.max", "3000000\n");
  write("sys/fs/cgroup/job/memory.current", "2900000\n");
  write("sys/fs/cgroup/job/memory.stat",
        "anon 100\nfile 2000000\nshmem 500\ninactive_anon 5\nactive_anon 7\ninactive_file 1200000\n"
        "active_file 700000\nunevictable 3\nworkingset_refault_file 9999999\n");
  EXPECT_EQ(read_memory_limit(root_), 2000000u);
  write("sys/fs/cgroup/job/memory.stat", "inactive_file 9000000\n");  // more than is in use: it changes meanwhile
  EXPECT_EQ(read_memory_limit(root_), 3000000u);
}

TEST_F(NumaFiles, TheSameOfTheFirstVersion) {
  write("proc/self/cgroup", "4:memory:/job\n");
  write("proc/self/mountinfo", "30 20 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "3000000\n");
  write("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "2900000\n");
  write("sys/fs/cgroup/memory/job/memory.stat",
        "inactive_file 1\nactive_file 2\ntotal_inactive_file 1200000\ntotal_active_file 700000\n");
  EXPECT_EQ(read_memory_limit(root_), 2000000u);
}

TEST(Numa, ThisMachineHasMemory) {
  const auto view = read_memory_view();
  ASSERT_FALSE(view.nodes.empty());
  EXPECT_FALSE(view.home_nodes().empty());
  EXPECT_GE(view.index_of(current_numa_node()), 0);
}

}  // namespace
}  // namespace smelt
