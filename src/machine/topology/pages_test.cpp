#include "machine/topology/pages.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "machine/topology/numa.hpp"

namespace smelt {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::Pair;

constexpr std::size_t mib = std::size_t{1} << 20;

TEST(Pages, ReadsThePageSizesOfTheSystem) {
  const fs::path root = fs::temp_directory_path() / ("smelt-pages-" + std::to_string(getpid()));
  const auto write = [&](const std::string& name, const std::string& text) {
    fs::create_directories((root / name).parent_path());
    std::ofstream(root / name) << text;
  };
  EXPECT_EQ(read_page_support(root).transparent_bytes, 0u);
  write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  write("sys/kernel/mm/transparent_hugepage/hpage_pmd_size", "2097152\n");
  write("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "12\n");
  write("sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages", "0\n");
  auto support = read_page_support(root);
  EXPECT_EQ(support.transparent_bytes, 2 * mib);
  EXPECT_FALSE(support.transparent_always);
  EXPECT_THAT(support.reserved, ElementsAre(Pair(2 * mib, 12u), Pair(1024 * mib, 0u)));
  write("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n");
  EXPECT_TRUE(read_page_support(root).transparent_always);
  write("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
  EXPECT_EQ(read_page_support(root).transparent_bytes, 0u);
  fs::remove_all(root);
}

TEST(Pages, MappingsAreAlignedZeroedAndPopulated) {
  for (const std::size_t page : {std::size_t{4096}, 2 * mib}) {
    auto mapping = PageMapping::map(3 * mib, PageKind::transparent, page);
    ASSERT_TRUE(mapping) << mapping.error().message;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(mapping->data()) % page, 0u);
    EXPECT_EQ(mapping->size() % page, 0u);
    ASSERT_TRUE(populate(mapping->data(), mapping->size()));
    mapping->data()[3 * mib - 1] = std::byte{1};
    ASSERT_TRUE(populate(mapping->data(), mapping->size()));  // leaves content
    EXPECT_EQ(mapping->data()[3 * mib - 1], std::byte{1});
    EXPECT_EQ(mapping->data()[0], std::byte{0});
    const auto nodes = nodes_of_pages(mapping->data(), 3 * mib, 4096);
    ASSERT_TRUE(nodes) << nodes.error().message;
    ASSERT_EQ(nodes->size(), 3 * mib / 4096);
    for (const int node : *nodes) EXPECT_GE(node, 0);
  }
}

TEST(Pages, BadSizesAreRefused) {
  EXPECT_FALSE(PageMapping::map(0, PageKind::base, 4096));
  EXPECT_FALSE(PageMapping::map(4096, PageKind::base, 5000));
  EXPECT_FALSE(PageMapping::map(std::size_t{1} << 60, PageKind::base, 4096));
}

TEST(Pages, Names) {
  EXPECT_EQ(page_size_name(4096), "4 KiB");
  EXPECT_EQ(page_size_name(2 * mib), "2 MiB");
  EXPECT_EQ(page_size_name(1024 * mib), "1 GiB");
}

}  // namespace
}  // namespace smelt
