// Arrays that processes share: the same address everywhere, writes visible to all, no files left behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <filesystem>
#include <functional>
#include <numeric>

#include "comm/collective/forked_ranks.hpp"
#include "smelt/array.hpp"

namespace smelt {
namespace {

using test::fork_ranks;
using test::fresh_name;
using test::wait_for;

/// Runs body() in each of `ranks` processes. Returns "", or a message about what is wrong.
void expect_in_processes(int ranks, const std::function<std::string(Rank&)>& body) {
  const auto name = fresh_name();
  const auto pids = fork_ranks(ranks, [&](int rank) {
    const int mine[] = {rank};
    auto communicator = Communicator::create_shared(name, ranks, mine, test::options_for());
    auto attached = communicator ? communicator->attach(rank) : communicator.error();
    const std::string problem = attached ? body(*attached) : attached.error().message;
    if (!problem.empty()) std::fprintf(stderr, "rank %d: %s\n", rank, problem.c_str());
    return problem.empty() ? 0 : 1;
  });
  EXPECT_EQ(wait_for(pids), std::vector<int>(static_cast<std::size_t>(ranks), 0));
}

int array_names_left() {
  int left = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    left += entry.path().filename().string().find("smelt-array-") == 0;
  }
  return left;
}

std::string same_everywhere(Rank& rank, std::uint64_t value) {
  std::uint64_t least = 0, most = 0;
  rank.allreduce(&value, &least, 1, minimum<std::uint64_t>());
  rank.allreduce(&value, &most, 1, maximum<std::uint64_t>());
  return least == most ? "" : "differs between processes";
}

TEST(SharedArray, OneAddressAndOneContent) {
  for (const auto placement :
       {Placement::best, Placement::interleaved, Placement::partitioned, Placement::replicated}) {
    expect_in_processes(3, [&](Rank& rank) -> std::string {
      ArrayOptions options;
      options.placement = placement;
      auto array = Array<int>::create_shared(rank, "table", 100000, options);
      if (!array) return array.error().message;
      if (!array->same_address()) return "no common address";
      const auto copies = placement == Placement::replicated ? array->copies() : 1;
      if (array->copies() != copies) return "copies that nobody asked for";
      if (const auto differs = same_everywhere(rank, static_cast<std::uint64_t>(array->copies())); !differs.empty()) {
        return "the number of copies " + differs;
      }
      if (const auto differs = same_everywhere(rank, reinterpret_cast<std::uint64_t>(array->data()));
          !differs.empty()) {
        return "its address " + differs;
      }
      if (array->data() != array->local().data()) return "the near copy is not at the common address";
      if (rank.rank() == 1) {
        std::vector<int> values(array->size());
        std::iota(values.begin(), values.end(), 5);
        array->copy_from(values);
      }
      rank.barrier();
      const std::span<const int> all = array->local();
      for (std::size_t i = 0; i < all.size(); ++i) {
        if (all[i] != static_cast<int>(i) + 5) return "wrong content";
      }
      rank.barrier();
      // Each rank writes its part; all ranks see all parts.
      const auto mine = static_part(all.size(), static_cast<std::size_t>(rank.rank()), 3);
      std::fill_n(array->local().begin() + static_cast<std::ptrdiff_t>(mine.first), mine.size(), rank.rank());
      if (array->publish(rank, mine) != Status::ok) return "publish failed";
      if (all[0] != 0 || all[all.size() - 1] != 2) return "not published";
      return "";
    });
  }
  EXPECT_EQ(array_names_left(), 0);
}

TEST(SharedArray, AllRanksHaveThePagesThatRank0HasDecided) {
  for (const auto pages : {PageSize::base, PageSize::huge, PageSize::best}) {
    for (const std::size_t count : {std::size_t{1000}, std::size_t{4} << 20}) {
      expect_in_processes(2, [&](Rank& rank) -> std::string {
        ArrayOptions options;
        options.pages = rank.rank() == 0 ? pages : PageSize::best;
        const auto array = Array<int>::create_shared(rank, "pages", count, options);
        if (!array) return array.error().message;
        const auto explained = same_everywhere(rank, std::hash<std::string>()(array->explain()));
        return explained.empty() ? "" : "what explain() says " + explained + ": " + array->explain();
      });
    }
  }
}

TEST(SharedArray, ProcessesWhoseAddressSpacesDifferFindAnAddress) {
  expect_in_processes(2, [](Rank& rank) -> std::string {
    // The kernel's next address in one process is in use in the other.
    std::vector<void*> taken;
    if (rank.rank() == 1) {
      for (int i = 0; i < 40; ++i) {
        taken.push_back(mmap(nullptr, std::size_t{1} << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
      }
    }
    auto array = Array<char>::create_shared(rank, "moved", std::size_t{1} << 20);
    if (!array) return array.error().message;
    for (void* each : taken) munmap(each, std::size_t{1} << 20);
    return array->same_address() ? "" : "no common address";
  });
}

TEST(SharedArray, WhereTheNextAddressesAreTakenOthersAreTried) {
  // Which gap the kernel fills next depends on what is mapped before.
  for (std::size_t gap = 0; gap < 8; ++gap) {
    expect_in_processes(2, [gap](Rank& rank) -> std::string {
      constexpr std::size_t bytes = std::size_t{1} << 20, taken_bytes = 80 * bytes, room = 64 * bytes;
      const auto map = [](void* wanted, std::size_t size, int flags) {
        return mmap(wanted, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
      };
      // What the kernel would give rank 0 next is in use in rank 1, and the other way round.
      std::uint64_t next = 0;
      if (rank.rank() == 1) {
        map(nullptr, taken_bytes + gap * bytes / 4, 0);
        void* const place = map(nullptr, bytes, 0);
        munmap(place, bytes);
        next = reinterpret_cast<std::uint64_t>(place);
      }
      rank.broadcast(&next, sizeof next, 1);
      int taken = 1;
      if (rank.rank() == 0) {
        void* const wanted = reinterpret_cast<void*>(next + bytes - room);
        taken = map(wanted, room, MAP_FIXED_NOREPLACE) == wanted;
      }
      rank.broadcast(&taken, sizeof taken, 0);
      if (taken == 0) return "";  // in use already, by something else
      auto array = Array<char>::create_shared(rank, "elsewhere", bytes);
      if (!array) return array.error().message;
      return array->same_address() ? "" : "no common address";
    });
  }
}

TEST(SharedArray, ErrorsAreTheSameOnAllRanks) {
  expect_in_processes(2, [](Rank& rank) -> std::string {
    auto slash = Array<int>::create_shared(rank, "a/b", 10);
    if (slash || slash.error().status != Status::invalid_argument) return "a name with a slash";
    for (const auto& name : {std::string(), std::string(101, 'x')}) {
      auto array = Array<int>::create_shared(rank, name, 10);
      if (array || array.error().status != Status::invalid_argument) return "a name of " + std::to_string(name.size());
    }
    if (!Array<int>::create_shared(rank, std::string(100, 'x'), 10)) return "no name of 100 characters";
    auto empty = Array<int>::create_shared(rank, "empty", 0);
    if (empty || empty.error().status != Status::invalid_argument) return "no elements";
    ArrayOptions options;
    options.numa_nodes = {4000};
    options.placement = Placement::interleaved;
    auto nowhere = Array<int>::create_shared(rank, "nowhere", 10, options);
    if (nowhere || nowhere.error().status != Status::invalid_argument) return "a node that is not there";
    options = {};
    options.pages = PageSize::reserved_2mib;
    auto reserved = Array<int>::create_shared(rank, "reserved", 10, options);
    if (reserved || reserved.error().status != Status::not_supported) return "reserved pages";
    options.pages = PageSize::reserved_1gib;
    reserved = Array<int>::create_shared(rank, "reserved", 10, options);
    if (reserved || reserved.error().status != Status::not_supported) return "reserved pages of 1 GiB";
    options = {};
    options.replica_per = ReplicaPer::cache;
    auto caches = Array<int>::create_shared(rank, "caches", 10, options);
    if (caches || caches.error().status != Status::not_supported) return "replicas per cache";
    auto good = Array<int>::create_shared(rank, "good", 10);  // the communicator still works
    return good ? "" : good.error().message;
  });
  EXPECT_EQ(array_names_left(), 0);
}

TEST(SharedArray, HugePagesAreThereOrNotClaimed) {
  expect_in_processes(2, [](Rank& rank) -> std::string {
    ArrayOptions options;
    options.pages = PageSize::huge;
    auto array = Array<char>::create_shared(rank, "huge", std::size_t{16} << 20, options);
    if (!array) return array.error().message;
    const auto where = array->where();
    const bool claimed = array->explain().find("transparent huge pages of") != std::string::npos;
    if (rank.rank() == 0 && where && claimed && where->huge_bytes == 0) return "no huge pages: " + array->explain();
    if (claimed) return "";
    if (where && where->page_bytes != static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE))) return "pages that it has not";
    if (array->explain().find("\nsmall pages: ") == std::string::npos) return "no note";
    options.strict = true;
    return Array<char>::create_shared(rank, "strict", std::size_t{16} << 20, options) ? "strict without them" : "";
  });
  EXPECT_EQ(array_names_left(), 0);
}

TEST(SharedArray, ANameThatIsInUseIsAnErrorOnAllRanks) {
  expect_in_processes(2, [](Rank& rank) -> std::string {
    const auto name = "/smelt-array-" + std::to_string(geteuid()) + ".taken." + std::to_string(getpid()) + ".0";
    Result<Segment> other = rank.rank() == 0 ? Segment::create_named(name, 4096) : Result<Segment>(Segment());
    auto array = Array<int>::create_shared(rank, "taken", 10);
    if (rank.rank() == 0) (void)Segment::remove_named(name);
    if (!array && rank.rank() == 1 && array.error().message.find("another rank") == std::string::npos)
      return "no word of the other rank: " + array.error().message;
    return array ? "took a name that was in use" : "";
  });
  EXPECT_EQ(array_names_left(), 0);
}

/// Two groups at once, and what a process that was killed has left.
TEST(SharedArray, ANameIsOfOneGroupAlone) {
  const auto leftover = "/smelt-array-" + std::to_string(geteuid()) + ".table.1.0";
  ASSERT_TRUE(Segment::create_named(leftover, 4096));
  const auto create = [] {
    expect_in_processes(2, [](Rank& rank) -> std::string {
      for (int i = 0; i < 50; ++i) {
        auto array = Array<int>::create_shared(rank, "table", 100000);
        if (!array) return array.error().message;
      }
      return "";
    });
  };
  const pid_t other = fork();
  create();
  if (other == 0) std::_Exit(testing::Test::HasFailure() ? 1 : 0);
  EXPECT_EQ(wait_for({other}), std::vector<int>{0});
  EXPECT_TRUE(Segment::remove_named(leftover));
  EXPECT_EQ(array_names_left(), 0);
}

TEST(SharedArray, OneRankPerProcess) {
  auto communicator = Communicator::create(2, test::options_for());
  ASSERT_TRUE(communicator);
  ASSERT_TRUE(communicator->run([](Rank& rank) {
    const auto array = Array<int>::create_shared(rank, "threads", 10);
    ASSERT_FALSE(array);
    EXPECT_EQ(array.error().status, Status::invalid_argument);
    EXPECT_THAT(array.error().message, testing::HasSubstr("several ranks"));
  }));
}

}  // namespace
}  // namespace smelt
