// Arrays through the C interface: created, filled, asked, shared between ranks; arguments that do not fit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
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

TEST(ArraysInC, TransfersEndOnceAllIsWritten) {
  for (const size_t count : {size_t{5}, size_t{3} << 20}) {
    Array array;
    ASSERT_EQ(smelt_array_create(count, sizeof(uint32_t), nullptr, &array.value), SMELT_OK) << smelt_last_error();
    const auto* const elements = static_cast<const uint32_t*>(smelt_array_data(array.value));
    smelt_transfer* transfer = nullptr;
    {
      const uint32_t value = 17;  // only the values of a copy must stay
      ASSERT_EQ(smelt_array_start_fill(array.value, &value, &transfer), SMELT_OK);
    }
    for (int done = 0; done == 0;) ASSERT_EQ(smelt_transfer_test(transfer, &done), SMELT_OK);
    EXPECT_TRUE(std::all_of(elements, elements + count, [](uint32_t each) { return each == 17; }));
    EXPECT_EQ(smelt_transfer_wait(transfer), SMELT_OK);
    smelt_transfer_free(transfer);

    std::vector<uint32_t> values(count);
    std::iota(values.begin(), values.end(), 3u);
    ASSERT_EQ(smelt_array_start_copy_from(array.value, values.data(), &transfer), SMELT_OK);
    EXPECT_EQ(smelt_transfer_wait(transfer), SMELT_OK);
    EXPECT_TRUE(std::equal(values.begin(), values.end(), elements));
    smelt_transfer_free(transfer);

    std::reverse(values.begin(), values.end());
    ASSERT_EQ(smelt_array_start_copy_from(array.value, values.data(), &transfer), SMELT_OK);
    smelt_transfer_free(transfer);
    EXPECT_TRUE(std::equal(values.begin(), values.end(), elements)) << "free waits, too";
  }
}

template <class Index>
void expect_taken(const smelt_array* array, size_t element_bytes, const std::vector<Index>& indices) {
  const auto* const from = static_cast<const unsigned char*>(smelt_array_data(array));
  std::vector<unsigned char> to(indices.size() * element_bytes + 1, 0xee);
  ASSERT_EQ(smelt_array_take(array, indices.data(), sizeof(Index), indices.size(), to.data()), SMELT_OK)
      << smelt_last_error();
  for (size_t i = 0; i < indices.size(); ++i) {
    ASSERT_EQ(std::memcmp(to.data() + i * element_bytes, from + indices[i] * element_bytes, element_bytes), 0) << i;
  }
  EXPECT_EQ(to.back(), 0xee);
}

TEST(ArraysInC, ElementsAreTakenFromTheirPlaces) {
  for (const size_t element_bytes : {1, 4, 7, 8, 24}) {
    const size_t count = 5000;
    Array array;
    ASSERT_EQ(smelt_array_create(count, element_bytes, nullptr, &array.value), SMELT_OK) << smelt_last_error();
    auto* const bytes = static_cast<unsigned char*>(smelt_array_data(array.value));
    for (size_t i = 0; i < count * element_bytes; ++i) bytes[i] = static_cast<unsigned char>(i * i + (i >> 8));
    for (const size_t taken : {0, 1, 64, 65, 300}) {
      std::vector<uint32_t> narrow(taken);
      for (size_t i = 0; i < taken; ++i) narrow[i] = static_cast<uint32_t>((i * 2654435761u + count - 1) % count);
      expect_taken(array.value, element_bytes, narrow);
      expect_taken(array.value, element_bytes, std::vector<uint64_t>(narrow.begin(), narrow.end()));
    }
    uint64_t indices[] = {0, count};
    unsigned char to[48] = {7};
    bytes[0] = 1;
    EXPECT_EQ(smelt_array_take(array.value, indices, 8, 2, to), SMELT_INVALID_ARGUMENT);
    EXPECT_THAT(smelt_last_error(), HasSubstr("index 5000 at 1: the array has 5000 elements"));
    EXPECT_EQ(to[0], 7) << "nothing is copied";
    EXPECT_EQ(smelt_array_take(array.value, indices, 2, 1, to), SMELT_INVALID_ARGUMENT);
    EXPECT_THAT(smelt_last_error(), HasSubstr("4 or 8"));
    EXPECT_EQ(smelt_array_take(array.value, nullptr, 8, 1, to), SMELT_INVALID_ARGUMENT);
  }
  EXPECT_EQ(smelt_array_take(nullptr, nullptr, 8, 0, nullptr), SMELT_INVALID_ARGUMENT);
}

TEST(ArraysInC, WorkersShareTheIterationsOfALoop) {
  Array array;
  smelt_array_options options = {};
  options.placement = SMELT_PLACEMENT_PARTITIONED;
  options.parts = 3;
  const size_t count = 100000;
  ASSERT_EQ(smelt_array_create(count, sizeof(uint32_t), &options, &array.value), SMELT_OK) << smelt_last_error();
  auto* const elements = static_cast<uint32_t*>(smelt_array_data(array.value));
  smelt_stealing_loop* loop = nullptr;
  ASSERT_EQ(smelt_stealing_loop_create(array.value, 37, &loop), SMELT_OK) << smelt_last_error();
  const auto work = [&](int part) {
    for (size_t first = 0, last = 0; smelt_stealing_loop_next(loop, part, &first, &last) == 1;) {
      EXPECT_LE(last - first, 37u);
      for (size_t i = first; i < last; ++i) ++elements[i];
    }
  };
  std::thread one(work, 0), other(work, 2);  // the part between them has no worker
  one.join();
  other.join();
  EXPECT_TRUE(std::all_of(elements, elements + count, [](uint32_t each) { return each == 1; }));
  size_t first = 0, last = 0;
  EXPECT_EQ(smelt_stealing_loop_next(loop, 1, &first, &last), 0);
  smelt_stealing_loop_free(loop);

  ASSERT_EQ(smelt_stealing_loop_create(array.value, count, &loop), SMELT_OK);
  EXPECT_EQ(smelt_stealing_loop_next(loop, -1, &first, &last), 0);
  EXPECT_EQ(smelt_stealing_loop_next(loop, 3, &first, &last), 0);
  EXPECT_EQ(smelt_stealing_loop_next(loop, 1, nullptr, &last), 0);
  size_t part_first = 0, part_last = 0;
  ASSERT_EQ(smelt_array_part(array.value, 1, &part_first, &part_last, nullptr), SMELT_OK);
  ASSERT_EQ(smelt_stealing_loop_next(loop, 1, &first, &last), 1);
  EXPECT_EQ(first, part_first) << "a worker begins with its own part";
  EXPECT_EQ(last, part_last);
  smelt_stealing_loop_free(loop);
  EXPECT_EQ(smelt_stealing_loop_create(array.value, 0, &loop), SMELT_INVALID_ARGUMENT);
  EXPECT_EQ(smelt_stealing_loop_create(nullptr, 1, &loop), SMELT_INVALID_ARGUMENT);
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
  EXPECT_EQ(smelt_array_start_fill(nullptr, nullptr, nullptr), SMELT_INVALID_ARGUMENT);
  EXPECT_EQ(smelt_array_start_copy_from(nullptr, nullptr, nullptr), SMELT_INVALID_ARGUMENT);
  EXPECT_EQ(smelt_transfer_test(nullptr, nullptr), SMELT_INVALID_ARGUMENT);
  EXPECT_EQ(smelt_transfer_wait(nullptr), SMELT_INVALID_ARGUMENT);
  smelt_transfer_free(nullptr);
  smelt_stealing_loop_free(nullptr);
  smelt_array_free(nullptr);
}

}  // namespace
