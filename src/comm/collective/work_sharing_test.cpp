// Parts of transfers that both ends move.
#include "comm/collective/work_sharing.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace smelt::comm {
namespace {

/// Whether `bytes` bytes are all taken, none twice.
bool cover(std::vector<WorkShare> parts, std::size_t bytes) {
  std::sort(parts.begin(), parts.end(), [](const WorkShare& a, const WorkShare& b) { return a.begin < b.begin; });
  std::size_t end = 0;
  for (const WorkShare& part : parts) {
    if (part.begin != end) return false;
    end += part.bytes;
  }
  return end == bytes;
}

std::vector<WorkShare> take_all(WorkSharing& parts, std::size_t bytes) {
  std::vector<WorkShare> taken;
  for (WorkShare part; (part = parts.take(bytes)).bytes > 0;) taken.push_back(part);
  return taken;
}

TEST(WorkSharing, AreAllOfATransferForWhoeverIsThere) {
  std::atomic<std::uint64_t> word{0};
  WorkSharing here(word), there(word);
  for (const std::size_t bytes : {1, 4095, 4096, 32768, 32769, 100'000, 1 << 20, 3'000'001}) {
    const auto taken = take_all(here, bytes);
    EXPECT_TRUE(cover(taken, bytes)) << bytes;
    // Who comes later finds nothing, however long the other has been gone.
    here.next();
    EXPECT_EQ(there.take(bytes).bytes, 0u) << bytes;
    there.next();
  }
}

TEST(WorkSharing, TakeLessTheLessIsLeft) {
  std::atomic<std::uint64_t> word{0};
  WorkSharing here(word);
  const auto taken = take_all(here, 1 << 20);
  ASSERT_GT(taken.size(), 2u);
  EXPECT_EQ(taken.front().bytes, std::size_t{1} << 19);
  for (std::size_t i = 1; i < taken.size(); ++i) EXPECT_LE(taken[i].bytes, taken[i - 1].bytes);
  EXPECT_LE(taken.back().bytes, WorkSharing::least_bytes);
}

TEST(WorkSharing, AreCountedBeyondTheNumbersThatAWordHolds) {
  std::atomic<std::uint64_t> word{0};
  WorkSharing here(word), there(word);
  for (int i = 0; i < (1 << 24) - 10; ++i) {
    here.next();
    there.next();
  }
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ((i % 3 == 0 ? here : there).take(8).bytes, 8u) << i;
    EXPECT_EQ(here.take(8).bytes + there.take(8).bytes, 0u) << i;
    here.next();
    there.next();
  }
}

TEST(WorkSharing, GoToOneEndEach) {
  constexpr int transfers = 200;
  std::atomic<std::uint64_t> word{0};
  std::atomic<int> done[2] = {};
  std::vector<WorkShare> taken[2][transfers];
  const auto end = [&](int self) {
    WorkSharing parts(word);
    for (int i = 0; i < transfers; ++i) {
      taken[self][i] = take_all(parts, static_cast<std::size_t>(100'000 + 70'001 * i));
      parts.next();
      // As the ticks have it: nobody begins the next one before both are done.
      done[self].store(i + 1, std::memory_order_release);
      while (done[1 - self].load(std::memory_order_acquire) < i + 1) std::this_thread::yield();
    }
  };
  std::thread other(end, 1);
  end(0);
  other.join();
  for (int i = 0; i < transfers; ++i) {
    auto both = taken[0][i];
    both.insert(both.end(), taken[1][i].begin(), taken[1][i].end());
    EXPECT_TRUE(cover(both, static_cast<std::size_t>(100'000 + 70'001 * i))) << i;
  }
}

}  // namespace
}  // namespace smelt::comm
