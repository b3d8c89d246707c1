#include "base/copy.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace smelt {
namespace {

constexpr std::size_t shortest = copy_detail::shortest_bytes, longest = copy_detail::longest_bytes;
constexpr std::size_t page_bytes = copy_page_bytes;

using copy_detail::strings, copy_detail::Strings;

/// As if on a CPU of that kind.
class PretendedCpu {
 public:
  explicit PretendedCpu(Strings kind) : before_(strings.exchange(kind)) {}
  ~PretendedCpu() { strings.store(before_); }
  PretendedCpu(const PretendedCpu&) = delete;

 private:
  const Strings before_;
};

/// Copies at that distance of target and source within their pages; what lies around the target stays.
template <auto copy = copy_bytes>
void expect_copied(std::size_t bytes, std::size_t distance) {
  constexpr std::size_t edge = 64;
  std::vector<unsigned char> memory(2 * (bytes + 4 * page_bytes));
  std::iota(memory.begin(), memory.end(), static_cast<unsigned char>(1));
  unsigned char* const from = memory.data() + edge;
  unsigned char* const to = from + (bytes + 2 * edge) / page_bytes * page_bytes + page_bytes + distance;
  const std::vector<unsigned char> source(from, from + bytes), before(memory);
  copy(to, from, bytes);
  EXPECT_TRUE(std::equal(source.begin(), source.end(), to)) << bytes << " bytes, distance " << distance;
  const auto at = to - memory.data();
  EXPECT_TRUE(std::equal(memory.begin(), memory.begin() + at, before.begin())) << "before the target";
  EXPECT_TRUE(std::equal(memory.begin() + at + static_cast<std::ptrdiff_t>(bytes), memory.end(),
                         before.begin() + at + static_cast<std::ptrdiff_t>(bytes)))
      << "after the target";
}

TEST(Copy, CopiesEveryLengthAndDistance) {
  for (const Strings kind : {Strings::unknown, Strings::fast, Strings::slow}) {
    const PretendedCpu pretend(kind);
    for (const std::size_t bytes : {std::size_t{1}, std::size_t{8}, std::size_t{9}, shortest - 1, shortest,
                                    shortest + 1, shortest + 64, std::size_t{100'007}, longest - 1, longest}) {
      for (const std::size_t distance : {0, 1, 8, 16, 31, 32, 2048, 4080}) expect_copied(bytes, distance);
    }
  }
}

TEST(Copy, FetchesEveryLengthAndDistance) {
  constexpr auto least = copy_detail::least_fetched_bytes, most = copy_detail::most_fetched_bytes;
  for (const std::size_t bytes :
       {std::size_t{1}, least - 1, least, least + 1, least + 255, least + 4096, most - 1, most, most + 1}) {
    for (const std::size_t distance : {0, 1, 16, 64, 2048, 4080}) expect_copied<fetch_bytes>(bytes, distance);
  }
}

TEST(Copy, FetchedEarlyOnAnyMakeOfCpu) {
  constexpr auto copy = [](void* to, const void* from, std::size_t bytes) {
    for (const std::size_t ahead : {std::size_t{256}, copy_detail::ahead_bytes, copy_detail::ahead_fetched_bytes}) {
      copy_detail::copy_early(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes, ahead);
    }
  };
  for (const std::size_t bytes : {0, 1, 63, 64, 255, 256, 257, 4095, 4096, 4352, 4353, 8191, 100'007}) {
    for (const std::size_t distance : {0, 1, 16, 63, 4080}) expect_copied<copy>(bytes, distance);
  }
}

TEST(Copy, EmptyCopiesAllowNullPointers) {
  copy_bytes(nullptr, nullptr, 0);
  fetch_bytes(nullptr, nullptr, 0);
}

TEST(Copy, ATargetALittleFurtherInItsPageIsAtASlowDistance) {
  alignas(4096) static unsigned char pages[3 * page_bytes];
  const PretendedCpu pretend(Strings::slow);
  const auto slow = [](std::size_t to, std::size_t from) { return is_slow_distance(pages + to, pages + from); };
  EXPECT_TRUE(slow(1, 0));
  EXPECT_TRUE(slow(page_bytes + 16, 0));
  EXPECT_TRUE(slow(16, 2 * page_bytes));
  EXPECT_TRUE(slow(page_bytes + 8, page_bytes - 8)) << "over the end of a page";
  EXPECT_FALSE(slow(page_bytes, 0));
  EXPECT_FALSE(slow(0, 16));
  EXPECT_TRUE(slow(31, 0));
  EXPECT_FALSE(slow(32, 0));
  EXPECT_FALSE(slow(2048, 0));
  const PretendedCpu fast(Strings::fast);
  EXPECT_FALSE(slow(16, 0));
}

TEST(Copy, TestsTheCpuOnce) {
  const PretendedCpu pretend(Strings::unknown);
  const Strings found = copy_detail::find_out();
  EXPECT_NE(found, Strings::unknown);
  EXPECT_EQ(strings.load(), found);
  EXPECT_EQ(copy_detail::strings_are_slow(), found == Strings::slow);
}

TEST(Copy, OneTryWithoutAnInterruptTellsWhatTheCpuIsLike) {
  using copy_detail::judge;
  EXPECT_EQ(judge({500, 500, 500, 500}, {100, 100, 100, 100}), Strings::slow);
  EXPECT_EQ(judge({400, 500, 500, 500}, {100, 100, 100, 100}), Strings::fast) << "not by much";
  EXPECT_EQ(judge({9000, 9000, 110, 9000}, {100, 100, 100, 100}), Strings::fast) << "suspects were interrupted";
  EXPECT_EQ(judge({500, 500, 500, 500}, {9000, 9000, 9000, 100}), Strings::slow) << "the others were interrupted";
  EXPECT_EQ(judge({0, 0, 0, 0}, {0, 0, 0, 0}), Strings::fast) << "a counter with long steps";
}

TEST(Copy, TheWayFollowsFromLengthDistanceAndMakeOfCpu) {
  using copy_detail::Way;
  const auto way = [](std::size_t bytes, bool slow, bool early) {
    return copy_detail::way_to_copy(
        bytes, [&] { return slow; }, early);
  };
  for (const bool early : {false, true}) {
    const Way usual = early ? Way::early : Way::library;
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, shortest - 1, longest, longest + 1}) {
      EXPECT_EQ(way(bytes, true, early), Way::library) << bytes;
    }
    EXPECT_EQ(way(shortest, true, early), usual) << "no string instruction yet";
    for (const std::size_t bytes : {shortest + 1, std::size_t{100'007}, longest - 1}) {
      EXPECT_EQ(way(bytes, true, early), Way::backwards) << bytes;
      EXPECT_EQ(way(bytes, false, early), usual) << bytes;
    }
  }
}

TEST(Copy, ShortCopiesDoNotAskWhatTheCpuIsLike) {
  const auto asked = []() -> bool {
    ADD_FAILURE() << "asked";
    return true;
  };
  for (const std::size_t bytes : {std::size_t{0}, shortest, longest}) copy_detail::way_to_copy(bytes, asked, true);
}

TEST(Copy, FetchesAheadWhatMayBeInAnL2Cache) {
  constexpr auto least = copy_detail::least_fetched_bytes, most = copy_detail::most_fetched_bytes;
  for (const std::size_t bytes : {least, least + 1, most - 1, most}) {
    EXPECT_TRUE(copy_detail::fetches_early(bytes, true)) << bytes;
    EXPECT_FALSE(copy_detail::fetches_early(bytes, false)) << bytes;
  }
  for (const std::size_t bytes : {std::size_t{1}, least - 1, most + 1}) {
    EXPECT_FALSE(copy_detail::fetches_early(bytes, true)) << bytes;
  }
}

TEST(Copy, ScratchInStepWithAPlaceIsLessThanAPageAway) {
  const PretendedCpu pretend(Strings::slow);
  alignas(4096) static std::byte pages[4 * page_bytes];
  for (const std::size_t place : {0, 1, 16, 4095}) {
    for (const std::size_t begin : {0, 1, 64, 4095}) {
      std::byte* const scratch = pages + 2 * page_bytes + begin;
      std::byte* const found = in_step_with(pages + place, scratch);
      EXPECT_GE(found, scratch);
      EXPECT_LT(found, scratch + page_bytes);
      EXPECT_EQ(static_cast<std::size_t>(found - pages) % page_bytes, place);
      EXPECT_FALSE(is_slow_distance(found, pages + place));
    }
  }
}

}  // namespace
}  // namespace smelt
