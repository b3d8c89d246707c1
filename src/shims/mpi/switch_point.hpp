// SwitchPoint: the first call from which on a change takes effect, agreed by all ranks without waiting.
//
// A word in memory shared by all ranks. Each rank records the calls that it reaches. A rank that finds the time has
// come names, in the same word, the first call that no rank has reached yet. So all ranks that reach a call get the
// same answer to whether the change is in effect.
//
//   even: twice the last call that any rank has reached        odd: twice the named call, plus one
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace smelt::shims::mpi {

class SwitchPoint {
 public:
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

  /// Records that this rank has reached `call`. Returns whether it is the named call or a later one. `is_time()`:
  /// whether a call may be named; once true, it stays true. Records from before call `since` belong to an earlier use.
  template <class IsTime>
  bool has_come(std::uint64_t call, IsTime is_time, std::uint64_t since = 0) noexcept {
    std::uint64_t seen = word_.load(std::memory_order_acquire);  // pairs with the exchange
    for (;;) {
      const bool old = seen / 2 < since;
      if (!old && seen % 2 != 0) return call >= seen / 2;
      const std::uint64_t last = old ? call - 1 : std::max(seen / 2, call - 1);
      const std::uint64_t next = is_time() ? (last + 1) * 2 + 1 : std::max(last, call) * 2;
      if (next == seen) return false;
      // Release publishes what made is_time() true to ranks that find a call named, by the acquire here or above.
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
