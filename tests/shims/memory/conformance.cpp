// What programs may expect of memory, with the preload library (EXPECT_SHIM) and without it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

bool with_shim() { return std::getenv("EXPECT_SHIM") != nullptr; }

/// Huge pages are there and have to be asked for.
bool asks_for_huge() {
  std::ifstream in("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string line;
  return std::getline(in, line) && line.find("[madvise]") != std::string::npos;
}

/// Bytes of the range in mappings with the flag "hg": huge pages were asked for.
std::size_t asked_bytes(const void* memory, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(memory), end = begin + bytes;
  std::ifstream in("/proc/self/smaps");
  std::size_t asked = 0;
  unsigned long from = 0, to = 0;
  for (std::string line; std::getline(in, line);) {
    unsigned long a = 0, b = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &a, &b) == 2) from = a, to = b;
    if (line.rfind("VmFlags:", 0) == 0 && line.find(" hg") != std::string::npos && from < end && to > begin) {
      asked += std::min<std::uintptr_t>(to, end) - std::max<std::uintptr_t>(from, begin);
    }
  }
  return asked;
}

std::size_t resident_bytes() {
  std::ifstream in("/proc/self/statm");
  std::size_t all = 0, resident = 0;
  in >> all >> resident;
  return resident * 4096;
}

/// The most that was ever resident.
std::size_t peak_bytes() {
  std::ifstream in("/proc/self/status");
  std::size_t kib = 0;
  for (std::string line; std::getline(in, line);) {
    if (std::sscanf(line.c_str(), "VmHWM: %zu", &kib) == 1) break;
  }
  return kib * 1024;
}

/// Where a program that needs `bytes` now, and was as large as `peak` before, may be with the library.
std::size_t allowed(std::size_t peak, std::size_t bytes) {
  const std::size_t plain = std::max(peak, bytes);
  return plain + plain / 20 + 64 * mib;
}

