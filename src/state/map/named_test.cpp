// Maps that have a name: who finds them, kept ones, files that are something else, what is listed.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "smelt/map.hpp"
#include "state/map/memory.hpp"
#include "state/map_names.hpp"

namespace smelt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Numbers = Map<std::uint64_t, std::uint64_t>;

class NamedMapTest : public testing::Test {
 protected:
  const std::string name = "named-test-" + std::to_string(getpid());
  const std::string file = "/dev/shm/smelt-map." + name;

  void TearDown() override { std::filesystem::remove(file); }

  Result<Numbers> create(bool keep = false) const {
    return Numbers::create_shared(name, {.capacity = 10, .keep = keep});
  }
  void write_file(const std::string& text) const {
    std::ofstream(file) << text;
    std::filesystem::permissions(file, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  }
};

template <class T>
void expect_error(const Result<T>& result, Status status, const std::string& says) {
  ASSERT_FALSE(result) << "should say: " << says;
  EXPECT_EQ(result.error().status, status) << result.error().message;
  EXPECT_THAT(result.error().message, HasSubstr(says));
}

TEST_F(NamedMapTest, IsThereAsLongAsItIsInUse) {
  std::optional<Numbers> first = *create(), second = *create();
  ASSERT_TRUE(first->put(1, 2));
  EXPECT_EQ(second->get(1), 2u);
  EXPECT_EQ(Numbers::attach(name)->get(1), 2u);
  first.reset();
  EXPECT_EQ(Numbers::attach(name)->get(1), 2u);
  expect_error(Numbers::open(name), Status::not_found, "was kept");
  EXPECT_FALSE(inspect_map(name)->kept);
  second.reset();
  expect_error(Numbers::attach(name), Status::not_found, "create it first");
  expect_error(inspect_map(name), Status::not_found, "there is no map");
  EXPECT_EQ(create()->size(), 0u);
}

/// A process that looks at the memory only keeps it from being freed, but not the map from having ended.
TEST_F(NamedMapTest, IsGoneWithItsLastUser) {
  auto map = create();
  ASSERT_TRUE(map);
  ASSERT_TRUE(map->put(1, 2));
  int fd = -1;
  map_detail::for_each_memfd("smelt-map:", name, [&](const std::string& found, int opened) {
    EXPECT_EQ(found, name);
    fd = opened;
    return false;
  });
  ASSERT_GE(fd, 0);
  EXPECT_TRUE(inspect_map(name));
  map = Numbers::create();
  expect_error(inspect_map(name), Status::not_found, "there is no map");
  expect_error(Numbers::attach(name), Status::not_found, "create it first");
  EXPECT_EQ(create()->size(), 0u);
  close(fd);
}

/// A child of another thread, forked while the name is locked, does not go on to hold the lock.
TEST_F(NamedMapTest, IsNotLockedByAFork) {
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop) ASSERT_TRUE(create()) << "the name is locked";
  });
  std::vector<pid_t> children;
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);
      for (;;) pause();
    }
    children.push_back(child);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  EXPECT_TRUE(create());
  stop = true;
  other.join();
  for (const pid_t child : children) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
}

TEST_F(NamedMapTest, IsKeptUntilItIsRemoved) {
  ASSERT_TRUE(create(true)->put(1, 2));
  EXPECT_EQ(Numbers::open(name)->get(1), 2u);
  EXPECT_EQ(Numbers::attach(name)->get(1), 2u);
  EXPECT_EQ(create(true)->get(1), 2u);
  const auto state = inspect_map(name);
  ASSERT_TRUE(state);
  EXPECT_EQ(state->name, name);
  EXPECT_TRUE(state->kept);
  EXPECT_FALSE(state->strings);
  EXPECT_EQ(state->keys, 1u);
  EXPECT_THAT(state->processes, testing::IsEmpty());
  expect_error(create(false), Status::invalid_argument, "is there, and is kept; set `keep` likewise");
  const auto user = Numbers::open(name);
  EXPECT_THAT(inspect_map(name)->processes, ElementsAre(getpid()));
  EXPECT_TRUE(remove_map(name));
  EXPECT_EQ(user->get(1), 2u) << "those that use it go on";
  expect_error(remove_map(name), Status::not_found, "was kept");
  expect_error(Numbers::open(name), Status::not_found, "was kept");
  EXPECT_FALSE(std::filesystem::exists(file));

  const auto not_kept = create();
  ASSERT_TRUE(not_kept);
  expect_error(create(true), Status::invalid_argument, "is not kept; set `keep` likewise");
  EXPECT_FALSE(std::filesystem::exists(file));
  expect_error(remove_map(name), Status::not_found, "was kept");
}

