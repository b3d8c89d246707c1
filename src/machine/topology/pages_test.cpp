#include "machine/topology/pages.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <sstream>

#include "machine/topology/memory.hpp"
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
  write("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n");
  write("sys/kernel/mm/transparent_hugepage/hpage_pmd_size", "none\n");
  EXPECT_EQ(read_page_support(root).transparent_bytes, 0u) << "of no known size";
  EXPECT_FALSE(read_page_support(root).transparent_always);
  fs::remove_all(root);
}

TEST(Pages, PassesOverPoolsThatItDoesNotUnderstand) {
  const fs::path root = fs::temp_directory_path() / ("smelt-pools-" + std::to_string(getpid()));
  const auto pools = root / "sys/kernel/mm/hugepages";
  for (const char* name :
       {"hugepages-64kB", "hugepages2048kB", "hugepages-2048MB", "hugepages-manykB", "hugepages-16kB"}) {
    fs::create_directories(pools / name);
    std::ofstream(pools / name / "free_hugepages") << (std::string(name) == "hugepages-16kB" ? "many" : "3");
  }
  fs::create_directories(pools / "hugepages-32kB");
  const auto support = read_page_support(root);
  EXPECT_THAT(support.reserved, ElementsAre(Pair(64u << 10, 3u)));
  EXPECT_EQ(support.base_bytes, static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)));
  fs::remove_all(root);
}

/// Of this process.
std::size_t mapped_bytes() {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

TEST(Pages, NoMoreStaysMappedThanWasAskedFor) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  mapped_bytes();  // the heap has grown by what this needs
  for (const std::size_t alignment : {page, 2 * mib, 64 * mib}) {
    for (const std::size_t bytes : {std::size_t{1}, page, page + 1, 3 * mib, 64 * mib}) {
      const std::size_t whole = (bytes + alignment - 1) / alignment * alignment, before = mapped_bytes();
      {
        auto mapping = PageMapping::map(bytes, PageKind::base, alignment);
        ASSERT_TRUE(mapping) << mapping.error().message;
        EXPECT_EQ(mapping->size(), whole);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(mapping->data()) % alignment, 0u);
        EXPECT_EQ(mapped_bytes(), before + whole) << bytes << " at a multiple of " << alignment;
        const auto* const data = mapping->data();
        PageMapping other = std::move(*mapping), third;
        EXPECT_EQ(mapping->data(), nullptr);
        EXPECT_EQ(mapping->size(), 0u);
        third = std::move(other);
        EXPECT_EQ(third.data(), data);
        EXPECT_EQ(third.size(), whole);
        EXPECT_EQ(mapped_bytes(), before + whole);
      }
      EXPECT_EQ(mapped_bytes(), before);
    }
  }
}

/// What smaps says of the mapping that begins there: "rd wr mr mw me ac nh ".
std::string flags_of(const void* address) {
  std::ostringstream begin;
  begin << std::hex << reinterpret_cast<std::uintptr_t>(address) << '-';
  std::ifstream smaps("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(smaps, line);) {
    if (line.starts_with(begin.str())) inside = true;
    if (inside && line.starts_with("VmFlags:")) return line.substr(8) + ' ';
  }
  return {};
}

TEST(Pages, TheKernelIsToldWhichAreWanted) {
  auto base = PageMapping::map(4 * mib, PageKind::base, 2 * mib);
  auto transparent = PageMapping::map(4 * mib, PageKind::transparent, 2 * mib);
  ASSERT_TRUE(base && transparent);
  if (!fs::exists("/sys/kernel/mm/transparent_hugepage") || flags_of(base->data()).empty()) {
    GTEST_SKIP() << "no transparent huge pages, or no flags in /proc/self/smaps";
  }
  EXPECT_NE(flags_of(base->data()).find(" nh "), std::string::npos) << flags_of(base->data());
  EXPECT_NE(flags_of(transparent->data()).find(" hg "), std::string::npos) << flags_of(transparent->data());
  ASSERT_TRUE(populate(base->data(), base->size()));
  EXPECT_EQ(huge_bytes_in(base->data(), base->size()), 0u);
}

