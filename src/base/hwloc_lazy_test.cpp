// hwloc by way of hwloc_lazy.cpp, on a made-up topology: each function is the one of its name.
#include <gtest/gtest.h>
#include <hwloc.h>

#include <cstdlib>

extern "C" int smelt_hwloc_is_there();

namespace smelt {
namespace {

TEST(HwlocLazy, IsHwloc) {
  if (smelt_hwloc_is_there() == 0) GTEST_SKIP() << "no libhwloc.so.15";
  setenv("HWLOC_SYNTHETIC", "package:2 core:3 pu:2", 1);
  hwloc_topology_t topology = nullptr;
  ASSERT_EQ(hwloc_topology_init(&topology), 0);
  EXPECT_EQ(hwloc_topology_set_flags(topology, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED), 0);
  ASSERT_EQ(hwloc_topology_load(topology), 0);
  unsetenv("HWLOC_SYNTHETIC");
  EXPECT_EQ(hwloc_topology_is_thissystem(topology), 0);
  const int cores = hwloc_get_type_depth(topology, HWLOC_OBJ_CORE);
  EXPECT_GT(cores, hwloc_get_type_depth(topology, HWLOC_OBJ_PACKAGE));
  const hwloc_obj_t core = hwloc_get_obj_by_depth(topology, cores, 5);
  ASSERT_NE(core, nullptr);
  EXPECT_EQ(hwloc_get_obj_by_depth(topology, cores, 6), nullptr);
  EXPECT_EQ(hwloc_bitmap_weight(core->cpuset), 2);
  EXPECT_EQ(hwloc_bitmap_isset(core->cpuset, 10), 1);
  EXPECT_EQ(hwloc_bitmap_isset(core->cpuset, 9), 0);
  EXPECT_EQ(hwloc_bitmap_next(core->cpuset, -1), 10);
  EXPECT_EQ(hwloc_bitmap_next(core->cpuset, 10), 11);
  hwloc_bitmap_t none = hwloc_bitmap_alloc();
  EXPECT_EQ(hwloc_bitmap_weight(none), 0);
  EXPECT_EQ(hwloc_cpukinds_get_nr(topology, 0), 0);
  EXPECT_EQ(hwloc_cpukinds_get_info(topology, 0, none, nullptr, nullptr, nullptr, 0), -1);
  hwloc_bitmap_free(none);
  hwloc_topology_destroy(topology);
}

}  // namespace
}  // namespace smelt
