#include "smelt/array.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>
#include <utility>

#include "memory/array/storage.hpp"
#include "smelt/communicator.hpp"

namespace smelt {
namespace {

using testing::HasSubstr;

constexpr std::size_t mib = std::size_t{1} << 20;
constexpr Placement all_placements[] = {
    Placement::best,        Placement::first_touch, Placement::single_node,      Placement::interleaved,
    Placement::partitioned, Placement::replicated,  Placement::writable_replicas};

ArrayOptions with(Placement placement, PageSize pages = PageSize::best) {
  ArrayOptions options;
  options.placement = placement;
  options.pages = pages;
  return options;
}

TEST(Array, EveryPlacementIsZeroedAndWritable) {
  for (const auto placement : all_placements) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, 2 * mib + 5}) {
      auto array = Array<std::uint32_t>::create(count, with(placement));
      ASSERT_TRUE(array) << to_string(placement) << ": " << array.error().message;
      ASSERT_EQ(array->size(), count);
      EXPECT_TRUE(std::all_of(array->begin(), array->end(), [](auto value) { return value == 0; }));
      std::iota(array->begin(), array->end(), 0u);
      EXPECT_EQ((*array)[count - 1], count - 1);
      EXPECT_EQ(array->local().size(), count);
      EXPECT_NE(array->placement(), Placement::best);
    }
  }
}

TEST(Array, AllPagesArePresentAndWhereReportsThem) {
  auto array = Array<char>::create(8 * mib, with(Placement::interleaved, PageSize::base));
  ASSERT_TRUE(array);
  const auto where = array->where();
  ASSERT_TRUE(where) << where.error().message;
  EXPECT_EQ(where->absent_bytes, 0u);
  EXPECT_EQ(where->page_bytes, 4096u);
  std::uint64_t bytes = 0;
  for (const auto& share : where->nodes) bytes += share.bytes;
  EXPECT_EQ(bytes, 8 * mib);
  EXPECT_FALSE(array->where(7));
}

TEST(Array, WhereCountsTheLastPageAsFarAsItIsUsed) {
  auto array = Array<char>::create(2 * 4096 + 100, with(Placement::single_node, PageSize::base));
  ASSERT_TRUE(array);
  const auto where = array->where(0);
  ASSERT_TRUE(where) << where.error().message;
  ASSERT_EQ(where->nodes.size(), 1u);
  EXPECT_EQ(where->nodes.front().bytes, 2u * 4096 + 100);
  for (const int copy : {-1, 1}) {
    const auto other = array->where(copy);
    ASSERT_FALSE(other);
    EXPECT_EQ(other.error().status, Status::invalid_argument);
  }
}

TEST(Array, NamesOfPageSizesReadBack) {
  for (const auto size :
       {PageSize::best, PageSize::base, PageSize::huge, PageSize::reserved_2mib, PageSize::reserved_1gib}) {
    const auto parsed = parse_page_size(to_string(size));
    ASSERT_TRUE(parsed);
    EXPECT_EQ(*parsed, size);
  }
  const auto unknown = parse_page_size("tiny");
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().message, HasSubstr("one of best, base, huge, reserved_2mib, reserved_1gib)"));
}

TEST(Array, FirstTouchLeavesPagesToTheProgram) {
  if (memory::home_nodes().size() == 1 && !Array<char>::create(4096)->where())
    GTEST_SKIP() << "move_pages is forbidden here";
  auto array = Array<char>::create(8 * mib, with(Placement::first_touch, PageSize::base));
  ASSERT_TRUE(array);
  (*array)[0] = 1;
  const auto where = array->where();
  ASSERT_TRUE(where);
  EXPECT_EQ(where->absent_bytes, 8 * mib - 4096);
}

TEST(Array, HugePagesBeginAtTheirOwnBoundary) {
  const auto support = read_page_support();
  if (support.transparent_bytes == 0) GTEST_SKIP() << "no transparent huge pages here";
  auto array = Array<char>::create(32 * mib, with(Placement::single_node, PageSize::huge));
  ASSERT_TRUE(array);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(array->data()) % support.transparent_bytes, 0u);
  EXPECT_THAT(array->explain(), HasSubstr("transparent huge pages of"));
}