TEST(Pages, ReservedOnesComeFromTheirPool) {
  const auto support = read_page_support();
  for (const auto& [bytes, free] : support.reserved) {
    const auto size = static_cast<std::size_t>(bytes);
    const auto mapping = PageMapping::map((free + 1) * size + 1, PageKind::reserved, size);
    if (mapping) continue;  // the pool may grow on demand
    EXPECT_EQ(mapping.error().status, Status::out_of_memory);
    EXPECT_TRUE(mapping.error().message.starts_with("no " + std::to_string(free + 2) + " pages of " +
                                                    page_size_name(bytes) + " are reserved"))
        << mapping.error().message;
  }
}

// As many as are asked about at a time, and some more.
TEST(Pages, NodesOfSomeThatExistAndSomeThatDoNot) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  constexpr std::size_t pages = 2 * 4096 + 3;
  auto mapping = PageMapping::map(pages * page, PageKind::base, page);
  ASSERT_TRUE(mapping);
  if (numa_node_of(mapping->data())) GTEST_SKIP() << "the kernel does not say where pages lie";
  const auto exists = [](std::size_t i) { return i % 3 == 0 || i == 4094 || i == 4096 || i == 4097; };
  for (std::size_t i = 0; i < pages; ++i) {
    if (exists(i)) mapping->data()[i * page] = std::byte{1};
  }
  const auto nodes = nodes_of_pages(mapping->data(), mapping->size(), page);
  ASSERT_TRUE(nodes) << nodes.error().message;
  ASSERT_EQ(nodes->size(), pages);
  for (std::size_t i = 0; i < pages; ++i) {
    if (exists(i)) {
      EXPECT_GE((*nodes)[i], 0) << i;
    } else {
      EXPECT_EQ((*nodes)[i], -1) << i;
    }
  }
  EXPECT_EQ(nodes_of_pages(mapping->data(), page + 1, page)->size(), 2u);
  EXPECT_EQ(nodes_of_pages(mapping->data(), page, page)->size(), 1u);
}

TEST(Pages, ArePlacedOnNodesThatExist) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  auto mapping = PageMapping::map(8 * page, PageKind::base, page);
  ASSERT_TRUE(mapping);
  const auto nodes = read_memory_view().usable_nodes();
  EXPECT_TRUE(set_interleave_policy(mapping->data(), mapping->size(), {}));
  EXPECT_TRUE(set_node_policy(mapping->data(), 0, 1000)) << "nothing to place";
  const auto interleaved = set_interleave_policy(mapping->data(), mapping->size(), nodes);
  if (!interleaved) GTEST_SKIP() << interleaved.error().message;
  ASSERT_TRUE(populate(mapping->data(), mapping->size()));
  const auto found = nodes_of_pages(mapping->data(), mapping->size(), page);
  ASSERT_TRUE(found);
  for (const int node : *found) EXPECT_THAT(nodes, testing::Contains(node));
  EXPECT_TRUE(set_node_policy(mapping->data(), mapping->size(), nodes.front(), true));
  const auto nowhere = set_node_policy(mapping->data(), mapping->size(), 1000);
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().status, Status::not_found);
  EXPECT_TRUE(nowhere.error().message.starts_with("cannot place " + std::to_string(8 * page) + " bytes: "))
      << nowhere.error().message;
}

TEST(Pages, PopulatedOnesAreThere) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  auto mapping = PageMapping::map(9 * page, PageKind::base, page);
  ASSERT_TRUE(mapping);
  EXPECT_TRUE(populate(mapping->data() + page, 0));
  const auto there = [&] {
    unsigned char resident[9];
    EXPECT_EQ(mincore(mapping->data(), mapping->size(), resident), 0);
    return std::count_if(std::begin(resident), std::end(resident), [](unsigned char bits) { return (bits & 1) != 0; });
  };
  EXPECT_EQ(there(), 0);
  ASSERT_TRUE(populate(mapping->data(), 5 * page));
  EXPECT_EQ(there(), 5);
}

TEST(Pages, PopulatingIgnoresEarlierErrors) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  auto mapping = PageMapping::map(page, PageKind::base, page);
  ASSERT_TRUE(mapping);
  for (const int earlier : {EINTR, EAGAIN, EINVAL, EFAULT}) {
    errno = earlier;
    EXPECT_TRUE(populate(mapping->data(), page)) << earlier;
  }
}