TEST_F(NamedMapTest, IsOfTheTypesItWasCreatedWith) {
  for (const bool keep : {false, true}) {
    auto map = create(keep);
    ASSERT_TRUE(map);
    const auto says = "has keys of 8 and values of 8 bytes, not of ";
    expect_error(Map<std::uint64_t, std::uint32_t>::attach(name), Status::invalid_argument,
                 says + std::string("8 and 4"));
    expect_error(Map<std::uint32_t, std::uint64_t>::create_shared(name, {.keep = keep}), Status::invalid_argument,
                 says + std::string("4 and 8"));
    expect_error(StringMap::attach(name), Status::invalid_argument,
                 "has keys of 8 and values of 8 bytes, not strings; use the same types");
    EXPECT_TRUE(Numbers::attach(name));
    EXPECT_EQ(remove_map(name).operator bool(), keep);
  }
  const auto strings = StringMap::create_shared(name);
  ASSERT_TRUE(strings);
  expect_error(Numbers::attach(name), Status::invalid_argument, "has strings: keys of");
  EXPECT_TRUE(inspect_map(name)->strings);
}

TEST_F(NamedMapTest, IsNotTakenForAnotherFile) {
  for (const std::string& text : {std::string(), std::string("something else"), std::string(100'000, 'x')}) {
    write_file(text);
    expect_error(create(true), Status::bad_format, "is no map of this version");
    expect_error(Numbers::open(name), Status::not_found, "was kept");
    expect_error(inspect_map(name), Status::not_found, "there is no map");
    EXPECT_TRUE(create(false)) << "which does not use the file";
    EXPECT_TRUE(std::filesystem::exists(file));
    EXPECT_TRUE(remove_map(name));
    EXPECT_FALSE(std::filesystem::exists(file));
  }
}

TEST_F(NamedMapTest, IsOfOneUser) {
  ASSERT_TRUE(create(true));
  if (geteuid() == 0) {
    ASSERT_EQ(chown(file.c_str(), 1, 1), 0);
  } else {
    std::filesystem::permissions(file, std::filesystem::perms::none);  // which says the same to this user
  }
  expect_error(create(true), Status::permission_denied, "smelt-map." + name);
  expect_error(Numbers::open(name), Status::not_found, "was kept");
}

TEST_F(NamedMapTest, IsNotUsedByAnotherVersion) {
  for (const std::size_t place : {offsetof(map_detail::Header, magic), offsetof(map_detail::Header, layout)}) {
    ASSERT_TRUE(create(true));
    std::fstream opened(file, std::ios::in | std::ios::out | std::ios::binary);
    opened.seekg(static_cast<std::streamoff>(place));
    const char byte = static_cast<char>(opened.get() ^ 1);
    opened.seekp(static_cast<std::streamoff>(place));
    opened.put(byte);
    opened.close();
    expect_error(Numbers::open(name), Status::not_found, "was kept");
    expect_error(create(true), Status::bad_format, "is no map of this version");
    EXPECT_TRUE(remove_map(name));
  }
}

/// Each bit of the words by which everything else is found: an error, or a map that can be looked at.
TEST_F(NamedMapTest, IsNotUsedOnceItsHeaderHasBeenDamaged) {
  using map_detail::Header;
  const std::size_t words[] = {offsetof(Header, geometry),      offsetof(Header, geometry) + 8,
                               offsetof(Header, geometry) + 16, offsetof(Header, reach),
                               offsetof(Header, first_log2),    offsetof(Header, active),
                               offsetof(Header, next),          offsetof(Header, used),
                               offsetof(Header, backed),        offsetof(Header, free_lists) + 24,
                               offsetof(Header, stashes) + 8};
  ASSERT_TRUE(create(true)->put(1, 2));
  const auto flip = [&](std::size_t word, int bit) {
    std::fstream opened(file, std::ios::in | std::ios::out | std::ios::binary);
    const auto place = static_cast<std::streamoff>(word) + bit / 8;
    opened.seekg(place);
    const char byte = static_cast<char>(opened.get() ^ 1 << bit % 8);
    opened.seekp(place);
    opened.put(byte);
  };
  int damaged = 0;
  for (const std::size_t word : words) {
    for (int bit = 0; bit < 64; ++bit) {
      flip(word, bit);
      auto map = Numbers::open(name);
      if (map) {
        EXPECT_EQ(map->get(1), 2u) << word << " " << bit;
      }
      if (const auto state = inspect_map(name); !state && state.error().status == Status::bad_format) {
        EXPECT_FALSE(map) << word << " " << bit;
        ++damaged;
      }
      flip(word, bit);
    }
  }
  EXPECT_GT(damaged, 300);
  EXPECT_EQ(Numbers::open(name)->get(1), 2u);
}

/// What operations follow, or wait for.
TEST_F(NamedMapTest, IsNotUsedOnceItsChainsHaveBeenDamaged) {
  using map_detail::Bucket;
  using map_detail::Table;
  const std::pair<const char*, void (*)(Table&, Bucket&)> damages[] = {
      {"out of the memory", [](Table& table, Bucket& home) { home.link = table.header().reach; }},
      {"within a line", [](Table&, Bucket& home) { home.link += 8; }},
      {"to another block", [](Table& table, Bucket& home) { home.link = table.header().used - 64; }},
      {"in a circle", [](Table& table, Bucket& home) { table.at(home.link)->link = home.link.load(); }},
      {"no bucket", [](Table&, Bucket& home) { home.word &= ~map_detail::live_bit; }},
      {"moved", [](Table&, Bucket& home) { home.word |= map_detail::moved_bit; }},
      {"too many keys", [](Table&, Bucket& home) { home.word |= map_detail::valid_mask; }},
      {"free, but used", [](Table& table, Bucket& home) { table.header().free_lists[1] = home.link / 64; }},
  };
  for (const auto& [what, damage] : damages) {
    {
      auto map = *create(true);
      for (std::uint64_t key = 0; key < 1000; ++key) ASSERT_TRUE(map.put(key, key));
      const auto table = *map_detail::create_shared(name, map_detail::geometry_of(8, 8), {.keep = true});
      const auto active = table->header().active.load();
      map_detail::Word bucket = active & ~map_detail::log2_mask;
      while (table->at(bucket)->link == 0) bucket += 128;
      damage(*table, *table->at(bucket));
    }
    SCOPED_TRACE(what);
    expect_error(Numbers::open(name), Status::bad_format, "has been damaged");
    expect_error(create(true), Status::bad_format, "has been damaged");
    expect_error(inspect_map(name), Status::bad_format, "has been damaged");
    EXPECT_TRUE(remove_map(name));
  }
}

/// A process that ends while its threads make updates may give its number up before its chains.
TEST_F(NamedMapTest, HasNoOwnerWhenNobodyUsesIt) {
  ASSERT_TRUE(create(true));
  const auto owner_of_first = [&](map_detail::Word added) {
    const auto table = *map_detail::create_shared(name, map_detail::geometry_of(8, 8), {.keep = true});
    auto& word = table->at(table->header().active & ~map_detail::log2_mask)->word;
    return word.fetch_or(added) & map_detail::owner_mask;
  };
  EXPECT_EQ(owner_of_first(1), 0u);
  EXPECT_EQ(owner_of_first(0), 0u) << "or this process would wait for itself";
}

/// A map that dead processes were changing is none that has been damaged.
TEST_F(NamedMapTest, IsUsedWhateverItsLastProcessDid) {
  for (int round = 0; round < 20; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      auto map = StringMap::create_shared(name, {.capacity = 10, .keep = true});
      for (int i = 0; map; ++i) {
        const std::string key = std::to_string(i * 7919 % 3000);
        (void)(i % 3 == 0 ? map->erase(key) : map->put(key, std::string(i % 500, 'v')));
      }
      _exit(1);
    }
    usleep(1000u * (1 + round % 7));
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status));
    const auto map = StringMap::open(name);
    EXPECT_TRUE(map || map.error().status == Status::not_found) << map.error().message;
  }
}

