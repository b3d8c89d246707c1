// Waiting: the one policy by which smelt's threads wait for each other.
//
//   spin with pause  ->  tpause/umwait or WFE  ->  sched_yield  ->  futex
//
// The phases are bounded by time, not by counts; where a PU is shared by several ranks the
// waiter gives it away at once. See docs/explanation/waiting.md for the phases and docs/explanation/memory-ordering.md
// for why no wake-up is lost although the waking side has no fence.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <type_traits>

#include "base/cacheline.hpp"
#include "base/futex.hpp"
#include "base/pu_contention.hpp"

namespace smelt {

enum class WaitMode {
  automatic,  ///< all phases, by what the machine and the load suggest
  spin,       ///< never leave the PU
  yield,      ///< spin shortly, then offer the PU to others, never sleep
  sleep,      ///< hardly spin or yield, sleep until woken
};

/// "auto", "spin", "yield", "sleep"; nothing for other text.
std::optional<WaitMode> parse_wait_mode(std::string_view text);

struct WaitConfig {
  WaitMode mode = WaitMode::automatic;
  double ranks_per_pu = 1.0;                    ///< ranks that share a PU or a PU's worth of quota; 1 = a PU of its own
  bool across_processes = false;                ///< the waking side may be in another process
  std::uint64_t longest_sleep_ns = 50'000'000;  ///< after which a sleeper looks around
  bool slices_are_ours = false;  ///< of those that share a PU some work for long: yields give time slices to them
  bool wakes_by_rmw = false;     ///< whoever wakes does it by unpark_by_rmw(): to sleep costs less, to wake more
  YieldSuppression* yield_suppression =
      nullptr;                   ///< where waiters tell each other that yields cost time slices; null: the process's
  std::uint64_t awake_ns = 0;    ///< automatic: how long a waiter stays awake at most; 0 = the policy's own choice
  /// When something happened last for which any of these waiters waits, in ticks(); null: not known. Then a yield costs
  /// only what it returned too late: while they wait for one of their own that computes, it may have the PU.
  const std::atomic<std::uint64_t>* happened = nullptr;
};

/// How `ranks` ranks wait where `parallelism` of them can run at a time. `mode` is a WaitMode's
/// name; empty or unknown: the setting SMELT_WAIT.
WaitConfig make_wait_config(int ranks, int parallelism, std::string_view mode = {}, bool across_processes = false);

/// Where waiters leave word that they sleep. Lives in shared memory, zeroed, alone on its line;
/// any number of waiters and wakers.
struct alignas(separation_bytes) Parking {
  static constexpr std::uint32_t asleep = 1;
  std::atomic<std::uint32_t> parked{
      0};                          ///< odd: somebody may be asleep; + 1 by who wakes them, so that it never comes back
  FutexScope scope = FutexScope::processes;  ///< set before anybody comes
};

namespace wait_detail {
void wake(Parking& parking) noexcept;

/// Whether the CPU can wait for a cache line in user mode (x86: WAITPKG; AArch64: WFE, always).
bool has_monitor() noexcept;

/// Rests until the line of `watch` (may be null) is written or about a microsecond has passed; at
/// once if ready(condition), looked at after the watch has begun. Requires has_monitor().
void rest(const void* watch, bool (*ready)(void*), void* condition) noexcept;

inline void relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" : : : "memory");
#endif
}

/// How many relax() take about 32 ns, half of what a line's way from core to core takes; 1 until a Waiter has been
/// made.
inline constinit std::atomic<std::uint32_t> pauses_between_polls{1};

/// Between two looks at what another core is about to write. Who looks all the time asks for the line at the moment in
/// which the writer gets it, and may take it back before the store is done; who looks seldom sees it late.
inline void pause_between_polls() noexcept {
  for (auto i = pauses_between_polls.load(std::memory_order_relaxed); i != 0; --i) relax();
}
}  // namespace wait_detail

/// Wakes those parked, if any. Called after the store that makes their condition true. Cost: one
/// load that hits the cache unless somebody parks.
inline void unpark(Parking& parking) noexcept {
  // The compiler keeps the publishing store before this load; for the processor the parked
  // side's heavy_barrier() does (docs/explanation/memory-ordering.md, "parking").
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if ((parking.parked.load(std::memory_order_relaxed) & Parking::asleep) != 0) [[unlikely]]
    wait_detail::wake(parking);
}

/// As unpark(), for waiters with `wakes_by_rmw`, where so many sleep and wake that their heavy barriers would cost
/// more. Cost: a read-modify-write.
inline void unpark_by_rmw(Parking& parking) noexcept {
  // Release publishes the condition to a sleeper that changes the word later; the others' change is seen here.
  if ((parking.parked.fetch_add(0, std::memory_order_acq_rel) & Parking::asleep) != 0) wait_detail::wake(parking);
}

