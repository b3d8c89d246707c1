// Maps over ranks of processes that meet under a name: every algorithm, deaths, what others see, what is kept.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <new>
#include <thread>

#include "base/patience_test_util.hpp"
#include "smelt/map_group.hpp"
#include "smelt/replicated_log.hpp"
#include "state/over_ranks/settings_of_tests.hpp"

namespace smelt {
namespace {

using testing::HasSubstr;
using Numbers = MapGroup<std::uint64_t, std::uint64_t>;

constexpr int size = 3;

std::vector<std::string> algorithms() {
  std::vector<std::string> names;
  for (const auto& algorithm : map_algorithms()) names.push_back(algorithm.name);
  return names;
}

bool survives(const std::string& algorithm) { return algorithm == "shared" || algorithm == "kv"; }

std::string name_of_test(const std::string& algorithm) { return "named-" + algorithm + "-" + std::to_string(getpid()); }

MapOptions options_of(const std::string& algorithm, bool keep = false) {
  MapOptions options;
  options.algorithm = algorithm;
  options.keep = keep;
  options.wait = "sleep";  // there may be fewer PUs than processes
  if (algorithm == "rep_sc") options.consistency = Consistency::sequential;
  if (survives(algorithm)) options.faults = Faults::crash;
  return options;
}

/// Memory of this process and its children.
struct Shared {
  std::atomic<int> ready{0};
  std::atomic<bool> go_on{false};
  std::atomic<std::uint64_t> acknowledged[size] = {};

