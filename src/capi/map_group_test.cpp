// Maps over ranks through the C interface: every algorithm, threads, and processes that are killed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <limits>
#include <map>
#include <new>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "smelt/smelt.h"

namespace {

using testing::HasSubstr;

constexpr int ranks = 3;
const std::vector<std::string> algorithms = {"part_simple", "part_caching", "rep_remote", "rep_local",
                                             "rep_2pc",     "rep_sc",       "shared",     "kv"};

smelt_options quick() {
  smelt_options options = {};
  options.keep_affinity = 1;
  options.search_ms = -1;
  options.profile = "none";
  return options;
}

class MapGroupInC : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const smelt_options options = quick();
    ASSERT_EQ(smelt_communicator_create(nullptr, nullptr, ranks, &options, &communicator_), SMELT_OK);
  }
  void TearDown() override { smelt_communicator_free(communicator_); }

  smelt_map_group* group(const std::string& algorithm, size_t key_bytes, size_t value_bytes) {
    smelt_map_group_options options = {};
    options.algorithm = algorithm.c_str();
    options.sequential = algorithm == "rep_sc" ? 1 : 0;
    smelt_map_group* made = nullptr;
    EXPECT_EQ(smelt_map_group_create(communicator_, key_bytes, value_bytes, &options, &made), SMELT_OK)
        << smelt_last_error();
    return made;
  }

  template <class Body>
  static void on_all(smelt_map_group* group, Body body) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([=] {
        smelt_map_rank* mine = nullptr;
        ASSERT_EQ(smelt_map_group_attach(group, rank, &mine), SMELT_OK) << smelt_last_error();
        body(rank, mine);
        EXPECT_EQ(smelt_map_rank_finish(mine), SMELT_OK) << smelt_last_error();
        smelt_map_rank_free(mine);
      });
    }
    for (auto& thread : threads) thread.join();
  }

  smelt_communicator* communicator_ = nullptr;
};

TEST_P(MapGroupInC, DoesAllOperations) {
  smelt_map_group* made = group(GetParam(), 5, 8);
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(smelt_map_group_algorithm(made), GetParam());
  on_all(made, [](int rank, smelt_map_rank* mine) {
    for (int i = 0; i < 50; ++i) {
      const char key[5] = {'k', static_cast<char>(rank), static_cast<char>(i), 0, 1};
      int64_t value = rank * 100 + i, found = 0, expected = -1;
      int done = 0;
      EXPECT_EQ(smelt_map_rank_get(mine, key, &found), SMELT_NOT_FOUND);
      EXPECT_EQ(smelt_map_rank_compare_exchange(mine, key, &expected, &value, &done), SMELT_NOT_FOUND);
      EXPECT_EQ(smelt_map_rank_put(mine, key, &value), SMELT_OK);
      EXPECT_EQ(smelt_map_rank_get(mine, key, &found), SMELT_OK);
      EXPECT_EQ(found, value);
      EXPECT_EQ(smelt_map_rank_insert(mine, key, &value, &done), SMELT_OK);
      EXPECT_EQ(done, 0);
      const int64_t next = value + 1;
      EXPECT_EQ(smelt_map_rank_compare_exchange(mine, key, &expected, &next, &done), SMELT_OK);
      EXPECT_EQ(done, 0);
      EXPECT_EQ(expected, value);
      EXPECT_EQ(smelt_map_rank_compare_exchange(mine, key, &expected, &next, &done), SMELT_OK);
      EXPECT_EQ(done, 1);
      int64_t before = 0;
      EXPECT_EQ(smelt_map_rank_fetch_add(mine, key, 5, &before), SMELT_OK);
      EXPECT_EQ(before, next);
      EXPECT_EQ(smelt_map_rank_erase(mine, key, &done), SMELT_OK);
      EXPECT_EQ(done, 1);
      const char counter[5] = {'s', 'u', 'm', 0, 0};
      EXPECT_EQ(smelt_map_rank_fetch_add(mine, counter, 1, nullptr), SMELT_OK);
    }
  });
  smelt_map_group_free(made);
}

