// SwitchPoint: the first of a row of calls from which on something holds, agreed by all ranks without any of them
// waiting.
//
// A word of memory that all ranks see. Each rank notes the calls that it comes to; who finds that it is time names, in
// the same word, the first call that nobody has come to yet. So everybody who comes to a call finds there whether it
// is one of those, and the same as the others.
//
//   even: twice the last call that anybody came to        odd: twice the call that is named, plus one
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace smelt::shims::mpi {

class SwitchPoint {
 public:
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

  /// Notes that this rank has come to `call`: whether it is the named one, or comes after it. `is_time()`: whether one
  /// may be named; it does not become false again. What was noted or named before call `since` is of an earlier use.
  template <class IsTime>
  bool has_come(std::uint64_t call, IsTime is_time, std::uint64_t since = 0) noexcept {
    std::uint64_t seen = word_.load(std::memory_order_acquire);  // pairs with the exchange
    for (;;) {
      const bool old = seen / 2 < since;
      if (!old && seen % 2 != 0) return call >= seen / 2;
      const std::uint64_t last = old ? call - 1 : std::max(seen / 2, call - 1);
      const std::uint64_t next = is_time() ? (last + 1) * 2 + 1 : std::max(last, call) * 2;
      if (next == seen) return false;
      // Release passes on what this rank knows when it is time to who finds a call named, by the acquire here or above.
      if (word_.compare_exchange_weak(seen, next, std::memory_order_acq_rel, std::memory_order_acquire)) {
        if (next % 2 == 0) return false;
        seen = next;
      }
    }
  }

 private:
  std::atomic<std::uint64_t> word_{0};
};

}  // namespace smelt::shims::mpi
