// Exceptions in memory of the shims' own.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdint>
#include <cstdlib>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

struct alignas(16) Big {
  char text[4096] = "big";
};

TEST(Exceptions, AreThrownRethrownAndNested) {
  try {
    try {
      throw std::runtime_error("outer");
    } catch (const std::exception& outer) {
      EXPECT_STREQ(outer.what(), "outer");
      try {
        throw Big();
      } catch (const Big& inner) {
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(&inner) % 16, 0u);
        EXPECT_STREQ(inner.text, "big");
      }
      throw;
    }
  } catch (const std::runtime_error& again) {
    EXPECT_STREQ(again.what(), "outer");
  }
  EXPECT_EQ(std::uncaught_exceptions(), 0);
}

TEST(Exceptions, TellThatThereIsNoMemory) {
  volatile std::size_t much = SIZE_MAX / 4;
  void* volatile memory = nullptr;  // one that nobody looks at need not be asked for
  EXPECT_THROW(memory = operator new(much), std::bad_alloc);
  EXPECT_EQ(memory, nullptr);
}

/// Throws until the heap is at its end and its last bytes are taken, and then more. Other tests keep their memory.
[[noreturn]] void throw_without_memory() {
  rlimit none{};
  getrlimit(RLIMIT_AS, &none);
  none.rlim_cur = 1;
  setrlimit(RLIMIT_AS, &none);
  for (std::size_t size = 1 << 20; size > 0; size /= 2) {
    while (std::malloc(size) != nullptr) {}
  }
  int caught = 0;
  for (int turn = 0; turn < 100; ++turn) {
    try {
      try {
        operator delete(operator new(1000));
      } catch (const std::bad_alloc&) {
        throw turn;  // a second one, while the first is there
      }
    } catch (int number) {
      caught += number == turn ? 1 : 0;
    }
  }
  std::_Exit(caught == 100 ? 0 : 1);
}

TEST(Exceptions, HavePlacesWhereTheHeapIsAtItsEnd) {
#ifndef SMELT_SANITIZED
  EXPECT_EXIT(throw_without_memory(), testing::ExitedWithCode(0), "");
#endif
}

TEST(Exceptions, OfManyThreadsAtOnce) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([i] {
      for (int turn = 0; turn < 1000; ++turn) {
        try {
          throw i * 1000 + turn;
        } catch (int number) {
          EXPECT_EQ(number, i * 1000 + turn);
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

}  // namespace