// The kernel refuses an address within a page as it refuses advice that it does not know.
TEST(Pages, ThoseThatAreWrittenToPopulateThemKeepTheirContent) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  auto mapping = PageMapping::map(3 * page, PageKind::base, page);
  ASSERT_TRUE(mapping);
  std::fill_n(mapping->data(), 2 * page, std::byte{0x50});
  ASSERT_TRUE(populate(mapping->data() + 8, 3 * page - 8));
  EXPECT_EQ(std::count(mapping->data(), mapping->data() + 2 * page, std::byte{0x50}), 2 * static_cast<long>(page));
  EXPECT_EQ(std::count(mapping->data() + 2 * page, mapping->data() + 3 * page, std::byte{0}), static_cast<long>(page));
  unsigned char resident = 0;
  ASSERT_EQ(mincore(mapping->data() + 2 * page, page, &resident), 0);
  EXPECT_EQ(resident & 1, 1);
}

TEST(Pages, NoneIsPopulatedWhereNothingIsMapped) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  auto mapping = PageMapping::map(2 * page, PageKind::base, page);
  ASSERT_TRUE(mapping);
  constexpr int populate_write = 23;  // MADV_POPULATE_WRITE, which old headers lack
  if (madvise(mapping->data(), page, populate_write) != 0) GTEST_SKIP() << "an older kernel, where pages are written";
  ASSERT_EQ(munmap(mapping->data() + page, page), 0);
  const auto populated = populate(mapping->data(), 2 * page);
  ASSERT_FALSE(populated);
  EXPECT_EQ(populated.error().status, Status::out_of_memory);
}

TEST(Pages, HugeOnesAreThoseOfTheRange) {
  const char* const text =
      "10000000-10400000 rw-p 00000000 00:00 0 \n"
      "Size:               4096 kB\n"
      "AnonHugePages:      2048 kB\n"
      "ShmemPmdMapped:        0 kB\n"
      "Private_Hugetlb:       0 kB\n"
      "VmFlags: rd wr mr mw me ac hg\n"
      "10400000-10800000 rw-p 00000000 00:00 0                                  [heap]\n"
      "AnonHugePages:         0 kB\n"
      "ShmemPmdMapped:        4 kB\n"
      "Private_Hugetlb:    1024 kB\n";
  const auto count = [&](std::uintptr_t begin, std::size_t bytes) {
    std::istringstream smaps(text);
    return huge_bytes_in(smaps, reinterpret_cast<const void*>(begin), bytes);
  };
  EXPECT_EQ(count(0x10000000, 4 * mib), 2 * mib);
  EXPECT_EQ(count(0x10400000, 4 * mib), mib + 4096);
  EXPECT_EQ(count(0x10000000, 8 * mib), 3 * mib + 4096);
  EXPECT_EQ(count(0x10200000, 4 * mib), 3 * mib + 4096) << "a part of both";
  EXPECT_EQ(count(0x10000000, 100), 100u) << "no more than asked about";
  EXPECT_EQ(count(0x0f000000, 16 * mib), 0u) << "ends where they begin";
  EXPECT_EQ(count(0x10800000, mib), 0u);
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
  const auto status_of = [](std::size_t bytes) {
    const auto mapping = PageMapping::map(bytes, PageKind::base, 4096);
    return mapping ? Status::ok : mapping.error().status;
  };
  EXPECT_NE(status_of(std::size_t{1} << 46), Status::invalid_argument) << "there may be as much";
  EXPECT_EQ(status_of((std::size_t{1} << 46) + 1), Status::invalid_argument);
}

TEST(Pages, Names) {
  EXPECT_EQ(page_size_name(4096), "4 KiB");
  EXPECT_EQ(page_size_name(2 * mib), "2 MiB");
  EXPECT_EQ(page_size_name(1024 * mib), "1 GiB");
  EXPECT_EQ(page_size_name(mib - 1024), "1023 KiB");
  EXPECT_EQ(page_size_name(1023 * mib), "1023 MiB");
  EXPECT_EQ(page_size_name(3072 * mib), "3 GiB");
}

}  // namespace
}  // namespace smelt