TEST(Array, CopiesAndFillsReachEveryElementOfEveryCopy) {
  for (const auto placement : all_placements) {
    for (const std::size_t count : {std::size_t{3}, 5 * mib + 1}) {
      auto array = Array<std::uint16_t>::create(count, with(placement));
      ASSERT_TRUE(array);
      std::vector<std::uint16_t> values(count);
      std::iota(values.begin(), values.end(), std::uint16_t{1});
      array->copy_from(values);
      for (int copy = 0; copy < array->copies(); ++copy) {
        ASSERT_TRUE(std::equal(values.begin(), values.end(), array->copy(copy).begin())) << to_string(placement);
      }
      array->fill(77);
      for (int copy = 0; copy < array->copies(); ++copy) {
        ASSERT_TRUE(
            std::all_of(array->copy(copy).begin(), array->copy(copy).end(), [](auto value) { return value == 77; }));
      }
    }
  }
}

TEST(Array, ElementsThatDoNotDividePagesAreFilledWhole) {
  struct Odd {
    std::uint8_t bytes[13];
  };
  auto array = Array<Odd>::create(mib, with(Placement::partitioned, PageSize::base));
  ASSERT_TRUE(array);
  Odd value{};
  std::iota(std::begin(value.bytes), std::end(value.bytes), std::uint8_t{1});
  array->fill(value);
  for (const auto& each : *array) ASSERT_EQ(std::memcmp(&each, &value, sizeof value), 0);
}

TEST(Array, SplitPhaseTransfersEnd) {
  std::vector<int> values(4 * mib);
  std::iota(values.begin(), values.end(), 0);
  auto array = Array<int>::create(values.size());
  ASSERT_TRUE(array);
  Transfer transfer = array->start_copy_from(values);
  while (!transfer.test()) std::this_thread::yield();
  EXPECT_TRUE(std::equal(values.begin(), values.end(), array->begin()));
  { const Transfer dropped = array->start_fill(5); }
  EXPECT_TRUE(std::all_of(array->begin(), array->end(), [](int value) { return value == 5; }));
}

TEST(Array, MovedArraysKeepTheirMemory) {
  auto array = Array<int>::create(1000);
  ASSERT_TRUE(array);
  int* const data = array->data();
  data[3] = 9;
  Array<int> other = *std::move(array);
  EXPECT_EQ(other.data(), data);
  EXPECT_EQ(other[3], 9);
}

TEST(Array, ViewsAreRowMajor) {
  auto array = Array<int>::create(24);
  ASSERT_TRUE(array);
  std::iota(array->begin(), array->end(), 0);
  const auto view = array->view(2, 3, 4);
  EXPECT_EQ(view(1, 2, 3), 23);
  EXPECT_EQ(view(1, 0, 2), 14);
  EXPECT_EQ(view.extent(1), 3u);
  view(0, 1, 0) = -1;
  EXPECT_EQ((*array)[4], -1);
}

template <class Index>
void expect_taken(const Array<std::uint32_t>& array) {
  for (const std::size_t count : {0u, 1u, 63u, 64u, 65u, 1000u}) {
    std::vector<Index> indices(count);
    std::vector<std::uint32_t> expected(count), taken(count + 1, 5);
    for (std::size_t i = 0; i < count; ++i) {
      indices[i] = static_cast<Index>(i * 7919 % array.size());
      expected[i] = array[static_cast<std::size_t>(indices[i])];
    }
    expected.push_back(5);
    array.take(std::span<const Index>(indices), std::span(taken).first(count));
    EXPECT_EQ(taken, expected);
  }
}