namespace wait_detail {
/// Says that somebody is about to sleep; returns what the word is then.
inline std::uint32_t mark(Parking& parking) noexcept {
  return parking.parked.fetch_or(Parking::asleep, std::memory_order_acq_rel) | Parking::asleep;
}
/// Not if anybody has woken sleepers since `marked`: it may have been for this one, though others have marked it again.
inline void sleep_at(Parking& parking, std::uint32_t marked, std::uint64_t longest_ns) noexcept {
  futex_wait(parking.parked, marked, longest_ns, parking.scope);
}
}  // namespace wait_detail

/// Sleeps unless `ready()`, for at most `longest_ns`. For a condition that every waker makes true by changing a word
/// before unpark(), and for which `ready` changes that word, too, as by adding 0, both with acquire and release:
/// whichever comes first is seen by the other, so that no barrier is needed (docs/explanation/memory-ordering.md,
/// "parking"). With unpark_by_rmw() that word is the parking's own.
template <class Ready>
void park_unless(Ready&& ready, Parking& parking, std::uint64_t longest_ns) noexcept {
  const auto marked = wait_detail::mark(parking);
  if (!ready()) wait_detail::sleep_at(parking, marked, longest_ns);
}

/// Waits for conditions on behalf of one thread, and learns how long they take. Cheap to copy.
class Waiter {
 public:
  Waiter() : Waiter(WaitConfig{}) {}
  explicit Waiter(const WaitConfig& config) noexcept;

  /// wait() gives up when `interrupt(context)` returns true. It is called from the waiting thread
  /// outside of the first spinning phase, at most about every 20 us and at least about every 50 ms.
  void set_interrupt(bool (*interrupt)(void*), void* context) noexcept {
    interrupt_ = interrupt;
    context_ = context;
  }

  /// Returns true once `ready()` does, false if interrupted before. `ready` must be cheap, must not
  /// throw, and sees the awaited data through an acquire load of its own. Whoever makes it true
  /// calls unpark(*parking) afterwards; without `parking` the waiter never sleeps for long.
  /// `watch`: an aligned word whose change makes ready() true, if there is one.
  template <class Ready>
  bool wait(Ready&& ready, Parking* parking = nullptr, const void* watch = nullptr) noexcept {
    if (poll(ready)) return true;
    return wait_slowly(call<Ready>, address(ready), {parking, nullptr, nullptr}, watch);
  }

  /// As wait(), with a place to sleep that is the caller's own affair: `sleep(longest_ns)` sleeps unless ready()
  /// has become true, and returns early for any reason.
  template <class Ready, class Sleep>
  bool wait_or_sleep(Ready&& ready, Sleep&& sleep, const void* watch = nullptr) noexcept {
    if (poll(ready)) return true;
    using Place = std::remove_reference_t<Sleep>;
    const auto sleep_for = [](void* place, std::uint64_t longest_ns) { (*static_cast<Place*>(place))(longest_ns); };
    return wait_slowly(call<Ready>, address(ready), {nullptr, sleep_for, address(sleep)}, watch);
  }

  const WaitConfig& config() const noexcept { return config_; }

 private:
  class SlowWait;
  /// Where a waiter sleeps: a parking, a place of the caller's, or (neither) by the clock.
  struct SleepMethod {
    Parking* parking;
    void (*sleep_for)(void* place, std::uint64_t longest_ns);
    void* place;
  };
  static constexpr std::uint32_t few_polls = 4;

  template <class Ready>
  bool poll(Ready& ready) const noexcept {
    if (ready()) return true;
    for (std::uint32_t i = contention_.crowd() || contention_.settled() ? 0 : tight_polls_; i != 0; --i) {
      wait_detail::pause_between_polls();
      if (ready()) return true;
    }
    return false;
  }
  template <class Ready>
  static bool call(void* condition) {
    return (*static_cast<std::remove_reference_t<Ready>*>(condition))();
  }
  template <class T>
  static void* address(T& object) noexcept {
    return const_cast<void*>(static_cast<const void*>(std::addressof(object)));
  }

  bool should_move(const SleepMethod& sleep_method) noexcept;
  bool stay_awake(SlowWait& episode) noexcept;
  bool wait_slowly(bool (*ready)(void*), void* condition, SleepMethod sleep_method, const void* watch) noexcept;

  std::uint32_t tight_polls_ = 0;
  PuContention contention_;        ///< learned
  std::uint64_t spin_ticks_ = 0;   ///< when the spinning phase ends
  std::uint64_t yield_ticks_ = 0;  ///< when the yielding phase ends
  bool (*interrupt_)(void*) = nullptr;
  void* context_ = nullptr;
  WaitConfig config_;
};

}  // namespace smelt