  static Shared& make() {
    void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return *new (memory) Shared();
  }
};

/// A process for each rank; its exit status is what `body` returns.
template <class Body>
std::vector<pid_t> start(Body body) {
  std::vector<pid_t> children;
  for (int rank = 0; rank < size; ++rank) {
    const pid_t child = fork();
    if (child == 0) _exit(body(rank));
    children.push_back(child);
  }
  return children;
}

int end_of(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/// Until the ranks that have to be ready are, or a child has ended.
void await_ready(const Shared& shared, int count = size) {
  for (int i = 0; i < 60'000 && shared.ready.load() < count; ++i) usleep(1000);
}

class NamedMaps : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, NamedMaps, testing::ValuesIn(algorithms()), [](const auto& info) { return info.param; });

/// Counts, and says so, until told to stop; the sum of a rank's keys is then what it has counted.
template <class Map>
int count(const Map& group, int rank, Shared& shared, bool kills_itself) {
  auto made = group;
  if (!made) return 10;
  auto mine = made->attach(rank);
  if (!mine) return 11;
  const auto own = static_cast<std::uint64_t>(rank);
  for (std::uint64_t i = 0; !shared.go_on.load() || i < 40; ++i) {
    if (!mine->fetch_add(i % 16 * size + own, 1)) return 20;
    shared.acknowledged[rank].store(i + 1);
    if (i == 20) shared.ready.fetch_add(1);
    if (kills_itself && i == 60) kill(getpid(), SIGKILL);
  }
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < 16; ++i) sum += mine->get(i * size + own).value_or(0);
  if (mine->status() != Status::ok) return 20;
  if (sum != shared.acknowledged[rank].load()) return 30;
  if (mine->finish() != Status::ok) return 20;
  return 0;
}

TEST_P(NamedMaps, AreSeenWhileInUse) {
  const std::string name = name_of_test(GetParam());
  Shared& shared = Shared::make();
  const auto children = start([&](int rank) {
    const int ranks[] = {rank};
    auto group = Numbers::create_shared(name, size, ranks, options_of(GetParam()));
    return count(std::move(group), rank, shared, false);
  });
  await_ready(shared);
  if (GetParam() == "shared") {
    const auto state = inspect_map(name);
    ASSERT_TRUE(state);
    EXPECT_EQ(state->processes.size(), static_cast<std::size_t>(size));
    auto outside = Map<std::uint64_t, std::uint64_t>::attach(name);
    ASSERT_TRUE(outside) << outside.error().message;
    EXPECT_EQ(outside->size(), 48u);
  } else {
    const auto outside = Map<std::uint64_t, std::uint64_t>::attach(name);
    ASSERT_FALSE(outside);
    EXPECT_EQ(outside.error().status, Status::not_supported);
    EXPECT_THAT(outside.error().message, HasSubstr("is over ranks"));
    const auto removed = remove_map(name);
    ASSERT_FALSE(removed);
    EXPECT_THAT(removed.error().message, HasSubstr("end with their processes"));
    const auto groups = list_map_groups();
    const auto found = std::ranges::find(groups, name, &MapGroupState::name);
    ASSERT_NE(found, groups.end());
    EXPECT_EQ(found->algorithm, GetParam());
    EXPECT_EQ(found->ranks, size);
    EXPECT_EQ(found->value_bytes, 8u);
    EXPECT_THAT(found->processes, testing::UnorderedElementsAreArray(children));
  }
  shared.go_on.store(true);
  for (const pid_t child : children) EXPECT_EQ(end_of(child), 0);
  const auto groups = list_map_groups();
  EXPECT_EQ(std::ranges::find(groups, name, &MapGroupState::name), groups.end());
  EXPECT_FALSE(inspect_map(name));
}

TEST_P(NamedMaps, TellOrGoOnWhenARankIsKilled) {
  for (int victim = 0; victim < size; ++victim) {
    const std::string name = name_of_test(GetParam()) + std::to_string(victim);
    Shared& shared = Shared::make();
    const auto children = start([&](int rank) {
      const int ranks[] = {rank};
      auto group = Numbers::create_shared(name, size, ranks, options_of(GetParam()));
      return count(std::move(group), rank, shared, rank == victim);
    });
    EXPECT_EQ(end_of(children[static_cast<std::size_t>(victim)]), -SIGKILL);
    shared.go_on.store(true);
    for (int rank = 0; rank < size; ++rank) {
      if (rank == victim) continue;
      EXPECT_EQ(end_of(children[static_cast<std::size_t>(rank)]), survives(GetParam()) ? 0 : 20)
          << victim << " " << rank;
    }
  }
}

TEST_P(NamedMaps, OfStringsAreWholeOrGoneWhenARankIsKilledWhileItWrites) {
  const std::string name = name_of_test(GetParam());
  Shared& shared = Shared::make();
  const auto children = start([&](int rank) {
    const int ranks[] = {rank};
    auto group = StringMapGroup::create_shared(name, size, ranks, options_of(GetParam()));
    if (!group) return 10;
    auto mine = group->attach(rank);
    if (!mine) return 11;
    shared.ready.fetch_add(1);
    for (int i = 0; rank == 2 || !shared.go_on.load() || i < 20; ++i) {
      const std::string value(60'000, static_cast<char>('a' + i % 26));
      if (!mine->put("of " + std::to_string(rank), value)) return 20;
      const auto found = mine->get("of 2");
      if (found && (found->size() != 60'000 || found->find_first_not_of((*found)[0]) != std::string::npos)) return 30;
    }
    return mine->finish() == Status::ok ? 0 : 20;
  });
  await_ready(shared);
  usleep(30'000);
  kill(children[2], SIGKILL);
  EXPECT_EQ(end_of(children[2]), -SIGKILL);
  shared.go_on.store(true);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(end_of(children[static_cast<std::size_t>(rank)]), survives(GetParam()) ? 0 : 20) << rank;
  }
}

TEST_P(NamedMaps, AreKeptOrRefused) {
  const std::string name = name_of_test(GetParam());
  const auto create = [&](int rank) {
    const int ranks[] = {rank};
    return Numbers::create_shared(name, size, ranks, options_of(GetParam(), true));
  };
  if (!survives(GetParam())) {
    const int ranks[] = {0, 1, 2};
    const auto refused = Numbers::create_shared(name, size, ranks, options_of(GetParam(), true));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().status, Status::not_supported);
    EXPECT_THAT(refused.error().message,
                HasSubstr(GetParam() + " is not kept: its keys are in the memory of its ranks"));
    return;
  }
  std::uint64_t before[size] = {};
  for (int life = 0; life < 3; ++life) {
    Shared& shared = Shared::make();
    const auto children = start([&](int rank) {
      auto group = create(rank);
      if (!group) return 10;
      auto mine = group->attach(rank);
      if (!mine) return 11;
      const auto own = static_cast<std::uint64_t>(rank);
      const std::uint64_t found = mine->get(own).value_or(0);
      // One update may have been under way when its process was killed. It takes effect before this rank's next one.
      const std::uint64_t most = before[rank] + 1;
      if (found < before[rank] || found > most) return 30;
      std::uint64_t first = 0;
      for (std::uint64_t i = 1; i < 100'000'000; ++i) {
        std::uint64_t was = 0;
        if (!mine->fetch_add(own, 1, &was)) return 20;
        if (i == 1) first = was;
        if (first < found || first > most || was != first + i - 1) return 31;
        shared.acknowledged[rank].store(first + i);
        if (i == 300) shared.ready.fetch_add(1);
      }
      return 0;
    });
    await_ready(shared);
    usleep(10'000);
    for (const pid_t child : children) kill(child, SIGKILL);
    for (const pid_t child : children) EXPECT_EQ(end_of(child), -SIGKILL) << "life " << life;
    for (int rank = 0; rank < size; ++rank) before[rank] = shared.acknowledged[rank].load();
  }
  if (GetParam() == "kv") {
    const auto log = inspect_log(name);
    ASSERT_TRUE(log) << log.error().message;
    EXPECT_GE(log->appended, before[0] + before[1] + before[2]);
    EXPECT_TRUE(remove_log(name));
  } else {
    const auto map = Map<std::uint64_t, std::uint64_t>::open(name);
    ASSERT_TRUE(map);
    EXPECT_EQ(map->size(), static_cast<std::size_t>(size));
    EXPECT_TRUE(remove_map(name));
  }
}

/// The log has the updates of the former life; nobody waits for their answers.
TEST(KeptKv, AnswersNothingOfAFormerLife) {
  const std::string name = name_of_test("former");
  const int ranks[] = {0, 1};
  MapOptions options = options_of("kv", true);
  options.faults.reset();
  options.servers = 1;
  for (int life = 0; life < 2; ++life) {
    auto group = Numbers::create_shared(name, 2, ranks, options);
    ASSERT_TRUE(group) << group.error().message;
    std::thread client([&] {
      auto mine = group->attach(1);
      ASSERT_TRUE(mine) << mine.error().message;
      for (std::uint64_t key = 0; key < 5; ++key) {
        std::uint64_t was = 0;
        if (life == 0) {
          EXPECT_TRUE(mine->fetch_add(key, 1000 + key, &was)) << mine->failure();
        }
        EXPECT_EQ(mine->get(key), 1000 + key) << "life " << life;
        EXPECT_EQ(was, 0u);
      }
      EXPECT_EQ(mine->finish(), Status::ok) << mine->failure();
    });
    EXPECT_EQ(group->attach(0)->finish(), Status::ok);
    client.join();
  }
  EXPECT_TRUE(remove_log(name));
}

/// With faults unset: it survives what it can.
TEST(NamedKv, ReplacesALeaderThatMakesNoCalls) {
  const int ranks[] = {0, 1};
  for (const int idle : ranks) {  // one of them is the leader
    auto group = Numbers::create_shared(name_of_test("late"), 2, ranks, {.algorithm = "kv", .wait = "sleep"});
    ASSERT_TRUE(group) << group.error().message;
    auto late = group->attach(idle);
    ASSERT_TRUE(late) << late.error().message;
    std::atomic<bool> done{false};
    std::thread other([&] {
      auto mine = group->attach(1 - idle);
      ASSERT_TRUE(mine) << mine.error().message;
      EXPECT_TRUE(mine->put(1, 2)) << mine->failure();
      done.store(true);
      EXPECT_EQ(mine->finish(), Status::ok) << mine->failure();
    });
    test::Patience limit(std::chrono::seconds(5));
    while (!done.load() && !limit.is_over()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_TRUE(done.load()) << "rank " << idle << " makes no calls";
    EXPECT_EQ(late->finish(), Status::ok) << late->failure();
    other.join();
  }
}

/// Whoever comes first decides; nobody waits for those who are refused.
TEST_P(NamedMaps, HaveTheSameTypesForAllRanks) {
  const std::string name = name_of_test(GetParam());
  using Small = MapGroup<std::uint32_t, std::uint32_t>;
  const auto status_of = [](const auto& made) { return made ? 0 : -static_cast<int>(made.error().status); };
  const auto began = std::chrono::steady_clock::now();
  std::vector<int> ends;
  for (const pid_t child : start([&](int rank) {
         const std::span own(&rank, 1);
         const MapOptions options = options_of(GetParam());
         return rank == 0 ? status_of(Small::create_shared(name, size, own, options))
                          : status_of(Numbers::create_shared(name, size, own, options));
       })) {
    ends.push_back(end_of(child));
  }
  const int refused = -static_cast<int>(Status::invalid_argument), broken = -static_cast<int>(Status::broken);
  EXPECT_THAT(ends, testing::Contains(refused));
  EXPECT_THAT(ends, testing::Each(testing::AnyOf(0, refused, broken)));
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(40)) << "less than until they give up";
}

TEST(NamedMap, HasACheckedName) {
  const int ranks[] = {0};
  const auto group = Numbers::create_shared("a/b", 1, ranks, {});
  ASSERT_FALSE(group);
  EXPECT_EQ(group.error().status, Status::invalid_argument);
}

}  // namespace
}  // namespace smelt