TEST(Array, TakenAreTheElementsAtThosePlaces) {
  for (const auto placement : {Placement::interleaved, Placement::replicated}) {
    auto array = Array<std::uint32_t>::create(100'003, with(placement));
    ASSERT_TRUE(array);
    std::vector<std::uint32_t> values(array->size());
    std::iota(values.begin(), values.end(), 100u);
    array->copy_from(values);
    expect_taken<int>(*array);
    expect_taken<std::uint64_t>(*array);
  }
}

TEST(Array, PartsTileTheArray) {
  ArrayOptions options = with(Placement::partitioned);
  options.parts = 7;
  auto array = Array<double>::create(1000, options);
  ASSERT_TRUE(array);
  ASSERT_EQ(array->parts(), 7);
  std::size_t at = 0;
  for (int part = 0; part < 7; ++part) {
    EXPECT_EQ(array->part(part), static_part(1000, static_cast<std::size_t>(part), 7));
    EXPECT_EQ(array->part(part).first, at);
    at = array->part(part).last;
  }
  EXPECT_EQ(at, 1000u);
  options.cuts = {0, 10, 500};
  array = Array<double>::create(1000, options);
  ASSERT_TRUE(array);
  ASSERT_EQ(array->parts(), 3);
  EXPECT_EQ(array->part(2), (IndexRange{500, 1000}));
}

TEST(Array, BadRequestsAreRefusedAndSayWhy) {
  const auto expect = [](std::size_t count, ArrayOptions options, Status status, const char* says) {
    options.name = "table";
    const auto array = Array<double>::create(count, options);
    ASSERT_FALSE(array);
    EXPECT_EQ(array.error().status, status);
    EXPECT_THAT(array.error().message, HasSubstr("table: "));
    EXPECT_THAT(array.error().message, HasSubstr(says));
  };
  expect(0, {}, Status::invalid_argument, "at least one element");
  expect(std::size_t{1} << 60, {}, Status::invalid_argument, "2^46");
  ArrayOptions options;
  options.numa_nodes = {4095};
  expect(10, options, Status::invalid_argument, "NUMA node 4095");
  options = {};
  options.cuts = {0, 20, 10};
  expect(100, options, Status::invalid_argument, "cuts");
  options.cuts = {1, 20};
  expect(100, options, Status::invalid_argument, "cuts");
  options = {};
  options.parts = -1;
  expect(100, options, Status::invalid_argument, "parts");
  options = with(Placement::single_node, PageSize::reserved_1gib);
  options.strict = true;
  if (read_page_support().reserved.empty() || read_page_support().reserved.back().second == 0) {
    expect(100, options, Status::out_of_memory, "1 GiB");
  }
}

TEST(Array, TooLargeRequestsAreErrorsAndDoNotKillTheProcess) {
  const auto array = Array<char>::create(std::size_t{1} << 45);
  ASSERT_FALSE(array);
  EXPECT_EQ(array.error().status, Status::out_of_memory);
}

TEST(Storage, PagesOnAnotherNodeThanAskedForAreAnError) {
  if (read_memory_view().nodes.size() > 1) GTEST_SKIP() << "for machines with one NUMA node";
  const int here = read_memory_view().nodes.front().os_index;
  auto pages = PageMapping::map(3 * 4096, PageKind::base, 4096);
  ASSERT_TRUE(pages) << pages.error().message;
  std::fill_n(pages->data(), 3 * 4096, std::byte{1});
  memory::Layout layout;
  layout.count = 2 * 4096 + 1;
  layout.element_bytes = 1;
  layout.pages.bytes = 4096;
  layout.name = "some";
  layout.nodes = {here};
  memory::Copy copy;
  copy.data = pages->data();
  copy.runs = {{0, layout.count, here}};
  EXPECT_TRUE(memory::check_pages(layout, copy));
  copy.runs = {{0, 2 * 4096, here}, {2 * 4096, layout.count, here + 1}};
  const auto checked = memory::check_pages(layout, copy);
  ASSERT_FALSE(checked);
  EXPECT_THAT(checked.error().message, HasSubstr("a page for NUMA node " + std::to_string(here + 1)));
}

TEST(Storage, TheNearCopyIsThatOfTheProcessOrElseOfTheNode) {
  memory::Storage storage;
  storage.copy_of_node = {1, 2};
  EXPECT_EQ(storage.near(0), 1);
  EXPECT_EQ(storage.near(1), 2);
  EXPECT_EQ(storage.near(2), 0);
  EXPECT_EQ(storage.near(-1), 1);
  for (const int own : {0, 1, 3}) {
    storage.near_index = own;
    EXPECT_EQ(storage.near(0), own);
    EXPECT_EQ(storage.near_here(), own);
  }
}

TEST(Array, UnmetRequestsAreExplained) {
  const auto support = read_page_support();
  for (const auto& [bytes, free] : support.reserved) {
    if (bytes == 2 * mib && free > 0) GTEST_SKIP() << "there are reserved pages";
  }
  auto array = Array<char>::create(8 * mib, with(Placement::single_node, PageSize::reserved_2mib));
  ASSERT_TRUE(array);
  EXPECT_THAT(array->explain(), HasSubstr("0 of 4 pages of 2 MiB are reserved"));
}

// How many of these addresses still hold the mark. Reads as the kernel does: the memory may be gone, or
// another's by now.
std::size_t marks_at(const std::vector<const std::uint64_t*>& addresses, std::uint64_t mark) {
  const int memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
  EXPECT_GE(memory, 0);
  const auto holds_mark = [&](const std::uint64_t* address) {
    std::uint64_t word = 0;
    return pread(memory, &word, sizeof word, static_cast<off_t>(reinterpret_cast<std::uintptr_t>(address))) ==
               static_cast<ssize_t>(sizeof word) &&
           word == mark;
  };
  const auto marks = static_cast<std::size_t>(std::count_if(addresses.begin(), addresses.end(), holds_mark));
  close(memory);
  return marks;
}

TEST(Array, NoElementsAreLeftBehind) {
  constexpr std::size_t page_words = 4096 / sizeof(std::uint64_t), pages = 2048, count = 20;
  constexpr std::uint64_t mark = 0x9d3f'16c7'5be8'a421;
  std::vector<const std::uint64_t*> page_begins;
  for (std::size_t i = 0; i < count; ++i) {
    auto array = Array<std::uint64_t>::create(pages * page_words, with(Placement::replicated));
    ASSERT_TRUE(array);
    array->fill(mark);
    for (const auto* copy : {array->data(), array->local().data()}) {
      for (std::size_t page = 0; page < pages; ++page) page_begins.push_back(copy + page * page_words);
    }
    if (i == 0) {
      ASSERT_EQ(marks_at(page_begins, mark), page_begins.size());
    }
  }
  EXPECT_EQ(marks_at(page_begins, mark), 0u);
}

#ifndef SMELT_SANITIZED  // whose allocators map memory of their own, and keep what is freed
std::size_t mappings() {
  std::ifstream in("/proc/self/maps");
  std::size_t lines = 0;
  for (std::string line; std::getline(in, line);) ++lines;
  return lines;
}

std::size_t resident_bytes() {
  std::size_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

TEST(Array, NothingIsLeftBehind) {
  constexpr std::size_t bytes = 8 * mib, count = 20;
  const auto use_arrays = [] {
    for (std::size_t i = 0; i < count; ++i) {
      auto array = Array<char>::create(bytes, with(Placement::replicated));
      ASSERT_TRUE(array);
      array->fill('x');
    }
  };
  use_arrays();  // threads then have the memory that they keep
  const auto resident_before = resident_bytes();
  for (int round = 0; round < 3; ++round) {
    const auto before = mappings();
    use_arrays();
    EXPECT_LE(mappings(), before + 2);  // the C library keeps the stacks of ended threads
  }
  EXPECT_LT(resident_bytes(), resident_before + 3 * count * bytes / 8);  // mappings side by side count as one
}
#endif

TEST(Array, AChildOfForkHasItsOwnCopy) {
  auto array = Array<int>::create(mib, with(Placement::partitioned));
  ASSERT_TRUE(array);
  array->fill(1);
  const pid_t child = fork();
  if (child == 0) {
    const bool as_it_was = (*array)[0] == 1 && (*array)[mib - 1] == 1;
    (*array)[0] = 2;
    array->fill(3);
    _exit(as_it_was && (*array)[mib - 1] == 3 ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ((*array)[0], 1);
  EXPECT_EQ((*array)[mib - 1], 1);
}

// ---- on a communicator --------------------------------------------------------------------

Communicator two_ranks() {
  CommunicatorOptions options;
  options.search_ms = 0;
  options.profile = "none";
  SynthSpec spec;
  spec.cores = 2;
  auto machine = synthesize_machine(spec);
  auto communicator = Communicator::create(*machine, whole_machine(*machine), options);
  EXPECT_TRUE(communicator) << communicator.error().message;
  return *std::move(communicator);
}

TEST(ArrayOnRanks, EveryRankRunsOverItsPart) {
  auto communicator = two_ranks();
  auto array = Array<std::int64_t>::create(100001, communicator, with(Placement::partitioned));
  ASSERT_TRUE(array) << array.error().message;
  ASSERT_EQ(array->parts(), 2);
  ASSERT_TRUE(communicator.run([&](Rank& rank) {
    const auto own = array->local();
    const auto status = parallel_for(rank, *array, [&](IndexRange range) {
      for (std::size_t i = range.first; i < range.last; ++i) own[i] += static_cast<std::int64_t>(i);
    });
    EXPECT_EQ(status, Status::ok);
    EXPECT_EQ(own[100000], 100000);  // including the other rank's elements
  }));
  for (std::size_t i = 0; i < array->size(); ++i) ASSERT_EQ((*array)[i], static_cast<std::int64_t>(i));
}

TEST(ArrayOnRanks, StealingHandsOutEveryPieceOnce) {
  auto communicator = two_ranks();
  auto array = Array<int>::create(10007, communicator, with(Placement::partitioned));
  ASSERT_TRUE(array);
  StealingLoop loop(*array, 16);
  ASSERT_TRUE(communicator.run([&](Rank& rank) {
    for (IndexRange piece; loop.next(rank.rank(), &piece);) {
      EXPECT_LE(piece.size(), 16u);
      for (std::size_t i = piece.first; i < piece.last; ++i) ++(*array)[i];
    }
    rank.barrier();
  }));
  EXPECT_TRUE(std::all_of(array->begin(), array->end(), [](int value) { return value == 1; }));
}

TEST(ArrayOnRanks, OneWorkerGetsAllPartsItsOwnFirst) {
  ArrayOptions options = with(Placement::partitioned);
  options.parts = 3;
  auto array = Array<int>::create(9, options);
  ASSERT_TRUE(array);
  StealingLoop loop(*array, 2);
  std::vector<std::size_t> firsts;
  for (IndexRange piece; loop.next(1, &piece);) firsts.push_back(piece.first);
  EXPECT_THAT(firsts, testing::ElementsAre(3, 5, 6, 8, 0, 2));
}

TEST(ArrayOnRanks, PiecesMayBeAsLargeAsCanBe) {
  ArrayOptions options = with(Placement::partitioned);
  options.parts = 3;
  auto array = Array<int>::create(9, options);
  ASSERT_TRUE(array);
  for (const std::size_t grain : {std::size_t{9}, SIZE_MAX - 3, SIZE_MAX}) {
    StealingLoop loop(*array, grain);
    std::vector<IndexRange> pieces;
    for (IndexRange piece; pieces.size() < 9 && loop.next(1, &piece);) pieces.push_back(piece);
    ASSERT_EQ(pieces.size(), 3u) << grain;
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(pieces[i].first, (i + 1) % 3 * 3) << grain;
      EXPECT_EQ(pieces[i].last, pieces[i].first + 3) << grain;
    }
  }
}

TEST(ArrayOnRanks, PublishAndSyncAndAccumulate) {
  auto communicator = two_ranks();
  auto replicas = Array<int>::create(5000, communicator, with(Placement::writable_replicas));
  auto total = Array<int>::create(5000, communicator, with(Placement::replicated));
  ASSERT_TRUE(replicas && total);
  total->fill(100);
  ASSERT_TRUE(communicator.run([&](Rank& rank) {
    const auto own = replicas->local();
    const auto mine = static_part(own.size(), static_cast<std::size_t>(rank.rank()), 2);
    for (std::size_t i = mine.first; i < mine.last; ++i) own[i] = static_cast<int>(i);
    EXPECT_EQ(replicas->publish(rank, mine), Status::ok);
    EXPECT_EQ(replicas->local()[4999], 4999);
    EXPECT_EQ(replicas->local()[1], 1);
    EXPECT_EQ(replicas->publish(rank, {0, 5001}), Status::invalid_argument);
    EXPECT_EQ(replicas->sync(rank, sum<double>()), Status::invalid_argument);
    EXPECT_EQ(replicas->sync(rank, maximum<int>()), Status::ok);
    EXPECT_EQ(replicas->local()[77], 77);
    EXPECT_EQ(replicas->accumulate_into(rank, sum<int>(), 0, *total), Status::ok);
    EXPECT_EQ(total->local()[77], 177);
    EXPECT_EQ(replicas->local()[77], 0);
  }));
}

// Several copies on one node stand for copies on several nodes. The merging code does not distinguish these.
struct Triple {
  int values[3];
};

Reduction sum_of_triples() {
  const auto add = [](void* into, const void* from, std::size_t count, void*) {
    for (std::size_t i = 0; i < count; ++i) {
      for (int k = 0; k < 3; ++k)
        static_cast<Triple*>(into)[i].values[k] += static_cast<const Triple*>(from)[i].values[k];
    }
  };
  return {.element_bytes = sizeof(Triple), .combine = add};
}

memory::Block several_copies(std::size_t copies, std::size_t count) {
  const auto view = read_memory_view();
  memory::Layout layout;
  layout.count = count;
  layout.element_bytes = sizeof(Triple);
  layout.placement = Placement::writable_replicas;
  layout.name = "several";
  layout.nodes = std::vector<int>(copies, view.home_nodes().front());
  layout.cuts = {0};
  layout.part_nodes = {layout.nodes.front()};
  auto storage = memory::Storage::create(layout, view);
  EXPECT_TRUE(storage) << storage.error().message;
  EXPECT_EQ((*storage)->copies.size(), copies);
  return memory::Block(*std::move(storage));
}

Triple& at(const memory::Block& block, int copy, std::size_t i) {
  return reinterpret_cast<Triple*>(block.copy(copy))[i];
}

TEST(ArrayOnRanks, AllCopiesTakePart) {
  auto communicator = two_ranks();
  constexpr std::size_t count = 10'007;  // several blocks, and some elements more
  for (const std::size_t used : {std::size_t{1}, std::size_t{7}, count}) {
    memory::Block block = several_copies(3, used), total = several_copies(2, used);
    EXPECT_THAT(block.explain(), HasSubstr(", 3 copies, "));
    EXPECT_THAT(block.explain(), testing::ContainsRegex("on NUMA node ([0-9]+),[0-9]+,[0-9]+, "));
    for (int copy = 0; copy < 3; ++copy) {
      for (std::size_t i = 0; i < used; ++i) {
        for (int k = 0; k < 3; ++k) at(block, copy, i).values[k] = static_cast<int>(i) * (copy + 1) + k;
      }
    }
    ASSERT_TRUE(communicator.run([&](Rank& rank) { EXPECT_EQ(block.sync(rank, sum_of_triples()), Status::ok); }));
    const auto expect_all = [&](const memory::Block& each, int copies, auto value) {
      for (int copy = 0; copy < copies; ++copy) {
        for (std::size_t i = 0; i < used; ++i) {
          for (int k = 0; k < 3; ++k) ASSERT_EQ(at(each, copy, i).values[k], value(static_cast<int>(i), k)) << copy;
        }
      }
    };
    expect_all(block, 3, [](int i, int k) { return 6 * i + 3 * k; });
    const Triple identity = {{5, 6, 7}};
    const auto fill = [](std::byte* to, std::size_t bytes, const void* value, std::size_t) {
      std::fill_n(reinterpret_cast<Triple*>(to), bytes / sizeof(Triple), *static_cast<const Triple*>(value));
    };
    ASSERT_TRUE(communicator.run([&](Rank& rank) {
      EXPECT_EQ(block.accumulate_into(rank, sum_of_triples(), &identity, fill, total), Status::ok);
    }));
    expect_all(total, 2, [](int i, int k) { return 3 * (6 * i + 3 * k); });
    expect_all(block, 3, [](int, int k) { return 5 + k; });
    ASSERT_TRUE(communicator.run([&](Rank& rank) {
      if (rank.rank() == 0) reinterpret_cast<Triple*>(block.local())[used - 1].values[2] = -1;
      EXPECT_EQ(block.publish(rank, rank.rank() == 0 ? IndexRange{used - 1, used} : IndexRange{}), Status::ok);
      EXPECT_EQ(block.publish(rank, {1, 0}), Status::invalid_argument);
      EXPECT_EQ(block.publish(rank, {0, used + 1}), Status::invalid_argument);
    }));
    for (int copy = 0; copy < 3; ++copy) {
      EXPECT_EQ(at(block, copy, used - 1).values[2], -1);
      EXPECT_EQ(at(block, copy, used - 1).values[1], 6);
    }
  }
}

/// A machine of two caches stands for one: the ranks' PUs 0 and 1 are on one of them each.
TEST(ArrayOnRanks, EveryCacheHasItsReplica) {
  CommunicatorOptions on;
  on.search_ms = 0;
  on.profile = "none";
  SynthSpec spec;
  spec.cores = spec.l3 = 2;
  auto machine = synthesize_machine(spec);
  ASSERT_TRUE(machine);
  auto communicator = Communicator::create(*machine, whole_machine(*machine), on);
  ASSERT_TRUE(communicator) << communicator.error().message;
  for (const auto placement : {Placement::replicated, Placement::writable_replicas}) {
    ArrayOptions options;
    options.placement = placement;
    options.replica_per = ReplicaPer::cache;
    auto array = Array<int>::create(5000, *communicator, options);
    ASSERT_TRUE(array) << array.error().message;
    EXPECT_EQ(array->copies(), 2);
    EXPECT_NE(array->explain().find("2 copies, one per last-level cache"), std::string::npos) << array->explain();
    array->fill(7);
    for (int copy = 0; copy < 2; ++copy) EXPECT_EQ(array->copy(copy)[4999], 7);
    std::set<const int*> used;
    std::mutex mutex;
    ASSERT_TRUE(communicator->run([&](Rank& rank) {
      const auto pu = sched_getcpu();
      const auto own = array->local();
      if (sched_getcpu() == pu && pu < 2) {
        EXPECT_EQ(own.data(), array->copy(pu).data());
      }
      const std::scoped_lock lock(mutex);
      used.insert(own.data());
      (void)rank;
    }));
    for (const int* each : used) EXPECT_TRUE(each == array->copy(0).data() || each == array->copy(1).data());
  }
  ArrayOptions one;
  one.placement = Placement::single_node;
  one.replica_per = ReplicaPer::cache;
  auto array = Array<int>::create(100, *communicator, one);
  ASSERT_TRUE(array);
  EXPECT_EQ(array->copies(), 1);
  EXPECT_THAT(array->explain(), testing::Not(HasSubstr("cache")));
  array = Array<int>::create(100, *communicator, with(Placement::replicated));
  ASSERT_TRUE(array);
  EXPECT_THAT(array->explain(), testing::Not(HasSubstr("cache")));
}

TEST(Array, WithoutACommunicatorEveryCacheOfTheMachineHasItsReplica) {
  const auto machine = discover_machine();
  ASSERT_TRUE(machine);
  std::set<std::pair<int, int>> caches;
  for (const auto& pu : machine->pus) caches.insert({pu.numa_node, pu.l3});
  ArrayOptions options;
  options.placement = Placement::replicated;
  options.replica_per = ReplicaPer::cache;
  auto array = Array<int>::create(5000, options);
  ASSERT_TRUE(array) << array.error().message;
  EXPECT_EQ(array->copies(), static_cast<int>(caches.size()));
}

TEST(ArrayOnRanks, FramesPerThreadAndPerNode) {
  auto communicator = two_ranks();
  auto sums = PerThread<std::vector<int>>::create(communicator, {1});
  ASSERT_TRUE(sums);
  ASSERT_EQ(sums->size(), 2);
  ASSERT_TRUE(communicator.run([&](Rank& rank) { (*sums)[rank.rank()].push_back(10 + rank.rank()); }));
  const int total = sums->combine(
      0, [](int so_far, const std::vector<int>& each) { return std::accumulate(each.begin(), each.end(), so_far); });
  EXPECT_EQ(total, 1 + 10 + 1 + 11);
  struct Large {
    char bytes[5000];
  };
  const auto large = PerThread<Large>::create(communicator);
  ASSERT_TRUE(large);
  const auto place = [&](int rank) { return reinterpret_cast<std::uintptr_t>(&(*large)[rank]); };
  EXPECT_EQ(place(1) - place(0), 8192u);
  EXPECT_EQ(place(0) % 4096, 0u);
  auto nodes = PerNode<int>::create(4);
  ASSERT_TRUE(nodes);
  nodes->local() += 1;
  EXPECT_EQ(nodes->combine(0, std::plus<>()), 4 * nodes->size() + 1);
}

// ---- containers ---------------------------------------------------------------------------

/// Passes on, and counts.
class Counting : public std::pmr::memory_resource {
 public:
  int given = 0, taken = 0;

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    ++given;
    return std::pmr::new_delete_resource()->allocate(bytes, alignment);
  }
  void do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) override {
    ++taken;
    std::pmr::new_delete_resource()->deallocate(memory, bytes, alignment);
  }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }
};