TEST_P(MapGroupInC, CountsEveryUpdateOnce) {
  smelt_map_group* made = group(GetParam(), 8, 8);
  ASSERT_NE(made, nullptr);
  std::vector<std::map<uint64_t, int64_t>> here(ranks);
  std::atomic<int> done{0};
  on_all(made, [&](int rank, smelt_map_rank* mine) {
    for (uint64_t i = 0; i < 300; ++i) {
      const uint64_t key = i % 4;
      ASSERT_EQ(smelt_map_rank_fetch_add(mine, &key, 1, nullptr), SMELT_OK) << smelt_last_error();
    }
    EXPECT_EQ(smelt_map_rank_finish(mine), SMELT_OK);
    done.fetch_add(1);
    while (done.load() != ranks) std::this_thread::yield();  // "shared" has nothing to finish
    const auto note = [](void* context, const void* key, const void* value) {
      (*static_cast<std::map<uint64_t, int64_t>*>(context))[*static_cast<const uint64_t*>(key)] =
          *static_cast<const int64_t*>(value);
    };
    EXPECT_EQ(smelt_map_rank_for_each_here(mine, note, &here[static_cast<std::size_t>(rank)]), SMELT_OK);
  });
  std::map<uint64_t, int64_t> all;
  for (const auto& one : here) all.insert(one.begin(), one.end());
  EXPECT_THAT(all, testing::ElementsAre(testing::Pair(0, 225), testing::Pair(1, 225), testing::Pair(2, 225),
                                        testing::Pair(3, 225)));
  smelt_map_group_free(made);
}

INSTANTIATE_TEST_SUITE_P(All, MapGroupInC, testing::ValuesIn(algorithms), [](const auto& info) { return info.param; });

TEST(MapGroupErrors, NameTheCause) {
  smelt_map_group* group = nullptr;
  EXPECT_EQ(smelt_map_group_create(nullptr, 8, 8, nullptr, &group), SMELT_INVALID_ARGUMENT);
  const smelt_options options = quick();
  smelt_communicator* communicator = nullptr;
  ASSERT_EQ(smelt_communicator_create(nullptr, nullptr, 2, &options, &communicator), SMELT_OK);
  EXPECT_EQ(smelt_map_group_create(communicator, 4000, 100, nullptr, &group), SMELT_INVALID_ARGUMENT);
  EXPECT_THAT(smelt_last_error(), HasSubstr("4096 together"));
  smelt_map_group_options asked = {};
  asked.algorithm = "nonsense";
  EXPECT_EQ(smelt_map_group_create(communicator, 8, 8, &asked, &group), SMELT_INVALID_ARGUMENT);
  EXPECT_THAT(smelt_last_error(), HasSubstr("nonsense"));
  asked.algorithm = "part_simple";
  asked.faults = SMELT_FAULTS_CRASH;
  EXPECT_EQ(smelt_map_group_create(communicator, 8, 8, &asked, &group), SMELT_NOT_SUPPORTED);
  EXPECT_THAT(smelt_last_error(), HasSubstr("take shared or kv"));
  asked.faults = static_cast<smelt_faults>(7);
  EXPECT_EQ(smelt_map_group_create(communicator, 8, 8, &asked, &group), SMELT_INVALID_ARGUMENT);
  EXPECT_THAT(smelt_last_error(), HasSubstr("faults is 7"));
  constexpr double none = std::numeric_limits<double>::quiet_NaN();
  for (const auto& [what, hint] :
       {std::pair("lookups", &smelt_map_group_options::lookups), std::pair("keys", &smelt_map_group_options::keys),
        std::pair("skew", &smelt_map_group_options::skew)}) {
    for (const double wrong : {none, -1.0, std::numeric_limits<double>::infinity()}) {
      asked = {};
      asked.algorithm = "part_simple";
      asked.*hint = wrong;
      EXPECT_EQ(smelt_map_group_create(communicator, 8, 8, &asked, &group), SMELT_INVALID_ARGUMENT) << what;
      EXPECT_THAT(smelt_last_error(), HasSubstr(std::string(what) + " is "));
    }
  }
  EXPECT_EQ(smelt_map_rank_progress(nullptr), SMELT_INVALID_ARGUMENT);
  smelt_communicator_free(communicator);
}

