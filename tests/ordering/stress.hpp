// What the parts of the stress share: how much they do, threads that take turns, and the verdict.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <new>
#include <thread>

#include "base/cacheline.hpp"
#include "base/wait.hpp"
#include "chosen_orders.hpp"

namespace smelt::stress {

/// Of the rings: small, so that slots are reused all the time.
inline constexpr std::uint32_t capacity = 4;
inline constexpr std::uint64_t messages = 2000;

struct FreeAligned {
  void operator()(std::byte* memory) const { ::operator delete[](memory, std::align_val_t{separation_bytes}); }
};
using Memory = std::unique_ptr<std::byte[], FreeAligned>;

inline Memory zeroed(std::size_t bytes) { return Memory(new (std::align_val_t{separation_bytes}) std::byte[bytes]()); }

/// Two threads take turns in writing one plain number, `wait(waiter, me)` of a barrier between the turns.
template <class Wait>
std::uint64_t take_turns(Wait wait) {
  std::uint64_t number = 0;
  const auto play = [&](std::uint64_t me) {
    Waiter waiter;
    for (std::uint64_t turn = 0; turn < messages; ++turn) {
      // Left alone the two fall into step, the writer always first or always last to arrive: each
      // case hides the loss of another order.
      const bool writer = turn % 2 == me;
      const bool dawdle = turn % 8 < 2 ? !writer : turn % 8 < 4 && writer;
      if (dawdle) std::this_thread::sleep_for(std::chrono::microseconds(20));
      if (writer) ++number;
      wait(waiter, static_cast<int>(me));
    }
  };
  std::thread other(play, 1);
  play(0);
  other.join();
  return messages - number;
}

/// The wrong numbers of `part`. Where an order is broken, `part` is repeated until the sanitizer ends the program, for
/// a minute at most: which turn tells is left to chance.
template <class Part>
std::uint64_t repeated(Part part) {
  const std::chrono::seconds most{broken_order() != nullptr ? 60 : 0};
  const auto end = std::chrono::steady_clock::now() + most;
  std::uint64_t wrong = 0;
  do wrong += part();
  while (std::chrono::steady_clock::now() < end);
  return wrong;
}

/// What main returns.
inline int verdict(std::uint64_t wrong) {
  std::printf("%s\n", wrong == 0 ? "all right" : "messages or turns were wrong");
  return wrong == 0 ? 0 : 1;
}

}  // namespace smelt::stress
