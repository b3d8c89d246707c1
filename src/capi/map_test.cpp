// Maps through the C interface.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "smelt/smelt.h"

namespace {

using testing::HasSubstr;

struct MapHandle {
  ~MapHandle() { smelt_map_free(map); }
  smelt_map* map = nullptr;
};

TEST(MapsInC, KeysAndValuesOfAnySize) {
  for (const std::size_t key_bytes : {1, 8, 13, 4096}) {
    for (const std::size_t value_bytes : {1, 8, 16, 4096}) {
      MapHandle handle;
      ASSERT_EQ(smelt_map_create(key_bytes, value_bytes, 10, &handle.map), SMELT_OK) << smelt_last_error();
      std::string key(key_bytes, 'k'), value(value_bytes, 'v'), found(value_bytes, ' ');
      for (int i = 0; i < 100; ++i) {
        key.back() = static_cast<char>(i);
        value.back() = static_cast<char>(i + 1);
        ASSERT_EQ(smelt_map_put(handle.map, key.data(), value.data()), SMELT_OK);
      }
      for (int i = 0; i < 100; ++i) {
        key.back() = static_cast<char>(i);
        value.back() = static_cast<char>(i + 1);
        ASSERT_EQ(smelt_map_get(handle.map, key.data(), found.data()), SMELT_OK);
        EXPECT_EQ(found, value);
      }
      key.back() = 101;
      EXPECT_EQ(smelt_map_get(handle.map, key.data(), found.data()), SMELT_NOT_FOUND);
      EXPECT_EQ(smelt_map_size(handle.map), 100u);
    }
  }
}

TEST(MapsInC, Updates) {
  MapHandle handle;
  ASSERT_EQ(smelt_map_create(4, 8, 0, &handle.map), SMELT_OK);
  const int key = 7;
  int64_t value = 5, expected = 4, before = 1;
  int done = 7;
  EXPECT_EQ(smelt_map_insert(handle.map, &key, &value, &done), SMELT_OK);
  EXPECT_EQ(done, 1);
  EXPECT_EQ(smelt_map_insert(handle.map, &key, &value, &done), SMELT_OK);
  EXPECT_EQ(done, 0);
  value = 6;
  EXPECT_EQ(smelt_map_compare_exchange(handle.map, &key, &expected, &value, &done), SMELT_OK);
  EXPECT_EQ(done, 0);
  EXPECT_EQ(expected, 5);
  EXPECT_EQ(smelt_map_compare_exchange(handle.map, &key, &expected, &value, &done), SMELT_OK);
  EXPECT_EQ(done, 1);
  EXPECT_EQ(smelt_map_fetch_add(handle.map, &key, -10, &before), SMELT_OK);
  EXPECT_EQ(before, 6);
  EXPECT_EQ(smelt_map_get(handle.map, &key, &value), SMELT_OK);
  EXPECT_EQ(value, -4);
  EXPECT_EQ(smelt_map_erase(handle.map, &key, &done), SMELT_OK);
  EXPECT_EQ(done, 1);
  EXPECT_EQ(smelt_map_erase(handle.map, &key, nullptr), SMELT_OK);
  EXPECT_EQ(smelt_map_compare_exchange(handle.map, &key, &expected, &value, nullptr), SMELT_NOT_FOUND);
}

TEST(MapsInC, ManyAtOnceAndVisits) {
  MapHandle handle;
  ASSERT_EQ(smelt_map_create(8, 16, 0, &handle.map), SMELT_OK);
  std::vector<uint64_t> keys(150);
  for (uint64_t i = 0; i < keys.size(); ++i) {
    keys[i] = 2 * i;
    const uint64_t value[2] = {i, i + 1};
    if (i % 3 != 0) smelt_map_put(handle.map, &keys[i], value);
  }
  std::vector<uint64_t> values(2 * keys.size());
  std::vector<unsigned char> found(keys.size());
  ASSERT_EQ(smelt_map_get_many(handle.map, keys.size(), keys.data(), values.data(), found.data()), SMELT_OK);
  for (uint64_t i = 0; i < keys.size(); ++i) {
    ASSERT_EQ(found[i], i % 3 != 0);
    if (found[i] != 0) {
      EXPECT_EQ(values[2 * i + 1], i + 1);
    }
  }
  for (const int at_one_moment : {0, 1}) {
    std::map<uint64_t, uint64_t> seen;
    const auto visit = [](void* context, const void* key, const void* value) {
      uint64_t words[2];
      uint64_t number;
      std::memcpy(&number, key, 8);
      std::memcpy(words, value, 16);
      static_cast<decltype(seen)*>(context)->emplace(number, words[0]);
    };
    ASSERT_EQ(smelt_map_for_each(handle.map, at_one_moment, visit, &seen), SMELT_OK);
    EXPECT_EQ(seen.size(), 100u);
    for (const auto& [key, value] : seen) EXPECT_EQ(key, 2 * value);
  }
}

TEST(MapsInC, KeptMapsOutliveAllTheirProcesses) {
  const std::string name = "capi-kept-" + std::to_string(getpid());
  const uint64_t key = 1;
  for (int round = 0; round < 3; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      smelt_map* map = nullptr;
      if (smelt_map_create_shared(name.c_str(), 8, 8, 100, SMELT_MAP_KEEP, &map) != SMELT_OK) _exit(1);
      smelt_map_fetch_add(map, &key, 1, nullptr);
      raise(SIGKILL);
    }
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status));
  }
  {
    MapHandle handle;
    ASSERT_EQ(smelt_map_open(name.c_str(), 8, 8, &handle.map), SMELT_OK) << smelt_last_error();
    int64_t value = 0;
    EXPECT_EQ(smelt_map_get(handle.map, &key, &value), SMELT_OK);
    EXPECT_EQ(value, 3);
    smelt_map* other = nullptr;
    EXPECT_EQ(smelt_map_attach(name.c_str(), 8, 16, &other), SMELT_INVALID_ARGUMENT);
    EXPECT_THAT(smelt_last_error(), HasSubstr("use the same types"));
    EXPECT_EQ(smelt_map_create_shared(name.c_str(), 8, 8, 100, 0, &other), SMELT_INVALID_ARGUMENT);
    EXPECT_THAT(smelt_last_error(), HasSubstr("kept"));
  }
  EXPECT_EQ(smelt_map_remove(name.c_str()), SMELT_OK);
  EXPECT_EQ(smelt_map_remove(name.c_str()), SMELT_NOT_FOUND);
  EXPECT_FALSE(std::filesystem::exists("/dev/shm/smelt-map." + name));
}

