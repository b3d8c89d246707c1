#include "machine/fingerprint.hpp"

#include <gtest/gtest.h>

namespace smelt {
namespace {

Machine machine_of(std::vector<Pu> pus) {
  Machine machine;
  machine.pus = std::move(pus);
  return machine;
}

/// Fowler, Noll and Vo's hash 1a of 64 bits.
std::string fnv1a(const std::string& text) {
  std::uint64_t hash = 14695981039346656037u;
  for (const char byte : text) hash = (hash ^ static_cast<unsigned char>(byte)) * 1099511628211u;
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(hash));
  return digits;
}

TEST(Fingerprint, IsTheHashOfModelAndPlaces) {
  EXPECT_EQ(fnv1a("a"), "af63dc4c8601ec8c");
  auto machine =
      machine_of({{.os_index = 3, .core = 1, .package = 2, .numa_node = 4, .l2 = 5, .l3 = 6, .efficiency_class = 7},
                  {.os_index = 10}});
  machine.numa_nodes.resize(2);
  EXPECT_EQ(fingerprint_of("CPU \xc3\xa9", machine), fnv1a("CPU \xc3\xa9|2|3,1,2,4,5,6,7|10,0,0,0,0,0,0"));
  machine.numa_nodes[0].memory_bytes = 1;
  EXPECT_EQ(fingerprint_of("CPU \xc3\xa9", machine), fnv1a("CPU \xc3\xa9|2|3,1,2,4,5,6,7|10,0,0,0,0,0,0"));
}

TEST(Shape, EqualUnitsAreMultiplied) {
  EXPECT_EQ(shape_of(*synthesize_machine({.packages = 2, .cores = 14, .smt = 2})), "2 packages x 14 cores x 2 PUs");
  EXPECT_EQ(shape_of(*synthesize_machine({.cores = 1})), "1 package x 1 core x 1 PU");
  EXPECT_EQ(shape_of(machine_of({})), "0 packages, 0 cores, 0 PUs");
}

TEST(Shape, DifferentUnitsAreAdded) {
  // Cores of one and of two PUs.
  EXPECT_EQ(shape_of(machine_of({{.os_index = 0, .core = 0}, {.os_index = 1, .core = 0}, {.os_index = 2, .core = 1}})),
            "1 package, 2 cores, 3 PUs");
  EXPECT_EQ(shape_of(machine_of({{.os_index = 0, .core = 0},
                                 {.os_index = 1, .core = 0},
                                 {.os_index = 2, .core = 0},
                                 {.os_index = 3, .core = 1}})),
            "1 package, 2 cores, 4 PUs");
  // Packages of one and of three cores.
  EXPECT_EQ(shape_of(machine_of({{.os_index = 0, .core = 0, .package = 0},
                                 {.os_index = 1, .core = 1, .package = 1},
                                 {.os_index = 2, .core = 2, .package = 1},
                                 {.os_index = 3, .core = 3, .package = 1}})),
            "2 packages, 4 cores, 4 PUs");
}

}  // namespace
}  // namespace smelt
