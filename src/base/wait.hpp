// Waiting: the one policy by which smelt's threads wait for each other.
//
//   spin with pause  ->  tpause/umwait or WFE  ->  sched_yield  ->  futex
//
// The phases are bounded by time, not by counts. If several ranks share a PU, the waiter gives it away immediately. See
// docs/explanation/waiting.md for the phases, and docs/explanation/memory-ordering.md for why no wake-up is lost
// although the waking side has no fence.
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
  automatic,  ///< all phases, adapted to the machine and its load
  spin,       ///< never leave the PU
  yield,      ///< spin shortly, then offer the PU to others, never sleep
  sleep,      ///< sleep almost immediately
};

/// "auto", "spin", "yield", "sleep"; empty for other text.
std::optional<WaitMode> parse_wait_mode(std::string_view text);

struct WaitConfig {
  WaitMode mode = WaitMode::automatic;
  double ranks_per_pu = 1.0;                    ///< ranks that share a PU, or a PU's share of the CPU quota
  bool across_processes = false;                ///< the waking side may be in another process
  std::uint64_t longest_sleep_ns = 50'000'000;  ///< after which a sleeper polls again
  bool slices_are_ours = false;  ///< threads that share a PU compute for long; yields give time slices to them
  bool wakes_by_rmw = false;     ///< wakers use unpark_by_rmw(): sleeping costs less, waking more
  YieldSuppression* yield_suppression =
      nullptr;                 ///< shared by waiters that suppress yields together; null: the process's
  std::uint64_t awake_ns = 0;  ///< automatic: longest time before sleep; 0 = chosen by the policy
  /// When an event that one of these waiters may wait for happened last, in ticks(); null: unknown. If known, a yield
  /// costs only the time by which it returned too late: a thread of the same team that computes may use the PU
  /// meanwhile.
  const std::atomic<std::uint64_t>* happened = nullptr;
  /// In place of `happened`, for waiters that share PUs and wait for each other: they note here when one of them begins
  /// to wait, to 50 us. By then it has done all that the others wait for.
  std::atomic<std::uint64_t>* wait_began = nullptr;
  /// Changes when the process has been stopped for having used up its CPU quota; null: throttled_time().
  std::uint64_t (*throttled)() noexcept = nullptr;
};

/// The configuration for `ranks` ranks of which `parallelism` can run at the same time. `mode`: name of a WaitMode;
/// empty or unknown: the setting SMELT_WAIT.
WaitConfig make_wait_config(int ranks, int parallelism, std::string_view mode = {}, bool across_processes = false);

/// A word on which waiters sleep. In zeroed, possibly shared memory, on a line of its own. Any number of waiters and
/// wakers.
struct alignas(separation_bytes) Parking {
  static constexpr std::uint32_t asleep = 1;
  std::atomic<std::uint32_t> parked{0};      ///< odd: threads may be asleep; wakers add 1, so that no value repeats
  FutexScope scope = FutexScope::processes;  ///< set before the first use
};

namespace wait_detail {
void wake(Parking& parking) noexcept;

/// Whether the CPU can wait for a cache line in user mode (x86: WAITPKG; AArch64: WFE, if the kernel ends it, too).
bool has_monitor() noexcept;

/// Rests until the line of `watch` (may be null) is written, or about a microsecond has passed. Returns immediately if
/// ready(condition), which is checked after the monitor was armed. Requirement: has_monitor().
void rest(const void* watch, bool (*ready)(void*), void* condition) noexcept;

inline void relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" : : : "memory");
#endif
}

/// Number of relax() calls that take about 32 ns, half the transfer time of a line between cores. 1 until a Waiter has
/// been made.
inline constinit std::atomic<std::uint32_t> pauses_between_polls{1};

/// Pauses between two polls of a line that another core is about to write. With continuous polling, the reader requests
/// the line while the writer acquires it, and may take it back before the store is done. With rare polling it sees the
/// store late.
inline void pause_between_polls() noexcept {
  for (auto i = pauses_between_polls.load(std::memory_order_relaxed); i != 0; --i) relax();
}
}  // namespace wait_detail

/// Wakes parked threads, if any. Called after the store that makes their condition true. Cost: one load, which hits the
/// cache unless a thread parks.
inline void unpark(Parking& parking) noexcept {
  // The signal fence keeps the publishing store before this load in the compiler; the parking side's heavy_barrier()
  // does so in the processor (docs/explanation/memory-ordering.md, "parking").
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if ((parking.parked.load(std::memory_order_relaxed) & Parking::asleep) != 0) [[unlikely]]
    wait_detail::wake(parking);
}

