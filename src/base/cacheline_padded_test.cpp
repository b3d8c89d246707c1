#include "base/cacheline_padded.hpp"

#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdint>

namespace smelt {
namespace {

TEST(CachelinePadded, ShareNoLineWithAnythingElse) {
  for (const std::size_t count : {1, 15, 16, 17, 31, 32, 33}) {
    CachelinePaddedAllocator<double> allocator;
    double* const elements = allocator.allocate(count);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(elements) % separation_bytes, 0u);
    const std::size_t bytes = count * sizeof(double), own = (bytes + separation_bytes - 1) & ~(separation_bytes - 1);
    EXPECT_GE(malloc_usable_size(elements), own);
    EXPECT_LT(malloc_usable_size(elements), own + separation_bytes);
    allocator.deallocate(elements, count);
  }
}

TEST(CachelinePadded, AreVectors) {
  CachelinePaddedVector<int> vector(3, 7);
  for (int i = 0; i < 1000; ++i) vector.push_back(i);
  const auto copy = vector;
  EXPECT_EQ(copy, vector);
  EXPECT_EQ(copy[2], 7);
  EXPECT_EQ(copy.back(), 999);
  EXPECT_TRUE(CachelinePaddedAllocator<int>() == CachelinePaddedAllocator<int>(CachelinePaddedAllocator<double>()));
}

}  // namespace
}  // namespace smelt