TEST_P(MapGroupInC, HasStrings) {
  smelt_map_group* made = group(GetParam(), SMELT_MAP_STRINGS, SMELT_MAP_STRINGS);
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(smelt_map_group_algorithm(made), GetParam());
  on_all(made, [](int rank, smelt_map_rank* mine) {
    const std::string key = "key of " + std::to_string(rank), value(65536, static_cast<char>('a' + rank));
    std::string found(65536, '.');
    size_t bytes = 0;
    int done = 0;
    EXPECT_EQ(smelt_map_rank_get_string(mine, key.data(), key.size(), found.data(), found.size(), &bytes),
              SMELT_NOT_FOUND);
    EXPECT_EQ(smelt_map_rank_put_string(mine, key.data(), key.size(), value.data(), value.size()), SMELT_OK);
    EXPECT_EQ(smelt_map_rank_get_string(mine, key.data(), key.size(), found.data(), found.size(), &bytes), SMELT_OK);
    EXPECT_EQ(bytes, value.size());
    EXPECT_EQ(found, value);
    EXPECT_EQ(smelt_map_rank_get_string(mine, key.data(), key.size(), nullptr, 0, &bytes), SMELT_OK);
    EXPECT_EQ(bytes, value.size());
    EXPECT_EQ(smelt_map_rank_insert_string(mine, key.data(), key.size(), "x", 1, &done), SMELT_OK);
    EXPECT_EQ(done, 0);
    EXPECT_EQ(smelt_map_rank_compare_exchange_string(mine, key.data(), key.size(), "no", 2, "b", 1, &done), SMELT_OK);
    EXPECT_EQ(done, 0);
    EXPECT_EQ(
        smelt_map_rank_compare_exchange_string(mine, key.data(), key.size(), value.data(), value.size(), "", 0, &done),
        SMELT_OK);
    EXPECT_EQ(done, 1);
    int own = 0;
    struct Seen {
      const std::string& key;
      int& count;
    } seen{key, own};
    EXPECT_EQ(smelt_map_rank_for_each(
                  mine,
                  [](void* context, const void* at, size_t at_bytes, const void*, size_t of_value) {
                    auto& [wanted, count] = *static_cast<Seen*>(context);
                    const std::string_view text(static_cast<const char*>(at), at_bytes);
                    if (text == wanted) count += of_value == 0 ? 1 : 100;
                  },
                  &seen),
              SMELT_OK);
    EXPECT_EQ(own, 1);
    EXPECT_EQ(smelt_map_rank_erase_string(mine, key.data(), key.size(), &done), SMELT_OK);
    EXPECT_EQ(done, 1);
    EXPECT_EQ(smelt_map_rank_put_string(mine, key.data(), 65537, "", 0), SMELT_INVALID_ARGUMENT);
    EXPECT_THAT(smelt_last_error(), HasSubstr("65536"));
    EXPECT_EQ(smelt_map_rank_put(mine, key.data(), value.data()), SMELT_INVALID_ARGUMENT);
    EXPECT_THAT(smelt_last_error(), HasSubstr("smelt_map_rank_*_string"));
  });
  smelt_map_group_free(made);
}

TEST_P(MapGroupInC, VisitsAllKeysAtOneMoment) {
  smelt_map_group* made = group(GetParam(), 8, 8);
  ASSERT_NE(made, nullptr);
  on_all(made, [](int rank, smelt_map_rank* mine) {
    for (uint64_t i = 0; i < 10; ++i) {
      const uint64_t key = i * ranks + static_cast<uint64_t>(rank);
      EXPECT_EQ(smelt_map_rank_put(mine, &key, &key), SMELT_OK);
    }
    std::map<uint64_t, uint64_t> all;
    EXPECT_EQ(smelt_map_rank_for_each(
                  mine,
                  [](void* context, const void* key, size_t key_bytes, const void* value, size_t value_bytes) {
                    EXPECT_EQ(key_bytes, 8u);
                    EXPECT_EQ(value_bytes, 8u);
                    uint64_t words[2];
                    memcpy(&words[0], key, 8);
                    memcpy(&words[1], value, 8);
                    static_cast<std::map<uint64_t, uint64_t>*>(context)->emplace(words[0], words[1]);
                  },
                  &all),
              SMELT_OK)
        << smelt_last_error();
    for (uint64_t i = 0; i < 10; ++i)
      EXPECT_EQ(all.at(i * ranks + static_cast<uint64_t>(rank)), i * ranks + static_cast<uint64_t>(rank));
    char key = 0;
    EXPECT_EQ(smelt_map_rank_put_string(mine, &key, 1, &key, 1), SMELT_INVALID_ARGUMENT);
    EXPECT_THAT(smelt_last_error(), HasSubstr("not strings"));
  });
  smelt_map_group_free(made);
}

TEST(NamedMapGroupInC, ByNameOfOneProcess) {
  const std::string name = "c-named-" + std::to_string(getpid());
  const int all[] = {0, 1};
  smelt_map_group_options options = {};
  options.algorithm = "rep_local";
  smelt_map_group* made = nullptr;
  ASSERT_EQ(smelt_map_group_create_shared(name.c_str(), 2, all, 2, 8, 8, &options, &made), SMELT_OK)
      << smelt_last_error();
  smelt_map_group_free(made);
  options.keep = 1;
  EXPECT_EQ(smelt_map_group_create_shared(name.c_str(), 2, all, 2, 8, 8, &options, &made), SMELT_NOT_SUPPORTED);
  EXPECT_THAT(smelt_last_error(), HasSubstr("rep_local is not kept"));
  EXPECT_EQ(smelt_map_group_create_shared(nullptr, 2, all, 2, 8, 8, &options, &made), SMELT_INVALID_ARGUMENT);
}

