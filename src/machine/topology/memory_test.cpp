#include "machine/topology/memory.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

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

TEST(Memory, NothingToPlaceIsFine) {
  EXPECT_TRUE(bind_to_numa_node(nullptr, 0, discover_machine()->numa_nodes.front().os_index));
}

}  // namespace
}  // namespace smelt
