#include "machine/topology/memory.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "smelt/machine.hpp"

namespace smelt {
namespace {

class Pages {
 public:
  explicit Pages(std::size_t bytes)
      : bytes_(bytes), address_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  ~Pages() { munmap(address_, bytes_); }
  char* address() { return static_cast<char*>(address_); }

 private:
  std::size_t bytes_;
  void* address_;
};

TEST(Memory, LiesOnTheNodeItWasBoundTo) {
  const auto machine = discover_machine();
  ASSERT_TRUE(machine);
  const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  for (const auto& node : machine->numa_nodes) {
    if (node.memory_bytes == 0) continue;
    Pages pages(8 * page);
    const auto bound = bind_to_numa_node(pages.address() + 100, 7 * page, node.os_index);
    ASSERT_TRUE(bound) << bound.error().message;
    for (std::size_t i = 0; i < 8; ++i) {
      pages.address()[i * page] = 1;
      const auto where = numa_node_of(pages.address() + i * page + 17);
      ASSERT_TRUE(where) << where.error().message;
      EXPECT_EQ(*where, node.os_index);
    }
  }
}

TEST(Memory, NodeThatIsNotThereIsNamed) {
  char byte;
  for (const int node : {-1, 4321}) {
    const auto bound = bind_to_numa_node(&byte, 1, node);
    ASSERT_FALSE(bound);
    EXPECT_EQ(bound.error().status, Status::not_found);
    EXPECT_NE(bound.error().message.find(std::to_string(node)), std::string::npos);
  }
}

TEST(Memory, IsAskedForInWholePages) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const struct {
    std::uintptr_t address;
    std::size_t bytes;
    std::uintptr_t start;
    std::size_t pages;
  } cases[] = {{8 * page, 1, 8 * page, 1},
               {8 * page, page, 8 * page, 1},
               {8 * page, page + 1, 8 * page, 2},
               {8 * page + 1, page, 8 * page, 2},
               {9 * page - 1, 1, 8 * page, 1},
               {9 * page - 1, 2, 8 * page, 2},
               {8 * page + 100, 5 * page, 8 * page, 6}};
  for (const auto& each : cases) {
    const auto request = memory_detail::request_for(reinterpret_cast<void*>(each.address), each.bytes, std::array{0});
    EXPECT_EQ(request.start, each.start) << each.address << ", " << each.bytes;
    EXPECT_EQ(request.length, each.pages * page) << each.address << ", " << each.bytes;
  }
}

TEST(Memory, NodesAreBitsOfAMask) {
  using Words = std::vector<unsigned long>;
  const std::pair<std::vector<int>, Words> masks[] = {{{0}, {1}},       {{5}, {32}},        {{63}, {1ul << 63}},
                                                      {{64}, {0, 1}},   {{130}, {0, 0, 4}}, {{0, 5}, {33}},
                                                      {{64, 1}, {2, 1}}};
  for (const auto& [nodes, words] : masks) {
    SCOPED_TRACE(testing::PrintToString(nodes));
    const auto request = memory_detail::request_for(nullptr, 1, nodes);
    EXPECT_EQ(request.nodes, words);
    EXPECT_EQ(request.max_node, words.size() * 64 + 1);
  }
}

TEST(Memory, AnUntouchedPageHasNoNode) {
  Pages pages(4096);
  const auto before = numa_node_of(pages.address());
  if (!before && before.error().status != Status::not_found) GTEST_SKIP() << before.error().message;
  pages.address()[0] = 1;
  const auto after = numa_node_of(pages.address());
  ASSERT_TRUE(after) << after.error().message;
  const auto machine = discover_machine();
  EXPECT_TRUE(std::any_of(machine->numa_nodes.begin(), machine->numa_nodes.end(),
                          [&](const NumaNode& node) { return node.os_index == *after; }));
  EXPECT_TRUE(bind_reserved_to_numa_node(pages.address(), 4096, *after));
}

TEST(Memory, NothingToPlaceIsFine) {
  EXPECT_TRUE(bind_to_numa_node(nullptr, 0, discover_machine()->numa_nodes.front().os_index));
}

}  // namespace
}  // namespace smelt