/// Waits for at most ten seconds.
template <class Condition>
bool eventually(const Condition& condition) {
  for (int i = 0; i < 1000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return condition();
}

/// Where the hypervisor has taken free huge pages back, the library asks for none: some are made resident and given
/// back at once, by a mapping that it does not look at.
void make_huge_pages_cheap() {
  constexpr std::size_t bytes = 384 * mib;
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  madvise(memory, bytes, MADV_HUGEPAGE);
  std::memset(memory, 1, bytes);
  munmap(memory, bytes);
}

/// The processor time of 2 MiB that are made resident, in a huge page or in small ones.
std::int64_t page_ns(int advice) {
  constexpr std::size_t huge = 2 * mib;
  void* const mapped = mmap(nullptr, 2 * huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return 0;
  auto* const memory =
      reinterpret_cast<volatile char*>((reinterpret_cast<std::uintptr_t>(mapped) + huge - 1) / huge * huge);
  madvise(const_cast<char*>(memory), huge, advice);
  const auto now_ns = [] {
    timespec now = {};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
  };
  const std::int64_t before = now_ns();
  for (std::size_t at = 0; at < huge; at += 4096) memory[at] = 1;
  const std::int64_t ns = now_ns() - before;
  munmap(mapped, 2 * huge);
  return ns;
}

/// Whether huge pages cost no more than small ones: half of what the library allows.
bool huge_pages_are_cheap() {
  for (int i = 0; i < 4; ++i) {
    if (page_ns(MADV_HUGEPAGE) > page_ns(MADV_NOHUGEPAGE)) return false;
  }
  return true;
}

/// That huge pages are asked for in nearly all of a fresh allocation that is written, as long as they are cheap.
/// Where they get dear meanwhile, it is tried again.
template <class Allocate, class Free>
void expect_huge_pages(std::size_t bytes, const Allocate& allocate, const Free& give_back) {
  const bool expected = with_shim() && asks_for_huge();
  bool enough = false;
  for (int attempt = 0; attempt < 8 && !enough; ++attempt) {
    if (expected) make_huge_pages_cheap();
    bool cheap = huge_pages_are_cheap();
    auto* const memory = static_cast<unsigned char*>(allocate(bytes));
    for (std::size_t i = 0; i < bytes; ++i) memory[i] = static_cast<unsigned char>(i * 31 + (i >> 12));
    cheap = cheap && huge_pages_are_cheap();
    const auto asked_enough = [&] { return asked_bytes(memory, bytes) + 4 * mib >= bytes; };
    if (expected) {
      enough =
          eventually([&] { return asked_enough() || !(cheap = cheap && huge_pages_are_cheap()); }) && asked_enough();
      EXPECT_TRUE(enough || !cheap) << asked_bytes(memory, bytes);
    } else if (!with_shim() && asks_for_huge() && std::getenv("GLIBC_TUNABLES") == nullptr &&
               std::getenv("LD_PRELOAD") == nullptr) {
      EXPECT_EQ(asked_bytes(memory, bytes), 0u);
    }
    for (std::size_t i = 0; i < bytes; ++i) {
      ASSERT_EQ(memory[i], static_cast<unsigned char>(i * 31 + (i >> 12))) << i;
    }
    give_back(memory, bytes);
    if (!expected) return;
  }
  EXPECT_TRUE(enough) << "huge pages were dear in every attempt";
}

TEST(Memory, DenseAllocationsGetHugePages) {
  expect_huge_pages(
      256 * mib, [](std::size_t bytes) { return std::malloc(bytes); },
      [](void* memory, std::size_t) { std::free(memory); });
}

TEST(Memory, AMappingOfTheProgramIsTreatedAlike) {
  expect_huge_pages(
      64 * mib,
      [](std::size_t bytes) {
        return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      },
      [](void* memory, std::size_t bytes) { EXPECT_EQ(munmap(memory, bytes), 0); });
}

void expect_small_growth(unsigned char* memory, std::size_t bytes, std::size_t stride) {
  const auto before = resident_bytes(), peak = peak_bytes();
  std::size_t touched = 0;
  // Not in order: as a hash table would.
  const std::size_t count = bytes / stride;
  for (std::size_t i = 0; i < count; ++i, touched += 4096) memory[(i * 7919 % count) * stride] = 1;
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LE(resident_bytes(), allowed(peak, before + touched)) << touched << " bytes touched";
}

TEST(Memory, SparseUseMakesNothingLarge) {
  for (const bool cleared : {true, false}) {
    constexpr std::size_t bytes = 2048 * mib;
    auto* const memory = static_cast<unsigned char*>(cleared ? std::calloc(bytes, 1) : std::malloc(bytes));
    ASSERT_NE(memory, nullptr);
    expect_small_growth(memory, bytes, 2 * mib);
    std::free(memory);
  }
}

/// What began densely may go on otherwise.
TEST(Memory, AnAllocationThatIsDenseAtFirstMayBeSparseLater) {
  constexpr std::size_t bytes = 2048 * mib, dense = 128 * mib;
  const auto before = resident_bytes(), peak = peak_bytes();
  auto* const memory = static_cast<unsigned char*>(std::malloc(bytes));
  ASSERT_NE(memory, nullptr);
  std::memset(memory, 5, dense);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  for (std::size_t at = dense; at < bytes; at += 2 * mib) memory[at] = 1;
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LE(resident_bytes(), allowed(peak, before + dense + 4096 * (bytes - dense) / (2 * mib)));
  std::free(memory);
}

/// Several threads fill a part each, as with OpenMP's schedule(static).
TEST(Memory, PartsFilledByThreadsKeepTheirContent) {
  constexpr std::size_t bytes = 256 * mib, threads = 4;
  auto* const memory = static_cast<unsigned char*>(std::malloc(bytes));
  ASSERT_NE(memory, nullptr);
  std::vector<std::thread> all;
  for (std::size_t t = 0; t < threads; ++t) {
    all.emplace_back([=] {
      for (std::size_t i = bytes / threads * t; i < bytes / threads * (t + 1); ++i) {
        memory[i] = static_cast<unsigned char>(i * 7 + (i >> 20));
      }
    });
  }
  for (auto& thread : all) thread.join();
  for (std::size_t i = 0; i < bytes; ++i) ASSERT_EQ(memory[i], static_cast<unsigned char>(i * 7 + (i >> 20))) << i;
  std::free(memory);
}

/// Small allocations that make a heap large, of the first thread and of another, which are looked at while they change.
TEST(Memory, HeapsOfSmallAllocationsKeepTheirContent) {
  const auto fill = [] {
    std::vector<std::vector<unsigned char>> lists;
    for (int i = 0; i < 60'000; ++i) lists.emplace_back(1000, static_cast<unsigned char>(i));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    for (std::size_t i = 0; i < lists.size(); i += 2) lists[i] = std::vector<unsigned char>(500, 1);
    for (std::size_t i = 1; i < lists.size(); i += 2) {
      for (const auto byte : lists[i]) ASSERT_EQ(byte, static_cast<unsigned char>(i)) << i;
    }
  };
  fill();
  std::thread(fill).join();
}

TEST(Memory, DenseThenSparse) {
  constexpr std::size_t bytes = 128 * mib;
  const auto before = resident_bytes(), peak = peak_bytes();
  for (int round = 0; round < 3; ++round) {
    auto* const dense = static_cast<unsigned char*>(std::malloc(bytes));
    std::memset(dense, 5, bytes);
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    std::free(dense);
    auto* const sparse = static_cast<unsigned char*>(std::calloc(1024 * mib, 1));
    for (std::size_t at = 0; at < 1024 * mib; at += 2 * mib) sparse[at] = 1;
    EXPECT_LE(resident_bytes(), allowed(peak, before + bytes));
    std::free(sparse);
  }
}

TEST(Memory, ManySparseAllocationsMakeNothingLarge) {
  std::vector<unsigned char*> all;
  const auto before = resident_bytes(), peak = peak_bytes();
  for (int i = 0; i < 64; ++i) {
    all.push_back(static_cast<unsigned char*>(std::malloc(16 * mib)));
    for (std::size_t at = 0; at < 16 * mib; at += 2 * mib) all.back()[at] = 1;
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LE(resident_bytes(), allowed(peak, before + 64 * 9 * 4096));
  for (auto* each : all) std::free(each);
}

/// A thread that fills memory in order may be helped; memory that it never comes to is not filled for it.
TEST(Memory, WhatIsFilledAheadStaysWithinTheBound) {
  constexpr std::size_t bytes = 1024 * mib, used = 64 * mib;
  const auto before = resident_bytes(), peak = peak_bytes();
  auto* const memory = static_cast<unsigned char*>(std::malloc(bytes));
  ASSERT_NE(memory, nullptr);
  for (std::size_t at = 0; at < used; at += 4096) {
    memory[at] = 1;
    if (at % (2 * mib) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LE(resident_bytes(), allowed(peak, before + used));
  for (std::size_t at = 1; at < bytes; at += 4096) ASSERT_EQ(memory[at], 0) << at;
  std::free(memory);
}

/// Who answers page faults hears of those that the program has, and of no others.
TEST(Memory, UserfaultfdHearsOfTheProgramsFaultsAlone) {
  const int file = static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY));
  if (file < 0) GTEST_SKIP() << "userfaultfd is not allowed";
  uffdio_api api = {};
  api.api = UFFD_API;
  ASSERT_EQ(ioctl(file, UFFDIO_API, &api), 0);
  constexpr std::size_t bytes = 64 * mib, used = 12 * mib;
  auto* const memory =
      static_cast<unsigned char*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(memory, MAP_FAILED);
  uffdio_register range = {};
  range.range = {reinterpret_cast<std::uintptr_t>(memory), bytes};
  range.mode = UFFDIO_REGISTER_MODE_MISSING;
  ASSERT_EQ(ioctl(file, UFFDIO_REGISTER, &range), 0);
  std::atomic<bool> over{false};
  std::size_t last = 0;
  std::thread answering([&] {
    while (!over) {
      pollfd ready = {file, POLLIN, 0};
      uffd_msg message = {};
      if (poll(&ready, 1, 10) <= 0 || read(file, &message, sizeof message) != sizeof message) continue;
      const std::uintptr_t page = message.arg.pagefault.address / 4096 * 4096;
      last = std::max(last, static_cast<std::size_t>(page - reinterpret_cast<std::uintptr_t>(memory)));
      uffdio_zeropage zero = {};
      zero.range = {page, 4096};
      ioctl(file, UFFDIO_ZEROPAGE, &zero);
    }
  });
  for (std::size_t at = 0; at < used; at += 4096) memory[at] = 1;
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  over = true;
  answering.join();
  EXPECT_LT(last, used);
  munmap(memory, bytes);
  close(file);
}

TEST(Memory, WhatIsSpecialIsLeftAlone) {
  constexpr std::size_t bytes = 32 * mib;
  constexpr int usual = MAP_PRIVATE | MAP_ANONYMOUS, writable = PROT_READ | PROT_WRITE;
  struct Kind {
    const char* name;
    int protection, flags;
  };
  for (const Kind& kind :
       {Kind{"MAP_NORESERVE", writable, usual | MAP_NORESERVE}, Kind{"PROT_NONE", PROT_NONE, usual},
        Kind{"read-only", PROT_READ, usual}, Kind{"shared", writable, MAP_SHARED | MAP_ANONYMOUS},
        Kind{"stack", writable, usual | MAP_STACK}, Kind{"grows down", writable, usual | MAP_GROWSDOWN},
        Kind{"code", writable | PROT_EXEC, usual}}) {
    void* const memory = mmap(nullptr, bytes, kind.protection, kind.flags, -1, 0);
    ASSERT_NE(memory, MAP_FAILED) << kind.name;
    if (kind.protection == writable) std::memset(memory, 1, 4 * mib);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(asked_bytes(memory, bytes), 0u) << kind.name;
    munmap(memory, bytes);
  }
  const int file = memfd_create("file", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(file, bytes), 0);
  void* const mapped = mmap(nullptr, bytes, writable, MAP_PRIVATE, file, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  EXPECT_EQ(asked_bytes(mapped, bytes), 0u);
  munmap(mapped, bytes);
  close(file);
}

TEST(Memory, TheProgramsOwnAdviceStands) {
  constexpr std::size_t bytes = 32 * mib;
  auto* const memory =
      static_cast<unsigned char*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(memory, MAP_FAILED);
  ASSERT_EQ(madvise(memory, bytes, MADV_NOHUGEPAGE), 0);
  std::memset(memory, 3, bytes);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(asked_bytes(memory, bytes), 0u);
  ASSERT_EQ(madvise(memory, 4096, MADV_DONTNEED), 0);
  EXPECT_EQ(memory[0], 0);
  EXPECT_EQ(memory[4096], 3);
  munmap(memory, bytes);
}

TEST(Memory, SizesAlignmentsAndContentAreAsEver) {
  auto* memory = static_cast<unsigned char*>(std::calloc(1, 8 * mib));
  ASSERT_NE(memory, nullptr);
  for (std::size_t i = 0; i < 8 * mib; i += 509) ASSERT_EQ(memory[i], 0);
  std::memset(memory, 5, 8 * mib);
  memory = static_cast<unsigned char*>(std::realloc(memory, 48 * mib));
  ASSERT_NE(memory, nullptr);
  for (std::size_t i = 0; i < 8 * mib; ++i) ASSERT_EQ(memory[i], 5);
  memory = static_cast<unsigned char*>(std::realloc(memory, 100));
  EXPECT_EQ(memory[99], 5);
  std::free(memory);
  std::free(nullptr);
  void* aligned = nullptr;
  ASSERT_EQ(posix_memalign(&aligned, 1 << 16, 6 * mib), 0);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(aligned) % (1 << 16), 0u);
  std::free(aligned);
  aligned = std::aligned_alloc(64, 6 * mib);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(aligned) % 64, 0u);
  std::free(aligned);
  EXPECT_EQ(std::malloc(std::size_t{1} << 60), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  const std::size_t count = std::strtoull("1099511627776", nullptr, 10);  // unknown to the compiler
  EXPECT_EQ(std::calloc(count, count), nullptr);
}

TEST(Memory, ErrnoStaysAsItWas) {
  errno = E2BIG;
  void* const memory = std::malloc(64 * mib);
  EXPECT_EQ(errno, E2BIG);
  std::free(memory);
  EXPECT_EQ(errno, E2BIG);
}

TEST(Memory, ChildrenOfForkGoOnAllocating) {
  auto* const memory = static_cast<unsigned char*>(std::malloc(64 * mib));
  std::memset(memory, 9, 64 * mib);
  for (int round = 0; round < 5; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      memory[5] = 1;
      auto* const more = static_cast<unsigned char*>(std::malloc(64 * mib));
      std::memset(more, 2, 64 * mib);
      const bool right = more[64 * mib - 1] == 2 && memory[6] == 9;
      std::free(memory);
      std::free(more);
      _exit(right ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(memory[5], 9);
  }
  std::free(memory);
}

TEST(Memory, ThreadsAllocateAndFreeAtTheSameTime) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t, &wrong] {
      for (int round = 0; round < 60; ++round) {
        const std::size_t bytes = (4 + static_cast<std::size_t>(round % 7) * 3) * mib + static_cast<std::size_t>(t);
        auto* const memory = static_cast<unsigned char*>(std::malloc(bytes));
        std::memset(memory, t, bytes);
        wrong += memory[bytes - 1] != t;
        std::free(memory);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