// ---- Processes, one of which is killed in the middle of its updates

struct Outcome {
  int status;                            // of the last call
  int64_t acknowledged, found, of_dead;  // this rank's updates; what its keys add up to; and those of rank 0
};

constexpr int keys_of_each = 64;
constexpr int64_t updates_of_dead = 500;

int64_t sum_of(smelt_map_rank* mine, int rank, int* status) {
  int64_t sum = 0;
  for (uint64_t i = 0; i < keys_of_each && *status == SMELT_OK; ++i) {
    const uint64_t key = i * ranks + static_cast<uint64_t>(rank);
    int64_t value = 0;
    *status = smelt_map_rank_get(mine, &key, &value);
    sum += value;
  }
  return sum;
}

/// Rank 0, which serves in each algorithm that has servers, kills itself. The others go on for a while once it is dead.
int one_process(const std::string& name, const std::string& algorithm, int rank, int report,
                const std::atomic<bool>& is_dead) {
  const smelt_options options = quick();
  smelt_communicator* communicator = nullptr;
  if (smelt_communicator_create_shared(name.c_str(), ranks, rank, &options, &communicator) != SMELT_OK) return 1;
  smelt_map_group_options asked = {};
  asked.algorithm = algorithm.c_str();
  asked.sequential = algorithm == "rep_sc" ? 1 : 0;
  smelt_map_group* group = nullptr;
  smelt_map_rank* mine = nullptr;
  if (smelt_map_group_create(communicator, 8, 8, &asked, &group) != SMELT_OK) return 2;
  if (smelt_map_group_attach(group, rank, &mine) != SMELT_OK) return 3;
  Outcome outcome = {};
  for (int left = 500; left > 0 && outcome.status == SMELT_OK; left -= is_dead.load() ? 1 : 0) {
    const uint64_t key =
        static_cast<uint64_t>(outcome.acknowledged % keys_of_each) * ranks + static_cast<uint64_t>(rank);
    outcome.status = smelt_map_rank_fetch_add(mine, &key, 1, nullptr);
    outcome.acknowledged += outcome.status == SMELT_OK ? 1 : 0;
    if (rank == 0 && outcome.acknowledged == updates_of_dead) kill(getpid(), SIGKILL);
  }
  outcome.found = sum_of(mine, rank, &outcome.status);
  outcome.of_dead = sum_of(mine, 0, &outcome.status);
  if (outcome.status == SMELT_OK) outcome.status = smelt_map_rank_finish(mine);
  if (write(report, &outcome, sizeof outcome) != sizeof outcome) return 4;
  smelt_map_rank_free(mine);
  smelt_map_group_free(group);
  return 0;
}

class MapGroupOfProcesses : public testing::TestWithParam<std::string> {};

TEST_P(MapGroupOfProcesses, TheOthersAreToldOrGoOnWhenOneIsKilled) {
  const std::string name = "c-map-group-" + GetParam() + "-" + std::to_string(getpid());
  void* memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto& is_dead = *new (memory) std::atomic<bool>(false);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  std::vector<pid_t> pids;
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t pid = fork();
    if (pid == 0) _exit(one_process(name, GetParam(), rank, ends[1], is_dead));
    pids.push_back(pid);
  }
  close(ends[1]);
  for (int rank = 0; rank < ranks; ++rank) {
    int status = 0;
    waitpid(pids[static_cast<std::size_t>(rank)], &status, 0);
    if (rank == 0) {
      EXPECT_TRUE(WIFSIGNALED(status)) << WEXITSTATUS(status);
      is_dead.store(true);
    } else {
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "rank " << rank << ": " << WEXITSTATUS(status);
    }
  }
  const bool survives = GetParam() == "shared" || GetParam() == "kv";
  for (int rank = 1; rank < ranks; ++rank) {
    Outcome outcome;
    ASSERT_EQ(read(ends[0], &outcome, sizeof outcome), static_cast<ssize_t>(sizeof outcome));
    EXPECT_EQ(outcome.status, survives ? SMELT_OK : SMELT_BROKEN);
    if (!survives) continue;
    EXPECT_EQ(outcome.found, outcome.acknowledged);
    EXPECT_EQ(outcome.of_dead, updates_of_dead);
  }
  close(ends[0]);
  munmap(memory, 4096);
}

INSTANTIATE_TEST_SUITE_P(All, MapGroupOfProcesses, testing::ValuesIn(algorithms),
                         [](const auto& info) { return info.param; });

}  // namespace