/// Nor is one that others change and leave while this process looks through it. A new value lies in another block.
TEST_F(NamedMapTest, IsUsedWhileOthersComeAndGo) {
  constexpr int keys = 20'000;
  const auto opened = [&] { return StringMap::create_shared(name, {.keep = true}); };
  {
    auto map = *opened();
    for (int key = 0; key < keys; ++key) ASSERT_TRUE(map.put(std::to_string(key), "value"));
  }
  std::vector<pid_t> children;
  for (unsigned child = 0; child < 4; ++child) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    std::minstd_rand random(child + 1);
    for (int round = 0; round < 100; ++round) {
      auto map = opened();
      if (!map) _exit(1);
      for (int i = 0; i < 100; ++i) (void)map->put(std::to_string(random() % keys), std::string(random() % 200, 'v'));
    }
    _exit(0);
  }
  for (const pid_t child : children) {
    int status = -1;
    while (waitpid(child, &status, WNOHANG) == 0) {
      const auto state = inspect_map(name);
      EXPECT_TRUE(state) << state.error().message;
    }
    EXPECT_EQ(status, 0) << "refused";
  }
}

/// As a copy that did not fit, which would end the program with SIGBUS.
TEST_F(NamedMapTest, IsNotUsedOnceItHasBeenCutOff) {
  ASSERT_TRUE(create(true)->put(1, 2));
  const auto bytes = std::filesystem::file_size(file);
  for (const auto rest : {bytes - 4096, std::uintmax_t{4096}}) {
    std::filesystem::resize_file(file, rest);
    expect_error(Numbers::open(name), Status::bad_format, "has been cut off");
    expect_error(create(true), Status::bad_format, "has been cut off");
    expect_error(inspect_map(name), Status::bad_format, "has been cut off");
    EXPECT_TRUE(list_maps());
  }
  EXPECT_TRUE(remove_map(name));
}