TEST(Resource, SmallAndOddRequestsGoUpstream) {
  Counting upstream;
  auto resource = MemoryResource::create({}, 10'000, &upstream);
  ASSERT_TRUE(resource);
  struct Request {
    std::size_t bytes, alignment;
    bool upstream;
  };
  int expected = 0;
  for (const auto& [bytes, alignment, goes_up] :
       {Request{9'999, 16, true}, {10'000, 16, false}, {10'000, 4096, false}, {10'000, 8192, true}}) {
    expected += goes_up;
    void* const memory = (*resource)->allocate(bytes, alignment);
    EXPECT_EQ(upstream.given, expected) << bytes << " " << alignment;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % alignment, 0u);
    std::memset(memory, 1, bytes);
    (*resource)->deallocate(memory, bytes, alignment);
    EXPECT_EQ(upstream.taken, expected);
  }
}

TEST(Resource, LargeRequestsGetPagesOfTheirOwn) {
  auto resource = MemoryResource::create(with(Placement::interleaved), mib);
  ASSERT_TRUE(resource);
  std::pmr::vector<int> large(resource->get());
  large.resize(4 * mib, 3);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(large.data()) % 4096, 0u);
  std::pmr::vector<int> small({1, 2, 3}, resource->get());
  EXPECT_EQ(small[2], 3);
  EXPECT_FALSE(MemoryResource::create(with(Placement::replicated)));
}

TEST(Resource, AsAnAllocator) {
  Allocator<double> allocator(with(Placement::interleaved));
  std::vector<double, Allocator<double>> values(mib, 1.5, allocator);
  auto copy = values;
  copy.push_back(2.5);
  EXPECT_EQ(std::accumulate(copy.begin(), copy.end(), 0.0), 1.5 * mib + 2.5);
  EXPECT_EQ(copy.get_allocator(), allocator);
  const auto moved = std::move(copy);
  copy.assign(10, 3.5);
  EXPECT_EQ(std::accumulate(copy.begin(), copy.end(), 0.0), 35.0);
  EXPECT_EQ(copy.get_allocator(), moved.get_allocator());
  EXPECT_THROW(Allocator<int>{with(Placement::writable_replicas)}, std::bad_alloc);
}

}  // namespace
}  // namespace smelt