/// As unpark(), for waiters with `wakes_by_rmw`, which sleep so often that their heavy barriers would cost more. Cost:
/// a read-modify-write.
inline void unpark_by_rmw(Parking& parking) noexcept {
  // Release publishes the condition to a sleeper that changes the word later. An earlier change is seen here.
  if ((parking.parked.fetch_add(0, std::memory_order_acq_rel) & Parking::asleep) != 0) wait_detail::wake(parking);
}

namespace wait_detail {
/// Marks that a thread is about to sleep. Returns the marked word.
inline std::uint32_t mark(Parking& parking) noexcept {
  return parking.parked.fetch_or(Parking::asleep, std::memory_order_acq_rel) | Parking::asleep;
}
/// Sleeps unless sleepers were woken since `marked`, even if other threads have marked the word again.
inline void sleep_at(Parking& parking, std::uint32_t marked, std::uint64_t longest_ns) noexcept {
  futex_wait(parking.parked, marked, longest_ns, parking.scope);
}
}  // namespace wait_detail

/// Sleeps unless `ready()`, for at most `longest_ns`. For conditions that every waker makes true by a read-modify-write
/// of a word before unpark(), if `ready` does a read-modify-write of that word, too (such as adding 0), both acq_rel.
/// The later one sees the earlier one, so no barrier is needed (docs/explanation/memory-ordering.md, "parking"). With
/// unpark_by_rmw() the word is the parking's own.
template <class Ready>
void park_unless(Ready&& ready, Parking& parking, std::uint64_t longest_ns) noexcept {
  const auto marked = wait_detail::mark(parking);
  if (!ready()) wait_detail::sleep_at(parking, marked, longest_ns);
}

/// Waits for conditions on behalf of one thread, and adapts to how long they take. Cheap to copy.
class Waiter {
 public:
  Waiter() : Waiter(WaitConfig{}) {}
  explicit Waiter(const WaitConfig& config) noexcept;

  /// wait() gives up when `interrupt(context)` returns true. The waiting thread calls it after the first spinning
  /// phase, about every 20 us to 50 ms. It is also called by the next wait that is longer than a few polls if the last
  /// call was 20 ms ago, so that many short waits notice what one long wait would. `poll(context)`, if given, does
  /// something else at every turn of a wait beyond the first polls, a microsecond or less apart, and when a sleeper
  /// looks around. While it returns true, the waiter does not sleep if it can help it, and else for 20 us at most.
  void set_interrupt(bool (*interrupt)(void*), void* context, bool (*poll)(void*) = nullptr) noexcept;

  /// Returns true once `ready()` does, false if interrupted before. `ready` must be cheap, must not throw, and acquires
  /// the awaited data by a load of its own. The thread that makes it true calls unpark(*parking) afterwards. Without
  /// `parking` the waiter never sleeps for long. `watch`: an aligned word whose change makes ready() true, if there is
  /// one.
  template <class Ready>
  bool wait(Ready&& ready, Parking* parking = nullptr, const void* watch = nullptr) noexcept {
    if (poll(ready)) return true;
    return wait_slowly(call<Ready>, address(ready), {parking, nullptr, nullptr}, watch);
  }

  /// As wait(), but the caller provides the sleep: `sleep(longest_ns)` sleeps unless ready() has become true, and may
  /// return early for any reason.
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
  /// How a waiter sleeps: on a parking, by a function of the caller's, or (neither) for a fixed time.
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
  void note_beginning(std::uint64_t now) noexcept;
  bool stay_awake(SlowWait& episode) noexcept;
  bool wait_slowly(bool (*ready)(void*), void* condition, SleepMethod sleep_method, const void* watch) noexcept;

  std::uint32_t tight_polls_ = 0;
  PuContention contention_;        ///< learned
  std::uint64_t spin_ticks_ = 0;   ///< when the spinning phase ends
  std::uint64_t yield_ticks_ = 0;  ///< when the yielding phase ends
  bool (*interrupt_)(void*) = nullptr;
  bool (*poll_)(void*) = nullptr;
  void* context_ = nullptr;
  std::uint64_t last_asked_ = 0;  ///< when the interrupt function was called last, in ticks()
  std::uint64_t throttled_ = 0;   ///< config_.throttled() when it was asked last
  WaitConfig config_;
};

}  // namespace smelt