TEST_F(NamedMapTest, IsWholeWhileItGrows) {
  auto map = *StringMap::create_shared(name);
  std::atomic<bool> done{false};
  std::thread writer([&] {
    const std::string value(1000, 'v');
    for (int key = 0; key < 200'000; ++key) (void)map.put(std::to_string(key), value);
    done.store(true, std::memory_order_release);
  });
  std::string refused;
  while (!done.load(std::memory_order_acquire)) {
    if (const auto again = StringMap::attach(name); !again) refused = again.error().message;
    if (const auto state = inspect_map(name); !state) refused = state.error().message;
  }
  writer.join();
  EXPECT_EQ(refused, "");
}

/// Calls `create` in a process with a limit, and adds keys to the map; its exit status is that of the first error.
int status_under(int resource, rlim_t most, const std::function<Result<Numbers>()>& create, std::uint64_t keys = 0) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit = {most, most};
    setrlimit(static_cast<__rlimit_resource>(resource), &limit);
    auto map = create();
    auto status = map ? Status::ok : map.error().status;
    for (std::uint64_t key = 0; key < keys && status == Status::ok; ++key) status = map->put(key, key).status;
    _exit(-static_cast<int>(status));
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST_F(NamedMapTest, SaysWhatTheSystemRefuses) {
  EXPECT_EQ(status_under(RLIMIT_FSIZE, 4096, [&] { return create(); }), -static_cast<int>(Status::out_of_memory));
  constexpr rlim_t few = rlim_t{4} << 20;
  const auto limited = [&](std::uint64_t keys) {
    return status_under(
        RLIMIT_FSIZE, few, [&] { return create(); }, keys);
  };
  EXPECT_EQ(limited(0), 0) << "the map reserves less";
  EXPECT_EQ(limited(1'000'000), -static_cast<int>(Status::out_of_memory));
  const auto large = *create();
  EXPECT_EQ(limited(10'000), 0) << "of a process without a limit";
#ifndef SMELT_SANITIZED  // whose checks of calls open pipes
  EXPECT_EQ(status_under(RLIMIT_NOFILE, 0, [&] { return create(); }), -static_cast<int>(Status::io_error))
      << "and not that somebody else holds the lock";
#endif
}

/// Process numbers mean something in one namespace only.
TEST_F(NamedMapTest, IsOfOneNamespace) {
  auto table = *map_detail::create_shared(name, map_detail::geometry_of(8, 8), {.capacity = 10});
  auto& header = table->header();
  const auto own = header.namespaces;
  header.namespaces = own + 1;
  expect_error(Numbers::attach(name), Status::not_supported, "another PID or time namespace");
  EXPECT_EQ(table->statistics().members, 1u) << "what was refused leaves the map as it is";
  header.namespaces = 0;
  EXPECT_TRUE(Numbers::attach(name)) << "where it is not known";
  header.namespaces = own;
  EXPECT_TRUE(Numbers::attach(name));
}

TEST(MapNames, HaveLimits) {
  for (const std::string& good : {std::string("a"), std::string(180, 'n'), std::string("a b.c")}) {
    EXPECT_TRUE(map_detail::check_name(good)) << good;
  }
  for (const std::string& bad : {std::string(), std::string(181, 'n'), std::string("a/b"), std::string("a\0b", 3)}) {
    expect_error(map_detail::check_name(bad), Status::invalid_argument, "must be 1 to 180 characters without '/'");
    expect_error(Numbers::create_shared(bad), Status::invalid_argument, "must be 1 to 180");
    expect_error(Numbers::attach(bad), Status::invalid_argument, "must be 1 to 180");
    expect_error(Numbers::open(bad), Status::invalid_argument, "must be 1 to 180");
    expect_error(inspect_map(bad), Status::invalid_argument, "must be 1 to 180");
    expect_error(remove_map(bad), Status::invalid_argument, "must be 1 to 180");
  }
  const std::string longest = std::string(160, 'n') + std::to_string(getpid());
  ASSERT_TRUE(Numbers::create_shared(longest, {.keep = true}));
  EXPECT_EQ(inspect_map(longest)->name, longest);
  EXPECT_TRUE(remove_map(longest));
}

TEST_F(NamedMapTest, IsListedOnce) {
  const auto first = Numbers::create_shared(name + "b"), same = Numbers::create_shared(name + "b");
  const auto strings = StringMap::create_shared(name + "a");
  ASSERT_TRUE((Map<std::uint32_t, char>::create_shared(name, {.keep = true})));
  auto all = list_maps();
  ASSERT_TRUE(all);
  std::erase_if(*all, [&](const MapState& state) { return !state.name.starts_with(name); });
  ASSERT_EQ(all->size(), 3u);
  EXPECT_EQ((*all)[0].name, name);
  EXPECT_TRUE((*all)[0].kept);
  EXPECT_EQ((*all)[0].key_bytes, 4u);
  EXPECT_EQ((*all)[0].value_bytes, 1u);
  EXPECT_EQ((*all)[1].name, name + "a");
  EXPECT_TRUE((*all)[1].strings);
  EXPECT_FALSE((*all)[1].kept);
  EXPECT_EQ((*all)[2].name, name + "b");
  EXPECT_FALSE((*all)[2].strings);
  EXPECT_THAT((*all)[2].processes, ElementsAre(getpid()));
}

TEST(Map, AsksForWhatAMapCanBe) {
  EXPECT_TRUE(Numbers::create({.algorithm = "best"}));
  EXPECT_TRUE(Numbers::create({.algorithm = "shared", .faults = Faults::crash}));
  EXPECT_TRUE(Numbers::create({.faults = Faults::none}));
  expect_error(Numbers::create({.capacity = (std::size_t{1} << 40) + 1}), Status::invalid_argument, "at most 2^40");
  expect_error(Numbers::create({.capacity = std::size_t{1} << 40}), Status::invalid_argument, "raise most_bytes");
  expect_error(Numbers::create({.most_bytes = 1 << 20}), Status::invalid_argument, "at least 2 MiB");
}

/// Of maps over ranks, every process has an entry.
TEST_F(NamedMapTest, OfGroupsAreCountedByWhatTheyAre) {
  const auto announce = [&](const std::string& end, const std::string& algorithm, int ranks, bool strings) {
    return map_detail::announce({name + end, algorithm, ranks, strings, 8, 16, {}});
  };
  const auto own = [&] {
    auto groups = list_map_groups();
    std::erase_if(groups, [&](const MapGroupState& group) { return !group.name.starts_with(name); });
    return groups;
  };
  {
    const auto one = announce("b", "kv", 2, false), again = announce("b", "kv", 2, false);
    const auto more = announce("b", "kv", 3, false), other = announce("b", "rep_sc", 2, false);
    const auto strings = announce("a", std::string(40, 'l'), 4, true);
    const auto groups = own();
    ASSERT_EQ(groups.size(), 4u);
    EXPECT_EQ(groups[0].name, name + "a");
    EXPECT_EQ(groups[0].algorithm, std::string(31, 'l'));
    EXPECT_TRUE(groups[0].strings);
    EXPECT_EQ(groups[0].ranks, 4);
    int of_kv = 0, ranks = 0;
    for (const auto& group : groups) {
      EXPECT_EQ(group.key_bytes, 8u);
      EXPECT_EQ(group.value_bytes, 16u);
      EXPECT_THAT(group.processes, ElementsAre(getpid())) << "each process once";
      EXPECT_EQ(group.strings, group.name == name + "a");
      of_kv += group.algorithm == "kv";
      ranks += group.ranks;
    }
    EXPECT_EQ(of_kv, 2);
    EXPECT_EQ(ranks, 4 + 2 + 3 + 2);
  }
  EXPECT_TRUE(own().empty());
}

}  // namespace
}  // namespace smelt
