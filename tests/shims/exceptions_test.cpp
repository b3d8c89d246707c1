// Exceptions in memory of the shims' own.
#include <gtest/gtest.h>

#include <cstdint>
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
