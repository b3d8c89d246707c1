// Arrays through the C interface: created, filled, asked, shared between ranks; arguments that do not fit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "smelt/smelt.h"

namespace {

using testing::HasSubstr;

struct Array {
  ~Array() { smelt_array_free(value); }
  smelt_array* value = nullptr;
};

TEST(ArraysInC, FilledCopiedAndAsked) {
  for (int placement = SMELT_PLACEMENT_BEST; placement <= SMELT_PLACEMENT_WRITABLE_REPLICAS; ++placement) {
    smelt_array_options options = {};
    options.placement = placement;
    options.parts = 3;
    options.name = "table";
    for (const size_t count : {size_t{5}, size_t{3} << 20}) {
      struct Odd {
        unsigned char bytes[7];
      };
      Array array;
      ASSERT_EQ(smelt_array_create(count, sizeof(Odd), &options, &array.value), SMELT_OK) << smelt_last_error();
      EXPECT_EQ(smelt_array_count(array.value), count);
      ASSERT_GE(smelt_array_copies(array.value), 1);
      const Odd value = {{1, 2, 3, 4, 5, 6, 7}};
      ASSERT_EQ(smelt_array_fill(array.value, &value), SMELT_OK);
      const auto* const elements =
          static_cast<const Odd*>(smelt_array_copy(array.value, smelt_array_copies(array.value) - 1));
      std::vector<Odd> values(count, value);
      ASSERT_EQ(std::memcmp(elements, values.data(), count * sizeof(Odd)), 0);
      values.assign(count, Odd{{9}});
      ASSERT_EQ(smelt_array_copy_from(array.value, values.data()), SMELT_OK);
      EXPECT_EQ(std::memcmp(smelt_array_local(array.value), values.data(), count * sizeof(Odd)), 0);
      int nodes[64], node_count = 0;
      uint64_t bytes[64], absent = 1, huge = 0;
      ASSERT_EQ(smelt_array_where(array.value, 0, 64, nodes, bytes, &node_count, &absent, &huge), SMELT_OK)
          << smelt_last_error();
      EXPECT_EQ(absent, 0u);
      ASSERT_EQ(smelt_array_parts(array.value), 3);
      size_t first = 1, last = 0;
      int node = -1;
      ASSERT_EQ(smelt_array_part(array.value, 2, &first, &last, &node), SMELT_OK);
      EXPECT_EQ(last, count);
      EXPECT_LT(first, last);
      char text[256];
      ASSERT_EQ(smelt_array_explain(array.value, text, sizeof text), SMELT_OK);
      EXPECT_THAT(text, HasSubstr("table: "));
    }
  }
}

TEST(ArraysInC, RanksSyncAndPublish) {
  smelt_communicator* communicator = nullptr;
  smelt_options options = {};
  options.profile = "none";
  ASSERT_EQ(smelt_communicator_create(nullptr, nullptr, 2, &options, &communicator), SMELT_OK) << smelt_last_error();
  Array array;
  smelt_array_options wanted = {};
  wanted.placement = SMELT_PLACEMENT_WRITABLE_REPLICAS;
  ASSERT_EQ(smelt_array_create_on(communicator, 1000, sizeof(int32_t), &wanted, &array.value), SMELT_OK)
      << smelt_last_error();
  const auto body = [&](int number) {
    smelt_rank* rank = nullptr;
    ASSERT_EQ(smelt_communicator_attach(communicator, number, &rank), SMELT_OK) << smelt_last_error();
    auto* const own = static_cast<int32_t*>(smelt_array_local(array.value));
    for (int i = number * 500; i < (number + 1) * 500; ++i) own[i] = i;
    EXPECT_EQ(smelt_array_publish(rank, array.value, static_cast<size_t>(number) * 500,
                                  static_cast<size_t>(number + 1) * 500),
              SMELT_OK);
    EXPECT_EQ(own[999], 999);
    EXPECT_EQ(smelt_array_sync(rank, array.value, SMELT_INT32, SMELT_MAX), SMELT_OK);
    EXPECT_EQ(own[1], 1);
    EXPECT_EQ(smelt_array_sync(rank, array.value, SMELT_DOUBLE, SMELT_MAX), SMELT_INVALID_ARGUMENT);
    EXPECT_EQ(smelt_array_sync(rank, array.value, static_cast<smelt_type>(77), SMELT_MAX), SMELT_INVALID_ARGUMENT);
    EXPECT_EQ(smelt_array_publish(rank, array.value, 0, 1001), SMELT_INVALID_ARGUMENT);
    smelt_rank_free(rank);
  };
  std::thread other(body, 1);
  body(0);
  other.join();
  smelt_communicator_free(communicator);
}

TEST(ArraysInC, ArgumentsThatDoNotFitAreRefused) {
  smelt_array* array = nullptr;
  EXPECT_EQ(smelt_array_create(0, 8, nullptr, &array), SMELT_INVALID_ARGUMENT);
  EXPECT_THAT(smelt_last_error(), HasSubstr("at least one element"));
  EXPECT_EQ(smelt_array_create(8, 8, nullptr, nullptr), SMELT_INVALID_ARGUMENT);
  smelt_array_options options = {};
  options.placement = 99;
  EXPECT_EQ(smelt_array_create(8, 8, &options, &array), SMELT_INVALID_ARGUMENT);
  EXPECT_THAT(smelt_last_error(), HasSubstr("placement 99"));
  options.placement = SMELT_PLACEMENT_REPLICATED;
  options.replica_per = 7;
  EXPECT_EQ(smelt_array_create(10, 8, &options, &array), SMELT_INVALID_ARGUMENT);
  EXPECT_THAT(smelt_last_error(), HasSubstr("replica_per 7"));
  options.replica_per = SMELT_REPLICA_PER_CACHE;
  EXPECT_EQ(smelt_array_create(10, 8, &options, &array), SMELT_OK) << smelt_last_error();
  EXPECT_GE(smelt_array_copies(array), 1);
  smelt_array_free(array);
  array = nullptr;
  options.replica_per = SMELT_REPLICA_PER_NUMA_NODE;
  options.placement = 0;
  options.pages = -1;
  EXPECT_EQ(smelt_array_create(8, 8, &options, &array), SMELT_INVALID_ARGUMENT);
  options.pages = 0;
  options.access = 4;
  EXPECT_EQ(smelt_array_create(8, 8, &options, &array), SMELT_INVALID_ARGUMENT);
  EXPECT_EQ(smelt_array_create_on(nullptr, 8, 8, nullptr, &array), SMELT_INVALID_ARGUMENT);
  EXPECT_EQ(smelt_array_create_shared(nullptr, "x", 8, 8, nullptr, &array), SMELT_INVALID_ARGUMENT);
  EXPECT_EQ(smelt_array_create(size_t{1} << 45, 1, nullptr, &array), SMELT_OUT_OF_MEMORY);
  EXPECT_EQ(array, nullptr);
  EXPECT_EQ(smelt_array_count(nullptr), 0u);
  EXPECT_EQ(smelt_array_data(nullptr), nullptr);
  EXPECT_EQ(smelt_array_copy(nullptr, 0), nullptr);
  EXPECT_EQ(smelt_array_part(nullptr, 0, nullptr, nullptr, nullptr), SMELT_INVALID_ARGUMENT);
  EXPECT_EQ(smelt_array_fill(nullptr, nullptr), SMELT_INVALID_ARGUMENT);
  EXPECT_EQ(smelt_array_copy_from(nullptr, nullptr), SMELT_INVALID_ARGUMENT);
  EXPECT_EQ(smelt_array_explain(nullptr, nullptr, 0), SMELT_INVALID_ARGUMENT);
  smelt_array_free(nullptr);
}

}  // namespace