TEST(MapsInC, AChildOfAForkMayUseTheHandleOfItsParent) {
  const std::string name = "capi-fork-" + std::to_string(getpid());
  MapHandle handle;
  ASSERT_EQ(smelt_map_create_shared(name.c_str(), 8, 8, 0, 0, &handle.map), SMELT_OK) << smelt_last_error();
  for (int child = 0; child < 4; ++child) {
    if (fork() == 0) {
      for (uint64_t i = 0; i < 10'000; ++i) {
        const uint64_t key = i % 300;
        smelt_map_fetch_add(handle.map, &key, 1, nullptr);
      }
      raise(SIGKILL);
    }
  }
  while (wait(nullptr) > 0) {}
  int64_t sum = 0;
  smelt_map_for_each(
      handle.map, 1,
      [](void* to, const void*, const void* value) {
        *static_cast<int64_t*>(to) += *static_cast<const int64_t*>(value);
      },
      &sum);
  EXPECT_EQ(sum, 40'000);
}

TEST(MapsInC, WrongArguments) {
  smelt_map* map = nullptr;
  int64_t value = 0;
  EXPECT_EQ(smelt_map_create(0, 8, 0, &map), SMELT_INVALID_ARGUMENT);
  EXPECT_EQ(smelt_map_create(8, 4097, 0, &map), SMELT_INVALID_ARGUMENT);
  EXPECT_THAT(smelt_last_error(), HasSubstr("1 to 4096 bytes"));
  EXPECT_EQ(smelt_map_create(8, 8, 0, nullptr), SMELT_INVALID_ARGUMENT);
  EXPECT_EQ(smelt_map_create_shared(nullptr, 8, 8, 0, 0, &map), SMELT_INVALID_ARGUMENT);
  EXPECT_EQ(smelt_map_create_shared("x", 8, 8, 0, 2, &map), SMELT_INVALID_ARGUMENT);
  EXPECT_EQ(smelt_map_attach("no such map", 8, 8, &map), SMELT_NOT_FOUND);
  EXPECT_EQ(smelt_map_open("no such map", 8, 8, &map), SMELT_NOT_FOUND);
  EXPECT_EQ(smelt_map_get(nullptr, &value, &value), SMELT_INVALID_ARGUMENT);
  MapHandle handle;
  ASSERT_EQ(smelt_map_create(8, 4, 0, &handle.map), SMELT_OK);
  EXPECT_EQ(smelt_map_fetch_add(handle.map, &value, 1, nullptr), SMELT_INVALID_ARGUMENT);
  EXPECT_EQ(smelt_map_for_each(handle.map, 0, nullptr, nullptr), SMELT_INVALID_ARGUMENT);
  EXPECT_EQ(smelt_map_get_many(handle.map, 0, nullptr, nullptr, nullptr), SMELT_OK);
  EXPECT_EQ(smelt_map_size(nullptr), 0u);
  smelt_map_free(nullptr);
}

}  // namespace
