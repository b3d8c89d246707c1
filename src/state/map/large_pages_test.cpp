// Kernels for AArch64 may have pages of 16 or 64 KiB. Here the C library's functions act as if this one had.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

#include "smelt/map.hpp"

#ifndef SMELT_SANITIZED  // a sanitizer's runtime may call them before it is ready for a program's own
namespace {
constexpr std::uintptr_t large_page = 64 << 10;
std::atomic<bool> pages_are_large{false};
}  // namespace

extern "C" {

long sysconf(int name) noexcept {
  static const auto next = reinterpret_cast<long (*)(int)>(dlsym(RTLD_NEXT, "sysconf"));
  return name == _SC_PAGESIZE && pages_are_large ? static_cast<long>(large_page) : next(name);
}

int madvise(void* address, std::size_t bytes, int advice) noexcept {
  if (pages_are_large) {
    if (reinterpret_cast<std::uintptr_t>(address) % large_page != 0) return errno = EINVAL, -1;
    bytes = (bytes + large_page - 1) / large_page * large_page;
  }
  return static_cast<int>(syscall(SYS_madvise, address, bytes, advice));
}
}

namespace smelt {
namespace {

struct LargePages : testing::Test {
  LargePages() { pages_are_large = true; }
  ~LargePages() override { pages_are_large = false; }
};

TEST_F(LargePages, AMapGrowsWithinAPageAndKeepsItsKeys) {
  auto map = *Map<std::uint64_t, std::uint64_t>::create({.capacity = 1});
  for (std::uint64_t key = 1; key <= 10'000; ++key) {
    ASSERT_TRUE(map.insert(key, key + 1).changed);
    ASSERT_EQ(map.get(1), 2u) << "of " << key << " keys";
    ASSERT_EQ(map.get(key / 2 + 1), key / 2 + 2) << "of " << key << " keys";
  }
  EXPECT_EQ(map.size(), 10'000u);
}

}  // namespace
}  // namespace smelt
#endif
